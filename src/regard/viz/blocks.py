"""The block that a pixel saw, and what it looked at inside of it (Parmar et al. 2018, figure 1)."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from regard.explanation.blocks import Blocks
from regard.viz.places import position_maps
from regard.viz.theme import DARK, LIGHT, Grid, blank_drawing

if TYPE_CHECKING:
    import matplotlib.axes

_VEIL = 0.62  # how dark it is outside of the block
_EDGE = "#56b4e9"  # the line around the block


def draw(blocks: Blocks, *, dark: bool = False) -> Grid:
    """Draw the picture with its marked pixels, then a panel for each: dark is what it could not see, yellow its weight.

    Returns the axes: that of the picture, and one for each pixel.

    >>> seen = np.array([[[1, 1], [1, 0]]])
    >>> len(draw(Blocks(np.zeros((2, 2, 3), dtype=np.uint8), seen / 3, seen, [[1, 0]])))
    2
    """
    if not blocks.weights.size:
        return np.array([blank_drawing(blocks.title, "no pixels", DARK if dark else LIGHT)], dtype=object)
    pixels = [(int(row), int(column)) for row, column in np.rint(blocks.points)]
    axes = position_maps(
        blocks.image, pixels, blocks.weights, titles=blocks.labels or None, title=blocks.title or None, dark=dark
    )
    height, width = blocks.image.shape[:2]
    over = (-0.5, width - 0.5, height - 0.5, -0.5)
    for ax, seen in zip(axes[1:], blocks.seen, strict=True):
        veil = np.zeros((*seen.shape, 4))
        veil[..., 3] = _VEIL * (1 - seen)
        ax.imshow(veil, extent=over, interpolation="nearest", aspect="auto", zorder=1.5)
        ax.set_aspect("equal")
        _outline(ax, seen, (height / seen.shape[0], width / seen.shape[1]))
        ax.set_xlim(-0.5, width - 0.5)
        ax.set_ylim(height - 0.5, -0.5)
    return axes


def _outline(ax: "matplotlib.axes.Axes", seen: NDArray[np.float64], cell: tuple[float, float]) -> None:
    """A line around all seen cells: at each side of a cell beyond which nothing is seen."""
    padded = np.pad(seen, 1)
    high, wide = cell
    for row, column in np.argwhere(seen == 1):
        top, left = row * high - 0.5, column * wide - 0.5
        sides = {
            (-1, 0): ([left, left + wide], [top, top]),
            (1, 0): ([left, left + wide], [top + high, top + high]),
            (0, -1): ([left, left], [top, top + high]),
            (0, 1): ([left + wide, left + wide], [top, top + high]),
        }
        for (down, right), (x, y) in sides.items():
            if padded[row + 1 + down, column + 1 + right] == 0:
                ax.plot(x, y, color=_EDGE, linewidth=1.0, zorder=2)
