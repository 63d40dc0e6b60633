"""A digit drawn by hand, of any size, anywhere on its paper, dark or light: cropped and centred as those of a data set.

MNIST's digits were fitted into a box of 20 × 20 pixels, with their proportions, and moved so that their centre of mass
is the middle of 28 × 28 (LeCun et al. 1998). Here the ink is found first: what differs enough from the paper.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

SIDE = 28


class Framing(NamedTuple):
    """How a data set frames its digits."""

    box: int  # pixels of the longer side
    by_mass: bool  # whether the centre of mass is in the middle, and not the middle of the box


FRAMINGS = {"mnist": Framing(20, True), "digits": Framing(24, False)}
_FRAMED = 3.0  # pixels by which a picture of 28 × 28 may differ from the framing and stay as it is
_LEAST_INK = 0.12  # of the range from black to white: what differs less from the paper is no ink


def framed(
    grey: Float[Tensor, "h w"], framing: Framing, *, invert: bool | None = None
) -> Float[Tensor, "28 28"] | None:
    """The digit of a grey picture (0 to 255), white on black, framed; None where there is no ink.

    `invert` says whether the paper is bright; None: as the border says. A picture that is framed already comes back as
    it is.

    >>> paper = torch.full((200, 300), 230.0)
    >>> paper[20:120, 210:220] = 30.0  # a one, in a corner
    >>> digit = framed(paper, FRAMINGS["mnist"])
    >>> [int(side) for side in (digit > 128).nonzero().amin(0)], [int(side) for side in (digit > 128).nonzero().amax(0)]
    ([4, 13], [23, 14])
    """
    paper = torch.cat([grey[0], grey[-1], grey[:, 0], grey[:, -1]]).median()
    bright = bool(paper > 127) if invert is None else invert
    paper = paper if bright == bool(paper > 127) else torch.tensor(255.0 if bright else 0.0)
    light = (paper - grey if bright else grey - paper).clamp(min=0)
    peak = light.max()
    if peak < 255 * _LEAST_INK:
        return None
    ink = light > 0.35 * _threshold(light)  # the soft edges of strokes too
    top, bottom, left, right = _bounds(ink)
    whole = torch.where(light > 0.25 * _threshold(light), light, 0.0)
    if grey.shape == (SIDE, SIDE) and not bright and _is_framed(whole, framing, (top, bottom, left, right)):
        return grey
    cut = whole[top:bottom, left:right]
    ratio = framing.box / max(cut.shape)
    size = max(1, round(cut.shape[0] * ratio)), max(1, round(cut.shape[1] * ratio))
    small = F.interpolate(cut[None, None], size=size, mode="bilinear", antialias=True, align_corners=False)[0, 0]
    small = (small * (255 / small.max().clamp(min=1))).clamp(0, 255)  # thin lines of a large drawing become faint
    down, across = _middle(small) if framing.by_mass else ((size[0] - 1) / 2, (size[1] - 1) / 2)
    high = min(max(round((SIDE - 1) / 2 - down), 0), SIDE - size[0])
    wide = min(max(round((SIDE - 1) / 2 - across), 0), SIDE - size[1])
    return F.pad(small, (wide, SIDE - size[1] - wide, high, SIDE - size[0] - high))


def _threshold(light: Float[Tensor, "h w"]) -> float:
    """Where ink and paper part best: the threshold of the largest variance between both (Otsu 1979)."""
    counts = torch.histc(light, bins=64, min=0.0, max=float(light.max()))
    middles = (torch.arange(64) + 0.5) * float(light.max()) / 64
    below, sums = counts.cumsum(0), (counts * middles).cumsum(0)
    above, rest = below[-1] - below, sums[-1] - sums
    between = below * above * (sums / below.clamp(min=1) - rest / above.clamp(min=1)) ** 2
    return float(middles[int(between[:-1].argmax())])


def _bounds(ink: Bool[Tensor, "h w"]) -> tuple[int, int, int, int]:
    """Top, bottom, left and right of the ink; the last of each pair is outside."""
    rows, columns = ink.any(1).nonzero(), ink.any(0).nonzero()
    return int(rows[0]), int(rows[-1]) + 1, int(columns[0]), int(columns[-1]) + 1


def _middle(light: Float[Tensor, "h w"]) -> tuple[float, float]:
    """The centre of mass: row and column."""
    total = float(light.sum())
    rows, columns = (torch.arange(side, dtype=light.dtype) for side in light.shape)
    return float((light.sum(1) * rows).sum()) / total, float((light.sum(0) * columns).sum()) / total


def _is_framed(light: Float[Tensor, "28 28"], framing: Framing, bounds: tuple[int, int, int, int]) -> bool:
    """Whether a picture of the right size has its digit where the data set has it."""
    top, bottom, left, right = bounds
    down, across = _middle(light) if framing.by_mass else ((top + bottom - 1) / 2, (left + right - 1) / 2)
    near = max(abs(down - (SIDE - 1) / 2), abs(across - (SIDE - 1) / 2)) <= _FRAMED
    return near and abs(max(bottom - top, right - left) - framing.box) <= _FRAMED
