"""Explanations and pictures inside a page: as data, for light and dark, or so that they answer to the pointer."""

import base64
import io
import pathlib
import struct
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from regard.base import ConfigError
from regard.explanation import Explanation, Matrix, Path, Places
from regard.explanation.png import to_png
from regard.explanation.svg import text as as_html
from regard.explanation.widget import figure, map_figure, matrix_figure
from regard.viz.drawing import animate, draw
from regard.viz.theme import as_picture

KINDS = {b"\x89PNG\r\n\x1a\n": "png", b"GIF87a": "gif", b"GIF89a": "gif"}
_DENSE = 1.5  # pixels of a PNG for each one of the page
_LEAST = 0.75  # of its width, below which a drawing scrolls: its words would be too small to read
_DPI = round(96 * _DENSE)
_SMALL = 128  # pixels of the page: the width of a thumbnail


@dataclass(frozen=True, eq=False)
class Picture:
    """A PNG or GIF file, and the same for a dark page where there is one; `text` says what can be seen."""

    title: str
    light: bytes
    dark: bytes = b""
    text: str = ""


@dataclass(frozen=True, eq=False)
class PlaceMap:
    """What every place of a picture attends to: weights [r c i j], of r × c places over a grid of i × j."""

    title: str
    picture: bytes
    weights: Any


def explanations_html(explanations: Sequence[Explanation], name: str = "", *, moving: bool = False) -> list[str]:
    """Figures of explanations, each below the HTML `name`: alignments and rasters of places answer to the pointer.

    Matrices with the same labels share one figure, with a chooser. The others are drawn for light and for dark pages;
    with `moving`, paths also step by step.
    """
    figures = [matrix_figure(panels, *labels, name) for labels, panels in _alignments(explanations).items()]
    for explanation in explanations:
        title = explanation.title or explanation.caption
        if isinstance(explanation, Matrix):
            continue
        if isinstance(explanation, Places) and explanation.grid is not None and explanation.weights.size:
            figures.append(figure(explanation, f"{name}<span>{as_html(title)}</span>"))
            continue
        drawn = Picture(title, _rendered(explanation, dark=False), _rendered(explanation, dark=True))
        figures.append(picture_html(drawn, name))
        if moving and isinstance(explanation, Path) and len(explanation.where):
            frames = Picture("step by step", _animated(explanation, dark=False), _animated(explanation, dark=True))
            figures.append(picture_html(frames, name))
    return [each for each in figures if each]


def thumbnail_of(image: Any) -> bytes:
    """A PNG file of pixels: [h w], [h w 3] or [3 h w], bytes or 0 to 1."""
    return to_png(np.rint(255 * as_picture(image)).astype(np.uint8))


def picture_html(picture: Picture, name: str = "") -> str:
    """A figure that needs no other file; `name` is HTML that stands before the title."""
    head = f"<figcaption>{name}<span>{as_html(picture.title)}</span></figcaption>"
    dark = f'<source media="(prefers-color-scheme: dark)" srcset="{data(picture.dark)}">' if picture.dark else ""
    said = as_html(picture.text or picture.title)
    dense = _DENSE if _kind(picture.light) == "png" else 1.0
    width = size_of(picture.light)[0] / dense
    least = f"min-width:{round(_LEAST * width)}px"
    image = f'<img src="{data(picture.light)}" width="{round(width)}" style="{least}" alt="{said}">'
    return (
        f'<figure class="shown">{head}<div class="scroll" tabindex="0"><picture>{dark}{image}</picture></div></figure>'
    )


def thumbnail_html(picture: bytes, text: str = "") -> str:
    """A small picture, its pixels kept sharp where it is tiny."""
    width, height = size_of(picture)
    shown = width if min(width, height) > _SMALL else round(_SMALL * width / max(width, height))
    return f'<img class="thumbnail" src="{data(picture)}" width="{min(shown, 2 * _SMALL)}" alt="{as_html(text)}">'


def map_html(places: PlaceMap, name: str = "") -> str:
    """A picture whose places show their weights when they are pointed at; at first, and without scripts, the middle."""
    return map_figure(places.weights, data(places.picture), size_of(places.picture), name, title=places.title)


def data(content: bytes) -> str:
    """A PNG or GIF file as an address."""
    return f"data:image/{_kind(content)};base64,{base64.b64encode(content).decode()}"


def size_of(content: bytes) -> tuple[int, int]:
    """Width and height of a PNG or GIF file."""
    if _kind(content) == "gif":
        width, height = struct.unpack("<HH", content[6:10])
    else:
        width, height = struct.unpack(">II", content[16:24])
    return int(width), int(height)


def _kind(content: bytes) -> str:
    for start, kind in KINDS.items():
        if content.startswith(start) and len(content) >= 24:
            return kind
    raise ConfigError("a picture of a page is a file", got=repr(content[:8]), expected="the bytes of a PNG or GIF")


def _alignments(explanations: Sequence[Explanation]) -> dict[tuple[Sequence[str], Sequence[str]], dict[str, Any]]:
    """The panels of all matrices by their labels, each panel with a name of its own."""
    groups: dict[tuple[Sequence[str], Sequence[str]], dict[str, Any]] = {}
    for matrix in explanations:
        if not isinstance(matrix, Matrix):
            continue
        panels = groups.setdefault((matrix.rows, matrix.columns), {})
        for label, weights in matrix.panels().items():
            number = 2
            unique = label
            while unique in panels:
                unique, number = f"{label} ({number})", number + 1
            panels[unique] = weights
    return groups


def _rendered(explanation: Explanation, *, dark: bool) -> bytes:
    """A drawing as a PNG file; its title stands on the page already."""
    content = io.BytesIO()
    untitled: Any = replace(explanation, title="")  # type: ignore[type-var]
    first = np.ravel(np.asarray(draw(untitled, dark=dark), dtype=object))[0]
    first.figure.figure.savefig(content, format="png", dpi=_DPI, bbox_inches="tight", pad_inches=0.08)
    return content.getvalue()


def _animated(path: Path, *, dark: bool) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        return animate(path, pathlib.Path(folder) / "path.gif", dark=dark).read_bytes()
