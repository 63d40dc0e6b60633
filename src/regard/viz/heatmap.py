"""The heat map of one matrix of weights, and the file that a drawing is saved to. No pyplot, no global state."""

import io
import math
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from regard.base import ConfigError, ShapeError, require, write_atomically
from regard.explanation.values import to_numpy
from regard.viz.fonts import extent, families, printable, renderer
from regard.viz.theme import LIGHT, darken

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.colors

Floats = NDArray[np.float64]
Grid = NDArray[Any]  # of Axes
Names = tuple[list[str] | None, list[str] | None]  # of rows and of columns

FORMATS = (".png", ".pdf", ".svg")
INCH = 72  # points
LINE = 1.25  # the pitch of lines over the font size: labels this far apart do not touch
_FEW = 12  # rows and columns that may hold numbers
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
    dark: bool = False,
) -> "matplotlib.axes.Axes":
    """Draw one matrix [q k]: `rows` label the queries from top to bottom, `columns` the keys, on top.

    Colours go from 0 (or below) to `maximum` (the largest weight); an exact zero reads "0", a rounded one "0.00".
    `values` writes the numbers: always, never, or (None) where they are few and fit. Without `ax` the figure
    is as large as the labels need; in a smaller `ax` every second, third… label is drawn. `dark` is for dark pages.

    >>> ax = heatmap([[0.9, 0.1], [0.2, 0.8]], rows=["la", "maison"], columns=["the", "house"])
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['la', 'maison']
    """
    matrix = as_numbers(weights)
    if matrix.ndim != 2:
        raise ShapeError(
            "heatmap draws one matrix",
            got=f"shape {list(matrix.shape)}",
            expected="[q k]",
            cure="use heatmaps for several heads, or pick one: weights[0]",
        )
    names = as_labels(rows, matrix.shape[0], "rows"), as_labels(columns, matrix.shape[1], "columns")
    top = largest(maximum, [matrix])
    colour_map = colour_map_of(cmap)
    fresh = ax is None
    if ax is None:
        cell = _cell(matrix.shape, values, labelled=names != (None, None))
        ax = empty_figure(cell * matrix.shape[1], cell * matrix.shape[0]).add_axes((0, 0, 1, 1))
    cell = paint(ax, matrix, names, colour_map, top)
    if values or (values is None and max(matrix.shape) <= _FEW):
        _write(ax, matrix, colour_map, top, cell, smallest=0 if values else 5)
    if title is not None:
        set_title(ax, title, size=11, loc="center")
    if colorbar:
        _bar(ax, matrix.shape[0] * cell, matrix.shape[1] * cell)
    if dark:
        darken([ax, *ax.child_axes], figure=fresh)
    if fresh:
        fit_figure(ax.figure)
    return ax


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


def as_numbers(weights: Any) -> Floats:
    """Arrays, tensors on any device and lists of both, as finite float64."""
    try:
        array = np.asarray(to_numpy(weights))
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


def listed(labels: Iterable[object] | None) -> list[object] | None:
    """The labels as a list, which can be counted and read twice."""
    return None if labels is None else list(labels)


def as_labels(labels: Iterable[object] | None, length: int, side: str) -> list[str] | None:
    """One drawable label for each row or column; None where there are none."""
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


def largest(maximum: int | float | None, matrices: list[Floats]) -> float:
    """The end of the colour scale: `maximum`, or the largest weight."""
    if maximum is None:
        return max(*(float(matrix.max()) for matrix in matrices), float(np.finfo(np.float32).tiny))
    if not 0 < maximum < math.inf:
        raise ConfigError("the colour scale starts at 0", got=f"maximum={maximum}", expected="a number above 0")
    return float(maximum)


def colour_map_of(cmap: "str | matplotlib.colors.Colormap") -> Any:
    """A colour map by name, or as it is."""
    if not isinstance(cmap, str):
        return cmap
    known = require("matplotlib", extra="viz").colormaps
    if cmap not in known:
        raise ConfigError("unknown colour map", got=repr(cmap), cure="choose from list(matplotlib.colormaps)")
    return known[cmap]


def empty_figure(width: int | float, height: int | float) -> Any:
    """A figure of so many inches, without axes."""
    return require("matplotlib.figure", extra="viz").Figure(figsize=(width, height), layout="none")


def _cell(shape: tuple[int, ...], values: bool | None, labelled: bool) -> float:
    """The side of a cell, in inches, in a figure of our own: room for numbers, or else for a line of text."""
    most = max(shape)
    if values or (values is None and most <= _FEW):
        return 0.36
    line = min(10.0, 5.5 + 60 / most) * LINE / INCH
    return min(max(line, 1 / most), (18 if labelled else 6) / most)


def paint(ax: Any, matrix: Floats, names: Names, colour_map: Any, top: float) -> float:
    """Draw the cells and the labels; return the side of a cell in inches."""
    box = ax.get_window_extent()
    cell: float = min(box.width / matrix.shape[1], box.height / matrix.shape[0]) / ax.figure.dpi
    ax.imshow(matrix, cmap=colour_map, vmin=0, vmax=top, interpolation="nearest", origin="upper", aspect="equal")
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
    size = min(10.0, max(5.0, cell * INCH / LINE))
    if names is None:
        size, names = max(7.0, size), [str(number) for number in range(length)]
        room = 1.4 * max(extent(names[-1], size), size / INCH)
        step = next(n for power in range(12) for n in (10**power, 2 * 10**power, 5 * 10**power) if n * cell >= room)
    else:
        step = max(1, math.ceil(size * LINE / INCH / cell - 1e-6))
    places = range(0, length, step)
    axis.set_ticks(places, [names[place] for place in places], fontsize=size, parse_math=False, usetex=False)
    for label in axis.get_ticklabels():
        label.set_fontfamily(families(label.get_text()))
    if step > 1:
        axis.set_tick_params(length=2)  # which cells have labels
    if axis.axis_name == "x" and max(extent(names[place], size) for place in places) > 0.9 * cell * step:
        axis.set_tick_params(labelrotation=90)


def _write(ax: Any, matrix: Floats, colour_map: Any, top: float, cell: float, smallest: int) -> None:
    """The numbers, black or white, whichever stands out; none where they would be below `smallest` points."""
    form = ".2f" if np.abs(matrix).max() < 10 else ".3g"
    texts = [["0" if weight == 0 else format(weight, form) for weight in line] for line in matrix]
    widest = max((text for line in texts for text in line), key=len)
    size = min(8.5, 0.86 * cell / extent(widest, 1))
    if size < smallest:
        return
    colours = colour_map(np.clip(matrix / top, 0, 1))[..., :3]
    linear = np.where(colours <= 0.04045, colours / 12.92, ((colours + 0.055) / 1.055) ** 2.4)
    bright = linear @ [0.2126, 0.7152, 0.0722] > 0.179  # where black has more contrast than white
    for (row, column), light in np.ndenumerate(bright):
        colour = "black" if light else "white"
        ax.text(column, row, texts[row][column], color=colour, fontsize=size, ha="center", va="center_baseline")


def set_title(ax: Any, title: str, *, size: int, loc: str) -> None:
    """A title in any script, which may have several lines."""
    text = "\n".join(printable(line, limit=None) for line in title.split("\n"))
    ax.set_title(text, fontsize=size, loc=loc, fontfamily=families(text), parse_math=False, usetex=False)


def name_axes(ax: Any, names: Sequence[str]) -> None:
    """Write what the rows and the columns of a matrix are beside their labels: ("translation", "source")."""
    if names:
        rows, columns = (printable(name, None) for name in names)
        quiet: dict[str, Any] = {"fontsize": 9, "color": LIGHT.soft, "labelpad": 6, "parse_math": False}
        ax.xaxis.set_label_position("top")
        ax.set_ylabel(f"← {rows}", rotation=90, fontfamily=families(rows), **quiet)
        ax.set_xlabel(f"{columns} →", fontfamily=families(columns), **quiet)


def _bar(ax: Any, height: float, width: float) -> None:
    """A colour bar beside `ax`, a matrix of `height` × `width` inches."""
    tall = max(height, 0.6)
    inset = ax.inset_axes((1 + 0.1 / width, 1 - tall / height, 0.12 / width, tall / height))
    scale_bar(ax.figure.colorbar(ax.images[-1], cax=inset), tall)


def scale_bar(bar: Any, height: float) -> None:
    """Quiet numbers and the name of what a colour bar of so many inches measures."""
    ticker = require("matplotlib.ticker", extra="viz")
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=8, length=2, pad=2)
    bar.set_label("weight", size=8, color=LIGHT.soft)
    bar.ax.yaxis.set_major_locator(ticker.LinearLocator(max(2, min(5, int(height / 0.3)))))  # both ends are told
    bar.ax.yaxis.set_major_formatter(ticker.FormatStrFormatter("%.2g"))


def fit_figure(figure: Any) -> None:
    """Grow the figure around its axes, whose size in inches stays, until all labels are inside."""
    old = figure.get_size_inches()
    box = figure.get_tightbbox(renderer(figure.dpi))
    corner, size = np.array([box.x0, box.y0]) - _PAD, np.array([box.width, box.height]) + 2 * _PAD
    for ax in figure.axes:
        place = ax.get_position(original=True)
        low, span = (np.array([place.x0, place.y0]) * old - corner) / size, np.array(place.size) * old / size
        ax.set_position((*low, *span))
    figure.set_size_inches(size)
