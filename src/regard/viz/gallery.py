"""Pictures in rows and columns, with labels: samples, completions, enlargements."""

import numpy as np

from regard.explanation.gallery import Gallery
from regard.viz.theme import DARK, LIGHT, Grid, entitle, frame, headline, headroom, new_figure, panel, words

_MOST, _FEWEST = 1.3, 0.6  # inches of a tile
_WIDE = 9.0  # inches of all tiles together, where they fit
_GAP, _NAME = 0.08, 1.1  # inches between tiles; for the names of rows


def draw(gallery: Gallery, *, dark: bool = False) -> Grid:
    """Draw the pictures in their grid, each pixel as a square, with the labels of columns and rows. Returns the axes.

    >>> draw(Gallery.of(np.zeros((2, 3, 8, 8, 3), dtype=np.uint8))).shape
    (2, 3)
    """
    palette, (down, across) = DARK if dark else LIGHT, gallery.grid
    tiles = gallery.tiles()
    ratio = tiles.shape[2] / tiles.shape[3]
    wide = float(np.clip(_WIDE / across, _FEWEST, _MOST))
    high, left = wide * ratio, _GAP + (_NAME if gallery.rows else 0.0)
    head = headroom(gallery.title or None) + (0.0 if gallery.columns else -0.16)
    figure = new_figure(left + across * (wide + _GAP), head + down * (high + _GAP), palette)
    axes = np.empty((down, across), dtype=object)
    for row in range(down):
        for column in range(across):
            ax = panel(figure, left + column * (wide + _GAP), head + row * (high + _GAP), wide, high)
            ax.imshow(tiles[row, column], interpolation="nearest", aspect="auto")
            frame(ax, palette.rule)
            axes[row, column] = ax
            if row == 0 and gallery.columns:
                entitle(ax, gallery.columns[column], palette.soft, size=8)
            if column == 0 and gallery.rows:
                said = ax.text(-0.06, 0.5, ".", transform=ax.transAxes, ha="right", va="center", fontsize=8)
                said.set(color=palette.ink, **words(gallery.rows[row], 18))
    headline(figure, gallery.title or None, _GAP, palette)
    return axes
