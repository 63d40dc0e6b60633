"""Where a caption looked: the picture, then one panel a word with the weights over it, as in Xu et al. 2015."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.base import ConfigError, ShapeError
from regard.explanation.values import to_numpy
from regard.viz.fonts import extent, families, printable
from regard.viz.theme import DARK, LIGHT, Palette, as_picture, headline, new_figure

Numbers = NDArray[np.float64]
Grid = NDArray[Any]  # of Axes
_PANEL = 1.5  # inches, the longer side of a panel
_GAP = 0.08
_WORD = 0.26  # inches for a word above its panel
_HEAD = 0.24  # inches for a line of the title
_DIM = 0.4  # how bright the picture is where no weight lies
_UNSEEN = 0.5  # times that, outside of what the model saw


class CaptionOverlay(NamedTuple):
    """A caption and where its words looked."""

    words: Sequence[str]
    weights: Any  # [t k]
    grid: tuple[int, int]  # rows and columns of the k places
    box: Sequence[int | float] | None = None  # which the grid fills: left, top, right, bottom; None: the whole picture


def spread(
    weights: Any,
    grid: tuple[int, int],
    size: tuple[int, int],
    box: Sequence[int | float] | None = None,
    *,
    smooth: int | float = 0.5,
) -> Numbers:
    """One word's weights [k] over a picture: [h w], from 0 to 1, and 0 outside of `box`.

    The grid of rows and columns fills `box` (left, top, right, bottom, in pixels; the whole picture unless told). It is
    upsampled to pixels, each weight at the middle of its cell, by a Gaussian of `smooth` cells; with `smooth` 0 cells
    keep sharp edges.

    >>> spread([0.0, 1.0], (1, 2), (2, 4), smooth=0.0)
    array([[0., 0., 1., 1.],
           [0., 0., 1., 1.]])
    """
    cells = np.asarray(to_numpy(weights), dtype=np.float64)
    rows, columns = grid
    height, width = size
    if cells.size != rows * columns:
        got = f"{cells.size} weights on {rows} × {columns} places"
        raise ShapeError("weights do not fill the grid", got=got, expected=rows * columns)
    if smooth < 0:
        raise ConfigError("smooth", got=smooth, expected="0 or more", cure="use 0.5, half a cell")
    left, top, right, bottom = map(float, (0, 0, width, height) if box is None else box)
    if not (right > left and bottom > top):
        raise ConfigError("box", got=tuple(box or ()), expected="left < right and top < bottom")
    down = _kernel(height, top, bottom, rows, smooth)
    across = _kernel(width, left, right, columns, smooth)
    picture: Numbers = down @ cells.reshape(rows, columns) @ across.T
    peak = picture.max()
    return picture / peak if peak > 0 else picture


def overlay(
    image: Any,
    words: Sequence[str] | None = None,
    weights: Any = None,
    *,
    grid: tuple[int, int],
    box: Sequence[int | float] | None = None,
    rows: Mapping[str, tuple[Sequence[str], Any]] | None = None,
    per_row: int = 8,
    smooth: int | float = 0.5,
    title: str | None = None,
    dark: bool = False,
) -> Grid:
    """The picture [h w 3], then for each word the greyed picture, bright where the word's weights [t k] lie.

    `grid` and `box` say where the k places lie (see `spread`). In place of one caption, `rows` names several of the
    same picture, such as {"soft": (words, weights), "hard": (words, weights)}: one below the other. Longer captions go
    on in the next line. Returns the grid of axes, which `save` writes; those without a panel are hidden.
    """
    captions = rows if rows is not None else {"": (words or [], weights)}
    told = {name: CaptionOverlay(each, word_weights, grid, box) for name, (each, word_weights) in captions.items()}
    return overlays(image, told, per_row=per_row, smooth=smooth, title=title, dark=dark)


def overlays(
    image: Any,
    captions: Mapping[str, CaptionOverlay],
    *,
    per_row: int = 8,
    smooth: int | float = 0.5,
    title: str | None = None,
    dark: bool = False,
) -> Grid:
    """Several captions of one picture, one below the other, each with its name; each may have places of its own.

    As `overlay` with `rows`, for models that see the picture in different ways: a grid and a box for each caption.
    """
    picture = as_picture(image)
    if not captions:
        raise ShapeError("there is nothing to draw", got="no captions", expected="words and their weights")
    if per_row < 1:
        raise ConfigError("per_row", got=per_row, expected="1 or more")
    lines = [(told, *line) for name, told in captions.items() for line in _lines(name, told, per_row)]
    palette = DARK if dark else LIGHT
    head = 0.0 if title is None else _HEAD * (1 + title.count("\n"))
    axes = _panels(picture.shape[:2], len(lines), 1 + max(len(line) for _, _, line in lines), head, palette)
    headline(axes.flat[0].figure, title, _GAP, palette)
    grey = picture @ [0.299, 0.587, 0.114]
    for row, (told, name, line) in enumerate(lines):
        if name is not None:
            axes[row, 0].set_visible(True)
            axes[row, 0].imshow(picture, aspect="auto", interpolation="bilinear")
            if name:
                _above(axes[row, 0], name, palette.ink, left=True)
        seen = spread(np.ones(1), (1, 1), picture.shape[:2], told.box, smooth=0.0)
        ground = _DIM * grey * np.where(seen > 0, 1.0, _UNSEEN)
        for ax, (word, weight) in zip(axes[row, 1:], line, strict=False):
            light = spread(weight, told.grid, picture.shape[:2], told.box, smooth=smooth)
            shade = ground + (1 - _DIM) * light * (1 + grey) / 2  # what is dark in the picture glows too
            ax.set_visible(True)
            ax.imshow(np.repeat(shade[..., None], 3, -1), aspect="auto", interpolation="bilinear")
            _above(ax, word, palette.ink)
    return axes


def _panels(size: tuple[int, ...], lines: int, columns: int, head: float, palette: Palette) -> Grid:
    """Hidden axes of the picture's shape, with room for a word above each and for a title above all."""
    height, width = (max(side * _PANEL / max(size), 0.05) for side in size)
    down, right = height + _WORD + _GAP, width + _GAP
    total = (columns * right + _GAP, head + lines * down + _GAP)
    figure = new_figure(*total, palette)
    axes: Grid = np.empty((lines, columns), dtype=object)
    for row, column in np.ndindex(axes.shape):
        x, y = _GAP + column * right, total[1] - head - (row + 1) * down
        place = (x / total[0], y / total[1], width / total[0], height / total[1])
        axes[row, column] = ax = figure.add_axes(place, visible=False)
        ax.set_axis_off()
    return axes


def _kernel(pixels: int, low: float, high: float, cells: int, smooth: int | float) -> Numbers:
    """How much each cell gives to each pixel [pixels cells]: rows sum to 1 inside low … high, and to 0 outside."""
    place = (np.arange(pixels) + 0.5 - low) / (high - low) * cells  # of the middles of pixels, in cells
    inside = (place >= 0) & (place < cells)
    if smooth == 0:
        share = (np.floor(place)[:, None] == np.arange(cells)).astype(np.float64)
    else:
        apart = place[:, None] - (np.arange(cells) + 0.5)
        share = np.exp(-0.5 * (apart / smooth) ** 2)
        share /= np.maximum(share.sum(1, keepdims=True), np.finfo(np.float64).tiny)
    result: Numbers = share * inside[:, None]
    return result


def _lines(name: str, told: CaptionOverlay, per_row: int) -> list[tuple[str | None, list[tuple[str, Numbers]]]]:
    """The panels of one caption, line by line; its name stands at the first."""
    words, weights = told.words, told.weights
    if not len(words):
        raise ShapeError("there is nothing to draw", got="a caption without words", expected="one word or more")
    array = np.asarray(to_numpy(weights), dtype=np.float64)
    if array.ndim != 2 or len(array) != len(words):
        got = f"{len(words)} words and weights {list(array.shape)}"
        raise ShapeError("every word needs its weights", got=got, expected=f"[{len(words)} k]")
    if not np.isfinite(array).all():
        raise ConfigError("weights are not finite", cure="draw weights, not masked scores")
    panels = list(zip(words, array, strict=True))
    parts = [panels[start : start + per_row] for start in range(0, len(panels), per_row)]
    return [(name if number == 0 else None, line) for number, line in enumerate(parts)]


def _above(ax: Any, text: str, ink: str, *, left: bool = False) -> None:
    """A line of text above a panel; as small as it must be to fit."""
    word = printable(text)
    box = ax.get_window_extent()
    wide, high = box.width / ax.figure.dpi, box.height / ax.figure.dpi
    size = min(11.0, 11.0 * (wide + _GAP) / max(extent(word, 11), 1e-6))
    ax.text(
        0.0 if left else 0.5, 1 + 0.04 / high, word, transform=ax.transAxes, va="bottom", parse_math=False,
        ha="left" if left else "center", fontsize=max(4.0, size), fontweight="bold" if left else "normal",
        fontfamily=families(word), usetex=False, color=ink,
    )  # fmt: skip
