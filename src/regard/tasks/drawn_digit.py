"""Digits that are drawn by hand, cropped and centred as those of MNIST were, so that a model sees what it knows.

The page of the studio does the same in `studio/static/digit.js`, while somebody draws; a test compares the two.
"""

import numpy as np
from jaxtyping import Float, UInt8
from numpy import ndarray

from regard.tasks.inputs import Picture, as_pixels

SIDE, INNER = 28, 20  # pixels of MNIST: of a picture, and of the box that the digit fits
INK = 32  # of 255: what counts as ink


def centred_digit(picture: Picture, *, invert: bool | None = None) -> UInt8[ndarray, "28 28"]:
    """A drawn digit, white on black, as MNIST has it: its ink fits 20 × 20, and its centre of mass is in the middle.

    A picture is a path, the bytes of a file, or pixels as bytes [h w] or [h w 3]. One whose border is bright is
    inverted, unless `invert` says otherwise. A picture without ink stays black.

    >>> page = np.zeros((280, 280), dtype=np.uint8)
    >>> page[40:140, 100:120] = 255
    >>> np.argwhere(centred_digit(page))[[0, -1]].tolist()
    [[4, 12], [23, 15]]
    """
    grey = as_pixels(picture).astype(np.float64) @ np.array([0.299, 0.587, 0.114])
    rim = np.concatenate([grey[0], grey[-1], grey[:, 0], grey[:, -1]])
    if invert or (invert is None and np.median(rim) > 127):
        grey = 255 - grey
    digit = np.zeros((SIDE, SIDE), dtype=np.uint8)
    rows, columns = np.nonzero(grey >= INK)
    if not len(rows):
        return digit
    ink = grey[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1]
    scale = INNER / max(ink.shape)
    high, wide = (max(1, min(INNER, int(np.floor(side * scale + 0.5)))) for side in ink.shape)
    small = _shares(ink.shape[0], high) @ ink @ _shares(ink.shape[1], wide).T
    top = _first(small.sum(1))
    left = _first(small.sum(0))
    digit[top : top + high, left : left + wide] = np.floor(small + 0.5)
    return digit


def _shares(size: int, smaller: int) -> Float[ndarray, "smaller size"]:
    """How much of each smaller pixel is covered by each pixel: their mean is what it shows."""
    edges = np.arange(smaller + 1)[:, None] * size / smaller
    pixels = np.arange(size)
    covered = np.minimum(edges[1:], pixels + 1) - np.maximum(edges[:-1], pixels)
    shares: ndarray = np.clip(covered, 0, None) * smaller / size
    return shares


def _first(mass: Float[ndarray, " n"]) -> int:
    """Where a side begins, so that its centre of mass is in the middle."""
    centre = (mass * (np.arange(len(mass)) + 0.5)).sum() / mass.sum()
    return max(0, min(SIDE - len(mass), int(np.floor(SIDE / 2 - centre + 0.5))))
