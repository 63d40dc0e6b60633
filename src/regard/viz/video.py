"""Frames in a row, and over them where each person's query looked (Girdhar et al. 2019, figure 5)."""

from typing import Any

import numpy as np

from regard.base import require
from regard.explanation.video import Video
from regard.viz.theme import (
    DARK,
    LIGHT,
    Grid,
    Palette,
    blank_drawing,
    frame,
    headline,
    headroom,
    new_figure,
    panel,
    words,
)

_HIGH, _GAP, _ABOVE = 0.85, 0.05, 0.24  # inches: a frame, between frames, above a row for its label
_WIDEST = 14.0  # inches of all frames of a row together
_MOST = 12  # queries that are drawn
_ASKS, _OTHERS = "#56b4e9", "#bbbbbb"  # the box of the person that asks, and those of others


def draw(video: Video, *, dark: bool = False) -> Grid:
    """Draw a row of frames for each query: in grey what is to be seen, in colour where the query looked.

    Yellow is the largest weight of the query, clear is what has no more than an even share. The boxes are in the frame
    in which they were given: blue is the person that asks. Returns the axes [queries frames].
    """
    palette = DARK if dark else LIGHT
    rows = min(len(video.weights), _MOST)
    if not rows:
        return np.array([blank_drawing(video.title, "no persons", palette)], dtype=object)
    frames, shares = video.frames(), video.shares()
    count, height, width = frames.shape[:3]
    high = min(_HIGH, (_WIDEST / count - _GAP) * height / width)
    wide = high * width / height
    title = video.title
    if rows < len(video.weights):
        title = f"{title} ({rows} of {len(video.weights)} queries)".strip()
    head = max(0.1, headroom(title or None) - _ABOVE)  # a row has room for its label
    pitch = high + _ABOVE + _GAP
    figure = new_figure(max(0.2 + count * (wide + _GAP), 2.0), head + rows * pitch + 0.1, palette)
    grey = np.repeat((frames / 255 @ [0.2126, 0.7152, 0.0722])[..., None], 3, axis=-1) * 0.85
    axes: Grid = np.empty((rows, count), dtype=object)
    for row in range(rows):
        for number in range(count):
            top = head + row * pitch + _ABOVE
            ax = axes[row, number] = panel(figure, 0.1 + number * (wide + _GAP), top, wide, high)
            ax.imshow(grey[number], interpolation="nearest", vmin=0, vmax=1)
            ax.imshow(_colours(shares[row, number]), extent=(-0.5, width - 0.5, height - 0.5, -0.5), aspect="auto")
            ax.set(xlim=(-0.5, width - 0.5), ylim=(height - 0.5, -0.5))
            frame(ax, palette.rule)
        _boxes(axes[row, video.middle], video, int(video.asks[row]))
        _label(axes[row, 0], video.labels[row], palette)
    headline(figure, title or None, 0.1, palette)
    return axes


def _colours(shares: Any) -> Any:
    """Colours [i j 4] of weights: clear at an even share, yellow at the largest."""
    colours = require("matplotlib", extra="viz").colormaps["inferno"](0.35 + 0.6 * shares)
    colours[..., 3] = 0.85 * shares**0.7
    return colours


def _boxes(ax: Any, video: Video, person: int) -> None:
    patches = require("matplotlib.patches", extra="viz")
    order = [number for number in range(len(video.boxes)) if number != person] + [person]
    for number in order:
        left, top, right, bottom = video.boxes[number] - 0.5
        style = {"edgecolor": _ASKS, "linewidth": 1.6} if number == person else {"edgecolor": _OTHERS, "linewidth": 0.8}
        ax.add_patch(patches.Rectangle((left, top), right - left, bottom - top, fill=False, **style))


def _label(ax: Any, label: str, palette: Palette) -> None:
    said = ax.text(0, 1.04, ".", transform=ax.transAxes, fontsize=8, color=palette.soft, va="bottom", ha="left")
    said.set(**words(label, 110))
