"""Charts of runs: a value for each label, such as the error after each glimpse, for one run or for several at once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from regard.base import ConfigError, ShapeError, shown
from regard.viz.curves import colour_of, finite, labelled_curves
from regard.viz.theme import DARK, LIGHT, Grid, Palette, entitle, headline, headroom, new_figure, panel, ticks

if TYPE_CHECKING:
    import matplotlib.axes

_HEIGHT, _LEFT, _BELOW = 1.7, 0.3, 0.42  # inches of a panel, beside and below it
_EACH, _LEAST = 0.42, 2.2  # inches of a glimpse, and of a panel at least


@dataclass(frozen=True)
class Chart:
    """Values of one run by label: BLEU by length of the source, or the error after each glimpse.

    `x` and `y` name the axes; `points` are (label, value, count), of which value and count may be None: a gap, and a
    number of examples that nobody counted.

    >>> Chart("Error", "glimpses", "error, %", points=[("1", 19.1, None), ("2", 6.4, None)]).points[1]
    ('2', 6.4, None)
    """

    title: str
    x: str
    y: str
    points: Sequence[Sequence[Any]] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "points", tuple(_point(self.title, point) for point in self.points))

    @property
    def axis(self) -> tuple[tuple[str, int | None], ...]:
        """Labels and counts: charts of several runs share a figure where these are the same."""
        return tuple((label, count) for label, _, count in self.points)

    @property
    def empty(self) -> bool:
        """True when no point has a value."""
        return all(value is None for _, value, _ in self.points)


def chart_curves(
    charts: Mapping[str, Chart | None], *, ax: "matplotlib.axes.Axes | None" = None, title: str | None = None
) -> "matplotlib.axes.Axes":
    """Draw the same chart of several runs in one figure. A run with None keeps its colour for the next figure.

    >>> two = {"RAM": Chart("Error", "glimpses", "error, %", [("1", 19.1, None), ("2", 6.4, None)]), "DRAM": None}
    >>> chart_curves(two).lines[0].get_ydata().tolist()
    [19.1, 6.4]
    """
    drawn = {name: chart for name, chart in charts.items() if chart is not None and not chart.empty}
    if not drawn:
        raise ConfigError("there is nothing to draw", got="no chart with a value", expected="name → Chart")
    (first, reference), *others = drawn.items()
    for name, chart in others:
        if (chart.title, chart.x, chart.y, chart.axis) != (reference.title, reference.x, reference.y, reference.axis):
            got = f"{shown(chart.title)} of {shown(name)} beside {shown(reference.title)} of {shown(first)}"
            cure = "draw charts with other labels or counts apart"
            raise ConfigError("these charts do not share their axes", got=got, cure=cure)
    lines = {name: list(chart.points) if chart is not None else [] for name, chart in charts.items()}
    return labelled_curves(lines, x=reference.x, y=reference.y, ax=ax, title=title)  # type: ignore[arg-type]


def glimpse_errors(
    errors: Any, *, stopped: Any = None, title: str | None = None, dark: bool = False, run: int = 0
) -> Grid:
    """Draw the error after each glimpse in per cent; beside it the share of pictures that took so many, if `stopped`.

    Both have a number for each glimpse. `run` says whose colour they have, where several runs are on one page.

    >>> axes = glimpse_errors([19.1, 6.4, 3.5], stopped=[10, 60, 30])
    >>> axes[0].lines[0].get_ydata().tolist(), [int(bar.get_height()) for bar in axes[1].patches]
    ([19.1, 6.4, 3.5], [10, 60, 30])
    """
    drawn = {"error after each glimpse, %": _checked("errors", errors, None)}
    if stopped is not None:
        drawn["pictures that took so many, %"] = _checked("stopped", stopped, len(errors))
    palette, head = DARK if dark else LIGHT, headroom(title)
    breadth = max(_LEAST, _EACH * len(errors))
    figure = new_figure(len(drawn) * (_LEFT + breadth) + 0.15, head + _HEIGHT + _BELOW, palette)
    axes = np.empty(len(drawn), dtype=object)
    for place, (name, values) in enumerate(drawn.items()):
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


def _checked(name: str, numbers: Any, length: int | None) -> NDArray[np.float64]:
    values = np.asarray(numbers, dtype=np.float64)
    if values.ndim != 1 or not values.size or (length is not None and len(values) != length):
        expected = "a number for each glimpse" + ("" if length is None else f", {length} of them")
        raise ShapeError(name, got=list(values.shape), expected=expected)
    if not (np.isfinite(values).all() and values.min() >= 0 and values.max() <= 100):
        raise ConfigError(name, got=f"{values.min():g} to {values.max():g}", expected="per cent, 0 to 100")
    return values


def _point(title: str, point: Sequence[Any]) -> tuple[str, float | None, int | None]:
    """A triple, checked; a value that is not finite is None."""
    if isinstance(point, str) or len(point) != 3:
        expected = "(label, value, count)"
        raise ConfigError(f"a point of the chart {shown(title)} is not a triple", got=shown(point), expected=expected)
    label, value, count = point
    return str(label), finite(value), None if count is None else int(count)
