"""Explanations as HTML, without matplotlib: alignments and maps that answer to the pointer, the others as pictures.

`widget` is what a notebook shows. A report takes the figures from here too, and has the style and the script once.
"""

import unicodedata
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from regard.base import ConfigError, ShapeError
from regard.explanation.explanation import Explanation
from regard.explanation.matrix import Matrix
from regard.explanation.places import Places
from regard.explanation.png import data_address, to_png
from regard.explanation.svg import SVG, cells, text

FEW = 12  # rows and columns of a matrix whose cells are larger
LEVELS = 15  # of colour in a map, one hexadecimal digit; widget.js has the same number
_LARGE = 288  # pixels of the page: the width of a map


def widget(*explanations: Explanation, head: str = "") -> str:
    """One element of HTML with all that it needs: no network, no fonts, no other file; `head` is HTML above it.

    >>> page = widget(Matrix([[0.9, 0.1]], ["la"], ["the", "house"]))
    >>> page.startswith('<div class="regard widget">'), "<script src" in page
    (True, False)
    """
    body = head + "\n".join(
        figure(explanation, f"<b>{text(explanation.title)}</b>" if explanation.title else "")
        for explanation in explanations
    )
    style, script = read("widget.css"), read("widget.js")
    return f'<div class="regard widget"><style>\n{style}</style>\n{body}\n<script>\n{script}</script></div>'


def figure(explanation: Explanation, name: str = "") -> str:
    """The figure of one explanation; `name` is HTML that stands above it."""
    if isinstance(explanation, Matrix):
        panels = explanation.panels()
        axes = explanation.axes
        return matrix_figure(panels, explanation.rows, explanation.columns, name, axes=axes) or _empty(name)
    if isinstance(explanation, Places) and explanation.grid is not None and explanation.weights.size:
        rows, columns = explanation.grid
        weights = explanation.weights.reshape(rows, columns, *explanation.weights.shape[1:])
        picture, size = data_address(to_png(explanation.image)), explanation.image.shape
        return map_figure(weights, picture, (size[1], size[0]), name, alt=explanation.title, cover=_cover(explanation))
    if isinstance(explanation, Places) and explanation.labels and explanation.weights.size:
        return words_figure(explanation, name)
    body = SVG[explanation.kind](explanation) if explanation.kind in SVG else explanation.html()
    return f'<figure class="shown"><figcaption>{name}</figcaption>{body}</figure>' if body else _empty(name)


def matrix_figure(
    panels: Mapping[str, Float[ndarray, "rows columns"]],
    rows: Sequence[str],
    columns: Sequence[str],
    name: str = "",
    *,
    axes: Sequence[str] = (),
) -> str:
    """Matrices with the same labels as one heat map with a chooser, which lights up what the pointer is at.

    Without scripts it is a picture of the first one. Nothing where there is nothing to show. `axes` names rows and
    columns.
    """
    if not panels or not rows or not columns:
        return ""
    matrices = {label: np.round(matrix, 3) for label, matrix in panels.items()}
    first = next(iter(matrices.values()))
    chooser = ""
    if len(matrices) > 1:
        options = (
            f"<option{_weights(matrix) if later else ''}>{text(label)}</option>"
            for later, (label, matrix) in enumerate(matrices.items())
        )
        chooser = f'<select class="chooser" aria-label="weights" autocomplete="off">{"".join(options)}</select>'
    elif (label := next(iter(matrices))) != "weights" and text(label) not in name:
        chooser = f"<span>{text(label)}</span>"
    size = f"--t:{len(rows)};--k:{len(columns)}" + (";--cell:1.8rem" if max(len(rows), len(columns)) <= FEW else "")
    view = f'viewBox="0 0 {len(columns)} {len(rows)}" role="img" aria-label="weights"'
    named = f'<p class="axes">{text(axes[0])} ↓ · {text(axes[1])} →</p>\n' if axes else ""
    return (
        f'<figure class="map"{_weights(first)}>\n<figcaption>{name}{chooser}</figcaption>\n{named}'
        f'<div class="scroll" tabindex="0"><div class="grid" style="{size}">\n'
        f'<div class="columns">{_labels(columns)}</div>\n<div class="rows">{_labels(rows)}</div>\n'
        f"<svg {view}>{cells(first)}</svg>\n</div></div>\n"
        f'<p class="readout">largest weight {first.max():.3f}</p>\n</figure>'
    )


def map_figure(
    weights: Any, picture: str, size: tuple[int, int], name: str = "", *, alt: str = "", cover: str = ""
) -> str:
    """A picture whose places show their weights [r c i j] when they are pointed at; at first, the middle one.

    `picture` is its address, `size` its width and height, `name` HTML that stands above it, `alt` says what the picture
    is, and `cover` is the style of what the grid covers of the picture.
    """
    array = np.asarray(weights, dtype=np.float64)
    if array.ndim != 4 or not array.size:
        got = f"shape {list(array.shape)}"
        raise ShapeError("weights of places", got=got, expected="[r c i j]: places, and what they attend to")
    if not np.isfinite(array).all():
        raise ConfigError("weights of places are not finite", cure="show weights, not masked scores")
    levels = _levels(array)
    rows, columns, down, across = array.shape
    middle = levels[rows // 2, columns // 2]
    squares = "".join(
        f'<rect x="{x}" y="{y}" width="1" height="1" fill-opacity="{level / LEVELS:.2f}"/>'
        for (y, x), level in np.ndenumerate(middle)
        if level
    )
    digits = "".join("0123456789abcdef"[level] for level in levels.ravel())  # all weights of a place together
    facts = f'data-places="{rows},{columns}" data-keys="{down},{across}" data-levels="{digits}"'
    ring = f'<i style="left:{100 * (columns // 2 + 0.5) / columns:.1f}%;top:{100 * (rows // 2 + 0.5) / rows:.1f}%"></i>'
    return (
        f'<figure class="places" {facts}><figcaption>{name}</figcaption>'
        f'<div class="board" style="width:{_LARGE}px;aspect-ratio:{size[0]}/{size[1]}">'
        f'<img src="{picture}" alt="{text(alt)}"><div class="cover"{cover}>'
        f'<svg viewBox="0 0 {across} {down}" preserveAspectRatio="none" aria-hidden="true">{squares}</svg>{ring}</div>'
        '</div><p class="readout">point at a place: yellow is where it looks</p></figure>'
    )


def words_figure(places: Places, name: str = "") -> str:
    """A picture and the words that were said of it: each word that the pointer is at shows where it looked.

    At first the sharpest word is shown, and without scripts it stays.
    """
    levels = _levels(places.weights[None])[0]  # [n i j]
    _, down, across = levels.shape
    sharpest = int(places.weights.reshape(len(levels), -1).max(1).argmax())
    squares = "".join(
        f'<rect x="{x}" y="{y}" width="1" height="1" fill-opacity="{level / LEVELS:.2f}"/>'
        for (y, x), level in np.ndenumerate(levels[sharpest])
        if level
    )
    digits = "".join("0123456789abcdef"[level] for level in levels.ravel())
    words = "".join(
        f'<button type="button" dir="auto"{" aria-pressed=true" if place == sharpest else ""}>{text(label)}</button> '
        for place, label in enumerate(places.labels)
    )
    height, width = places.image.shape[:2]
    image, cover = data_address(to_png(places.image)), _cover(places)
    return (
        f'<figure class="places words" data-keys="{down},{across}" data-levels="{digits}"><figcaption>{name}'
        f'</figcaption><p class="said-words">{words}</p>'
        f'<div class="board" style="width:{_LARGE}px;aspect-ratio:{width}/{height}">'
        f'<img src="{image}" alt="{text(places.title or places.caption)}"><div class="cover"{cover}>'
        f'<svg viewBox="0 0 {across} {down}" preserveAspectRatio="none" aria-hidden="true">{squares}</svg></div>'
        '</div><p class="readout">point at a word: yellow is where it looked</p></figure>'
    )


def read(name: str) -> str:
    """The style or the script of widgets."""
    return resources.files("regard.explanation").joinpath(name).read_text(encoding="utf-8")


def _empty(name: str) -> str:
    return f'<figure class="shown"><figcaption>{name}</figcaption><p class="said">nothing to show</p></figure>'


def _weights(matrix: ndarray) -> str:
    """The weights as an attribute, in thousandths; a zero is left out: "12,,988;,500,500"."""
    thousandths = np.rint(matrix * 1000).astype(int).tolist()
    rows = (",".join(str(value) if value else "" for value in row) for row in thousandths)
    return f' data-weights="{";".join(rows)}"'


def _labels(tokens: Sequence[str]) -> str:
    marked = any(token.startswith("▁") for token in tokens)
    return "".join(_label(str(token), marked) for token in tokens)


def _label(token: str, marked: bool) -> str:
    """A token as a label: where some are `marked` by ▁ as beginnings of words, the others get a dot before them."""
    word = token.removeprefix("▁").replace("▁", "␣").replace("\n", "⏎").replace("\t", "⇥")
    word = word if word.strip() else "␣" * max(1, len(word))
    kinds = []
    if marked and not token.startswith("▁") and token[:1].isalnum():
        kinds.append("inner")
    if all(unicodedata.east_asian_width(character) in "WF" for character in word):
        kinds.append("upright")
    style = f' class="{" ".join(kinds)}"' if kinds else ""
    tip = f' title="{text(word)}"' if len(word) > 12 else ""
    return f'<span dir="auto"{style}{tip}>{text(word)}</span>'


def _levels(weights: Float[ndarray, "r c i j"]) -> Int[ndarray, "r c i j"]:
    """Levels: 0 at an even share and below (at zero, where some are negative), `LEVELS` at the largest of a place."""
    flat = weights.reshape(*weights.shape[:2], -1)
    even = np.where(flat.min(-1, keepdims=True) < 0, 0.0, flat.mean(-1, keepdims=True))
    above = np.clip(flat - even, 0, None)
    top = above.max(-1, keepdims=True)
    share = np.divide(above, top, out=np.zeros_like(above), where=top > 1e-9 * np.abs(even))
    levels: ndarray = np.rint(LEVELS * share).astype(np.int64).reshape(weights.shape)
    return levels


def _cover(places: Places) -> str:
    """The style of an element that covers what the grid does; nothing where that is the whole picture."""
    if places.box is None:
        return ""
    height, width = places.image.shape[:2]
    left, top, right, bottom = places.corners()
    sides = {
        "left": left / width,
        "top": top / height,
        "width": (right - left) / width,
        "height": (bottom - top) / height,
    }
    return ' style="inset:auto;' + ";".join(f"{side}:{100 * share:.2f}%" for side, share in sides.items()) + '"'
