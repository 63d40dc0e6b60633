"""Gates of Squeeze-and-Excitation: how open each channel is, by layer and class (Hu et al. 2018, section 7).

Gates come by layer, [n c] for n pictures and c channels: what `SENet.gates` gives.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from regard.base import ConfigError, ShapeError
from regard.explanation.gates import Gates
from regard.explanation.values import to_numpy
from regard.viz.curves import COLOURS, DASHES, ON_DARK, colour_of
from regard.viz.fonts import extent, printable
from regard.viz.theme import (
    DARK,
    LIGHT,
    Grid,
    Palette,
    blank_drawing,
    entitle,
    headline,
    headroom,
    new_figure,
    note,
    ticks,
    words,
)

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

Layers = dict[str, NDArray[np.float64]]
_WIDTH, _HEIGHT = 2.5, 1.35  # inches of a panel
_SIDE, _ABOVE, _BELOW = 0.46, 0.3, 0.36  # inches around it, for numbers and names
_BESIDE = 0.22  # of a panel: the histogram beside the profile
_BINS = 25
_FEW = 4  # classes that are drawn unless told
_LINE, _LONG = 0.19, 20  # inches of a line of the legend, letters of a name in it


def draw(gates: Gates, *, dark: bool = False) -> Grid:
    """Draw each layer: the mean gate of each channel by class, and beside it how many gates are how open.

    Returns the axes [layers 2]: the profile, and its histogram on end.
    """
    palette = DARK if dark else LIGHT
    layers = {name: values for name, values in gates.values.items() if values.size}
    if not layers:
        return np.array([[blank_drawing(gates.title, "no gates", palette)] * 2], dtype=object)
    classes = gates.classes or [str(kind) for kind in range(int(gates.labels.max()) + 1)]
    profiles = gate_profiles(layers, gates.labels, classes=classes, title=gates.title or None, dark=dark)
    axes = np.empty((len(layers), 2), dtype=object)
    for place, values in enumerate(layers.values()):
        axes[place] = profiles.flat[place], _beside(profiles.flat[place], values, palette)
    return axes


def gate_profiles(
    gates: Mapping[str, Any],
    labels: Any,
    *,
    classes: Sequence[str] | None = None,
    show: Sequence[int] | None = None,
    columns: int = 3,
    title: str | None = None,
    dark: bool = False,
) -> Grid:
    """Draw the mean gate of each channel, a panel for each layer: a line for each class, a thick one for all pictures.

    `labels` [n] says the class of each picture, `classes` what they are called, and `show` which are drawn: the first
    four that there are, or up to eight. Lines that lie together mean that a layer treats all classes alike.

    >>> axes = gate_profiles({"stages.0.0": np.full((4, 16), 0.5)}, [0, 0, 1, 1], classes=["cat", "dog"])
    >>> [line.get_label() for line in axes[0, 0].lines]
    ['cat', 'dog', 'all']
    """
    layers, palette = _checked(gates), DARK if dark else LIGHT
    kinds = _labels(labels, len(next(iter(layers.values()))))
    chosen = _chosen(kinds, show)
    names = [str(kind) if classes is None else _name(classes, kind) for kind in chosen]
    axes, figure = _panels(layers, columns, palette, title, legend=[*names, "all"])
    colours = ON_DARK if dark else COLOURS
    for ax, values in zip(axes.flat, layers.values(), strict=False):
        channels = np.arange(values.shape[1])
        for place, (kind, name) in enumerate(zip(chosen, names, strict=True)):
            style: dict[str, Any] = {
                "color": colours[place],
                "linestyle": DASHES[place % len(DASHES)],
                "linewidth": 1.1,
            }
            ax.plot(channels, values[kinds == kind].mean(0), label=name, zorder=3, **style)
        ax.plot(channels, values.mean(0), label="all", color=palette.ink, linewidth=1.9, alpha=0.75, zorder=2)
        ax.set_xlim(-0.5, len(channels) - 0.5)
        ax.set_ylim(0, 1)
        ticks(ax, palette, "channel")
    _legend(figure, axes.flat[0].lines, [*names, "all"], palette)
    return axes


def gate_histograms(
    gates: Mapping[str, Any],
    *,
    bins: int = 25,
    columns: int = 3,
    title: str | None = None,
    dark: bool = False,
    run: int = 0,
) -> Grid:
    """Draw how many gates are how open, a panel for each layer, with a line at their mean.

    Above stands by how much a gate varies from picture to picture (the mean over channels of its deviation):
    near 0 the gates are fixed numbers, and the layer attends to nothing. `run` says whose colour they have, where
    several runs are on one page.

    >>> axes = gate_histograms({"stages.0.0": np.full((4, 16), 0.5)})
    >>> axes[0, 0].texts[0].get_text()
    '±0.000 by picture'
    """
    layers, palette = _checked(gates), DARK if dark else LIGHT
    if bins < 1:
        raise ConfigError("bins", got=bins, expected="1 or more")
    axes, _ = _panels(layers, columns, palette, title, legend=[])
    fill = colour_of(run, dark=dark)
    for ax, values in zip(axes.flat, layers.values(), strict=False):
        shares, edges = np.histogram(values, bins=bins, range=(0, 1))
        ax.bar(edges[:-1], shares / values.size, width=1 / bins, align="edge", color=fill, linewidth=0)
        ax.axvline(values.mean(), color=palette.ink, linewidth=1.0, linestyle=(0, (3, 2)))
        note(ax, f"±{values.std(0).mean():.3f} by picture", (1, 1), (0, 4), "baseline", palette)
        ax.set_xlim(0, 1)
        ticks(ax, palette, "gate")
    return axes


def _beside(ax: "matplotlib.axes.Axes", values: NDArray[np.float64], palette: Palette) -> "matplotlib.axes.Axes":
    """A histogram on end in the right part of a panel, at the same height as the profile's gates."""
    figure: Any = ax.figure
    place = ax.get_position(original=True)
    wide = place.width * _BESIDE
    ax.set_position((place.x0, place.y0, place.width - wide, place.height))
    side: matplotlib.axes.Axes = figure.add_axes((place.x1 - 0.9 * wide, place.y0, 0.9 * wide, place.height), sharey=ax)
    counts, edges = np.histogram(values, bins=_BINS, range=(0, 1))
    side.barh(edges[:-1], counts / counts.max(), height=1 / _BINS, align="edge", color=palette.heat, linewidth=0)
    side.axhline(values.mean(), color=palette.ink, linewidth=1.0, linestyle=(0, (3, 2)))
    side.set_facecolor(palette.ground)
    side.set_xlim(0, 1.02)
    side.set_xticks([])
    side.tick_params(length=0, labelleft=False)
    side.spines[["top", "right", "bottom"]].set_visible(False)
    side.spines["left"].set(color=palette.rule, linewidth=0.8)
    note(side, f"±{values.std(0).mean():.3f} by picture", (1, 1), (0, 4), "baseline", palette)
    return side


def _checked(gates: Mapping[str, Any]) -> Layers:
    layers = {}
    for name, values in gates.items():
        array = np.asarray(to_numpy(values), dtype=np.float64)
        if array.ndim != 2 or not array.size:
            raise ShapeError(f"gates of {name!r}", got=f"shape {list(array.shape)}", expected="[pictures channels]")
        if not ((array >= 0) & (array <= 1)).all():
            raise ConfigError(f"gates of {name!r}", got="numbers beyond 0 and 1", expected="what a sigmoid gives")
        layers[str(name)] = array
    if not layers:
        raise ShapeError("there is nothing to draw", got="no layers", expected="name → gates [n c]")
    if len({len(array) for array in layers.values()}) > 1:
        got = ", ".join(str(len(array)) for array in layers.values())
        raise ShapeError("layers have different numbers of pictures", got=got, expected="one batch")
    return layers


def _labels(labels: Any, count: int) -> NDArray[np.int64]:
    array = np.asarray(to_numpy(labels))
    if array.shape != (count,) or not np.issubdtype(array.dtype, np.integer):
        got = f"{array.dtype} of shape {list(array.shape)}"
        raise ShapeError("each picture needs the number of its class", got=got, expected=f"[{count}]")
    return array.astype(np.int64)


def _chosen(kinds: NDArray[np.int64], show: Sequence[int] | None) -> list[int]:
    there = sorted(set(kinds.tolist()))
    chosen = there[:_FEW] if show is None else [int(kind) for kind in show]
    if missing := [kind for kind in chosen if kind not in there]:
        raise ConfigError("no picture is of this class", got=missing[0], expected=f"some of {there}")
    if not 1 <= len(chosen) <= len(COLOURS):
        raise ConfigError("classes to show", got=len(chosen), expected=f"1 to {len(COLOURS)}")
    return chosen


def _name(classes: Sequence[str], kind: int) -> str:
    if not 0 <= kind < len(classes):
        raise ConfigError("a class has no name", got=kind, expected=f"0 to {len(classes) - 1}")
    return str(classes[kind])


def _panels(
    layers: Layers, columns: int, palette: Palette, title: str | None, *, legend: list[str]
) -> tuple[Grid, "matplotlib.figure.Figure"]:
    """A grid of panels, each with the name of its layer; what is left over is hidden."""
    if columns < 1:
        raise ConfigError("columns", got=columns, expected="1 or more")
    across = min(columns, len(layers))
    lines = -(-len(layers) // across)
    width = across * (_SIDE + _WIDTH) + 0.15
    head = headroom(title)
    foot = _LINE * -(-len(legend) // _fitting(legend, width)) if legend else 0.0
    height = head + lines * (_ABOVE + _HEIGHT + _BELOW) - _ABOVE + 0.12 + foot
    figure = new_figure(width, height, palette)
    axes = np.empty((lines, across), dtype=object)
    names = [*layers, *[""] * (lines * across - len(layers))]
    for place, name in enumerate(names):
        row, column = divmod(place, across)
        left, top = _SIDE + column * (_SIDE + _WIDTH), head + row * (_ABOVE + _HEIGHT + _BELOW)
        ax = figure.add_axes((left / width, 1 - (top + _HEIGHT) / height, _WIDTH / width, _HEIGHT / height))
        ax.set_visible(place < len(layers))
        if place < len(layers):
            entitle(ax, name, palette.ink, size=8.5)
        axes[row, column] = ax
    headline(figure, title, _SIDE, palette)
    return axes, figure


def _fitting(names: list[str], width: float) -> int:
    """How many names fit beside each other in the legend."""
    widest = max(extent(printable(name, _LONG), 8.5) for name in names)
    return max(1, min(len(names), int((width - _SIDE) / (widest + 0.5))))


def _legend(figure: "matplotlib.figure.Figure", handles: Any, names: list[str], palette: Palette) -> None:
    legend = figure.legend(
        list(handles),
        ["."] * len(names),  # a name may begin with "_", which matplotlib would leave out
        loc="lower left",
        bbox_to_anchor=(_SIDE / figure.get_figwidth(), 0.0),
        ncols=_fitting(names, float(figure.get_figwidth())),
        frameon=False,
        fontsize=8.5,
        labelcolor=palette.ink,
        handlelength=2.2,
        columnspacing=1.2,
        borderaxespad=0.1,
        borderpad=0,
    )
    for text, name in zip(legend.get_texts(), names, strict=True):
        text.set(**words(name, _LONG))
