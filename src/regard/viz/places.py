"""Weights over the places of a picture: of words, or of other places (Wang et al. 2018, figure 3)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from regard.base import ConfigError, ShapeError, require
from regard.explanation.places import Places
from regard.explanation.values import to_numpy
from regard.viz.overlay import CaptionOverlay, overlays
from regard.viz.theme import (
    DARK,
    LIGHT,
    Grid,
    Palette,
    Pixels,
    as_picture,
    blank_drawing,
    breadth,
    entitle,
    fitted,
    frame,
    headline,
    headroom,
    new_figure,
    panel,
)

if TYPE_CHECKING:
    import matplotlib.axes

Weights = NDArray[np.float64]
_BIG, _GAP = 1.9, 0.14  # inches: a panel, between panels
_WIDE = 5  # panels in one row
_MOST = 24  # places that are drawn, unless they are a raster
_FOUR = ((0.5, 0.5), (0.2, 0.2), (0.3, 0.8), (0.8, 0.5))  # the places of a raster, as shares of height and width
_BELOW = "#56b4e9"  # negative weights, which a dot product without softmax has


def draw(places: Places, *, dark: bool = False) -> Grid:
    """Draw where words look, one panel for each, or what marked places attend to; of a raster, four places.

    Returns the axes, as `overlay` and `position_maps` do.
    """
    spots = places.spots()
    if not places.weights.size:
        return np.array([blank_drawing(places.title, "no weights", DARK if dark else LIGHT)], dtype=object)
    if spots is None:
        return overlays(places.image, {"": as_overlay(places)}, title=places.title or None, dark=dark)
    numbers = _sample(places)
    pixels = np.clip(np.rint(spots[numbers]), 0, np.array(places.image.shape[:2]) - 1).astype(int)
    title = places.title
    if len(numbers) < len(spots):
        title = f"{title} ({len(numbers)} of {len(spots)} places)".strip()
    return position_maps(
        places.image,
        [(int(row), int(column)) for row, column in pixels],
        places.weights[numbers],
        titles=[places.labels[number] for number in numbers] if places.labels else None,
        title=title or None,
        box=places.corners(),
        dark=dark,
    )


def as_overlay(places: Places) -> CaptionOverlay:
    """The words of a caption and where they look, as `overlays` draws them."""
    words = places.labels or [str(number) for number in range(1, 1 + len(places.weights))]
    flat = places.weights.reshape(len(words), -1)
    return CaptionOverlay(list(words), flat, places.weights.shape[1:], places.corners())


def position_maps(
    image: Any,
    places: Sequence[tuple[int, int]],
    weights: Any,
    *,
    titles: Sequence[object] | None = None,
    title: str | None = None,
    smooth: bool = False,
    box: Sequence[int | float] | None = None,
    dark: bool = False,
) -> Grid:
    """Draw the picture with its marked places, then one panel for each: the weights over the picture in grey.

    `places` are pixels (row, column), `weights` [p i j] cover the whole picture, on a grid of any size: what
    `NonLocalNet.maps` gives for one picture. Each panel has its own scale: yellow is its largest weight, and clear is
    what has no more than an even share. Underneath stands that weight, and how many even shares it is. Weights without
    a softmax are clear at zero, and blue below. `smooth` blurs the cells. `box` (left, top, right, bottom, in pixels)
    is what they cover, where that is not the whole picture.

    >>> axes = position_maps(np.zeros((8, 8)), [(0, 0), (7, 7)], np.full((2, 4, 4), 1 / 16))
    >>> [ax.get_xlabel() for ax in axes]
    ['', 'at most 0.062 = 1.0 even', 'at most 0.062 = 1.0 even']
    """
    picture, palette = as_picture(image), DARK if dark else LIGHT
    spots, layers = _checked(picture, places, weights)
    names = [f"from {number}" for number in range(1, len(spots) + 1)] if titles is None else [str(t) for t in titles]
    if len(names) != len(spots):
        raise ShapeError("each place needs one title", got=len(names), expected=len(spots))
    across = min(_WIDE, 1 + len(spots))
    lines = -(-(1 + len(spots)) // across)
    height, width = picture.shape[:2]
    wide, high = _BIG * width / max(height, width), _BIG * height / max(height, width)
    head, row = headroom(title), high + 0.5
    figure = new_figure(_GAP + across * (wide + _GAP), head + lines * row - 0.2, palette)
    axes = []
    for number in range(1 + len(spots)):
        line, column = divmod(number, across)
        axes.append(panel(figure, _GAP + column * (wide + _GAP), head + line * row, wide, high))
    axes[0].imshow(picture, interpolation="nearest")
    entitle(axes[0], "picture", palette.soft)
    for number, spot in enumerate(spots, start=1):
        _mark(axes[0], spot, str(number), (1 if spot[1] < 0.85 * width else -1, 1 if spot[0] > 0.15 * height else -1))
    over = (0.0, 0.0, float(width), float(height)) if box is None else tuple(map(float, box))
    grey = np.repeat((picture @ [0.2126, 0.7152, 0.0722])[..., None], 3, axis=2) * 0.8
    for ax, spot, layer, name in zip(axes[1:], spots, layers, names, strict=True):
        ax.imshow(grey, interpolation="nearest")
        _overlay(ax, layer, over, smooth)
        _mark(ax, spot)
        entitle(ax, name, palette.soft)
        _tell(ax, layer, palette)
    for ax in axes:
        ax.set_xlim(-0.5, width - 0.5)
        ax.set_ylim(height - 0.5, -0.5)
        frame(ax, palette.rule)
    headline(figure, title, _GAP, palette)
    return np.array(axes, dtype=object)


def shades(weights: Weights) -> Pixels:
    """Colours [i j 4] of weights: from clear, at an even share, to yellow at the largest.

    Where some are negative the scale begins at zero, and goes on below it in blue.
    """
    if weights.min() < 0:
        share = np.abs(weights) / np.abs(weights).max()
    else:
        above = np.clip(weights - weights.mean(), 0, None)
        top = above.max()
        share = above / top if top > 1e-9 * weights.mean() else np.zeros_like(weights)
    warm = require("matplotlib", extra="viz").colormaps["inferno"](0.35 + 0.6 * share)
    cold = require("matplotlib.colors", extra="viz").to_rgba(_BELOW)
    colours: Pixels = np.where((weights < 0)[..., None], cold, warm)
    colours[..., 3] = 0.9 * share**0.7
    return colours


def _sample(places: Places) -> list[int]:
    """The numbers of the places that are drawn: all of them, four of a raster, or the first of very many."""
    if places.grid is None:
        return list(range(min(len(places.weights), _MOST)))
    rows, columns = places.grid
    chosen = (round(down * (rows - 1)) * columns + round(across * (columns - 1)) for down, across in _FOUR)
    return list(dict.fromkeys(chosen))


def _checked(picture: Pixels, places: Sequence[tuple[int, int]], weights: Any) -> tuple[list[tuple[int, int]], Weights]:
    spots = [(int(row), int(column)) for row, column in places]
    height, width = picture.shape[:2]
    if outside := [spot for spot in spots if not (0 <= spot[0] < height and 0 <= spot[1] < width)]:
        raise ShapeError("a place is outside the picture", got=outside[0], expected=f"within {height} × {width}")
    layers = np.asarray(to_numpy(weights), dtype=np.float64)
    if layers.ndim != 3 or len(layers) != len(spots) or not layers.size:
        got, expected = f"shape {list(layers.shape)}", f"[{max(len(spots), 1)} i j], a grid for each place"
        raise ShapeError("weights do not fit the places", got=got, expected=expected, cure="take one picture: maps[0]")
    if not np.isfinite(layers).all():
        raise ConfigError("weights are not finite", got=f"{int((~np.isfinite(layers)).sum())} NaN or infinite")
    return spots, layers


def _overlay(ax: "matplotlib.axes.Axes", layer: Weights, box: tuple[float, ...], smooth: bool) -> None:
    """The grid, stretched over its box."""
    left, top, right, bottom = (side - 0.5 for side in box)
    over = (left, right, bottom, top)
    ax.imshow(shades(layer), extent=over, interpolation="bicubic" if smooth else "nearest", aspect="auto")
    ax.set_aspect("equal")


def _mark(
    ax: "matplotlib.axes.Axes", spot: tuple[int, int], number: str | None = None, side: tuple[int, int] = (1, 1)
) -> None:
    """A ring around a pixel, light with a dark edge, so that it shows on every ground; a number right of it, above.

    With `side` −1 the number is left of it, or below: inside the picture.
    """
    row, column = spot
    for edge, width in (("black", 3.2), ("white", 1.6)):
        ring: dict[str, Any] = {"markerfacecolor": "none", "markeredgecolor": edge, "markeredgewidth": width}
        ax.plot(column, row, "o", markersize=10, **ring)
    if number is not None:
        effects = require("matplotlib.patheffects", extra="viz")
        move = (7 * side[0], 7 * side[1])
        text = ax.annotate(number, (column, row), move, textcoords="offset points", color="white", va="center")
        text.set(fontsize=8, fontweight="bold", ha="left" if side[0] > 0 else "right")
        text.set_path_effects([effects.withStroke(linewidth=2.4, foreground="black")])


def _tell(ax: "matplotlib.axes.Axes", layer: Weights, palette: Palette) -> None:
    low, high = float(layer.min()), float(layer.max())
    even = high / layer.mean() if high else 0.0
    text = f"at most {high:.2g} = {even:.1f} even" if low >= 0 else f"{low:.2g} to {high:.2g}".replace("-", "−")
    ax.set_xlabel(text, fontsize=fitted(text, 7.5, breadth(ax)), color=palette.soft, labelpad=3)
