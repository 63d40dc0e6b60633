"""Pictures of a run: drawn into its folder, or as bytes for a page."""

import io
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.api.examples import Drawing, chosen, examples, overlaid, overviews
from regard.api.model import Model, Picture
from regard.base import ConfigError, check_installed, require
from regard.viz import save

_DPI = 144  # one and a half times that of a page, so that pictures are sharp there


def draw(model: Model, split: str, folder: str | Path, *, samples: int = 4) -> list[Path]:
    """Draw what the model did with some examples of a split into a folder; the paths of the pictures.

    Glimpse models: the path over each picture, the first also as an animation, and the error after each glimpse.
    Captions: an overlay for each word. Squeeze-and-excitation: gates by class and by layer. Non-local blocks: what four
    places attend to. Translations: alignments. A model without attention has nothing to draw.
    """
    check_installed("matplotlib", what="a drawing")
    several = examples(model, split, chosen(model, split, samples))
    drawings = [drawing for example in several for drawing in example.drawings] + overviews(model, split)
    written = []
    for drawing in drawings:
        written.append(save(drawing.axes(False), Path(folder) / f"{drawing.name}.png"))
    moving = next((drawing for drawing in drawings if drawing.animate is not None), None)
    if moving is not None and moving.animate is not None:
        written.append(moving.animate(Path(folder) / f"{moving.name}.gif", False))
    return written


def beside(models: Sequence[Model], image: Picture, *, beam: int | None = None, dark: bool = False) -> Any:
    """What several models say of one picture and where each word looked, one below the other; the axes, for `save`."""
    if not models:
        raise ConfigError("there is nothing to draw", got="no models", expected="one or more")
    said = [model.caption(image, beam=beam) for model in models]
    return overlaid(dict(zip(labels(models), said, strict=True)), dark)


def labels(models: Sequence[Model]) -> list[str]:
    """What tells captioning models apart: how they look ("soft", "hard", …), else their names, else also numbers."""
    looks, names = [_look(model.recipe.model) for model in models], [model.name for model in models]
    for found in (looks, names):
        if len(set(found)) == len(found):
            return found
    return [f"{number} {name}" for number, name in enumerate(names, 1)]


def _look(config: Any) -> str:
    if config.mean_pooled:
        return "mean"
    align: str = config.align
    return {"softmax": "soft", "sample": "hard"}.get(align, align)


def rendered(drawing: Drawing, *, dark: bool) -> bytes:
    """A drawing as a PNG file."""
    picture = io.BytesIO()
    figure: Any = np.ravel(np.asarray(drawing.axes(dark), dtype=object))[0].figure.figure
    figure.savefig(picture, format="png", dpi=_DPI)
    return picture.getvalue()


def animated(drawing: Drawing, *, dark: bool) -> bytes:
    """A drawing that moves as a GIF file."""
    assert drawing.animate is not None
    with tempfile.TemporaryDirectory() as folder:
        return drawing.animate(Path(folder) / "moving.gif", dark).read_bytes()


def as_png(image: NDArray[np.uint8]) -> bytes:
    """Pixels [h w 3] as a PNG file."""
    picture = io.BytesIO()
    require("PIL.Image", extra="vision").fromarray(image).save(picture, "PNG")
    return picture.getvalue()
