"""Blocks: which pixels each of some pixels could see, and how much it took from each of them (local attention)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from regard.base import ConfigError, ShapeError
from regard.explanation.explanation import Explanation
from regard.explanation.places import Places
from regard.explanation.svg import SVG
from regard.explanation.values import as_labels, as_numbers, as_text


@dataclass(frozen=True, eq=False)
class Blocks(Explanation):
    """What n pixels of a picture [h w 3] attend to: weights [n i j] on a grid, and `seen` [n i j], 1 within the block.

    `points` [n 2] are the pixels (row, column) that look. A weight outside of the block is an error.

    >>> seen = np.array([[[1, 1], [1, 0]]])
    >>> Blocks(np.zeros((2, 2, 3), dtype=np.uint8), seen / 3, seen, [[1, 0]]).shares()
    [0.75]
    """

    kind: ClassVar[str] = "blocks"
    caption: ClassVar[str] = "the block that was seen, and what was looked at"

    image: Any  # [h w 3], bytes
    weights: Any  # [n i j]
    seen: Any  # [n i j], 0 or 1
    points: Any  # [n 2]
    labels: Sequence[str] = ()
    title: str = ""

    def __post_init__(self) -> None:
        labels, title = as_labels("labels", self.labels), as_text("the title of blocks", self.title)
        points = as_numbers("points", self.points, {2: "[n 2]: row and column of each pixel"})
        places = Places(self.image, self.weights, labels=labels, points=points, title=title)
        seen = as_numbers("seen places", self.seen, {3: "[n i j]: a grid for each of n"})
        if seen.shape != places.weights.shape:
            got, expected = f"shape {list(seen.shape)}", list(places.weights.shape)
            raise ShapeError("seen places do not fit the weights", got=got, expected=expected)
        if not np.isin(seen, (0.0, 1.0)).all():
            raise ConfigError("seen places", got=f"{seen.min():g} to {seen.max():g}", expected="0 or 1")
        if (places.weights[seen == 0] != 0).any():
            raise ConfigError("a weight is outside of the block that was seen", expected="0 where seen is 0")
        checked = {name: getattr(places, name) for name in ("image", "weights", "points", "labels", "title")}
        self._set(seen=seen, **checked)

    def places(self) -> Places:
        """The same without the blocks."""
        return Places(self.image, self.weights, labels=self.labels, points=self.points, title=self.title)

    def shares(self) -> list[float]:
        """The share of the picture that each pixel sees."""
        return [float(share) for share in self.seen.mean((1, 2))]

    def html(self) -> str:
        """The picture in grey for each pixel, yellow where it looks, and how much of the picture it sees."""
        if not self.weights.size:
            return ""
        told = ", ".join(f"{100 * share:.0f} %" for share in self.shares())
        return f'{SVG["places"](self.places())}<p class="said">seen of the picture: {told}</p>'
