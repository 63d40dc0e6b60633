"""Pictures inside a page: as data, for light and dark, and maps of positions that answer to the pointer."""

import base64
import html
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.base import ConfigError, ShapeError

KINDS = {b"\x89PNG\r\n\x1a\n": "png", b"GIF87a": "gif", b"GIF89a": "gif"}
LEVELS = 15  # of colour in a map, one hexadecimal digit; page.js has the same number
_DENSE = 1.5  # pixels of a PNG for each one of the page
_LEAST = 0.75  # of its width, below which a drawing scrolls: its words would be too small to read
_SMALL, _LARGE = 128, 288  # pixels of the page: a thumbnail, a map


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


def picture_html(picture: Picture, name: str = "") -> str:
    """A figure that needs no other file; `name` is HTML that stands before the title."""
    head = f"<figcaption>{name}<span>{html.escape(picture.title)}</span></figcaption>"
    dark = f'<source media="(prefers-color-scheme: dark)" srcset="{data(picture.dark)}">' if picture.dark else ""
    said = html.escape(picture.text or picture.title)
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
    return f'<img class="thumbnail" src="{data(picture)}" width="{min(shown, 2 * _SMALL)}" alt="{html.escape(text)}">'


def map_html(places: PlaceMap, name: str = "") -> str:
    """A picture whose places show their weights when they are pointed at; at first, and without scripts, the middle."""
    weights = np.asarray(places.weights, dtype=np.float64)
    if weights.ndim != 4 or not weights.size:
        got = f"shape {list(weights.shape)}"
        raise ShapeError("weights of places", got=got, expected="[r c i j]: places, and what they attend to")
    if not np.isfinite(weights).all():
        raise ConfigError("weights of places are not finite", cure="show weights, not masked scores")
    levels = _levels(weights)
    rows, columns, down, across = weights.shape
    middle = levels[rows // 2, columns // 2]
    squares = "".join(
        f'<rect x="{x}" y="{y}" width="1" height="1" fill-opacity="{level / LEVELS:.2f}"/>'
        for (y, x), level in np.ndenumerate(middle)
        if level
    )
    facts = f'data-places="{rows},{columns}" data-keys="{down},{across}" data-levels="{_digits(levels)}"'
    width, height = size_of(places.picture)
    ring = f'<i style="left:{100 * (columns // 2 + 0.5) / columns:.1f}%;top:{100 * (rows // 2 + 0.5) / rows:.1f}%"></i>'
    return (
        f'<figure class="places" {facts}><figcaption>{name}<span>{html.escape(places.title)}</span></figcaption>'
        f'<div class="board" style="width:{_LARGE}px;aspect-ratio:{width}/{height}">'
        f'<img src="{data(places.picture)}" alt="{html.escape(places.title)}">'
        f'<svg viewBox="0 0 {across} {down}" preserveAspectRatio="none" aria-hidden="true">{squares}</svg>{ring}</div>'
        '<p class="readout">point at a place: yellow is where it looks</p></figure>'
    )


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


def _levels(weights: NDArray[np.float64]) -> NDArray[np.int64]:
    """Levels [r c i j]: 0 at an even share and below (at zero, where some are negative), `LEVELS` at the largest."""
    flat = weights.reshape(*weights.shape[:2], -1)
    even = np.where(flat.min(-1, keepdims=True) < 0, 0.0, flat.mean(-1, keepdims=True))
    above = np.clip(flat - even, 0, None)
    top = above.max(-1, keepdims=True)
    share = np.divide(above, top, out=np.zeros_like(above), where=top > 1e-9 * np.abs(even))
    levels: NDArray[np.int64] = np.rint(LEVELS * share).astype(np.int64).reshape(weights.shape)
    return levels


def _digits(levels: NDArray[np.int64]) -> str:
    """One digit for each weight, all weights of a place together."""
    return "".join("0123456789abcdef"[level] for level in levels.ravel())
