"""Weights on the edges of a graph: nodes on a circle, or sources beside targets; lines as strong as their weight."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from regard.base import ConfigError, require
from regard.explanation.edges import EdgeWeights
from regard.viz.fonts import extent, printable
from regard.viz.theme import DARK, LIGHT, Grid, Palette, blank_drawing, headline, headroom, new_figure, panel, words

if TYPE_CHECKING:
    import matplotlib.axes

Floats = NDArray[np.float64]
_RADIUS, _LEAST, _WIDEST = 1.25, 0.7, 2.0  # inches of the circle; of one with two nodes, and of one with very many
_ROW = 0.2  # inches between nodes of one side
_GAP = 0.15
_RING = 0.09  # inches: the radius of an edge from a node to itself
_ACROSS = 4  # heads in one row
_MOST = 12  # heads that are drawn
_NAMED = 120  # nodes that have room for a name
_ARROWS = 400  # edges that have room for an arrow
_SPOKES = 14  # nodes from which on names stand along the radius
_LONG = 26  # letters of a name


def draw(edges: EdgeWeights, *, dark: bool = False, ax: "matplotlib.axes.Axes | None" = None) -> Any:
    """Draw the graph, or one for each head; `ax` is for weights without heads. Returns the axes.

    A line goes from the source to the target, which attends to it. Its width and its strength are its weight, as a
    share of the largest one of its head.

    >>> draw(EdgeWeights([0.7, 0.3], [1, 2], [0, 0], ["paper", "cites", "is cited"])).texts[0].get_text()
    'paper'
    """
    palette = DARK if dark else LIGHT
    if not edges.nodes:
        return blank_drawing(edges.title, "no nodes", palette)
    places, size = _laid_out(edges)
    if edges.weights.ndim == 1:
        if ax is None:
            ax = _panels(edges, 1, size, palette)[0]
        else:
            ax.set_xlim(-size[0] - _margin(edges), size[0] + _margin(edges))
            ax.set_ylim(-size[1] - 0.32, size[1] + 0.32)
        _graph(ax, edges, edges.weights, places, size, palette)
        return ax
    if ax is not None:
        got, cure = f"{len(edges.weights)} heads", "leave ax out, or draw one head"
        raise ConfigError("several heads do not fit into one ax", got=got, cure=cure)
    if not len(edges.weights):
        return blank_drawing(edges.title, "no heads", palette)
    axes = _panels(edges, min(len(edges.weights), _MOST), size, palette)
    for head, (each, weights) in enumerate(zip(axes, edges.weights, strict=False)):
        _graph(each, edges, weights, places, size, palette)
        more = f", of {len(edges.weights)}" if len(edges.weights) > len(axes) and head == len(axes) - 1 else ""
        each.set_title(f"head {head}{more}", loc="left", fontsize=9, color=palette.soft, pad=4)
    return axes


def _laid_out(edges: EdgeWeights) -> tuple[Floats, Floats]:
    """The places of the nodes in inches, and the width and height of half of the drawing without names."""
    places = edges.layout()
    sides = [np.count_nonzero(places[:, 0] == side) for side in (-1.0, 1.0)]
    if sum(sides) == len(places) and len(places) > 2:  # sources beside targets
        size = np.array([1.1, max(0.5, _ROW * max(sides) / 2)])
    else:
        radius = _LEAST if len(places) <= 2 else min(_WIDEST, max(_RADIUS, 0.1 * len(places) / (2 * np.pi)))
        size = np.full(2, radius)
    return places * size, size


def _margin(edges: EdgeWeights) -> float:
    """Inches for the longest name, beside a node."""
    if len(edges.nodes) > _NAMED:
        return 0.15
    return 0.2 + max(extent(printable(name, _LONG), _points(edges)) for name in edges.nodes)


def _points(edges: EdgeWeights) -> float:
    return 9.0 if len(edges.nodes) <= _SPOKES else 7.5 if len(edges.nodes) <= 50 else 6.0


def _panels(edges: EdgeWeights, count: int, size: Floats, palette: Palette) -> Grid:
    """One panel for each head, at one scale: an inch of data is an inch on paper."""
    margin = _margin(edges)
    circle = not _beside(edges)
    spokes = circle and len(edges.nodes) > _SPOKES
    wide, high = 2 * (size[0] + margin), 2 * (size[1] + (margin if spokes else 0.32 if circle else 0.1))
    across = min(count, _ACROSS)
    lines = -(-count // across)
    named = edges.weights.ndim == 2
    head = headroom(edges.title or None) - (0.0 if named else 0.2)
    figure = new_figure(across * (wide + _GAP) + _GAP, head + lines * (high + 0.3) - 0.3 + _GAP, palette)
    axes: Grid = np.empty(count, dtype=object)
    for place in range(count):
        row, column = divmod(place, across)
        axes[place] = panel(figure, _GAP + column * (wide + _GAP), head + row * (high + 0.3), wide, high)
        axes[place].set_xlim(-wide / 2, wide / 2)
        axes[place].set_ylim(-high / 2, high / 2)
    headline(figure, edges.title or None, _GAP, palette)
    return axes


def _beside(edges: EdgeWeights) -> bool:
    """Whether sources stand on the left and targets on the right."""
    return len(edges.nodes) > 2 and bool((np.abs(edges.layout()[:, 0]) == 1.0).all())


def _graph(
    ax: "matplotlib.axes.Axes", edges: EdgeWeights, weights: Floats, places: Floats, size: Floats, palette: Palette
) -> None:
    ax.set_axis_off()
    ax.set_aspect("equal")
    _lines(ax, edges, weights, places, palette)
    strength = np.zeros(len(places))  # how much each node gives, all edges together
    np.add.at(strength, edges.sources, np.abs(weights))
    room = 72 * 2 * np.pi * size.max() / max(len(places), 1)  # points from node to node
    dots = np.minimum(16 + 60 * strength / max(float(strength.max(initial=0)), 1e-12), (0.8 * room) ** 2)
    dots[np.flatnonzero(_central(places))] = 0  # its name stands there
    style: dict[str, Any] = {"edgecolors": palette.ground, "linewidths": min(0.8, room / 8), "zorder": 3}
    ax.scatter(places[:, 0], places[:, 1], s=dots, color=palette.ink, **style)
    if len(places) <= _NAMED:
        own = np.zeros(len(places))
        loops = edges.sources == edges.targets
        np.maximum.at(own, edges.targets[loops], np.abs(weights[loops]))
        for node, place in enumerate(places):
            _name(ax, node, place, edges, float(own[node] / max(np.abs(weights).max(initial=0), 1e-12)), palette)


def _lines(ax: "matplotlib.axes.Axes", edges: EdgeWeights, weights: Floats, places: Floats, palette: Palette) -> None:
    """The edges, the weakest first; very many are drawn without arrows, and a node's edge to itself is a ring."""
    shares = np.abs(weights) / max(float(np.abs(weights).max(initial=0)), 1e-12)
    order = np.argsort(shares, kind="stable")
    if len(weights) > _ARROWS:
        lines = np.stack([places[edges.sources], places[edges.targets]], axis=1)[order]
        collections, colours = (require(f"matplotlib.{name}", extra="viz") for name in ("collections", "colors"))
        tints = [colours.to_rgba(palette.heat, share**2) for share in shares[order]]
        ax.add_collection(collections.LineCollection(lines, linewidths=0.2 + shares[order], colors=tints, zorder=1))
        return
    patches = require("matplotlib.patches", extra="viz")
    central = _central(places)
    for edge in order:
        source, target = edges.sources[edge], edges.targets[edge]
        share, start, end = float(shares[edge]), places[source], places[target]
        style: dict[str, Any] = {"color": palette.heat, "alpha": 0.22 + 0.78 * share, "linewidth": 0.5 + 2.7 * share}
        if source == target:
            if not central[target]:  # there, the frame of the name is the ring
                ax.add_patch(patches.Circle(tuple(start), _RING, fill=False, zorder=2, **style))
            continue
        shrink = _pill(edges, int(target), end - start) if central[target] else 5.0
        head = 3 + 5 * share
        arrow = patches.FancyArrowPatch(
            start, end, arrowstyle=f"-|>,head_length={head / 2:.2f},head_width={head / 4:.2f}", mutation_scale=1.6,
            connectionstyle=f"arc3,rad={0.0 if central.any() else 0.12}", shrinkA=4, shrinkB=shrink, joinstyle="miter",
            zorder=1, **style,
        )  # fmt: skip
        ax.add_patch(arrow)


def _central(places: Floats) -> NDArray[np.bool_]:
    """Which nodes stand in the middle of the others: one, or none."""
    middle: NDArray[np.bool_] = (np.hypot(*places.T) < 1e-9) & (len(places) > 1)
    return middle


def _pill(edges: EdgeWeights, node: int, way: Floats) -> float:
    """Points from the middle of a name to its frame, for an arrow that comes this way."""
    width, height = extent(printable(edges.nodes[node], _LONG), _points(edges)) / 2 + 0.1, 0.15
    across, down = np.abs(way) / np.hypot(*way)
    return 72 * float(min(width / max(across, 1e-9), height / max(down, 1e-9))) + 2


def _name(
    ax: "matplotlib.axes.Axes", node: int, place: Floats, edges: EdgeWeights, own: float, palette: Palette
) -> None:
    """A name outside of its node, as seen from the middle; along the radius where the nodes are many.

    The node in the middle is its name in a frame, as strong as what the node takes from itself, its `own` share.
    """
    x, y = place
    style: dict[str, Any] = {"fontsize": _points(edges), "color": palette.ink, "zorder": 4}
    radius, off = float(np.hypot(x, y)), _RING + 0.06
    if _beside(edges):
        side = "left" if x > 0 else "right"
        text = ax.text(x + (off if x > 0 else -off), y, ".", ha=side, va="center", **style)
    elif radius < 1e-9:
        edge = {"edgecolor": palette.heat, "linewidth": 0.5 + 2.7 * own} if own else {"edgecolor": palette.soft}
        box = {"boxstyle": "round,pad=0.35", "facecolor": palette.ground, **edge}
        text = ax.text(x, y, ".", ha="center", va="center", bbox=box, **style)
    elif len(edges.nodes) > _SPOKES:
        angle = float(np.degrees(np.arctan2(y, x)))
        turned = angle + 180 if abs(angle) > 90 else angle
        x, y = place * (1 + off / radius)
        side = "right" if abs(angle) > 90 else "left"
        text = ax.text(x, y, ".", ha=side, va="center", rotation=turned, rotation_mode="anchor", **style)
    else:
        x, y = place * (1 + off / radius)
        across = place[0] / radius
        side = "center" if abs(across) < 0.25 else "left" if across > 0 else "right"
        level = "center" if side != "center" else "bottom" if y > 0 else "top"
        text = ax.text(x, y, ".", ha=side, va=level, **style)
    text.set(**words(edges.nodes[node], _LONG))
