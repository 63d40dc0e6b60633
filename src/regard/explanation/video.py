"""Weights over the frames of a video: where the query of each person looked."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float, UInt8
from numpy import ndarray

from regard.base import ConfigError, ShapeError, shown
from regard.explanation.explanation import Explanation
from regard.explanation.png import data_address, to_png
from regard.explanation.svg import text
from regard.explanation.values import as_image, as_indices, as_labels, as_numbers, as_text, as_whole

_HIGH = 72  # pixels of a page: the height of a frame
_LEVELS = 8  # of colour in a notebook


@dataclass(frozen=True, eq=False)
class Video(Explanation):
    """Weights [n t i j] of n queries over t frames, on a grid of i × j places in each.

    `image` [h, t·w, 3] has the t frames side by side. `boxes` [p 4] are those of the persons in frame number
    `middle`: left, top, right, bottom in pixels of a frame. Query number k belongs to person `asks[k]`; `labels` are
    texts for the n queries.

    >>> frames = np.zeros((2, 4, 6, 3), dtype=np.uint8)
    >>> video = Video(side_by_side(frames), np.full((1, 2, 2, 3), 1 / 12), [[0, 0, 2, 4]], [0], ["jumps"])
    >>> video.frames().shape
    (2, 4, 6, 3)
    """

    kind: ClassVar[str] = "video"
    caption: ClassVar[str] = "where each person's query looked"

    image: Any  # [h t·w 3], bytes
    weights: Any  # [n t i j]
    boxes: Any  # [p 4]
    asks: Any  # [n]
    labels: Sequence[str]
    middle: int = 0
    title: str = ""

    def __post_init__(self) -> None:
        image = as_image(self.image)
        weights = as_numbers("weights of a video", self.weights, {4: "[n t i j]: a grid for each query and frame"})
        count, frames = weights.shape[:2]
        if not weights[:1].size or image.shape[1] % frames:
            got = f"weights {list(weights.shape)} for a picture of {image.shape[0]} × {image.shape[1]}"
            raise ShapeError("frames of a video", got=got, expected="weights [n t i j], and t frames of one width")
        boxes = as_numbers("boxes of a video", self.boxes, {2: "[p 4]: left, top, right, bottom"})
        if boxes.shape[1:] != (4,) or (boxes[:, :2] > boxes[:, 2:]).any():
            expected = "left ≤ right and top ≤ bottom of each person"
            raise ConfigError("boxes of a video", got=shown(boxes.tolist()), expected=expected)
        asks = as_indices("the persons who ask", self.asks, len(boxes))
        if len(asks) != count:
            raise ShapeError("each query belongs to a person", got=f"{len(asks)} for {count} queries", expected=count)
        middle = as_whole("the number of the middle frame", self.middle, least=0)
        if middle >= frames:
            raise ConfigError("the number of the middle frame", got=middle, expected=f"0 to {frames - 1}")
        labels = as_labels("labels", self.labels, count)
        title = as_text("the title of a video", self.title)
        self._set(image=image, weights=weights, boxes=boxes, asks=asks, labels=labels, middle=middle, title=title)

    def frames(self) -> UInt8[ndarray, "t h w 3"]:
        """The frames, one after the other."""
        count = self.weights.shape[1]
        height, width = self.image.shape[0], self.image.shape[1] // count
        frames: ndarray = self.image.reshape(height, count, width, 3).transpose(1, 0, 2, 3)
        return frames

    def shares(self) -> Float[ndarray, "n t i j"]:
        """Weights from 0 (an even share or less) to 1 (the largest one of the query)."""
        flat = self.weights.reshape(len(self.weights), -1)
        above = np.clip(flat - flat.mean(1, keepdims=True), 0, None)
        top = above.max(1, keepdims=True, initial=0)
        level = np.divide(above, top, out=np.zeros_like(above), where=top > 1e-9 * np.abs(flat).max(initial=1e-30))
        shares: ndarray = level.reshape(self.weights.shape)
        return shares

    def html(self) -> str:
        """A row of frames for each query, its weights in colour and the person's box in the middle frame."""
        count, height = self.weights.shape[1], self.image.shape[0]
        width = self.image.shape[1] // count
        address = data_address(to_png(self.image))
        down, across = self.weights.shape[2:]
        rows = []
        for query, person, label in zip(self.shares(), self.asks.tolist(), self.labels, strict=True):
            levels = np.rint(query * _LEVELS).astype(int)
            cells = "".join(
                f'<rect x="{frame * width + column * width / across:.2f}" y="{row * height / down:.2f}" '
                f'width="{width / across:.2f}" height="{height / down:.2f}" fill-opacity="{level / _LEVELS:.2f}"/>'
                for (frame, row, column), level in np.ndenumerate(levels)
                if level
            )
            left, top, right, bottom = self.boxes[person] + np.array([self.middle * width, 0] * 2)
            box = (
                f'<rect x="{left:.2f}" y="{top:.2f}" width="{right - left:.2f}" height="{bottom - top:.2f}" '
                'style="fill:none;stroke:#56b4e9;stroke-width:1"/>'
            )
            view = f'viewBox="0 0 {self.image.shape[1]} {height}" height="{_HIGH}" role="img" aria-label="frames"'
            rows.append(
                f'<p class="said" dir="auto">{text(label)}</p><svg {view}><image href="{address}" '
                f'width="{self.image.shape[1]}" height="{height}"/>'
                f'<g style="fill:rgb(var(--heat))">{cells}</g>{box}</svg>'
            )
        return "".join(rows)


def side_by_side(frames: UInt8[ndarray, "t h w 3"]) -> UInt8[ndarray, "h t_w 3"]:
    """Frames as one picture, from left to right."""
    count, height, width = frames.shape[:3]
    return np.ascontiguousarray(frames.transpose(1, 0, 2, 3).reshape(height, count * width, 3))
