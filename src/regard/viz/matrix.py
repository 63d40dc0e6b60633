"""Matrices of weights side by side: heads × layers, with common labels; and the drawing of a `Matrix`."""

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.base import ConfigError, ShapeError
from regard.explanation.matrix import Matrix
from regard.viz.fonts import extent, printable, renderer
from regard.viz.heatmap import (
    INCH,
    LINE,
    Floats,
    Grid,
    Names,
    as_labels,
    as_numbers,
    colour_map_of,
    empty_figure,
    fit_figure,
    heatmap,
    largest,
    listed,
    name_axes,
    paint,
    scale_bar,
    set_title,
)
from regard.viz.theme import DARK, LIGHT, blank_drawing, darken

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.colors
    import matplotlib.figure

_WIDE = 8  # heads in one row of panels; more are wrapped


def draw(matrix: Matrix, *, dark: bool = False, ax: "matplotlib.axes.Axes | None" = None) -> Any:
    """Draw a matrix as a heat map, or one for each head; `ax` is for a matrix without heads. Returns the axes.

    >>> draw(Matrix([[0.9, 0.1]], ["la"], ["the", "house"])).get_xticklabels()[1].get_text()
    'house'
    """
    title = "\n".join(text for text in (matrix.title, matrix.layer) if text)
    if not matrix.weights.size:
        return blank_drawing(title, "no weights", DARK if dark else LIGHT)
    if matrix.weights.ndim == 3:
        if ax is not None:
            cure = "leave ax out, or draw one head"
            raise ConfigError("several heads do not fit into one ax", got=f"{len(matrix.weights)} heads", cure=cure)
        names = [f"head {head}" for head in range(len(matrix.weights))]
        names[0] = f"{title}\n{names[0]}" if title else names[0]
        return heatmaps(matrix.weights, matrix.rows, matrix.columns, titles=names, dark=dark)
    axes = heatmap(matrix.weights, matrix.rows, matrix.columns, ax=ax, colorbar=True, dark=dark)
    name_axes(axes, matrix.axes)
    if title:
        set_title(axes, title, size=11, loc="left")
    if dark:
        darken([axes], figure=False)
    if ax is None:
        fit_figure(axes.figure)
    return axes


def heatmaps(
    weights: Any,
    rows: Iterable[object] | None = None,
    columns: Iterable[object] | None = None,
    *,
    titles: Iterable[object] | None = None,
    figure: "matplotlib.figure.Figure | None" = None,
    cmap: "str | matplotlib.colors.Colormap" = "viridis",
    share: bool = True,
    inches: int | float = 2.5,
    dark: bool = False,
) -> Grid:
    """Draw small multiples with common labels: heads [h q k], layers × heads [l h q k], or a mapping name → array.

    A mapping, of [q k] or [h q k], gives one row of panels for each name. `share` means one colour scale with one
    bar; otherwise each panel has its own. No side of a panel is longer than `inches`. An empty `figure` is filled and
    resized to fit. Returns the grid of axes.

    >>> heatmaps(np.eye(3)[None].repeat(2, 0)).shape
    (1, 2)
    """
    grid, names = _panels(weights)
    matrices = [matrix for line in grid for matrix in line]
    rows, columns = listed(rows), listed(columns)
    shapes = [matrix.shape for matrix in matrices]
    labels = [(as_labels(rows, high, "rows"), as_labels(columns, wide, "columns")) for high, wide in shapes]
    if titles is not None:
        names = [str(name) for name in np.ravel(np.asarray(listed(titles), dtype=object))]
        if len(names) != len(matrices):
            raise ShapeError("every panel needs one title", got=len(names), expected=len(matrices))
    top = largest(None, matrices)
    colour_map = colour_map_of(cmap)
    if figure is not None and figure.axes:
        raise ConfigError("the figure is not empty", got=f"{len(figure.axes)} axes", cure="pass a new Figure()")
    axes = _lay(grid, labels, names, figure or empty_figure(1, 1), colour_map, top if share else None, inches)
    if dark:
        darken(axes.flat[0].figure.axes)
    return axes


def _panels(weights: Any) -> tuple[list[list[Floats]], list[str]]:
    """The matrices, row by row, and a title for each."""
    if isinstance(weights, Mapping):
        named = {str(name): as_numbers(array) for name, array in weights.items()}
        if not named:
            raise ShapeError("there is nothing to draw", got="an empty mapping", expected="name → weights")
        for name, array in named.items():
            if array.ndim not in (2, 3):
                raise _misfit(f"weights of {name!r} have", array, "[q k] or [h q k]")
        titles = [
            name if array.ndim == 2 else f"head {head}" if head else f"{name}\nhead 0"
            for name, array in named.items()
            for head in range(len(array) if array.ndim == 3 else 1)
        ]
        return [[array] if array.ndim == 2 else list(array) for array in named.values()], titles
    array = as_numbers(weights)
    if array.ndim == 3:
        wide = len(array) if len(array) <= _WIDE else math.ceil(math.sqrt(len(array)))
        lines = [list(array[start : start + wide]) for start in range(0, len(array), wide)]
        return lines, [f"head {head}" for head in range(len(array))]
    if array.ndim == 4:
        titles = [f"layer {layer} · head {head}" for layer, head in np.ndindex(array.shape[:2])]
        return [list(layer) for layer in array], titles
    raise _misfit("weights have", array, "[h q k], [l h q k] or a mapping of names to [q k] or [h q k]")


def _misfit(what: str, array: Floats, expected: str) -> ShapeError:
    cure = "use heatmap for one matrix" if array.ndim == 2 else "draw one item of a batch: weights[0]"
    raise ShapeError(f"{what} the wrong number of axes", got=f"shape {list(array.shape)}", expected=expected, cure=cure)


def _lay(
    grid: list[list[Floats]],
    labels: list[Names],
    titles: list[str],
    figure: Any,
    colour_map: Any,
    top: float | None,
    inches: int | float,
) -> Grid:
    """Set the panels out, at one scale, with labels at the left and on top; blank places stay hidden."""
    high, wide = (max(matrix.shape[axis] for line in grid for matrix in line) for axis in (0, 1))
    cell = min(max(1.25 / max(high, wide), 7 * LINE / INCH), inches / max(high, wide))
    figure.set_size_inches(wide * cell, high * cell)
    axes = np.empty((len(grid), max(map(len, grid))), dtype=object)
    panels, widest = zip(labels, titles, strict=True), 0.0
    for row, column in np.ndindex(axes.shape):
        if column >= len(grid[row]):
            axes[row, column] = figure.add_axes((0, 0, 1, 1), visible=False)
            continue
        matrix, (names, title) = grid[row][column], next(iter(panels))
        axes[row, column] = ax = figure.add_axes((0, 0, matrix.shape[1] / wide, matrix.shape[0] / high))
        paint(ax, matrix, names, colour_map, largest(None, [matrix]) if top is None else top)
        same = row > 0 and column < len(grid[row - 1]) and grid[row - 1][column].shape[1] == matrix.shape[1]
        ax.tick_params(left=column == 0, labelleft=column == 0, top=not same, labeltop=not same)
        set_title(ax, title, size=8, loc="left")
        lines = title.split("\n")[0 if column else -1 :]  # a name may run over the other panels of its row
        widest = max(widest, *(extent(printable(line, None), 8) for line in lines))
    _spread(figure, axes, max(0.15, widest - wide * cell + 0.12))
    if top is not None:
        _rail(figure, axes)
    fit_figure(figure)
    return axes


def _spread(figure: Any, axes: Grid, gap: float) -> None:
    """Move the panels, all painted in one corner, to their places: lines as far apart as what stands above them."""
    pen, dpi = renderer(figure.dpi), figure.dpi
    width, height = figure.get_size_inches()
    floor = 0.0  # inches
    for row, line in enumerate(axes):
        shown = [ax for ax in line if ax.get_visible()]
        above = max(ax.get_tightbbox(pen).y1 - ax.bbox.y1 for ax in shown) / dpi
        roof = floor - (above + 0.1 if row else 0)
        floor = roof - max(ax.bbox.height for ax in shown) / dpi
        for column, ax in enumerate(line):
            place = ax.get_position(original=True)
            ax.set_position((column * (1 + gap / width), roof / height - place.height, place.width, place.height))


def _rail(figure: Any, axes: Grid) -> None:
    """One colour bar for all panels, at their right."""
    width, height = figure.get_size_inches()
    right = figure.get_tightbbox(renderer(figure.dpi)).x1
    floor = min(ax.get_position(original=True).y0 for ax in axes.flat if ax.get_visible())
    rail = figure.add_axes(((right + 0.12) / width, floor, 0.12 / width, -floor))
    scale_bar(figure.colorbar(axes[0, 0].images[0], cax=rail), -floor * height)
