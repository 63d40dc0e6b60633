"""Weights over the places of a picture: of the words of a caption, or of other places."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from regard.base import ConfigError, ShapeError, shown
from regard.explanation.explanation import Explanation
from regard.explanation.values import as_image, as_labels, as_numbers, as_text, as_whole


@dataclass(frozen=True, eq=False)
class Places(Explanation):
    """What n words or n places attend to in a picture [h w 3]: weights [n i j] on a grid of i × j places.

    `labels` are the n words, or there are none. The grid covers `box` (top, left, height, width, in pixels), or
    else the whole picture; a box with the fields left, top, right and bottom is converted. Where places look,
    `points` [n 2] are their pixels (row, column), and `grid` (r, c) says that they are a full raster, row by row.

    >>> words = Places(np.zeros((8, 8, 3), dtype=np.uint8), np.full((2, 4, 4), 1 / 16), labels=["a", "dog"])
    >>> words.corners()
    (0.0, 0.0, 8.0, 8.0)
    """

    kind: ClassVar[str] = "places"
    caption: ClassVar[str] = "what was looked at"

    image: Any  # [h w 3], bytes
    weights: Any  # [n i j]
    labels: Sequence[str] = ()
    box: Sequence[int | float] | None = None
    points: Any = None  # [n 2]
    grid: Sequence[int] | None = None
    title: str = ""

    def __post_init__(self) -> None:
        image = as_image(self.image)
        weights = as_numbers("weights of places", self.weights, {3: "[n i j]: a grid for each of n"})
        count = len(weights)
        if count and not weights.size:
            raise ShapeError("weights of places have no grid", got=f"shape {list(weights.shape)}", expected="[n i j]")
        none = isinstance(self.labels, str) and not self.labels
        labels = () if none else as_labels("labels", self.labels)
        self._set(
            image=image,
            weights=weights,
            labels=as_labels("labels", labels, count if labels else None),
            box=None if self.box is None else _box(self.box),
            points=None if self.points is None else _points(self.points, count, image.shape),
            grid=None if self.grid is None else _grid(self.grid, count),
            title=as_text("the title of places", self.title),
        )

    def corners(self) -> tuple[float, float, float, float]:
        """Left, top, right and bottom of what the grid covers, in pixels."""
        if self.box is None:
            return 0.0, 0.0, float(self.image.shape[1]), float(self.image.shape[0])
        top, left, height, width = map(float, self.box)
        return left, top, left + width, top + height

    def spots(self) -> Float[ndarray, "n 2"] | None:
        """The pixels (row, column) of the places that look: `points`, or the middles of the cells of `grid`."""
        if self.points is not None or self.grid is None:
            points: ndarray | None = self.points
            return points
        rows, columns = self.grid
        left, top, right, bottom = self.corners()
        down = top + (np.arange(rows) + 0.5) * (bottom - top) / rows - 0.5  # whole numbers are middles of pixels
        across = left + (np.arange(columns) + 0.5) * (right - left) / columns - 0.5
        return np.stack(np.meshgrid(down, across, indexing="ij"), axis=-1).reshape(-1, 2)


def _box(value: Any) -> tuple[float, ...]:
    if all(hasattr(value, side) for side in ("left", "top", "right", "bottom")):
        value = (value.top, value.left, value.bottom - value.top, value.right - value.left)
    numbers = as_numbers("the box of a grid", value, {1: "(top, left, height, width)"})
    if numbers.shape != (4,) or min(numbers[2:]) <= 0:
        expected = "(top, left, height, width) in pixels, height and width above 0"
        raise ConfigError("the box of a grid", got=shown(numbers.tolist()), expected=expected)
    return tuple(numbers.tolist())


def _points(value: Any, count: int, size: tuple[int, ...]) -> ndarray:
    points = as_numbers("points", value, {2: "[n 2]: row and column of each place"})
    if points.size == 0:
        points = points.reshape(0, 2)
    if points.shape != (count, 2):
        got = f"shape {list(points.shape)}"
        raise ShapeError("points do not fit the weights", got=got, expected=f"[{count} 2]: row and column of each")
    if ((points < -0.5) | (points > np.array(size[:2]) - 0.5)).any():
        expected = f"rows and columns of a picture of {size[0]} × {size[1]}"
        raise ConfigError("a point is outside of the picture", got=shown(points.tolist()), expected=expected)
    return points


def _grid(value: Any, count: int) -> tuple[int, int]:
    sides = tuple(value) if isinstance(value, list | tuple) else ()
    if len(sides) != 2:
        raise ConfigError("the raster of places", got=shown(value), expected="(rows, columns)")
    rows, columns = (as_whole("a side of the raster of places", side, least=0) for side in sides)
    if rows * columns != count:
        got = f"{count} places for {rows} × {columns}"
        raise ShapeError("places do not fill their raster", got=got, expected=rows * columns)
    return rows, columns
