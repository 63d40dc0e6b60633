"""Explanations and thumbnails inside a page: drawn for light and dark, or so that they answer to the pointer."""

import base64
import io
import pathlib
import struct
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from regard.base import ConfigError
from regard.explanation import Explanation, Matrix, Path, Places, Shading
from regard.explanation.png import to_png
from regard.explanation.svg import text as as_html
from regard.explanation.widget import figure, matrix_figure
from regard.viz.drawing import animate, draw
from regard.viz.theme import as_picture

KINDS = {b"\x89PNG\r\n\x1a\n": "png", b"GIF87a": "gif", b"GIF89a": "gif"}
_DENSE = 1.5  # pixels of a PNG for each one of the page
_LEAST = 0.75  # of its width, below which a drawing scrolls: its words would be too small to read
_DPI = round(96 * _DENSE)
_SMALL = 128  # pixels of the page: the width of a thumbnail


def explanations_html(explanations: Sequence[Explanation], name: str = "", *, moving: bool = False) -> list[str]:
    """Figures of explanations, each below the HTML `name`: alignments and rasters of places answer to the pointer.

    Matrices with the same labels share one figure, with a chooser. Shaded texts are text. The others are drawn for
    light and for dark pages, words of a picture beside what answers; with `moving`, paths also step by step.
    """
    figures = [
        matrix_figure(panels, rows, columns, name, axes=axes)
        for (rows, columns, axes), panels in _alignments(explanations).items()
    ]
    for explanation in explanations:
        title = explanation.title or explanation.caption
        if isinstance(explanation, Matrix):
            continue
        raster = words = False
        if isinstance(explanation, Places) and explanation.weights.size:
            raster, words = explanation.grid is not None, bool(explanation.labels)
        if raster or words or isinstance(explanation, Shading):
            figures.append(figure(explanation, f"{name}<span>{as_html(title)}</span>"))
        if raster or isinstance(explanation, Shading):
            continue
        drawings = _rendered(explanation, dark=False), _rendered(explanation, dark=True)
        figures.append(_picture_figure(title, *drawings, name))
        if moving and isinstance(explanation, Path) and len(explanation.where):
            animations = _animated(explanation, dark=False), _animated(explanation, dark=True)
            figures.append(_picture_figure("step by step", *animations, name))
    return [each for each in figures if each]


def thumbnail_html(image: Any, text: str = "") -> str:
    """A small picture of pixels, which are [h w], [h w 3] or [3 h w], bytes or 0 to 1; tiny ones are kept sharp."""
    pixels = np.rint(255 * as_picture(image)).astype(np.uint8)
    height, width = pixels.shape[:2]
    shown = width if min(width, height) > _SMALL else round(_SMALL * width / max(width, height))
    source = data(to_png(pixels))
    return f'<img class="thumbnail" src="{source}" width="{min(shown, 2 * _SMALL)}" alt="{as_html(text)}">'


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


def _picture_figure(title: str, light: bytes, dark: bytes, name: str) -> str:
    """A figure of a PNG or GIF file, and the same for a dark page; `name` is HTML that stands before the title."""
    head = f"<figcaption>{name}<span>{as_html(title)}</span></figcaption>"
    source = f'<source media="(prefers-color-scheme: dark)" srcset="{data(dark)}">'
    width = size_of(light)[0] / (_DENSE if _kind(light) == "png" else 1.0)
    least = f"min-width:{round(_LEAST * width)}px"
    image = f'<img src="{data(light)}" width="{round(width)}" style="{least}" alt="{as_html(title)}">'
    return (
        f'<figure class="shown">{head}<div class="scroll" tabindex="0"><picture>{source}{image}</picture></div>'
        "</figure>"
    )


def _alignments(explanations: Sequence[Explanation]) -> dict[tuple[Sequence[str], ...], dict[str, Any]]:
    """The panels of all matrices by their labels, each panel with a name of its own."""
    groups: dict[tuple[Sequence[str], ...], dict[str, Any]] = {}
    for matrix in explanations:
        if not isinstance(matrix, Matrix):
            continue
        panels = groups.setdefault((matrix.rows, matrix.columns, matrix.axes), {})
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
