"""Heatmaps of weights: one matrix, or small multiples of heads × layers. No pyplot, no global state."""

import io
import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from regard.base import ConfigError, ShapeError, require, write_atomically
from regard.viz.fonts import extent, families, printable, renderer

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.colors
    import matplotlib.figure

Matrix = NDArray[np.float64]
Grid = NDArray[Any]  # of Axes
Names = tuple[list[str] | None, list[str] | None]  # of rows and of columns

FORMATS = (".png", ".pdf", ".svg")
_INCH = 72  # points
_LINE = 1.25  # the pitch of lines over the font size: labels this far apart do not touch
_FEW = 12  # rows and columns that may hold numbers
_WIDE = 8  # heads in one row of panels; more are wrapped
_PAD = 0.08  # inches around the picture


def heatmap(
    weights: Any,
    rows: Iterable[object] | None = None,
    columns: Iterable[object] | None = None,
    *,
    ax: "matplotlib.axes.Axes | None" = None,
    title: str | None = None,
    cmap: "str | matplotlib.colors.Colormap" = "viridis",
    values: bool | None = None,
    colorbar: bool = False,
    maximum: int | float | None = None,
) -> "matplotlib.axes.Axes":
    """Draw one matrix [q k]: `rows` label the queries from top to bottom, `columns` the keys, on top.

    Colours go from 0 (or below) to `maximum` (the largest weight); an exact zero reads "0", a rounded one "0.00".
    `values` writes the numbers: always, never, or (None) where they are few and fit. Without `ax` the figure
    is as large as the labels need; in a smaller `ax` every second, third… label is drawn.

    >>> ax = heatmap([[0.9, 0.1], [0.2, 0.8]], rows=["la", "maison"], columns=["the", "house"])
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['la', 'maison']
    """
    matrix = _numbers(weights)
    if matrix.ndim != 2:
        raise ShapeError(
            "heatmap draws one matrix",
            got=f"shape {list(matrix.shape)}",
            expected="[q k]",
            cure="use heatmaps for several heads, or pick one: weights[0]",
        )
    names = _labels(rows, matrix.shape[0], "rows"), _labels(columns, matrix.shape[1], "columns")
    top = _maximum(maximum, [matrix])
    palette = _palette(cmap)
    fresh = ax is None
    if ax is None:
        cell = _cell(matrix.shape, values, labelled=names != (None, None))
        ax = _figure(cell * matrix.shape[1], cell * matrix.shape[0]).add_axes((0, 0, 1, 1))
    cell = _paint(ax, matrix, names, palette, top)
    if values or (values is None and max(matrix.shape) <= _FEW):
        _write(ax, matrix, palette, top, cell, smallest=0 if values else 5)
    if title is not None:
        _entitle(ax, title, size=11, loc="center")
    if colorbar:
        _bar(ax, matrix.shape[0] * cell, matrix.shape[1] * cell)
    if fresh:
        _fit(ax.figure)
    return ax


def heatmaps(
    weights: Any,
    rows: Iterable[object] | None = None,
    columns: Iterable[object] | None = None,
    *,
    titles: Iterable[object] | None = None,
    figure: "matplotlib.figure.Figure | None" = None,
    cmap: "str | matplotlib.colors.Colormap" = "viridis",
    share: bool = True,
) -> Grid:
    """Draw small multiples with common labels: heads [h q k], layers × heads [l h q k], or a mapping name → array.

    A mapping, of [q k] or [h q k], gives one row of panels for each name. `share` means one colour scale with one
    bar; otherwise each panel has its own. An empty `figure` is filled and resized to fit. Returns the grid of axes.

    >>> heatmaps(np.eye(3)[None].repeat(2, 0)).shape
    (1, 2)
    """
    grid, names = _panels(weights)
    matrices = [matrix for line in grid for matrix in line]
    rows, columns = _listed(rows), _listed(columns)
    shapes = [matrix.shape for matrix in matrices]
    labels = [(_labels(rows, high, "rows"), _labels(columns, wide, "columns")) for high, wide in shapes]
    if titles is not None:
        names = [str(name) for name in np.ravel(np.asarray(_listed(titles), dtype=object))]
        if len(names) != len(matrices):
            raise ShapeError("every panel needs one title", got=len(names), expected=len(matrices))
    top = _maximum(None, matrices)
    palette = _palette(cmap)
    if figure is not None and figure.axes:
        raise ConfigError("the figure is not empty", got=f"{len(figure.axes)} axes", cure="pass a new Figure()")
    return _lay(grid, labels, names, figure or _figure(1, 1), palette, top if share else None)


def save(axes: Any, path: str | os.PathLike[str], *, dpi: int | float = 150) -> Path:
    """Write the figure of `axes` (one, or a grid) to a PNG, PDF or SVG file, whole or not at all.

    >>> save(heatmap([[1.0]]), "weights.bmp")
    Traceback (most recent call last):
        ...
    regard.base.errors.ConfigError: unknown picture format: got '.bmp'; expected one of .png, .pdf, .svg
    """
    suffix = Path(path).suffix.lower()
    if suffix not in FORMATS:
        raise ConfigError("unknown picture format", got=repr(suffix), expected=f"one of {', '.join(FORMATS)}")
    picture = io.BytesIO()
    first = np.ravel(np.asarray(axes, dtype=object))[0]
    first.figure.figure.savefig(picture, format=suffix[1:], dpi=dpi, bbox_inches="tight", pad_inches=_PAD)
    return write_atomically(path, picture.getvalue())


def _numbers(weights: Any) -> Matrix:
    """Arrays, tensors on any device and lists of both, as finite float64."""
    if isinstance(weights, list | tuple) and any(hasattr(item, "detach") for item in weights):
        weights = [_numbers(item) for item in weights]
    if hasattr(weights, "detach"):
        weights = weights.detach().cpu().float().numpy()
    try:
        array = np.asarray(weights)
    except ValueError as error:
        raise ShapeError("weights are ragged", expected="rows of one length", cure="pad them with 0") from error
    if not np.can_cast(array.dtype, np.float64, "same_kind"):
        raise ShapeError("weights are not numbers", got=array.dtype, expected="an array of real numbers")
    array = array.astype(np.float64)
    if not array.size:
        raise ShapeError("there is nothing to draw", got=f"shape {list(array.shape)}", expected="at least one weight")
    if wrong := int((~np.isfinite(array)).sum()):
        raise ConfigError(
            "weights are not finite",
            got=f"{wrong} of {array.size} NaN or infinite",
            cure="draw weights, not masked scores; fill with np.nan_to_num",
        )
    return array


def _listed(labels: Iterable[object] | None) -> list[object] | None:
    return None if labels is None else list(labels)


def _labels(labels: Iterable[object] | None, length: int, side: str) -> list[str] | None:
    if labels is None:
        return None
    names = [str(label) for label in labels]
    if len(names) != length:
        raise ShapeError(
            f"{side} do not fit the weights",
            got=f"{len(names)} labels",
            expected=f"{length}",
            cure=f"give one label for each of the {length} {side}",
        )
    return [printable(name) for name in names]


def _maximum(maximum: int | float | None, matrices: list[Matrix]) -> float:
    if maximum is None:
        return max(*(float(matrix.max()) for matrix in matrices), float(np.finfo(np.float32).tiny))
    if not 0 < maximum < math.inf:
        raise ConfigError("the colour scale starts at 0", got=f"maximum={maximum}", expected="a number above 0")
    return float(maximum)


def _palette(cmap: "str | matplotlib.colors.Colormap") -> Any:
    if not isinstance(cmap, str):
        return cmap
    known = require("matplotlib", extra="viz").colormaps
    if cmap not in known:
        raise ConfigError("unknown colour map", got=repr(cmap), cure="choose from list(matplotlib.colormaps)")
    return known[cmap]


def _figure(width: int | float, height: int | float) -> Any:
    return require("matplotlib.figure", extra="viz").Figure(figsize=(width, height), layout="none")


def _cell(shape: tuple[int, ...], values: bool | None, labelled: bool) -> float:
    """The side of a cell, in inches, in a figure of our own: room for numbers, or else for a line of text."""
    most = max(shape)
    if values or (values is None and most <= _FEW):
        return 0.36
    line = min(10.0, 5.5 + 60 / most) * _LINE / _INCH
    return min(max(line, 1 / most), (18 if labelled else 6) / most)


def _paint(ax: Any, matrix: Matrix, names: Names, palette: Any, top: float) -> float:
    """Draw the cells and the labels; return the side of a cell in inches."""
    box = ax.get_window_extent()
    cell: float = min(box.width / matrix.shape[1], box.height / matrix.shape[0]) / ax.figure.dpi
    ax.imshow(matrix, cmap=palette, vmin=0, vmax=top, interpolation="nearest", origin="upper", aspect="equal")
    ax.grid(visible=False)
    ax.spines[:].set(visible=True, color="0.6", linewidth=0.5)
    ax.tick_params(which="both", length=0, pad=3, top=True, bottom=False, left=True, right=False)
    ax.tick_params(labeltop=True, labelbottom=False, labelleft=True, labelright=False)
    for axis, labels, length in zip((ax.yaxis, ax.xaxis), names, matrix.shape, strict=True):
        _name(axis, labels, length, cell)
        if cell > 0.15:
            axis.set_ticks(np.arange(1, length) - 0.5, minor=True)
            axis.grid(which="minor", visible=True, color="white", linewidth=3 * cell, linestyle="-")
    return cell


def _name(axis: Any, names: list[str] | None, length: int, cell: float) -> None:
    """Label the positions: by names, as many as there is room for, or by round numbers."""
    size = min(10.0, max(5.0, cell * _INCH / _LINE))
    if names is None:
        size, names = max(7.0, size), [str(number) for number in range(length)]
        room = 1.4 * max(extent(names[-1], size), size / _INCH)
        step = next(n for power in range(12) for n in (10**power, 2 * 10**power, 5 * 10**power) if n * cell >= room)
    else:
        step = max(1, math.ceil(size * _LINE / _INCH / cell - 1e-6))
    places = range(0, length, step)
    axis.set_ticks(places, [names[place] for place in places], fontsize=size, parse_math=False, usetex=False)
    for label in axis.get_ticklabels():
        label.set_fontfamily(families(label.get_text()))
    if step > 1:
        axis.set_tick_params(length=2)  # which cells have labels
    if axis.axis_name == "x" and max(extent(names[place], size) for place in places) > 0.9 * cell * step:
        axis.set_tick_params(labelrotation=90)


def _write(ax: Any, matrix: Matrix, palette: Any, top: float, cell: float, smallest: int) -> None:
    """The numbers, black or white, whichever stands out; none where they would be below `smallest` points."""
    form = ".2f" if np.abs(matrix).max() < 10 else ".3g"
    texts = [["0" if weight == 0 else format(weight, form) for weight in line] for line in matrix]
    widest = max((text for line in texts for text in line), key=len)
    size = min(8.5, 0.86 * cell / extent(widest, 1))
    if size < smallest:
        return
    colours = palette(np.clip(matrix / top, 0, 1))[..., :3]
    linear = np.where(colours <= 0.04045, colours / 12.92, ((colours + 0.055) / 1.055) ** 2.4)
    bright = linear @ [0.2126, 0.7152, 0.0722] > 0.179  # where black has more contrast than white
    for (row, column), light in np.ndenumerate(bright):
        colour = "black" if light else "white"
        ax.text(column, row, texts[row][column], color=colour, fontsize=size, ha="center", va="center_baseline")


def _entitle(ax: Any, title: str, *, size: int, loc: str) -> None:
    text = "\n".join(printable(line, limit=None) for line in title.split("\n"))
    ax.set_title(text, fontsize=size, loc=loc, fontfamily=families(text), parse_math=False, usetex=False)


def _bar(ax: Any, height: float, width: float) -> None:
    """A colour bar beside `ax`, a matrix of `height` × `width` inches."""
    tall = max(height, 0.6)
    inset = ax.inset_axes((1 + 0.1 / width, 1 - tall / height, 0.12 / width, tall / height))
    _scale(ax.figure.colorbar(ax.images[-1], cax=inset), tall)


def _scale(bar: Any, height: float) -> None:
    ticker = require("matplotlib.ticker", extra="viz")
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=8, length=2, pad=2)
    bar.ax.yaxis.set_major_locator(ticker.LinearLocator(max(2, min(5, int(height / 0.3)))))  # both ends are told
    bar.ax.yaxis.set_major_formatter(ticker.FormatStrFormatter("%.2g"))


def _fit(figure: Any) -> None:
    """Grow the figure around its axes, whose size in inches stays, until all labels are inside."""
    old = figure.get_size_inches()
    box = figure.get_tightbbox(renderer(figure.dpi))
    corner, size = np.array([box.x0, box.y0]) - _PAD, np.array([box.width, box.height]) + 2 * _PAD
    for ax in figure.axes:
        place = ax.get_position(original=True)
        low, span = (np.array([place.x0, place.y0]) * old - corner) / size, np.array(place.size) * old / size
        ax.set_position((*low, *span))
    figure.set_size_inches(size)


def _panels(weights: Any) -> tuple[list[list[Matrix]], list[str]]:
    """The matrices, row by row, and a title for each."""
    if isinstance(weights, Mapping):
        named = {str(name): _numbers(array) for name, array in weights.items()}
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
    array = _numbers(weights)
    if array.ndim == 3:
        wide = len(array) if len(array) <= _WIDE else math.ceil(math.sqrt(len(array)))
        lines = [list(array[start : start + wide]) for start in range(0, len(array), wide)]
        return lines, [f"head {head}" for head in range(len(array))]
    if array.ndim == 4:
        titles = [f"layer {layer} · head {head}" for layer, head in np.ndindex(array.shape[:2])]
        return [list(layer) for layer in array], titles
    raise _misfit("weights have", array, "[h q k], [l h q k] or a mapping of names to [q k] or [h q k]")


def _misfit(what: str, array: Matrix, expected: str) -> ShapeError:
    cure = "use heatmap for one matrix" if array.ndim == 2 else "draw one item of a batch: weights[0]"
    raise ShapeError(f"{what} the wrong number of axes", got=f"shape {list(array.shape)}", expected=expected, cure=cure)


def _lay(
    grid: list[list[Matrix]], labels: list[Names], titles: list[str], figure: Any, palette: Any, top: float | None
) -> Grid:
    """Set the panels out, at one scale, with labels at the left and on top; blank places stay hidden."""
    high, wide = (max(matrix.shape[axis] for line in grid for matrix in line) for axis in (0, 1))
    cell = min(max(1.25 / max(high, wide), 7 * _LINE / _INCH), 2.5 / max(high, wide))
    figure.set_size_inches(wide * cell, high * cell)
    axes = np.empty((len(grid), max(map(len, grid))), dtype=object)
    panels, widest = zip(labels, titles, strict=True), 0.0
    for row, column in np.ndindex(axes.shape):
        if column >= len(grid[row]):
            axes[row, column] = figure.add_axes((0, 0, 1, 1), visible=False)
            continue
        matrix, (names, title) = grid[row][column], next(iter(panels))
        axes[row, column] = ax = figure.add_axes((0, 0, matrix.shape[1] / wide, matrix.shape[0] / high))
        _paint(ax, matrix, names, palette, _maximum(None, [matrix]) if top is None else top)
        same = row > 0 and column < len(grid[row - 1]) and grid[row - 1][column].shape[1] == matrix.shape[1]
        ax.tick_params(left=column == 0, labelleft=column == 0, top=not same, labeltop=not same)
        _entitle(ax, title, size=8, loc="left")
        lines = title.split("\n")[0 if column else -1 :]  # a name may run over the other panels of its row
        widest = max(widest, *(extent(printable(line, None), 8) for line in lines))
    _spread(figure, axes, max(0.15, widest - wide * cell + 0.12))
    if top is not None:
        _rail(figure, axes)
    _fit(figure)
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
    _scale(figure.colorbar(axes[0, 0].images[0], cax=rail), -floor * height)
