"""Generated scenes with two actors, painted on the device: what one does decides labels of the other.

Each actor walks left or right, may jump, and wears a colour. A label of the person alone says what it does itself. A
label of context is decided by the other one: whether it jumps, whether it comes nearer, whether it goes the same way.
What one actor does is drawn without a look at the other, so of each label of context one half is true, whatever the own
box shows: who sees the box alone can only guess.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.base import ConfigError, ShapeError

OWN = ("jumps", "goes right")
CONTEXT = ("sees a jump", "is approached", "goes the same way")
CHANCES = 20  # numbers from 0 to 1 that decide one scene
COLOURS = ((1.0, 0.3, 0.2), (0.2, 0.85, 0.3), (0.25, 0.45, 1.0), (0.95, 0.85, 0.2))
HEIGHT, WIDTH = 32, 64  # the size for which the lengths below are; others are scaled by the height
GAP, MARGIN = 24.0, 9.0  # pixels between the middles of two actors in the middle frame, and to the left and right edge


class ActedClips(NamedTuple):
    """Clips with a box for each person, in the middle frame, and its labels."""

    clips: Tensor  # [b c t h w], 0 to 1
    boxes: Tensor  # [b r 4]: left, top, right, bottom, as shares of width and height
    labels: Tensor  # [b r c]: 1 where a label is true, 0 where it is not
    counted: Tensor  # [b r]: False where there is no person


@dataclass(frozen=True, eq=False)
class Scenes:
    """A split: `chances` [n, 20] from 0 to 1, each row of which decides a scene. Scenes are painted when asked for."""

    chances: Tensor
    classes: tuple[str, ...] = (*OWN, *CONTEXT)
    context: tuple[str, ...] = CONTEXT
    channels: int = 3

    def __post_init__(self) -> None:
        if self.chances.ndim != 2 or self.chances.shape[1] != CHANCES:
            raise ShapeError("chances of scenes", got=list(self.chances.shape), expected=f"[n {CHANCES}]")

    @property
    def size(self) -> int:
        """How many scenes there are."""
        return len(self.chances)


def drawn_scenes(count: int, *, seed: int) -> Scenes:
    """Scenes of a seed, the same on every machine.

    >>> drawn_scenes(3, seed=1).size
    3
    """
    return Scenes(torch.rand(count, CHANCES, generator=torch.Generator().manual_seed(seed)))


def act_scenes(chances: Float[Tensor, "b n"], frames: int, height: int, width: int) -> ActedClips:
    """Paint the scenes of these chances where they are. Nothing waits for the device, a captured graph may hold it."""
    unit = height / HEIGHT
    room = width - (2 * MARGIN + GAP) * unit
    if frames < 4 or height < 16 or room < 0:
        got = f"{frames} frames of {height} × {width}"
        expected = "4 frames or more of at least 16 rows, and 1.4 times as many columns as rows"
        raise ConfigError("scenes with two actors", got=got, expected=expected, cure="set task.height=32 task.width=64")
    b = len(chances)
    both, own = chances[:, :4], chances[:, 4:].view(b, 2, 8)
    device = chances.device

    # where they stand in the middle frame: two places at least GAP apart, and who has the left one
    inner = both[:, 0:2].sort(1).values * room  # [b 2]
    places = torch.stack([inner[:, 0], inner[:, 1] + GAP * unit], 1) + MARGIN * unit
    swapped = both[:, 2:3] < 0.5
    x = torch.where(swapped, places.flip(1), places)  # [b 2]
    y = (0.5 + 0.25 * own[..., 0]) * height

    # what they do
    jumps, right = own[..., 1] < 0.5, own[..., 2] < 0.5
    speed = (0.3 + 0.3 * own[..., 3]) * unit * 16 / frames * (2.0 * right - 1.0)
    colour = (own[..., 4] * len(COLOURS)).long().clamp(max=len(COLOURS) - 1)  # [b 2]
    time = torch.arange(frames, device=device) - frames // 2
    across = x.unsqueeze(-1) + speed.unsqueeze(-1) * time  # [b 2 t]
    bounce = torch.sin(torch.pi * (2 * time / frames + own[..., 5:6])).abs()
    down = y.unsqueeze(-1) - jumps.unsqueeze(-1) * 5 * unit * bounce

    # bodies, heads and the ground behind them
    half = (2.6 + 0.8 * own[..., 6]) * unit
    tall = (4.0 + 1.5 * own[..., 7]) * unit
    body = _rectangle(across, down, half, tall, height, width)
    head_size = 0.6 * half
    head = _rectangle(across, down - (tall + head_size).unsqueeze(-1), head_size, head_size, height, width)
    shape = (body + head).clamp(max=1)  # [b 2 t h w]
    shade = 0.05 + 0.25 * both[:, 3]  # of the ground
    paint = _paint(colour)
    ground = shade[:, None, None, None, None].expand(b, 3, frames, height, width)
    clips = ground
    for actor in range(2):
        cover = shape[:, actor].unsqueeze(1)
        clips = clips * (1 - cover) + paint[:, actor, :, None, None, None] * cover

    # boxes in the middle frame, with a little room around
    middle = frames // 2
    x_now, y_now = across[..., middle], down[..., middle]
    sides = (x_now - half - unit, y_now - tall - 2 * head_size - unit, x_now + half + unit, y_now + tall + unit)
    boxes = torch.stack([side / size for side, size in zip(sides, (width, height) * 2, strict=True)], -1)
    other_right, other_jumps = right.flip(1), jumps.flip(1)
    other_is_right = x.flip(1) > x
    labels = torch.stack([jumps, right, other_jumps, other_right != other_is_right, right == other_right], -1)
    counted = torch.ones(b, 2, dtype=torch.bool, device=device)
    return ActedClips(clips, boxes.clamp(0, 1), labels.float(), counted)


def _paint(colour: Int[Tensor, "b 2"]) -> Float[Tensor, "b 2 3"]:
    """Red, green and blue of each actor; a table of colours would have to be copied from the host."""
    paint = torch.zeros(*colour.shape, 3, device=colour.device)
    for number, shades in enumerate(COLOURS):
        for channel, shade in enumerate(shades):
            paint[..., channel] += shade * (colour == number)
    return paint


def _rectangle(
    x: Float[Tensor, "b 2 t"], y: Float[Tensor, "b 2 t"], half: Tensor, tall: Tensor, height: int, width: int
) -> Float[Tensor, "b 2 t h w"]:
    """How much of each pixel a rectangle covers: soft at its edges, so that slow steps are seen."""
    columns, rows = (torch.arange(size, device=x.device) + 0.5 for size in (width, height))
    across = (half[..., None, None] + 0.5 - (columns - x.unsqueeze(-1)).abs()).clamp(0, 1)  # [b 2 t w]
    down = (tall[..., None, None] + 0.5 - (rows - y.unsqueeze(-1)).abs()).clamp(0, 1)  # [b 2 t h]
    return down.unsqueeze(-1) * across.unsqueeze(-2)
