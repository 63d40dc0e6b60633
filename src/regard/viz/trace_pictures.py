"""Layers × heads of a trace as one picture of small matrices."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from regard.base import ConfigError, require
from regard.viz.fonts import families, printable
from regard.viz.heatmap import as_numbers, colour_map_of, empty_figure, fit_figure
from regard.viz.seen_layer import SeenLayer, pooled, short_names
from regard.viz.theme import DARK, LIGHT, entitle

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.colors

_MOST = 64  # rows and columns of one small matrix, at most
_WIDTH = 12.0  # inches of the whole picture, at most
_GAP = 0.08  # of a side, between two matrices


def head_grid(
    layers: Sequence[SeenLayer],
    *,
    title: str | None = None,
    cmap: "str | matplotlib.colors.Colormap" = "viridis",
    dark: bool = False,
) -> "matplotlib.axes.Axes":
    """Draw every head as a small square, one line for each layer; in each of them the largest weight is brightest.

    Longer matrices are pooled to 64 × 64 by means of blocks. Returns the one Axes that holds all of them: the square
    of head h in layer l lies between h and h + 1 across, and between l and l + 1 down.

    >>> ax = head_grid([SeenLayer("inner", np.stack([np.eye(3)] * 2), [0, 1], range(3))])
    >>> [label.get_text() for label in ax.get_xticklabels()], len(ax.images)
    (['0', '1'], 2)
    """
    if not layers:
        raise ConfigError("a grid of heads needs layers", got="none")
    palette, colour_map = DARK if dark else LIGHT, colour_map_of(cmap)
    across, down = max(len(layer.heads) for layer in layers), len(layers)
    side = min(1.1, max(0.3, _WIDTH / across))
    figure = empty_figure(side * across, side * down)
    figure.set_facecolor(palette.ground)
    ax: matplotlib.axes.Axes = figure.add_axes((0, 0, 1, 1))
    ax.set_facecolor(palette.ground)
    normalize = require("matplotlib.colors", extra="viz").PowerNorm
    for line, layer in enumerate(layers):
        for column, matrix in enumerate(pooled(as_numbers(layer.weights), _MOST)):
            top = max(float(matrix.max()), float(np.finfo(np.float32).tiny))
            box = (column + _GAP / 2, column + 1 - _GAP / 2, line + 1 - _GAP / 2, line + _GAP / 2)
            scale = normalize(0.5, vmin=0, vmax=top, clip=True)
            ax.imshow(matrix, cmap=colour_map, norm=scale, extent=box, interpolation="nearest", aspect="auto")
    ax.set_xlim(0, across)
    ax.set_ylim(down, 0)
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0, labelcolor=palette.ink, top=True, bottom=False, labeltop=True, labelbottom=False, pad=3)
    widest = max(layers, key=lambda layer: len(layer.heads))
    same = all(list(layer.heads) == list(widest.heads)[: len(layer.heads)] for layer in layers)
    numbers = [str(head) for head in (widest.heads if same else range(across))]
    ax.set_xticks([place + 0.5 for place in range(across)], numbers, fontsize=8)
    names = [printable(name, 40) for name in short_names([layer.name for layer in layers])]
    ax.set_yticks([place + 0.5 for place in range(down)], names, fontsize=8, parse_math=False, usetex=False)
    ax.xaxis.set_label_position("top")
    ax.set_xlabel("head", fontsize=8, color=palette.soft)
    ax.set_ylabel("layer", fontsize=8, color=palette.soft)
    for label in ax.get_yticklabels():
        label.set_fontfamily(families(label.get_text()))
    if title is not None:
        entitle(ax, title, palette.ink, size=11)
    fit_figure(figure)
    return ax
