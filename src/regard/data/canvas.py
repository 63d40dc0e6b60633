"""Digits on a larger canvas, painted on the device that holds them: translated, cluttered, in pairs.

The digits are placed first, then pieces of other digits of the same split are added (Mnih et al. 2014, 4.1); where
things lie on one another, brightness adds up to white at most. All digits of a batch are gathered and added at once,
and all pieces. Sums of whole grey levels are exact in any order, so a seed gives the same canvases every time.
"""

from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.base import ConfigError, check_settings
from regard.base.ranges import Pixels, Range
from regard.data.pictures import Pictures

TRIES = 16  # placements that are drawn for digits that must not overlap; of two on 100×100 all fail once in 4 million


@dataclass(frozen=True)
class Canvas:
    """How large, how many digits and pieces of clutter, and what is asked about several digits.

    "sequence": the labels from left to right; "pair": which two, in any order (55 classes); "sum": of all (19 for two).
    """

    size: Pixels | None = None  # None: no canvas, pictures are taken as they are
    digits: Annotated[int, Range(least=1, most=100)] = 1  # how many lie on it
    clutter: Annotated[int, Range(least=0, most=10_000)] = 0  # pieces
    patch: Pixels = 8  # their side
    target: Literal["sequence", "pair", "sum"] = "sequence"  # what is asked of several digits
    overlap: bool = False  # whether the squares of several digits may lie on one another

    def __post_init__(self) -> None:
        check_settings(self, "canvas")
        if self.target == "pair" and self.digits not in (1, 2):
            raise ConfigError("canvas.target 'pair'", got=f"{self.digits} digits", expected="2")
        if self.size is None and (self.digits > 1 or self.clutter):
            raise ConfigError("canvas.size", got="none", expected="a size for several digits or clutter")

    def check(self, pool: Pictures) -> None:
        """Whether these digits fit."""
        height, width = pool.images.shape[-2:]
        if self.size is None:
            return
        if pool.channels != 1 or pool.labels.ndim != 1:
            got = f"{pool.channels} channels, labels {list(pool.labels.shape)}"
            raise ConfigError("a canvas is for grey pictures with one label", got=got, cure="set canvas.size=none")
        if self.size < max(height, width):
            raise ConfigError("canvas.size", got=self.size, expected=f"at least {max(height, width)}")
        if self.clutter and (self.patch > min(height, width) or pool.size < 2):
            got = f"{self.patch}, {pool.size} digits of {height}×{width}"
            raise ConfigError("canvas.patch", got=got, expected="inside a digit, and two digits or more")
        if self.digits > 1 and not self.overlap and self.size < 2 * max(height, width):
            raise ConfigError("canvas.size", got=self.size, expected=f"{2 * max(height, width)} for several digits")

    def classes(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """The classes of what is asked, from those of one digit."""
        if self.digits == 1 or self.target == "sequence":
            return names
        if self.target == "sum":
            return tuple(str(total) for total in range(self.digits * (len(names) - 1) + 1))
        return tuple(f"{low}{high}" for place, low in enumerate(names) for high in names[place:])


class Painted(NamedTuple):
    """A batch of canvases."""

    images: Tensor  # [b 1 size size], 0 to 1, whole 255ths
    labels: Tensor  # [b], or [b digits] for sequences


def paint(
    rows: Int[Tensor, " b"], pool: Pictures, canvas: Canvas, *, generator: torch.Generator | None = None
) -> Painted:
    """The digits of these rows of the pool, each on a canvas of its own with what else belongs there.

    Digits lie at uniformly random whole pixels, pieces of clutter are cut from random places of random other digits of
    the pool. Further digits (pairs) are drawn from the whole pool. Everything is computed where the pool is, in a fixed
    number of operations, without waiting: a captured graph may hold it.
    """
    assert canvas.size is not None, "a canvas has a size"
    batch, height, width = len(rows), *pool.images.shape[-2:]
    size, count, clutter, patch = canvas.size, canvas.digits, canvas.clutter, canvas.patch
    tries = 1 if count == 1 or canvas.overlap else TRIES
    chance = torch.rand(batch, 2 * count * tries + count - 1 + 5 * clutter, device=rows.device, generator=generator)
    places, others, pieces = torch.split(chance, [2 * count * tries, count - 1, 5 * clutter], 1)

    y, x = _places(places.view(batch, tries, count, 2), size - height + 1, size - width + 1, max(height, width))
    who = torch.cat([rows.unsqueeze(1), (others * pool.size).long()], 1)  # [b digits]
    if count > 1:
        order = (x * size + y).argsort(1)  # left to right
        y, x, who = (numbers.gather(1, order) for numbers in (y, x, who))
    zero = torch.zeros_like(who)
    painted = torch.zeros(batch, size * size, device=rows.device)
    _add(painted, pool, who, zero, zero, y, x, side=(height, width), size=size)
    if clutter:
        piece = pieces.view(batch, clutter, 5)
        donor = (rows.unsqueeze(1) + 1 + (piece[..., 0] * (pool.size - 1)).long()) % pool.size  # any other digit
        from_y, from_x = (piece[..., 1] * (height - patch + 1)).long(), (piece[..., 2] * (width - patch + 1)).long()
        to_y, to_x = (piece[..., 3] * (size - patch + 1)).long(), (piece[..., 4] * (size - patch + 1)).long()
        _add(painted, pool, donor, from_y, from_x, to_y, to_x, side=(patch, patch), size=size)
    images = painted.clamp_(max=255.0).div_(255.0).view(batch, 1, size, size)
    return Painted(images, _answer(pool.labels[who], canvas, len(pool.classes)))


def _places(chance: Float[Tensor, "b n m 2"], high: int, wide: int, side: int) -> tuple[Tensor, Tensor]:
    """Top and left edges [b m]: of n placements of m squares the first in which no two overlap, else the last."""
    y, x = (chance[..., 0] * high).long(), (chance[..., 1] * wide).long()  # [b n m]
    tries, count = y.shape[1:]
    if tries == 1:
        return y.squeeze(1), x.squeeze(1)
    far = torch.maximum(*((axis.unsqueeze(-1) - axis.unsqueeze(-2)).abs() for axis in (y, x))) >= side
    first, second = torch.triu_indices(count, count, 1, device=y.device)
    apart = far[..., first, second].all(-1)  # [b n]
    number = torch.arange(tries, device=y.device)
    best = torch.where(apart, number, tries - 1).amin(1)[:, None, None].expand(-1, 1, count)
    return y.gather(1, best).squeeze(1), x.gather(1, best).squeeze(1)


def _add(
    painted: Float[Tensor, "b size_size"],
    pool: Pictures,
    who: Int[Tensor, "b m"],
    from_y: Int[Tensor, "b m"],
    from_x: Int[Tensor, "b m"],
    to_y: Int[Tensor, "b m"],
    to_x: Int[Tensor, "b m"],
    *,
    side: tuple[int, int],
    size: int,
) -> None:
    """Add m squares of digits to each flat canvas: where they are in the pool, and where they come to lie."""
    height, width = pool.images.shape[-2:]
    row = torch.arange(side[0], device=who.device).unsqueeze(1)
    column = torch.arange(side[1], device=who.device)
    read = (who * (height * width) + from_y * width + from_x)[..., None, None] + (row * width + column)
    write = (to_y * size + to_x)[..., None, None] + (row * size + column)
    levels = pool.images.view(-1).take(read.flatten(1)).float()  # whole numbers
    painted.scatter_add_(1, write.flatten(1), levels)


def _answer(labels: Int[Tensor, "b m"], canvas: Canvas, classes: int) -> Tensor:
    if canvas.digits == 1:
        return labels.squeeze(1)
    if canvas.target == "sum":
        return labels.sum(1)
    if canvas.target == "sequence":
        return labels
    low, high = labels.amin(1), labels.amax(1)
    return low * (2 * classes - low + 1) // 2 + high - low  # rows of a triangle, one after the other
