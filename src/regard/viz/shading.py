"""Shaded text: the words of a text on a ground that is darker where more weight is, for all hops and for each."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from regard.base import require
from regard.explanation.shading import Shading
from regard.viz.fonts import extent, printable
from regard.viz.theme import DARK, LIGHT, Palette, blank_drawing, headline, headroom, new_figure, panel, words

if TYPE_CHECKING:
    import matplotlib.axes

_GAP = 0.14  # inches around
_WIDTH = 6.4  # inches of a line of text
_LINE, _POINTS = 0.19, 8.5  # inches from line to line, points of a letter
_SPACE = 0.055  # inches between words
_HEAD = 0.24  # inches for the name of a block
_LONG = 40  # letters of a word
_DARKEST = 0.45  # opacity behind the word of the largest weight; on more, the word itself is hard to read
_WIDER = 1.06  # of a line of text on a screen, where letters stand on whole dots
MOST_LINES = 120  # lines of a whole drawing; hops that do not fit are left out, and the heading says so


class _Place(NamedTuple):
    """Where a word stands: its line, and its left and right end in inches."""

    line: int
    left: float
    right: float


def draw(shading: Shading, *, dark: bool = False) -> "matplotlib.axes.Axes":
    """Draw the text once for all hops together, and again for each hop; the largest weight of a block is darkest.

    Where there are more hops than fit, the sharpest are drawn. Returns the axes, in inches.

    >>> ax = draw(Shading([[0.1, 0.9], [0.8, 0.2]], ["not", "good"]))
    >>> [text.get_text() for text in ax.texts if text.get_text() in ("not", "good")]
    ['not', 'good', 'not', 'good', 'not', 'good']
    """
    palette = DARK if dark else LIGHT
    if not shading.words:
        return blank_drawing(shading.title, "no words", palette)
    labels = [_label(word) for word in shading.words]
    places = _arranged([extent(label, _POINTS) for label in labels])
    lines, hops = places[-1].line + 1, len(shading.weights)
    room = max(0, MOST_LINES // (lines + 1) - 1)
    chosen = list(range(hops)) if hops <= room else shading.sharpest(room)
    answer = f" → {printable(shading.answer, 60)}" if shading.answer else ""
    blocks = [(f"{hops} hops together{answer}" if hops > 1 else f"weights{answer}", shading.together())]
    if hops > 1:
        blocks += [(f"hop {hop + 1}", shading.weights[hop]) for hop in chosen]
        if len(chosen) < hops:
            blocks[0] = (f"{blocks[0][0]}; below, the {len(chosen)} sharpest of them", blocks[0][1])
    title = printable(shading.title, 100) if shading.title else None
    names = max(extent(name, 8.5) for name, _ in blocks)
    width = max(*(place.right for place in places), _WIDER * names, _WIDER * extent(title or "", 10.5)) + 0.1
    head, each = headroom(title), _HEAD + _LINE * lines + 0.06
    figure = new_figure(width + 2 * _GAP, head + each * len(blocks) + _GAP, palette)
    ax = panel(figure, _GAP, head, width, each * len(blocks))
    ax.set_axis_off()
    ax.set_xlim(0, width)
    ax.set_ylim(each * len(blocks), 0)
    for number, (name, weights) in enumerate(blocks):
        _block(ax, name, labels, places, np.asarray(weights), number * each, palette)
    headline(figure, title, _GAP, palette)
    return ax


def _arranged(widths: Sequence[float]) -> list[_Place]:
    """Words of these widths one after the other, on a new line where one does not fit."""
    places: list[_Place] = []
    line, left = 0, 0.0
    for width in widths:
        if left and left + width > _WIDTH:
            line, left = line + 1, 0.0
        places.append(_Place(line, left, left + width))
        left += width + _SPACE
    return places


def _block(
    ax: "matplotlib.axes.Axes",
    name: str,
    labels: Sequence[str],
    places: Sequence[_Place],
    weights: np.ndarray,
    top: float,
    palette: Palette,
) -> None:
    """The text once: a rectangle behind each word, as opaque as its share of the largest weight."""
    rectangle = require("matplotlib.patches", extra="viz").Rectangle
    ax.text(0, top + 0.1, ".", fontsize=8.5, color=palette.soft, va="center_baseline").set(**words(name))
    shares = np.maximum(weights, 0) / max(float(weights.max(initial=0)), 1e-12)
    for label, place, share in zip(labels, places, shares.tolist(), strict=True):
        y = top + _HEAD + _LINE * place.line
        if share > 0.01:
            corner, size = (place.left - 0.02, y), (place.right - place.left + 0.04, 0.92 * _LINE)
            patch = rectangle(corner, *size, color=palette.heat, alpha=_DARKEST * share, linewidth=0, zorder=1)
            ax.add_artist(patch)  # `add_patch` would also reckon with its limits, which are known
        text = ax.text(place.left, y + 0.5 * _LINE, ".", fontsize=_POINTS, va="center_baseline", zorder=2)
        text.set(color=palette.ink, **words(label))


def _label(word: str) -> str:
    """A word as it is shown; ▁ of sub-words becomes nothing, since words stand apart anyway."""
    return printable(word.removeprefix("▁") or word, _LONG)
