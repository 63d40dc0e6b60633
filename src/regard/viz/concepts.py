"""Concepts: words above and below each layer, lines to what they take in, and bars of what they are made of."""

import colorsys
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.base import require
from regard.explanation.concepts import Concepts, hue
from regard.viz.fonts import extent, printable
from regard.viz.theme import DARK, LIGHT, Palette, blank_drawing, headline, headroom, new_figure, panel, words

if TYPE_CHECKING:
    import matplotlib.axes

MOST_WORDS, MOST_LAYERS = 12, 8  # that are drawn; a sentence says what is left out
_GAP = 0.16  # inches around
_POINTS, _SMALL = 9.0, 8.0  # of words, and of sums and notes
_LONG = 14  # letters of a word
_WORDS = 0.34  # inches of a row of words
_ROW = 0.19  # inches from one bar to the next
_BAR = 1.5  # inches of a bar
_BETWEEN = 0.45  # inches between the lines and the bars
_NOTE = 0.16  # inches of a line of the notes
_FAINT = 0.03  # weights below it have no line
_WIDER = 1.06  # of a line of text on a screen, where letters stand on whole dots


def draw(concepts: Concepts, *, dark: bool = False) -> "matplotlib.axes.Axes":
    """Draw the words in a row above each layer and below it; a line from a word below to one above is what it takes in.

    Every word has a colour. A line has that of the word above it, and is as thick and as dark as the weight. Beside
    each layer there is a bar for each word, of the colours that the word is made of after it. Returns the axes, in
    inches.

    >>> ax = draw(Concepts([[[0.2, 0.8], [0.5, 0.5]]], ["black", "cat"]))
    >>> [text.get_text() for text in ax.texts if " = " in text.get_text()]
    ['black = 0.60 black + 0.40 cat', 'cat = 0.75 cat + 0.25 black']
    """
    palette = DARK if dark else LIGHT
    if not concepts.weights.size:
        return blank_drawing(concepts.title, "no words" if not concepts.words else "no layers", palette)
    count, layers = min(len(concepts.words), MOST_WORDS), min(len(concepts.layers), MOST_LAYERS)
    labels = [printable(word.removeprefix("▁") or word, _LONG) for word in concepts.words[:count]]
    sums = [[printable(concepts.as_sum(layer, word), 70) for word in range(count)] for layer in range(layers)]
    pitch = max(0.46, 0.16 + _WIDER * max(extent(label, _POINTS) for label in labels))
    start = count * pitch + _BETWEEN  # where the bars begin
    told = max(extent(line, _SMALL) for lines in sums for line in lines)
    title = printable(concepts.title, 100) if concepts.title else None
    width = max(start + _BAR + 0.1 + _WIDER * told, _WIDER * extent(title or "", 10.5), 5.0)
    notes = textwrap.wrap(_notes(concepts, count, layers), int(width / (extent("abcdefghij" * 5, _SMALL) / 50)))
    step = _WORDS + max(1.0, _ROW * count + 0.1)  # inches from one row of words to the next
    height = _WORDS + step * layers + 0.1 + _NOTE * len(notes)
    head = headroom(title)
    figure = new_figure(width + 2 * _GAP, head + height + _GAP, palette)
    ax = panel(figure, _GAP, head, width, height)
    ax.set_axis_off()
    ax.set(xlim=(0, width), ylim=(height, 0))
    colours = [_colour(place, dark) for place in range(count)]
    middles = (np.arange(count) + 0.5) * pitch
    composed = concepts.through_layers()
    for layer in range(layers + 1):
        _words(ax, labels, middles, step * layer + 0.17, palette)
        marks = [step * layer + 0.02] * (layer > 0) + [step * layer + _WORDS - 0.02] * (layer < layers)
        for y in marks:
            ax.hlines([y] * count, middles - 0.12, middles + 0.12, colors=colours, linewidth=2.2)
    for layer in range(layers):
        top, bottom = step * layer + _WORDS, step * (layer + 1)
        _lines(ax, concepts.weights[layer][:count, :count], middles, (top, bottom), colours)
        name = f"after {printable(concepts.layers[layer], 40)}"
        ax.text(start, step * layer + 0.17, ".", fontsize=_SMALL, color=palette.soft, va="center").set(**words(name))
        first = (top + bottom - _ROW * count) / 2
        for word, shares in enumerate(composed[layer][:count]):
            middle = first + _ROW * (word + 0.5)
            _bar(ax, shares, start, middle, colours, palette)
            line = ax.text(start + _BAR + 0.1, middle, ".", fontsize=_SMALL, color=palette.ink, va="center_baseline")
            line.set(**words(sums[layer][word]))
    for number, note in enumerate(notes):
        y = _WORDS + step * layers + 0.1 + _NOTE * (number + 0.5)
        ax.text(0, y, ".", fontsize=_SMALL, color=palette.soft, va="center_baseline").set(**words(note))
    headline(figure, title, _GAP, palette)
    return ax


def _notes(concepts: Concepts, count: int, layers: int) -> str:
    """What lines and bars mean, and what is left out."""
    heads = f" ({concepts.heads})" if concepts.heads else ""
    passing = (
        f"{concepts.residual:.0%} of a word passes by each layer unchanged"
        if concepts.residual
        else "their weights multiplied"
    )
    said = f"Lines: what a word takes in of the words above it{heads}. Bars: what it is made of after this layer and "
    said += f"those before it ({passing})."
    if count < len(concepts.words):
        said += f" The first {count} of {len(concepts.words)} words are drawn; the others are grey in the bars."
    if layers < len(concepts.layers):
        said += f" The first {layers} of {len(concepts.layers)} layers are drawn."
    return said


def _colour(place: int, dark: bool) -> tuple[float, float, float]:
    """The colour of a word, which tells it from its neighbours; every other one is lighter."""
    lightness = (0.62 if dark else 0.42) + 0.1 * (place % 2)
    return colorsys.hls_to_rgb(hue(place) / 360, lightness, 0.62)


def _words(ax: "matplotlib.axes.Axes", labels: Sequence[str], middles: Any, y: float, palette: Palette) -> None:
    """Writes the words side by side, each above or below the bar that has its colour."""
    for label, x in zip(labels, middles.tolist(), strict=True):
        text = ax.text(x, y, ".", fontsize=_POINTS, color=palette.ink, ha="center", va="center")
        text.set(**words(label))


def _lines(
    ax: "matplotlib.axes.Axes", weights: Any, middles: Any, ends: tuple[float, float], colours: Sequence[Any]
) -> None:
    """A curve for each pair, from a word below to one above; the strongest are drawn last."""
    collection = require("matplotlib.collections", extra="viz").LineCollection
    along = np.linspace(0, 1, 25)
    sideways = along**2 * (3 - 2 * along)
    pairs = sorted((float(weights[below, above]), below, above) for below, above in np.argwhere(weights >= _FAINT))
    curves, inks, sizes = [], [], []
    for weight, below, above in pairs:
        share = min(weight, 1.0)
        x = middles[above] + (middles[below] - middles[above]) * sideways
        curves.append(np.stack([x, ends[0] + (ends[1] - ends[0]) * along], 1))
        inks.append((*colours[above], 0.04 + 0.9 * share))
        sizes.append(0.4 + 4.2 * share)
    ax.add_collection(collection(curves, colors=inks, linewidths=sizes, capstyle="butt"), autolim=False)


def _bar(
    ax: "matplotlib.axes.Axes", shares: Any, left: float, middle: float, colours: Sequence[Any], palette: Palette
) -> None:
    """The shares of one word, the largest first, each in the colour of its word; those that are not drawn are last."""
    sizes, inks = [], []
    for place in np.argsort(-shares[: len(colours)], kind="stable").tolist():
        sizes.append(_BAR * float(shares[place]))
        inks.append(colours[place])
    sizes.append(_BAR * float(shares[len(colours) :].sum()))
    inks.append(palette.rule)
    starts = left + np.concatenate([[0.0], np.cumsum(sizes)[:-1]])
    ax.barh([middle] * len(sizes), sizes, left=starts, height=0.68 * _ROW, color=inks, linewidth=0)
