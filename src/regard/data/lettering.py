"""Lettering: words of an atlas of glyphs, set in a line, bent and tilted, painted on a ground, all on the device.

A batch takes a fixed number of operations without waiting for the device, so a captured graph may hold it; chance
comes from the device's own generator, or from one that is given. Nothing is read and no font is needed.
"""

import math
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from regard.base import check_settings
from regard.base.ranges import Range, UpToOne, Weight
from regard.data.glyphs import CHARACTERS, HIGH, LETTERS, MARKS, WIDE, Glyphs

LINE = 640  # pixels of the longest line; longer words are set closer
Angle = Annotated[float, Range(least=0, most=90)]
_CAPITAL = len(LETTERS)  # the number of "A"
_MARK = len(CHARACTERS) - len(MARKS)
_DIGITS = 10
_RIM = 9  # points on the upper edge of a word, and as many on the lower, by which it is fitted into its picture


@dataclass(frozen=True)
class Lettering:
    """How words are written and how they lie in the picture; each word draws its own."""

    curved: UpToOne = 0.3  # share of words on an arc
    arc: Angle = 75.0  # degrees that an arc covers, at most
    tilt: Angle = 8.0  # degrees of rotation, one standard deviation
    perspective: Weight = 0.25  # one side may be larger than the other by about this share
    slant: Weight = 0.15  # shear, one standard deviation
    capitals: UpToOne = 0.45  # share of words in capitals; of the others, half begin with one
    strings: UpToOne = 0.15  # share of random digits and letters in place of words
    marks: UpToOne = 0.08  # share of words with a comma, a dollar sign and the like, which the label leaves out

    def __post_init__(self) -> None:
        check_settings(self, "lettering")


class Line(NamedTuple):
    """Words set in a line each."""

    masks: Tensor  # [b 1 HIGH LINE], 0 to 1: ink
    box: Tensor  # [b 4]: left, right, top and bottom of the ink, in pixels


def uniform(shape: tuple[int, ...], device: torch.device, generator: torch.Generator | None = None) -> Tensor:
    """Numbers from 0 to 1 on a device, of its own generator or of one that is given."""
    return torch.rand(shape, device=device, generator=generator)


def normal(shape: tuple[int, ...], device: torch.device, generator: torch.Generator | None = None) -> Tensor:
    """Numbers of the normal distribution, cut at twice its deviation."""
    return torch.randn(shape, device=device, generator=generator).clamp_(-2, 2)


def pick(chance: Float[Tensor, "*s"], count: int | Int[Tensor, "*s"]) -> Int[Tensor, "*s"]:
    """Numbers from 0 to count − 1 of chance from 0 to 1. None lies outside, whatever chance is: a GPU would stop there.

    >>> pick(torch.tensor([0.0, 0.5, 1.0, torch.nan]), 4).tolist()
    [0, 2, 3, 0]
    """
    numbers = (chance * count).nan_to_num(0.0).long().clamp(min=0)
    return numbers.clamp(max=count - 1)


def draw_words(
    table: Int[Tensor, "n l"],
    batch: int,
    style: Lettering,
    *,
    letters: Int[Tensor, " k"],
    generator: torch.Generator | None = None,
) -> Int[Tensor, "b l"]:
    """Words of a table, and random strings: numbers of `LETTERS`, −1 after the end.

    Strings are made of `letters`, ascending. Half of them have the first ten of those, the digits, a quarter the
    others, and a quarter all; short strings are more frequent.
    """
    device, longest = table.device, table.shape[1]
    chance = uniform((batch, 4), device, generator)
    words = table[pick(chance[:, 0], len(table))]
    kind = chance[:, 2:3]
    digits = min(_DIGITS, len(letters))
    low = torch.where((kind > 0.5) & (kind < 0.75), digits if len(letters) > digits else 0, 0)
    high = torch.where(kind < 0.5, digits, len(letters))
    span = (high - low).expand(batch, longest)
    which = letters[low + pick(uniform((batch, longest), device, generator), span)]
    length = 1 + (chance[:, 3:4].square() * min(10, longest)).long()
    strings = which.masked_fill(torch.arange(longest, device=device) >= length, -1)
    return torch.where(chance[:, 1:2] < style.strings, strings, words)


def choose_characters(
    words: Int[Tensor, "b l"], style: Lettering, *, generator: torch.Generator | None = None
) -> Int[Tensor, "b m"]:
    """Numbers of `CHARACTERS` for words: capitals or not, a mark before or after; −1 for nothing."""
    batch, device = len(words), words.device
    chance = uniform((batch, 5), device, generator)
    capital, first = chance[:, :1] < style.capitals, chance[:, 1:2] < 0.5
    place = torch.arange(words.shape[1], device=device)
    upper = (words >= _DIGITS) & (capital | (first & (place == 0)))
    shown = torch.where(upper, words + (_CAPITAL - _DIGITS), words)
    mark = _MARK + pick(chance[:, 2], len(MARKS))
    before = torch.where((chance[:, 3] < style.marks / 2), mark, -1).unsqueeze(1)
    after = torch.where((chance[:, 4] < style.marks / 2), mark, -1).unsqueeze(1)
    shown = F.pad(shown, (0, 1), value=-1).scatter(1, (words >= 0).sum(1, keepdim=True), after)
    return torch.cat([before, shown], 1)


def set_line(
    characters: Int[Tensor, "b m"],
    faces: Int[Tensor, " b"],
    glyphs: Glyphs,
    *,
    spacing: Float[Tensor, " b"] | None = None,
) -> Line:
    """Characters (−1 for none) side by side, each word in one face; `spacing` is added to each width, in pixels."""
    batch = len(characters)
    real = characters >= 0
    which = characters.clamp(min=0)
    face = faces.unsqueeze(1).expand_as(which)
    moves = glyphs.advances[face, which].float() * real
    widest = real.sum(1).clamp(min=1)
    room = (LINE - WIDE - moves.sum(1)) / widest
    apart = room.clamp(max=0.0) if spacing is None else torch.minimum(spacing, room)
    moves = (moves + apart.unsqueeze(1)).clamp(min=1.0) * real
    pen = (moves.cumsum(1) - moves).round().long()  # the left side of each cell
    device = characters.device
    row, column = torch.arange(HIGH, device=device).unsqueeze(1), torch.arange(WIDE, device=device)
    tiles = glyphs.masks[face, which].float().masked_fill(~real[..., None, None], 0.0)  # whole numbers: sums are exact
    where = (row * LINE + column) + pen.clamp(max=LINE - WIDE)[..., None, None]
    flat = torch.zeros(batch, HIGH * LINE, device=device)
    flat.scatter_add_(1, where.reshape(batch, -1), tiles.reshape(batch, -1))
    masks = flat.clamp_(max=255.0).div_(255.0).view(batch, 1, HIGH, LINE)
    ink = glyphs.ink[face, which]  # [b m 4]
    far = LINE + HIGH
    low = torch.stack([ink[..., 0] + pen, ink[..., 2]], -1).masked_fill(~real.unsqueeze(-1), far).amin(1)
    high = torch.stack([ink[..., 1] + pen, ink[..., 3]], -1).masked_fill(~real.unsqueeze(-1), 0).amax(1)
    return Line(masks, torch.stack([low[:, 0], high[:, 0], low[:, 1], high[:, 1]], -1).float())


class Pose(NamedTuple):
    """How a word lies in its picture: along an arc, then tilted, sheared and seen from the side."""

    bend: Tensor  # [b], one divided by the radius, in heights of the word; never zero
    matrix: Tensor  # [b 3 3], from the plane of the word to that of the picture


def draw_pose(aspect: Float[Tensor, " b"], style: Lettering, *, generator: torch.Generator | None = None) -> Pose:
    """A pose for each word, of `aspect` times as wide as high."""
    batch, device = len(aspect), aspect.device
    chance, odds = uniform((batch, 3), device, generator), normal((batch, 4), device, generator)
    turn = torch.where(chance[:, 0] < style.curved, chance[:, 1] * 0.75 + 0.25, 0.0) * math.radians(style.arc)
    bend = (turn / aspect.clamp(min=1.0)).clamp(min=1e-3)  # the angle is the length by the radius
    bend = torch.where(chance[:, 2] < 0.5, bend, -bend)
    angle = odds[:, 0] * math.radians(style.tilt)
    sine, cosine = angle.sin(), angle.cos()
    shear = odds[:, 1] * style.slant
    one, zero = torch.ones_like(sine), torch.zeros_like(sine)
    tip = odds[:, 2] * style.perspective / aspect.clamp(min=1.0)
    nod = odds[:, 3] * style.perspective / 2
    rows = [cosine, cosine * shear - sine, zero, sine, sine * shear + cosine, zero, tip / 2, nod / 2, one]
    return Pose(bend, torch.stack(rows, -1).view(batch, 3, 3))


def bend_points(points: Float[Tensor, "b n 2"], pose: Pose) -> Float[Tensor, "b n 2"]:
    """Where points of a word (in heights, from its middle) lie in the plane of the picture."""
    radius = (1 / pose.bend).unsqueeze(1)
    across, down = points.unbind(-1)
    angle = across / radius
    x, y = (radius - down) * angle.sin(), radius - (radius - down) * angle.cos()
    flat = torch.stack([x, y, torch.ones_like(x)], -1) @ pose.matrix.mT
    return flat[..., :2] / flat[..., 2:].clamp(min=0.2)


def unbend_points(points: Float[Tensor, "b n 2"], pose: Pose) -> Float[Tensor, "b n 2"]:
    """The inverse of `bend_points`."""
    first, second, third = pose.matrix.unbind(1)
    inverse = torch.stack([second.cross(third, -1), third.cross(first, -1), first.cross(second, -1)], -1)
    flat = F.pad(points, (0, 1), value=1.0) @ inverse.mT
    x, y = (flat[..., :2] / torch.where(flat[..., 2:].abs() < 1e-4, 1e-4, flat[..., 2:])).unbind(-1)
    radius = (1 / pose.bend).unsqueeze(1)
    side = radius.sign()
    down = radius - side * torch.hypot(x, radius - y)
    across = torch.atan2(x * side, (radius - y) * side) * radius
    return torch.stack([across, down], -1)


def place_words(
    line: Line,
    pose: Pose,
    size: tuple[int, int],
    *,
    margins: Float[Tensor, "b 4"],
    widths: Int[Tensor, " b"] | None = None,
) -> Float[Tensor, "b 1 h w"]:
    """The ink of each word, 0 to 1, in a picture of its own that its pose fills but for `margins`.

    Margins are shares of the height or width of the word: left, right, top, bottom; they may be negative. `widths`
    are the columns that each word fills, all unless told; there is no ink behind them.
    """
    batch, device = len(line.masks), line.masks.device
    left, right, top, bottom = line.box.unbind(-1)
    height = (bottom - top).clamp(min=1.0)
    half = ((right - left) / height / 2).unsqueeze(1)
    middle = torch.stack([(left + right) / 2, (top + bottom) / 2], -1)
    edge = torch.linspace(-1, 1, _RIM, device=device) * half  # [b rim]
    rim = torch.stack([edge.repeat(1, 2), torch.full_like(edge, 0.5).repeat(1, 2)], -1)
    rim[:, :_RIM, 1] = -0.5
    bent = bend_points(rim, pose)
    low, high = bent.amin(1), bent.amax(1)  # [b 2]
    span = (high - low).clamp(min=1e-3)
    low, high = low - span * margins[:, 0::2], high + span * margins[:, 1::2]
    tall, wide = 2 * size[0], 2 * size[1]  # four samples a pixel
    columns = (torch.arange(wide, device=device) + 0.5).expand(batch, wide)
    columns = columns / (wide if widths is None else 2 * widths.unsqueeze(1))
    rows = ((torch.arange(tall, device=device) + 0.5) / tall).expand(batch, tall)
    x = low[:, :1] + (high - low)[:, :1] * columns
    y = low[:, 1:] + (high - low)[:, 1:] * rows
    plane = torch.stack([x.unsqueeze(1).expand(-1, tall, -1), y.unsqueeze(2).expand(-1, -1, wide)], -1)
    source = unbend_points(plane.flatten(1, 2), pose) * height[:, None, None] + middle.unsqueeze(1)
    x, y = source.unbind(-1)
    grid = torch.stack([x * (2 / LINE) - 1, y * (2 / HIGH) - 1], -1).view(batch, tall, wide, 2)
    ink = F.grid_sample(line.masks, grid, mode="bilinear", padding_mode="zeros", align_corners=False)
    beyond = columns[:, None, None, :] > 1
    return F.avg_pool2d(ink.masked_fill(beyond, 0.0), 2)


def write_words(
    words: Int[Tensor, "b l"],
    glyphs: Glyphs,
    style: Lettering,
    size: tuple[int, int],
    *,
    keep_ratio: bool = False,
    generator: torch.Generator | None = None,
) -> tuple[Float[Tensor, "b 1 h w"], Int[Tensor, " b"]]:
    """The ink of words, each in a face and a pose of its own, and the width of each; the full one if not `keep_ratio`.

    Words that keep their ratio are at least half as wide as high.
    """
    batch, device = len(words), words.device
    faces = pick(uniform((batch,), device, generator), len(glyphs.faces))
    spacing = normal((batch,), device, generator) * 1.5 + 0.5
    line = set_line(choose_characters(words, style, generator=generator), faces, glyphs, spacing=spacing)
    aspect = (line.box[:, 1] - line.box[:, 0]) / (line.box[:, 3] - line.box[:, 2]).clamp(min=1.0)
    pose = draw_pose(aspect, style, generator=generator)
    margins = 0.12 * uniform((batch, 4), device, generator) - 0.02
    widths = torch.full((batch,), size[1], device=device)
    if keep_ratio:
        stretch = 0.8 + 0.4 * uniform((batch,), device, generator)
        widths = (aspect * stretch * size[0]).round().long().clamp(size[0] // 2, size[1])
    return place_words(line, pose, size, margins=margins, widths=widths), widths
