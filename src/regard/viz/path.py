"""Glimpses: the path of a model's gaze over a picture, what its retina saw at each step, and both as an animation.

Places are (x, y) in [−1, 1], (−1, −1) the top left corner of the picture. The patch of scale j is size·2^j pixels wide.
"""

import io
import os
import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.base import ConfigError, ShapeError, require, write_atomically
from regard.explanation.path import Path
from regard.explanation.values import to_numpy
from regard.viz.theme import (
    DARK,
    LIGHT,
    Grid,
    Palette,
    Pixels,
    as_picture,
    entitle,
    fitted,
    frame,
    headline,
    headroom,
    new_figure,
    panel,
    words,
)

if TYPE_CHECKING:
    import matplotlib.axes

Places = NDArray[np.float64]
_BIG, _SMALL, _GAP = 2.7, 0.62, 0.12  # inches: the picture, a patch, between patches
_WIDE = 8  # steps in one row
_BOLD = 0.8  # by how much bold words are wider
_BEYOND = 0.2  # how far the view may go beyond the picture, as a share of its side


class _Rollout(NamedTuple):
    """What all drawings of one path need, checked."""

    picture: Pixels
    centres: Places  # [t 2], in pixels from the top left corner
    size: int
    scales: int
    labels: list[str | None]
    low: Places  # the view, in pixels: the picture, and what sharp patches have seen beyond it
    high: Places

    def inches(self) -> Places:
        """Width and height of the view, the longer one as long as may be."""
        span = self.high - self.low
        inches: Places = _BIG * span / span.max()
        return inches


def draw(path: Path, *, dark: bool = False) -> Grid:
    """Draw a path: where it looked, all that it saw, and each glimpse. Returns the axes, as `glimpse_path` does."""
    if not len(path.where):
        return np.array([_still(path, DARK if dark else LIGHT)], dtype=object)
    settings: dict[str, Any] = {"size": path.size, "scales": path.scales, "labels": path.label or None}
    return glimpse_path(path.image, path.where, title=path.title or None, dark=dark, **settings)


def animate(path: Path, file: str | os.PathLike[str], *, dark: bool = False) -> pathlib.Path:
    """Write a path as a GIF, one frame for each glimpse."""
    settings: dict[str, Any] = {"size": path.size, "scales": path.scales, "labels": path.label or None}
    return glimpse_animation(path.image, path.where, file, dark=dark, **settings)


def glimpse_path(
    image: Any,
    where: Any,
    *,
    size: int,
    scales: int = 1,
    steps: int | None = None,
    labels: str | Sequence[object] | None = None,
    title: str | None = None,
    dark: bool = False,
) -> Grid:
    """Draw a path: the picture with boxes, dots and arrows, then all that was seen, then each step's patches.

    `where` is [t 2], of which `steps` count. `labels` is what was said in the end, or after each step (None: nothing).
    Returns the axes: the path, the memory, and one for each step and scale, the sharpest first.

    >>> axes = glimpse_path(np.zeros((28, 28)), [[0.0, 0.0], [0.5, -0.5]], size=8, scales=2, labels="7")
    >>> len(axes), axes[-1].get_xlabel()
    (6, '7')
    """
    path, palette = _checked(image, where, size, scales, steps, labels), DARK if dark else LIGHT
    count = len(path.centres)
    across = min(count, _WIDE)
    lines = -(-count // across)
    named = 0.24 if any(path.labels) else 0.0
    column = 0.2 + scales * _SMALL + (scales - 1) * 0.04 + named
    head = headroom(title)
    wide, high = path.inches()
    left = 2 * wide + 3 * _GAP + 0.1
    height = max(high, lines * (column + 0.15))
    figure = new_figure(left + across * (_SMALL + _GAP) + 0.05, head + height + _GAP, palette)
    axes = [panel(figure, _GAP + n * (wide + _GAP), head, wide, high) for n in range(2)]
    _draw_path(axes[0], path, count, palette)
    _draw_memory(axes[1], path, count, palette)
    for step in range(count):
        x, y = left + step % across * (_SMALL + _GAP), head + step // across * (column + 0.15)
        for scale, patch in enumerate(see(path.picture, path.centres[step], size, scales)):
            ax = panel(figure, x, y + scale * (_SMALL + 0.04), _SMALL, _SMALL)
            _show(ax, patch, colour(step, count))
            if scale == 0:
                entitle(ax, f"{step + 1}", palette.ink, size=8.5, pad=3)
            axes.append(ax)
        _say(axes[-1], path.labels[step], palette)
    headline(figure, title, _GAP, palette)
    return np.array(axes, dtype=object)


def glimpse_animation(
    image: Any,
    where: Any,
    path: str | os.PathLike[str],
    *,
    size: int,
    scales: int = 1,
    steps: int | None = None,
    labels: str | Sequence[object] | None = None,
    seconds: int | float = 0.8,
    dark: bool = False,
) -> pathlib.Path:
    """Write the path as a GIF, a frame for each step of so many seconds; the last one stays three times as long."""
    if pathlib.Path(path).suffix.lower() != ".gif":
        raise ConfigError("an animation is a GIF", got=repr(pathlib.Path(path).suffix), expected=".gif")
    if not 0.02 <= seconds <= 60:
        raise ConfigError("seconds of a frame", got=seconds, expected="0.02 to 60")
    checked, palette = _checked(image, where, size, scales, steps, labels), DARK if dark else LIGHT
    count = len(checked.centres)
    pillow = require("PIL.Image", extra="viz")
    frames = [pillow.fromarray(_frame(checked, step, palette)) for step in range(1, count + 1)]
    colours = _palette(frames, [*(colour(step, count) for step in range(count)), palette.ground])
    frames = [each.quantize(palette=colours, dither=pillow.Dither.NONE) for each in frames]
    durations = [round(1000 * seconds)] * (count - 1) + [round(3000 * seconds)]
    content = io.BytesIO()
    frames[0].save(content, "GIF", save_all=True, append_images=frames[1:], duration=durations, loop=0)
    return write_atomically(path, content.getvalue())


def see(picture: Pixels, centre: Places, size: int, scales: int) -> list[Pixels]:
    """The patches [s s 3] around a place in pixels: means over squares of 2^j pixels, zero outside of the picture."""
    patches = []
    for scale in range(scales):
        (across, down), side = (_cuts(*each, size, 2**scale) for each in _sides(picture, centre)), 2 ** (2 * scale)
        patches.append(np.einsum("ih,hwc,jw->ijc", down, picture, across) / side)
    return patches


def remember(picture: Pixels, centres: Places, size: int, scales: int) -> tuple[Pixels, NDArray[np.bool_]]:
    """All that was seen, as sharp as it was seen, and where: the picture that a perfect memory would have."""
    height, width = picture.shape[:2]
    memory, seen = np.zeros_like(picture), np.zeros((height, width), dtype=bool)
    for scale in reversed(range(scales)):  # what is sharper lies above
        for centre in centres:
            patch, half = see(picture, centre, size, scale + 1)[scale], size * 2**scale / 2
            column, row = (
                np.floor((np.arange(side) + 0.5 - place + half) / 2**scale).astype(int)
                for side, place in ((width, centre[0]), (height, centre[1]))
            )
            rows, columns = (np.flatnonzero((cell >= 0) & (cell < size)) for cell in (row, column))
            memory[np.ix_(rows, columns)] = patch[np.ix_(row[rows], column[columns])]
            seen[np.ix_(rows, columns)] = True
    return memory, seen


def colour(step: int, count: int) -> str:
    """The colour of a step: from blue over green to yellow, in the order of time."""
    matplotlib = require("matplotlib", extra="viz")
    shade = matplotlib.colormaps["viridis"](0.4 + 0.6 * (step / max(count - 1, 1)))
    return str(require("matplotlib.colors", extra="viz").to_hex(shade))


def _checked(
    image: Any, where: Any, size: int, scales: int, steps: int | None, labels: str | Sequence[object] | None
) -> _Rollout:
    picture = as_picture(image)
    places = np.asarray(to_numpy(where), dtype=np.float64)
    if places.ndim != 2 or places.shape[1] != 2 or not len(places):
        got = f"shape {list(places.shape)}"
        raise ShapeError("where are the glimpses?", got=got, expected="[t 2]: (x, y) for each step")
    if not np.isfinite(places).all():
        raise ConfigError("a place of a glimpse is not finite", got=places[~np.isfinite(places).all(1)][0].tolist())
    for name, number in (("size", size), ("scales", scales)):
        if number < 1:
            raise ConfigError(name, got=number, expected="1 or more")
    if steps is not None and not 1 <= steps <= len(places):
        raise ConfigError("steps", got=steps, expected=f"1 to {len(places)}, as many as there are places")
    places = places[:steps]
    if labels is None or isinstance(labels, str):
        said: list[str | None] = [*[None] * (len(places) - 1), labels]
    else:
        said = [None if label is None else str(label) for label in labels][: len(places)]
    if len(said) != len(places):
        cure = "give None for a glimpse that says nothing"
        raise ShapeError("each step needs a label", got=len(said), expected=len(places), cure=cure)
    sides = np.array(picture.shape[1::-1], dtype=np.float64)
    centres = (places + 1) / 2 * sides
    low = np.clip(centres.min(0) - size / 2, -_BEYOND * sides, 0)
    high = np.clip(centres.max(0) + size / 2, sides, (1 + _BEYOND) * sides)
    return _Rollout(picture, centres, size, scales, said, low, high)


def _sides(picture: Pixels, centre: Places) -> list[tuple[int, float]]:
    """Width and height, each with the place along it."""
    return [(picture.shape[1], float(centre[0])), (picture.shape[0], float(centre[1]))]


def _cuts(side: int, place: float, size: int, width: int) -> NDArray[np.float64]:
    """How much of each pixel lies in each of `size` intervals around a place: [s side]."""
    start = place + (np.arange(size)[:, None] - size / 2) * width
    pixel = np.arange(side)
    overlap: NDArray[np.float64] = np.clip(np.minimum(start + width, pixel + 1) - np.maximum(start, pixel), 0, None)
    return overlap


def _draw_path(ax: "matplotlib.axes.Axes", path: _Rollout, count: int, palette: Palette) -> None:
    """The picture, and the first `count` glimpses: boxes, arrows, numbered dots. The last one is drawn strongly."""
    places, total = path.centres - 0.5, len(path.centres)  # a pixel's middle is at whole numbers
    ax.imshow(path.picture, interpolation="nearest", zorder=0)
    for step in range(count):
        for scale in range(path.scales):
            _box(ax, places[step], path.size * 2**scale, scale, colour(step, total), last=step == count - 1)
    for step in range(1, count):
        _arrow(ax, places[step - 1], places[step], colour(step, total))
    for step in range(count):
        shade = colour(step, total)
        edge: dict[str, Any] = {"markeredgecolor": "#000000b0", "markeredgewidth": 0.8}
        ax.plot(*places[step], "o", markersize=11, color=shade, zorder=5, **edge)
        ink = "white" if _is_dark(shade) else "black"
        number = ax.annotate(str(step + 1), tuple(places[step]), color=ink, ha="center", va="center_baseline", zorder=6)
        number.set(fontsize=7, fontweight="bold")
    _view(ax, path, palette)
    entitle(ax, "where it looked", palette.soft)


def _box(ax: "matplotlib.axes.Axes", place: Places, side: int, scale: int, shade: str, *, last: bool) -> None:
    patches, effects = require("matplotlib.patches", extra="viz"), require("matplotlib.patheffects", extra="viz")
    line, alpha = (1.8 if last else 1.0) / (1 + 0.4 * scale), (1.0 if last else 0.6) / (1 + 0.7 * scale)
    box = patches.Rectangle(place - side / 2, side, side, fill=False, edgecolor=shade, linewidth=line, alpha=alpha)
    box.set_path_effects([effects.withStroke(linewidth=line + 1.2, foreground="#00000080")])
    ax.add_patch(box)


def _arrow(ax: "matplotlib.axes.Axes", start: Places, end: Places, shade: str) -> None:
    effects = require("matplotlib.patheffects", extra="viz")
    style = {
        "arrowstyle": "-|>,head_length=0.35,head_width=0.18",
        "color": shade,
        "linewidth": 1.2,
        "shrinkA": 6.5,  # points: half a dot
        "shrinkB": 6.5,
        "path_effects": [effects.withStroke(linewidth=2.6, foreground="#000000a0")],
    }
    ax.annotate("", tuple(end), tuple(start), arrowprops=style, zorder=4)


def _draw_memory(ax: "matplotlib.axes.Axes", path: _Rollout, count: int, palette: Palette) -> None:
    memory, seen = remember(path.picture, path.centres[:count], path.size, path.scales)
    ax.imshow(np.dstack([np.clip(memory, 0, 1), seen]), interpolation="nearest")
    _view(ax, path, palette)
    entitle(ax, "all that it saw", palette.soft)


def _view(ax: "matplotlib.axes.Axes", path: _Rollout, palette: Palette) -> None:
    """One view for both panels; where there is no picture, the ground is hatched."""
    ax.set_xlim(path.low[0] - 0.5, path.high[0] - 0.5)
    ax.set_ylim(path.high[1] - 0.5, path.low[1] - 0.5)
    ax.patch.set(facecolor=palette.empty, edgecolor=palette.soft, hatch="/////", alpha=0.6)
    ax.patch.set_hatch_linewidth(0.4)
    frame(ax, palette.rule)


def _still(path: Path, palette: Palette) -> "matplotlib.axes.Axes":
    """The picture that nobody looked at."""
    height, width = path.image.shape[:2]
    wide, high = _BIG * width / max(height, width), _BIG * height / max(height, width)
    head = headroom(path.title or None)
    figure = new_figure(wide + 2 * _GAP, head + high + _GAP, palette)
    ax = panel(figure, _GAP, head, wide, high)
    ax.imshow(path.image, interpolation="nearest", aspect="auto")
    frame(ax, palette.rule)
    entitle(ax, "no glimpses", palette.soft)
    headline(figure, path.title or None, _GAP, palette)
    return ax


def _is_dark(shade: str) -> bool:
    red, green, blue = require("matplotlib.colors", extra="viz").to_rgb(shade)
    return bool(0.2126 * red**2.2 + 0.7152 * green**2.2 + 0.0722 * blue**2.2 < 0.179)


def _show(ax: "matplotlib.axes.Axes", patch: Pixels, edge: str) -> None:
    ax.imshow(np.clip(patch, 0, 1), interpolation="nearest", vmin=0, vmax=1)
    frame(ax, edge, 1.6)


def _say(ax: "matplotlib.axes.Axes", label: str | None, palette: Palette) -> None:
    """What was said at this step, below its last patch, and as small as it must be not to touch its neighbours."""
    if label is not None:
        shown = words(label, 10)
        size = fitted(shown["text"], 9, _BOLD * (_SMALL + _GAP))
        ax.set_xlabel(".", fontsize=size, color=palette.ink, fontweight="bold", labelpad=3).set(**shown)


def _palette(frames: Sequence[Any], exact: Sequence[str]) -> Any:
    """One palette for all frames, so that nothing flickers: of their colours together, some of them exact."""
    pillow, colours = require("PIL.Image", extra="viz"), require("matplotlib.colors", extra="viz")
    together = pillow.fromarray(np.concatenate([np.asarray(each) for each in frames])).quantize(256)
    table = np.array(together.getpalette(), dtype=np.int64).reshape(-1, 3)
    for each in exact:
        wanted = np.rint(255 * np.array(colours.to_rgb(each))).astype(np.int64)
        table[np.square(table - wanted).sum(1).argmin()] = wanted
        table[np.abs(table - wanted).max(1) <= 8] = wanted  # pillow looks for the nearest with two bits less
    palette = pillow.new("P", (1, 1))
    palette.putpalette(table.flatten().tolist())
    return palette


def _frame(path: _Rollout, count: int, palette: Palette) -> NDArray[np.uint8]:
    """The pixels of one frame: `count` glimpses so far, what the last of them sees, and the memory."""
    small = min(_SMALL, (_BIG - 0.04 * (path.scales - 1)) / path.scales)
    wide, high = path.inches()
    left = 2 * wide + 3 * _GAP
    figure = new_figure(left + max(small, 0.9) + _GAP, max(high, path.scales * (small + 0.04)) + 0.62, palette)
    first, second = (panel(figure, _GAP + n * (wide + _GAP), 0.3, wide, high) for n in range(2))
    _draw_path(first, path, count, palette)
    _draw_memory(second, path, count, palette)
    step = count - 1
    for scale, patch in enumerate(see(path.picture, path.centres[step], path.size, path.scales)):
        ax = panel(figure, left, 0.3 + scale * (small + 0.04), small, small)
        _show(ax, patch, colour(step, len(path.centres)))
        if scale == 0:
            entitle(ax, f"{count} of {len(path.centres)}", palette.soft)
    said = " ".join(label for label in path.labels[:count] if label)
    if said:
        shown = words(said, 60)
        size = fitted(shown["text"], 12, _BOLD * wide)
        second.set_xlabel(".", fontsize=size, color=palette.ink, fontweight="bold", labelpad=3).set(**shown)
    canvas = require("matplotlib.backends.backend_agg", extra="viz").FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()
