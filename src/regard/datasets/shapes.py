"""Synthetic pictures with captions: two coloured objects on a grid, the left one first.

"a red square left of a blue circle": to say it, a model must look at one object, then at the other.
"""

import io
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import UInt8
from numpy import ndarray

from regard.base import require
from regard.data.captions import Captions
from regard.datasets.dataset import Dataset

COLOURS = {"red": (220, 40, 40), "green": (40, 180, 60), "blue": (50, 80, 230), "yellow": (235, 210, 40)}
FORMS = ("square", "circle", "cross", "triangle")
CELL = 8  # pixels
GRID = 7  # cells


class Thing(NamedTuple):
    """One object: where, and what."""

    row: int
    column: int
    colour: str
    form: str


def shapes(sizes: Sequence[int] = (1600, 100, 100), *, grid: int = GRID, seed: int = 0) -> dict[str, Captions]:
    """Train, valid and test splits of so many pictures, each with its one right caption."""
    splits = {}
    for number, (split, size) in enumerate(zip(("train", "valid", "test"), sizes, strict=True)):
        source = random.Random(1000 * seed + number)
        scenes = {f"{split}{i:05d}.png": scene(source, grid) for i in range(size)}
        captions = tuple((describe(*things),) for things in scenes.values())
        splits[split] = Captions(tuple(scenes), captions, Painter(scenes, grid), f"shapes {grid} {seed} {split} {size}")
    return splits


def scene(source: random.Random, grid: int = GRID) -> tuple[Thing, Thing]:
    """Two objects of different colours in different columns and rows, the left one first."""
    rows, columns = source.sample(range(grid), 2), sorted(source.sample(range(grid), 2))
    colours = source.sample(list(COLOURS), 2)
    first, second = (Thing(rows[i], columns[i], colours[i], source.choice(FORMS)) for i in range(2))
    return first, second


def describe(left: Thing, right: Thing) -> str:
    """What is where.

    >>> describe(Thing(0, 1, "red", "square"), Thing(3, 4, "blue", "circle"))
    'a red square left of a blue circle'
    """
    return f"a {left.colour} {left.form} left of a {right.colour} {right.form}"


def paint(things: Sequence[Thing], grid: int = GRID) -> UInt8[ndarray, "s s 3"]:
    """A picture of some objects, one cell each, on grey."""
    image = np.full((grid * CELL, grid * CELL, 3), 128, np.uint8)
    down, right = np.mgrid[:CELL, :CELL]
    middle = (CELL - 1) / 2
    inside = {
        "square": (abs(down - middle) < middle) & (abs(right - middle) < middle),
        "circle": (down - middle) ** 2 + (right - middle) ** 2 < middle**2,
        "cross": (abs(down - middle) < 1) | (abs(right - middle) < 1),
        "triangle": abs(right - middle) <= down / 2,
    }
    for thing in things:
        cell = image[thing.row * CELL : (thing.row + 1) * CELL, thing.column * CELL : (thing.column + 1) * CELL]
        cell[inside[thing.form]] = COLOURS[thing.colour]
    return image


@dataclass(frozen=True)
class Painter:
    """Pictures of scenes by name."""

    scenes: dict[str, tuple[Thing, Thing]]
    grid: int

    def __call__(self, name: str) -> bytes:
        """A picture as a PNG file."""
        file = io.BytesIO()
        require("PIL.Image", extra="vision").fromarray(paint(self.scenes[name], self.grid)).save(file, "PNG")
        return file.getvalue()


DATASET = Dataset(
    "shapes",
    kind="captions",
    read=shapes,
    splits=("train", "valid", "test"),
    licence="that of this library: the pictures are made by it",
    embedded=True,
    note="two coloured objects on a grid, with the one right caption",
)
