"""A gallery: pictures of one size in rows and columns, such as what was known, what was drawn, and the original."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import UInt8
from numpy import ndarray

from regard.base import ShapeError
from regard.explanation.explanation import Explanation
from regard.explanation.png import data_address, to_png
from regard.explanation.svg import text
from regard.explanation.values import as_image, as_labels, as_text, as_whole

_SIDE = 96  # pixels of a page that a picture is wide or high


@dataclass(frozen=True, eq=False)
class Gallery(Explanation):
    """One picture [h w 3] made of `grid` (rows, columns) tiles; `columns` and `rows` are the labels of these.

    >>> Gallery.of(np.zeros((2, 3, 8, 8, 3), dtype=np.uint8), columns=["known", "drawn", "picture"]).image.shape
    (16, 24, 3)
    """

    kind: ClassVar[str] = "gallery"
    caption: ClassVar[str] = "pictures"

    image: Any  # [h w 3], bytes
    grid: Sequence[int]
    columns: Sequence[str] = ()
    rows: Sequence[str] = ()
    title: str = ""

    def __post_init__(self) -> None:
        image = as_image(self.image)
        sides = tuple(self.grid) if isinstance(self.grid, list | tuple) else ()
        if len(sides) != 2:
            raise ShapeError("the grid of a gallery", got=repr(self.grid), expected="(rows, columns)")
        down, across = (as_whole("a side of the grid of a gallery", side) for side in sides)
        if image.shape[0] % down or image.shape[1] % across:
            got = f"{down} × {across} tiles in {image.shape[0]} × {image.shape[1]} pixels"
            raise ShapeError("the tiles of a gallery do not fill it", got=got, expected="tiles of one size")
        rows, columns = as_labels("rows", self.rows), as_labels("columns", self.columns)
        self._set(
            image=image,
            grid=(down, across),
            columns=as_labels("columns", columns, across if columns else None),
            rows=as_labels("rows", rows, down if rows else None),
            title=as_text("the title of a gallery", self.title),
        )

    @classmethod
    def of(cls, pictures: Any, *, columns: Sequence[str] = (), rows: Sequence[str] = (), title: str = "") -> "Gallery":
        """A gallery of pictures [r c h w 3], bytes."""
        array = np.asarray(pictures)
        if array.ndim != 5 or not array.size:
            raise ShapeError("pictures of a gallery", got=f"shape {list(array.shape)}", expected="[r c h w 3]")
        down, across, high, wide, _ = array.shape
        image = array.transpose(0, 2, 1, 3, 4).reshape(down * high, across * wide, 3)
        return cls(image, (down, across), columns, rows, title)

    def tiles(self) -> UInt8[ndarray, "r c h w 3"]:
        """The pictures one by one."""
        (down, across), (high, wide) = self.grid, self.image.shape[:2]
        split = self.image.reshape(down, high // down, across, wide // across, 3)
        tiles: ndarray = split.transpose(0, 2, 1, 3, 4)
        return tiles

    def html(self) -> str:
        """A table of the pictures, with their labels."""
        head = "".join(f"<th>{text(name)}</th>" for name in self.columns)
        lines = [f"<tr>{'<th></th>' if self.rows else ''}{head}</tr>"] if self.columns else []
        for number, row in enumerate(self.tiles()):
            name = f'<th scope="row">{text(self.rows[number])}</th>' if self.rows else ""
            cells = "".join(f"<td>{_tile(tile)}</td>" for tile in row)
            lines.append(f"<tr>{name}{cells}</tr>")
        return f"<table>{''.join(lines)}</table>"


def _tile(tile: ndarray) -> str:
    ratio = _SIDE / max(tile.shape[:2])
    size = f'width="{ratio * tile.shape[1]:g}" height="{ratio * tile.shape[0]:g}"'
    address = data_address(to_png(np.ascontiguousarray(tile)))
    return f'<img src="{address}" {size} alt="" style="image-rendering:pixelated">'
