"""Hops over a memory: the lines of a story, with a bar for each look at each line; supporting facts are marked."""

from typing import TYPE_CHECKING, Any

import numpy as np

from regard.explanation.hops import Hops
from regard.viz.fonts import extent, printable
from regard.viz.theme import DARK, LIGHT, Palette, blank_drawing, headline, headroom, new_figure, panel, words

if TYPE_CHECKING:
    import matplotlib.axes

_GAP = 0.14  # inches around
_BAR, _PITCH = 0.62, 1.12  # inches of the longest bar, and from one hop to the next
_MARK = 0.2  # inches for the mark of a supporting fact
_LONG = 72  # letters of a line
_LEGEND = "supporting fact"


def draw(hops: Hops, *, dark: bool = False) -> "matplotlib.axes.Axes":
    """Draw the memory line by line, a column of bars for each hop, and the question with its answer below.

    A dot marks the supporting facts, and a legend says so. The longest bar of all is the largest weight. Returns the
    axes, in inches.

    >>> ax = draw(Hops([[0.1, 0.9]], ["Mary went home.", "John took the milk."], marked=[1]))
    >>> [f"{bar.get_width():.2f}" for bar in ax.containers[0]]
    ['0.07', '0.62']
    """
    palette = DARK if dark else LIGHT
    if not hops.slots:
        return blank_drawing(hops.title, "an empty memory", palette)
    row, points = (0.22, 9.0) if len(hops.slots) <= 40 else (0.16, 7.0)
    text = max(
        0.8,
        extent(_LEGEND, 8.5) if hops.marked else 0.0,
        *(extent(printable(slot, _LONG), points) for slot in hops.slots),
    )
    asked = printable(hops.question, 2 * _LONG) if hops.question else ""
    said = printable(hops.answer, _LONG) if hops.answer else ""
    width = _MARK + text + 0.3 + _PITCH * len(hops.weights)
    foot = 0.34 if asked or said else 0.0
    width = max(width, extent(f"{asked}  →  {said}", 1.04 * 9.5) + 0.2 if foot else 0.0)
    head = headroom(hops.title or None)
    height = row * len(hops.slots)
    figure = new_figure(width + 2 * _GAP, head + height + foot + _GAP, palette)
    ax = panel(figure, _GAP, head, width, height + foot)
    ax.set_axis_off()
    ax.set_xlim(0, width)
    ax.set_ylim(height + foot, 0)
    start = _MARK + text + 0.3
    for place, slot in enumerate(hops.slots):
        _slot(ax, slot, (place + 0.5) * row, place in hops.marked, points, palette)
        if place % 2 == 0:
            ax.axhspan(place * row, (place + 1) * row, color=palette.empty, alpha=0.45, linewidth=0, zorder=0)
    if hops.marked:
        ax.plot(0.07, -0.13, "o", markersize=3.5, color=palette.heat, clip_on=False)
        ax.text(_MARK, -0.07, _LEGEND, fontsize=8.5, color=palette.soft, va="bottom", ha="left")
    _bars(ax, hops, start, row, points, palette)
    if foot:
        _asked(ax, asked, said, height + 0.24, palette)
    headline(figure, hops.title or None, _GAP, palette)
    return ax


def _slot(ax: "matplotlib.axes.Axes", slot: str, y: float, marked: bool, points: float, palette: Palette) -> None:
    ink = palette.ink if marked or not slot else palette.soft
    if marked:
        ax.plot(0.07, y, "o", markersize=5, color=palette.heat, clip_on=False)
    ax.text(_MARK, y, ".", fontsize=points, color=ink, va="center_baseline").set(**words(slot, _LONG))


def _bars(ax: "matplotlib.axes.Axes", hops: Hops, start: float, row: float, points: float, palette: Palette) -> None:
    """One column for each hop: its number above, bars to the right, each with its weight where that is not 0.00."""
    top = max(float(np.abs(hops.weights).max(initial=0)), 1e-12)
    for hop, weights in enumerate(hops.weights):
        left = start + hop * _PITCH
        ax.text(left, -0.07, f"hop {hop + 1}", fontsize=8.5, color=palette.soft, va="bottom", ha="left")
        middles = (np.arange(len(weights)) + 0.5) * row
        shown: dict[str, Any] = {"height": 0.62 * row, "left": left, "linewidth": 0, "zorder": 2}
        ax.barh(middles, _BAR * np.maximum(weights, 0) / top, color=palette.heat, **shown)
        for y, weight in zip(middles, weights.tolist(), strict=True):
            if abs(weight) < 0.005:  # it would read 0.00
                continue
            strong = weight >= 0.5 * top
            x = left + _BAR * max(weight, 0) / top + 0.05
            number = ax.text(x, y, f"{weight:.2f}", fontsize=points - 1.5, va="center_baseline", zorder=3)
            number.set_color(palette.ink if strong else palette.soft)


def _asked(ax: "matplotlib.axes.Axes", asked: str, said: str, y: float, palette: Palette) -> None:
    question = ax.text(_MARK, y, ".", fontsize=9.5, color=palette.ink, va="center_baseline")
    question.set(**words(asked or "answer", None))
    if said:
        x = _MARK + extent(asked or "answer", 9.5) + 0.12
        answer = ax.text(x, y, ".", fontsize=9.5, color=palette.heat, va="center_baseline", fontweight="bold")
        answer.set(**words(f"→ {said}", None))
