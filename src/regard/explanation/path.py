"""A path over a picture: where a model that takes glimpses looked, step by step."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from regard.base import ConfigError, ShapeError
from regard.explanation.explanation import Explanation
from regard.explanation.values import as_image, as_numbers, as_text, as_whole


@dataclass(frozen=True, eq=False)
class Path(Explanation):
    """The places of glimpses over a picture [h w 3], in the order in which they were taken.

    `where` [t 2] holds (x, y) in [−1, 1]: (−1, −1) is the top left corner of the picture. A glimpse has patches of
    `size` pixels at `scales` scales, each twice as wide as the one before. `label` is what the model said in the end.

    >>> path = Path(np.zeros((28, 28, 3), dtype=np.uint8), [[0.0, 0.0], [0.5, -0.5]], size=8, scales=2, label="7")
    >>> path.pixels().tolist()
    [[14.0, 14.0], [21.0, 7.0]]
    """

    kind: ClassVar[str] = "path"
    caption: ClassVar[str] = "where it looked"

    image: Any  # [h w 3], bytes
    where: Any  # [t 2]
    size: int
    scales: int = 1
    label: str = ""
    title: str = ""

    def __post_init__(self) -> None:
        where = as_numbers("places of glimpses", self.where, {2: "[t 2]: (x, y) for each glimpse"})
        if where.size == 0:
            where = where.reshape(0, 2)
        if where.shape[1] != 2:
            raise ShapeError("places of glimpses", got=f"shape {list(where.shape)}", expected="[t 2]: (x, y) for each")
        if (np.abs(where) > 1).any():
            got = f"{where.min():g} to {where.max():g}"
            cure = "compute x = 2 · column / width − 1, and y likewise"
            raise ConfigError("places of glimpses", got=got, expected="−1 to 1", cure=cure)
        self._set(
            image=as_image(self.image),
            where=where,
            size=as_whole("the size of a glimpse", self.size),
            scales=as_whole("the scales of a glimpse", self.scales),
            label=as_text("the label of a path", self.label),
            title=as_text("the title of a path", self.title),
        )

    def pixels(self) -> Float[ndarray, "t 2"]:
        """The places as (x, y) in pixels from the top left corner."""
        height, width = self.image.shape[:2]
        places: ndarray = (self.where + 1) / 2 * np.array([width, height])
        return places
