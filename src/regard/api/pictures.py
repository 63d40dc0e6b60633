"""Pictures of a run: drawn into its folder, or as bytes for a page."""

import io
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.api.examples import Drawing, chosen, examples, overviews
from regard.api.model import Model
from regard.base import require
from regard.viz import save

_DPI = 144  # one and a half times that of a page, so that pictures are sharp there


def draw(model: Model, split: str, folder: Path, *, samples: int = 4) -> list[Path]:
    """Draw what the model did with some examples of a split into a folder; the paths of the pictures.

    Glimpse models: the path over each picture, and the first also as an animation. Captions: an overlay for each word.
    Squeeze-and-excitation: gates by class and by layer. Non-local blocks: what four places attend to. Translations:
    alignments. A model without attention has nothing to draw.
    """
    several = examples(model, split, chosen(model, split, samples))
    drawings = [drawing for example in several for drawing in example.drawings] + overviews(model, split)
    written = []
    for drawing in drawings:
        written.append(save(drawing.axes(False), folder / f"{drawing.name}.png"))
    moving = next((drawing for drawing in drawings if drawing.animate is not None), None)
    if moving is not None and moving.animate is not None:
        written.append(moving.animate(folder / f"{moving.name}.gif", False))
    return written


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
