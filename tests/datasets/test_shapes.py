"""Synthetic pictures: what is painted is what is said."""

import random

import numpy as np

from regard.data.images import read_image
from regard.datasets.shapes import CELL, COLOURS, FORMS, Painter, Thing, describe, paint, scene, shapes


def test_splits_are_seeded_and_do_not_overlap_in_their_noise() -> None:
    one, again, other = shapes((8, 4, 2)), shapes((8, 4, 2)), shapes((8, 4, 2), seed=1)
    assert {name: len(split) for name, split in one.items()} == {"train": 8, "valid": 4, "test": 2}
    assert one["train"].captions == again["train"].captions
    assert one["train"].captions != other["train"].captions
    assert one["train"].captions[:4] != one["valid"].captions
    assert one["train"].signature != other["train"].signature


def test_the_picture_shows_what_the_caption_says() -> None:
    split = shapes((20, 1, 1))["train"]
    painter = split.read
    assert isinstance(painter, Painter)
    for name, (caption,) in zip(split.names, split.captions, strict=True):
        image, things = read_image(painter(name)), painter.scenes[name]
        assert caption == describe(*things)
        assert things[0].column < things[1].column
        assert things[0].colour != things[1].colour
        for thing in things:
            cell = image[thing.row * CELL : (thing.row + 1) * CELL, thing.column * CELL : (thing.column + 1) * CELL]
            assert tuple(cell[CELL // 2, CELL // 2]) == COLOURS[thing.colour]
        coloured = (image != 128).any(-1)
        assert coloured.sum() < 2 * CELL**2 + 1


def test_forms_differ() -> None:
    pictures = [paint([Thing(0, 0, "red", form)], grid=1) for form in FORMS]
    assert all((a != b).any() for i, a in enumerate(pictures) for b in pictures[:i])


def test_every_place_and_colour_occurs() -> None:
    source = random.Random(0)
    scenes = [scene(source, 3) for _ in range(300)]
    assert {thing.colour for pair in scenes for thing in pair} == set(COLOURS)
    assert {(thing.row, thing.column) for pair in scenes for thing in pair} == set(np.ndindex(3, 3))
