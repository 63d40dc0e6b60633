"""Signs: several rendered words on one picture, with boards, bars and noise, and the box of each word.

As in `lettering`, a batch takes a fixed number of operations on the device, so a captured graph may hold it.
"""

from dataclasses import dataclass
from typing import Annotated, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.base import ConfigError, check_settings
from regard.base.ranges import Pixels, Range
from regard.data.glyphs import Glyphs
from regard.data.lettering import Lettering, choose_characters, draw_pose, pick, place_words, set_line, uniform
from regard.data.weather import Weather, patches, wear

PATCH = (48, 160)  # rows and columns in which a word is drawn before it is laid on its sign
BARS = 4  # strokes that are no letters


@dataclass(frozen=True)
class Signs:
    """How large signs are, and how many words of which heights lie on them."""

    size: Pixels = 192  # height and width of a sign
    words: Annotated[int, Range(least=1, most=32)] = 8  # tried on each sign; those that would overlap are left out
    lowest: Pixels = 12  # pixels of a low word; long ones may be lower by three tenths
    highest: Pixels = 44  # pixels of the highest word

    def __post_init__(self) -> None:
        check_settings(self, "signs")
        if not 4 <= self.lowest <= self.highest <= self.size or self.size % 16:
            got = f"size={self.size}, lowest={self.lowest}, highest={self.highest}"
            raise ConfigError("the sizes of signs", got=got, expected="4 ≤ lowest ≤ highest ≤ size, which 16 divides")


class DrawnSigns(NamedTuple):
    """A batch of b signs: their pictures, and the boxes of the m words that were tried on each of them."""

    images: Tensor  # [b 1 s s], 0 to 1
    boxes: Tensor  # [b m 4]: top, left, height, width in pixels
    visible: Tensor  # bool [b m]: whether this word lies on the sign


def draw_signs(
    words: Int[Tensor, "b m l"],
    glyphs: Glyphs,
    style: Lettering,
    signs: Signs,
    weather: Weather,
    *,
    generator: torch.Generator | None = None,
) -> DrawnSigns:
    """Signs with m words each, of which those are left out that would not fit or lie on an earlier one."""
    batch, count, _ = words.shape
    device, size = words.device, signs.size
    flat = words.flatten(0, 1)
    faces = pick(uniform((len(flat),), device, generator), len(glyphs.faces))
    line = set_line(choose_characters(flat, style, generator=generator), faces, glyphs)
    aspect = (line.box[:, 1] - line.box[:, 0]) / (line.box[:, 3] - line.box[:, 2]).clamp(min=1.0)
    pose = draw_pose(aspect, style, generator=generator)
    ink = place_words(line, pose, PATCH, margins=torch.zeros(len(flat), 4, device=device))
    chance = uniform((batch, count, 4), device, generator)
    height = signs.lowest + (signs.highest - signs.lowest) * chance[..., 0].square()
    ratio = aspect.view(batch, count).clamp(0.4, 16.0)
    height = torch.minimum(height, 0.95 * size / ratio)  # long words are lower
    width = height * ratio
    top, left = chance[..., 1] * (size - height), chance[..., 2] * (size - width)
    boxes = torch.stack([top, left, height, width], -1)
    visible = _apart(boxes, (height >= 0.7 * signs.lowest) & (flat >= 0).any(1).view(batch, count))
    ground = _ground(batch, size, weather, device, generator)
    pixels = (torch.arange(size, device=device) + 0.5).view(1, -1)
    greys = chance[..., 3]
    for number in range(count):
        y = (pixels - top[:, number : number + 1]) / height[:, number : number + 1] * 2 - 1  # [b s]
        x = (pixels - left[:, number : number + 1]) / width[:, number : number + 1] * 2 - 1
        grid = torch.stack([x.unsqueeze(1).expand(-1, size, -1), y.unsqueeze(2).expand(-1, -1, size)], -1)
        patch = ink.view(batch, count, 1, *PATCH)[:, number]
        laid = F.grid_sample(patch, grid, padding_mode="zeros", align_corners=False)
        laid = laid * visible[:, number].view(-1, 1, 1, 1)
        here = (x.unsqueeze(1).abs() < 1) & (y.unsqueeze(2).abs() < 1)  # [b s s]
        inside = here.unsqueeze(1).to(ground.dtype)
        under = (ground * inside).sum((1, 2, 3)) / inside.sum((1, 2, 3)).clamp(min=1)
        share = 0.5 + 0.5 * greys[:, number]
        front = torch.where(under < 0.5, under + (1 - under) * share, under * (1 - share)).view(-1, 1, 1, 1)
        ground = torch.lerp(ground, front.expand_as(ground), laid)
    return DrawnSigns(wear(ground.clamp(0, 1), weather, generator=generator), boxes, visible)


def _apart(boxes: Float[Tensor, "b m 4"], fits: Bool[Tensor, "b m"]) -> Bool[Tensor, "b m"]:
    """True for boxes that fit and lie apart, by a fifth of their height, from all earlier ones for which it is true."""
    top, left, height, width = boxes.unbind(-1)
    gap = height / 5 + 1
    first, last = torch.stack([top - gap, left - gap], -1), torch.stack([top + height + gap, left + width + gap], -1)
    kept: list[Tensor] = []
    for number in range(boxes.shape[1]):
        stands = fits[:, number]
        for earlier in range(number):
            meets = (first[:, number] < last[:, earlier]) & (first[:, earlier] < last[:, number])
            stands = stands & ~(meets.all(-1) & kept[earlier])
        kept.append(stands)
    return torch.stack(kept, 1)


def _ground(
    batch: int, size: int, weather: Weather, device: torch.device, generator: torch.Generator | None
) -> Float[Tensor, "b 1 s s"]:
    """A wall with stains, a board on it, and bars."""
    frame = (size, size)
    chance = uniform((batch, 4 + 5 * (1 + BARS)), device, generator)
    rough = weather.texture * chance[:, 0].view(-1, 1, 1, 1)
    wall = chance[:, 1].view(-1, 1, 1, 1) + rough * (
        patches(batch, (3, 3), frame, device, generator) + patches(batch, (24, 24), frame, device, generator)
    )
    place = (torch.arange(size, device=device) + 0.5) / size
    for number, numbers in enumerate(chance[:, 4:].view(batch, 1 + BARS, 5).unbind(1)):
        thin = numbers[:, 3] < 0.5  # bars are long and thin
        high = 0.3 + 0.6 * numbers[:, 2] if number == 0 else torch.where(thin, 0.01 + 0.03 * numbers[:, 2], 0.5)
        wide = 0.3 + 0.6 * numbers[:, 3] if number == 0 else torch.where(thin, 0.6, 0.01 + 0.03 * numbers[:, 2])
        down = (place.view(1, -1) - numbers[:, 0:1] * (1 - high.unsqueeze(1))) / high.unsqueeze(1)
        along = (place.view(1, -1) - numbers[:, 1:2] * (1 - wide.unsqueeze(1))) / wide.unsqueeze(1)
        rows, columns = (down > 0) & (down < 1), (along > 0) & (along < 1)
        inside = (rows.unsqueeze(2) & columns.unsqueeze(1)).unsqueeze(1)
        wall = torch.where(
            inside, numbers[:, 4].view(-1, 1, 1, 1) + 0.3 * (wall - wall.mean((2, 3), keepdim=True)), wall
        )
    return wall.clamp(0, 1)
