"""What drawings on pictures have in common: pixels from any array, palette and ink, panels of one size."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.base import ConfigError, ShapeError, require
from regard.explanation.values import to_numpy
from regard.viz.fonts import extent, families, printable

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

Pixels = NDArray[np.float64]
Grid = NDArray[Any]  # of Axes


class Palette(NamedTuple):
    """Colours of one drawing: the ground, words, lesser words, lines, what is not there, and weights."""

    ground: str
    ink: str
    soft: str
    rule: str
    empty: str
    heat: str


LIGHT = Palette("#ffffff", "#262626", "#6e6e6e", "#dedede", "#ececec", "#005c9e")
DARK = Palette("#1a1d21", "#e7e8e6", "#9ba1a8", "#33373d", "#33373d", "#78befa")


def as_picture(image: Any) -> Pixels:
    """Pixels [h w 3] between 0 and 1, of a grey or coloured picture: [h w], [h w c] or [c h w], bytes or 0 to 1.

    >>> as_picture(np.full((2, 3), 255, dtype=np.uint8)).shape
    (2, 3, 3)
    """
    image = to_numpy(image)
    array = np.asarray(image)
    if array.ndim == 3 and array.shape[0] in (1, 3) and array.shape[2] not in (1, 3):
        array = array.transpose(1, 2, 0)
    if array.ndim == 2:
        array = array[..., None]
    if array.ndim != 3 or array.shape[2] not in (1, 3) or not array.size:
        raise ShapeError(
            "this is no picture",
            got=f"shape {list(np.shape(image))}",
            expected="[h w], [h w 3] or [3 h w]",
            cure="draw one of a batch: images[0]",
        )
    if array.dtype != np.uint8 and not np.can_cast(array.dtype, np.float64, "same_kind"):
        raise ShapeError("a picture is made of numbers", got=array.dtype)
    pixels = array / 255.0 if array.dtype == np.uint8 else array.astype(np.float64)
    low, high = float(pixels.min()), float(pixels.max())
    if not -1e-4 <= low <= high <= 1 + 1e-4:  # NaN is refused too
        raise ConfigError(
            "pixels are out of range",
            got=f"{low:.3g} to {high:.3g}",
            expected="0 to 1, or bytes",
            cure="undo the normalisation: image * std + mean",
        )
    return np.repeat(np.clip(pixels, 0, 1), 3 // pixels.shape[2], axis=2)


def new_figure(width: int | float, height: int | float, palette: Palette) -> "matplotlib.figure.Figure":
    """An empty figure of so many inches."""
    figure: matplotlib.figure.Figure = require("matplotlib.figure", extra="viz").Figure(
        figsize=(width, height), layout="none", facecolor=palette.ground
    )
    return figure


def panel(
    figure: "matplotlib.figure.Figure",
    left: int | float,
    top: int | float,
    width: int | float,
    height: int | float,
) -> "matplotlib.axes.Axes":
    """Axes in inches from the left and from the top, without ticks."""
    across, up = figure.get_size_inches()
    ax = figure.add_axes((left / across, 1 - (top + height) / up, width / across, height / up))
    ax.set_xticks([])
    ax.set_yticks([])
    return ax


def frame(ax: "matplotlib.axes.Axes", colour: str, width: int | float = 0.6) -> None:
    """A line of one colour around the panel."""
    ax.spines[:].set(visible=True, color=colour, linewidth=width)


def words(text: str, limit: int | None = None) -> dict[str, Any]:
    """Text of any script as it is, ready for `Text.set`: no formulas."""
    shown = "\n".join(printable(line, limit) for line in text.split("\n"))
    return {"text": shown, "fontfamily": families(shown), "parse_math": False, "usetex": False}


def fitted(text: str, size: int | float, inches: int | float) -> float:
    """Points at which a line is no wider than so many inches: `size`, or as few as it must be, down to four."""
    return max(4.0, size * min(1.0, inches / max(extent(printable(text), size), 1e-6)))


def entitle(ax: "matplotlib.axes.Axes", text: str, colour: str, *, size: int | float = 9, pad: int | float = 4) -> None:
    """A title at the left, no wider than the panel."""
    points = fitted(text, size, breadth(ax))
    ax.set_title(".", loc="left", fontsize=points, color=colour, pad=pad).set(**words(text))


def breadth(ax: "matplotlib.axes.Axes") -> float:
    """The width of a panel in inches."""
    figure: Any = ax.figure
    return float(ax.get_position(original=True).width * figure.get_figwidth())


def headroom(title: str | None) -> float:
    """Inches above the panels: for their own titles, and for that of the figure."""
    return 0.28 if title is None else 0.38 + 0.18 * (1 + title.count("\n"))


def headline(figure: "matplotlib.figure.Figure", title: str | None, left: float, palette: Palette) -> None:
    """The title of the figure, so many inches from the left; it may have lines."""
    if title is not None:
        x, y = left / figure.get_figwidth(), 1 - 0.1 / figure.get_figheight()
        figure.text(x, y, ".", va="top", color=palette.ink, fontsize=10.5).set(**words(title))


def ticks(ax: "matplotlib.axes.Axes", palette: Palette, across: str) -> None:
    """Quiet axes for numbers: lines across, and what runs along the bottom in words."""
    ax.set_facecolor(palette.ground)
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set(color=palette.rule, linewidth=0.8)
    ax.grid(axis="y", color=palette.rule, linewidth=0.5)
    ax.set_axisbelow(True)
    ax.tick_params(length=0, labelsize=7.5, labelcolor=palette.soft, pad=3)
    ax.tick_params(axis="x", pad=5)
    ax.locator_params(axis="y", nbins=4)
    note(ax, across, (1, 0), (0, -15), "top", palette)


def note(
    ax: "matplotlib.axes.Axes", text: str, corner: tuple[int, int], move: tuple[int, int], side: str, palette: Palette
) -> None:
    """Lesser words at a corner of the panel, moved by so many points."""
    said = ax.annotate(text, corner, move, xycoords="axes fraction", textcoords="offset points", annotation_clip=False)
    said.set(fontsize=7.5, color=palette.soft, ha="right", va=side)


def blank_drawing(title: str, text: str, palette: Palette) -> "matplotlib.axes.Axes":
    """A drawing that says in words why there is nothing to see."""
    head = headroom(title or None)
    width = max(2.4, 0.3 + extent(printable(title or "x", None), 10.5))
    figure = new_figure(width, head + 0.5, palette)
    ax = panel(figure, 0.12, head, width - 0.24, 0.36)
    ax.set_facecolor(palette.ground)
    frame(ax, palette.rule)
    ax.text(0.5, 0.5, text, ha="center", va="center", color=palette.soft, fontsize=9, transform=ax.transAxes)
    headline(figure, title or None, 0.12, palette)
    return ax


def darken(axes: Iterable[Any], *, figure: bool = True) -> None:
    """Turn drawn axes, and with `figure` the whole page that they are on, from light to dark."""
    text = require("matplotlib.text", extra="viz").Text
    for ax in axes:
        ax.spines[:].set_color(DARK.rule)
        ax.tick_params(which="both", labelcolor=DARK.ink, color=DARK.soft, grid_color=DARK.ground)
        for axis in (ax.xaxis, ax.yaxis):
            axis.label.set_color(DARK.soft)
        for child in ax.get_children():
            if isinstance(child, text) and child not in ax.texts:  # titles; numbers inside keep their contrast
                child.set_color(DARK.ink)
        if figure:
            ax.figure.figure.set_facecolor(DARK.ground)
