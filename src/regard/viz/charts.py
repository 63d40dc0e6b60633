"""What each glimpse is worth: the error of answers after one, two, … of them, and after how many a model stopped."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from regard.base import ConfigError, ShapeError
from regard.viz.curves import colour_of
from regard.viz.theme import DARK, LIGHT, Grid, Palette, entitle, headline, headroom, new_figure, panel, ticks

if TYPE_CHECKING:
    import matplotlib.axes

_HEIGHT, _LEFT, _BELOW = 1.7, 0.3, 0.42  # inches of a panel, beside and below it
_EACH, _LEAST = 0.42, 2.2  # inches of a glimpse, and of a panel at least


def glimpse_errors(
    errors: Any, *, stopped: Any = None, title: str | None = None, dark: bool = False, run: int = 0
) -> Grid:
    """Draw the error after each glimpse in per cent; beside it the share of pictures that took so many, if `stopped`.

    Both have a number for each glimpse. `run` says whose colour they have, where several runs are on one page.

    >>> axes = glimpse_errors([19.1, 6.4, 3.5], stopped=[10, 60, 30])
    >>> axes[0].lines[0].get_ydata().tolist(), [int(bar.get_height()) for bar in axes[1].patches]
    ([19.1, 6.4, 3.5], [10, 60, 30])
    """
    shown = {"error after each glimpse, %": _checked("errors", errors, None)}
    if stopped is not None:
        shown["pictures that took so many, %"] = _checked("stopped", stopped, len(errors))
    palette, head = DARK if dark else LIGHT, headroom(title)
    breadth = max(_LEAST, _EACH * len(errors))
    figure = new_figure(len(shown) * (_LEFT + breadth) + 0.15, head + _HEIGHT + _BELOW, palette)
    axes = np.empty(len(shown), dtype=object)
    for place, (name, values) in enumerate(shown.items()):
        axes[place] = ax = panel(figure, _LEFT + place * (_LEFT + breadth), head, breadth, _HEIGHT)
        entitle(ax, name, palette.ink, size=8.5)
        _draw(ax, values, palette, colour_of(run, dark=dark), bars=place == 1)
    headline(figure, title, _LEFT, palette)
    return axes


def _draw(
    ax: "matplotlib.axes.Axes", values: NDArray[np.float64], palette: Palette, colour: str, *, bars: bool
) -> None:
    across = np.arange(1, len(values) + 1)
    if bars:
        ax.bar(across, values, width=0.7, color=colour)
    else:
        ax.plot(across, values, "o-", color=colour, markersize=3.5, linewidth=1.4, clip_on=False)
    for x, value in zip(across, values, strict=True):
        ax.annotate(_short(value), (x, value), (0 if bars else -3, 4), textcoords="offset points", va="bottom",
                    ha="center" if bars else "left", fontsize=7, color=palette.ink)  # fmt: skip
    ax.set_xlim(0.4, len(values) + 0.6)
    ax.set_ylim(0, 1.18 * max(float(values.max()), 1e-3))
    ax.set_xticks(across)
    ticks(ax, palette, "glimpses")


def _short(value: float) -> str:
    """With as many places as matter: 19, 6.4, 1.06."""
    return f"{value:.0f}" if value >= 10 or value == 0 else f"{value:.1f}" if value >= 2 else f"{value:.2f}"


def _checked(name: str, given: Any, length: int | None) -> NDArray[np.float64]:
    values = np.asarray(given, dtype=np.float64)
    if values.ndim != 1 or not values.size or (length is not None and len(values) != length):
        expected = "a number for each glimpse" + ("" if length is None else f", {length} of them")
        raise ShapeError(name, got=list(values.shape), expected=expected)
    if not (np.isfinite(values).all() and values.min() >= 0 and values.max() <= 100):
        raise ConfigError(name, got=f"{values.min():g} to {values.max():g}", expected="per cent, 0 to 100")
    return values
