"""Weather: ink becomes a grey picture with a ground, an edge and a shadow; pictures become blurred, coarse and noisy.

Rendered words go through `paint_words` and `wear`, photographed ones through `jostle` and `wear`. All of it happens on
the device in a fixed number of operations, from the device's generator or one that is given.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from regard.base import check_settings
from regard.base.ranges import UpToOne, Weight
from regard.data.lettering import normal, uniform

KERNEL = 7  # pixels of a side of the blur
_COARSE = ((5, 8), (1, 2), (3, 8))  # of the height, as fractions; of the width too, or half as much is lost


@dataclass(frozen=True)
class Weather:
    """How much is done to pictures; each picture draws its own amounts."""

    lighter: UpToOne = 0.5  # renders: share of words that are lighter than their ground
    texture: Weight = 0.1  # deviation of patches of the ground, white is 1
    neighbours: UpToOne = 0.15  # share of words with ink of another word at their edge
    edges: UpToOne = 0.15  # share of words with an outline
    shadows: UpToOne = 0.15  # share of words with a shadow
    blur: Weight = 0.8  # deviation of the widest usual blur, in pixels
    noise: Weight = 0.05  # deviation of a strong noise on a picture of full contrast, white is 1
    coarse: UpToOne = 0.25  # share of pictures that were smaller before
    contrast: Weight = 0.3  # how much contrast and brightness vary
    inverted: UpToOne = 0.1  # photographs: share of those with black and white exchanged

    def __post_init__(self) -> None:
        check_settings(self, "weather")


def patches(
    batch: int,
    cells: tuple[int, int],
    size: tuple[int, int],
    device: torch.device,
    generator: torch.Generator | None = None,
) -> Float[Tensor, "b 1 h w"]:
    """Smooth random patches: normal numbers on a coarse grid, with the grid's values in between."""
    coarse = torch.randn((batch, 1, *cells), device=device, generator=generator)
    return F.interpolate(coarse, size=size, mode="bilinear", align_corners=False)


def paint_words(
    ink: Float[Tensor, "b 1 h w"], weather: Weather, *, generator: torch.Generator | None = None
) -> Float[Tensor, "b 1 h w"]:
    """Pictures of ink on a ground of another grey, with patches, slopes, edges, shadows and neighbours."""
    batch, device, size = len(ink), ink.device, (ink.shape[2], ink.shape[3])
    chance = uniform((batch, 10, 1, 1), device, generator)
    upwards = chance[:, 9:10] < weather.lighter
    ground = torch.where(upwards, chance[:, 0:1] / 2, 1 - chance[:, 0:1] / 2)
    apart = 0.4 + 0.6 * chance[:, 1:2]  # of what is possible on the side with more room
    front = torch.where(upwards, ground + (1 - ground) * apart, ground * (1 - apart))
    room = (front - ground).abs()
    rough = weather.texture * chance[:, 2:3].square() * 2 * (0.25 + room)
    slope = patches(batch, (2, 2), size, device, generator) * rough
    stains = patches(batch, (4, 10), size, device, generator) * rough
    grain = patches(batch, (size[0] // 2, size[1] // 2), size, device, generator) * rough * 0.7
    base = ground + slope + stains + grain
    other = ink.roll(1, 0)  # another word, above or below
    shift = (size[0] * 3) // 4
    above, below = other.roll(-shift, 2), other.roll(shift, 2)
    rows = torch.arange(size[0], device=device).view(1, 1, -1, 1)
    stray = torch.where(chance[:, 3:4] < 0.5, above * (rows < size[0] - shift), below * (rows >= shift))
    near = chance[:, 4:5] < weather.neighbours
    base = torch.where(near, torch.lerp(base, front.expand_as(base), stray * (1 - ink)), base)
    across, down = (chance[:, 5:6] < 0.5), (chance[:, 6:7] < 0.5)
    cast = torch.where(across, ink.roll(1, 3), ink.roll(-2, 3))
    cast = torch.where(down, cast.roll(1, 2), cast)
    dark = torch.where(upwards, ground * 0.4, ground + (1 - ground) * 0.6)
    base = torch.where(chance[:, 7:8] < weather.shadows, torch.lerp(base, dark.expand_as(base), cast * 0.8), base)
    rim = F.max_pool2d(ink, 3, stride=1, padding=1)
    base = torch.where(chance[:, 8:9] < weather.edges, torch.lerp(base, dark.expand_as(base), rim), base)
    shade = patches(batch, (3, 6), size, device, generator) * rough * 0.5
    return torch.lerp(base, front + shade, ink).clamp(0, 1)


def jostle(
    images: Float[Tensor, "b 1 h w"],
    size: tuple[int, int],
    *,
    turn: float = 6.0,
    shift: float = 0.05,
    generator: torch.Generator | None = None,
) -> Float[Tensor, "b 1 h2 w2"]:
    """Photographs, each tilted, sheared, stretched, seen from the side and cut a little otherwise, in a new size."""
    batch, device = len(images), images.device
    odds, sides = normal((batch, 5), device, generator), uniform((batch, 4), device, generator) * 2 - 1
    aspect = images.shape[3] / images.shape[2]
    angle = odds[:, 0] * math.radians(turn) / 2
    x = torch.linspace(-1 + 1 / size[1], 1 - 1 / size[1], size[1], device=device).view(1, 1, -1)
    y = torch.linspace(-1 + 1 / size[0], 1 - 1 / size[0], size[0], device=device).view(1, -1, 1)
    left, right, top, bottom = (1 + shift * side.view(-1, 1, 1) for side in sides.unbind(-1))
    x, y = torch.where(x < 0, x * left, x * right), torch.where(y < 0, y * top, y * bottom)
    tilt, shear = angle.view(-1, 1, 1), (odds[:, 1] * 0.1).view(-1, 1, 1)
    far = 1 + (odds[:, 2] * 0.08).view(-1, 1, 1) * x + (odds[:, 3] * 0.08).view(-1, 1, 1) * y
    wave = (odds[:, 4] * 0.06).view(-1, 1, 1) * (x.square() - 0.33)
    grid = torch.stack([(x + shear * y / aspect) / far, (y + tilt * aspect * x + wave) / far], -1)
    return F.grid_sample(images, grid, mode="bilinear", padding_mode="border", align_corners=False)


def wear(
    images: Float[Tensor, "b 1 h w"],
    weather: Weather,
    *,
    inverted: float = 0.0,
    generator: torch.Generator | None = None,
) -> Float[Tensor, "b 1 h w"]:
    """Pictures, 0 to 1, after blur, loss of resolution, noise, and a change of contrast; a share `inverted`.

    Pictures that are more than twice as wide as high hold words that were squeezed: they lose half as many columns.
    """
    batch, device, size = len(images), images.device, (images.shape[2], images.shape[3])
    chance = uniform((batch, 8), device, generator)
    images = blurred(images, chance[:, :3], weather.blur)
    seen = images
    for number, (over, under) in enumerate(_COARSE):
        columns = (over + under, 2 * under) if size[1] > 2 * size[0] else (over, under)
        small = (max(2, size[0] * over // under), max(2, size[1] * columns[0] // columns[1]))
        again = F.interpolate(
            F.interpolate(images, size=small, mode="area"), size=size, mode="bilinear", align_corners=False
        )
        low, high = (weather.coarse * share / len(_COARSE) for share in (number, number + 1))
        chosen = (chance[:, 3] >= low) & (chance[:, 3] < high)
        seen = torch.where(chosen.view(-1, 1, 1, 1), again, seen)
    grain = torch.randn(seen.shape, device=device, generator=generator)
    depth = images.flatten(1).std(1).clamp(max=0.25) / 0.25  # noise does not drown what has little contrast
    strength = weather.noise * chance[:, 4].square() * 2 * depth
    seen = seen + grain * strength.view(-1, 1, 1, 1)
    steep = 1 + weather.contrast * (chance[:, 5] * 2 - 1)
    light = 0.5 * weather.contrast * (chance[:, 6] * 2 - 1)
    seen = (seen - 0.5) * steep.view(-1, 1, 1, 1) + 0.5 + light.view(-1, 1, 1, 1)
    seen = seen.clamp(0, 1)
    return torch.where((chance[:, 7] < inverted).view(-1, 1, 1, 1), 1 - seen, seen)


def blurred(
    images: Float[Tensor, "b 1 h w"], chance: Float[Tensor, "b 3"], deviation: float
) -> Float[Tensor, "b 1 h w"]:
    """Each picture blurred by a Gaussian of its own, longer in one direction, as a moving camera does it."""
    batch, device = len(images), images.device
    long = (deviation * chance[:, 0].square() * 2 + 1e-2).view(-1, 1, 1)
    short = long * (0.3 + 0.7 * chance[:, 1].view(-1, 1, 1))
    angle = (chance[:, 2] * math.pi).view(-1, 1, 1)
    place = torch.arange(KERNEL, device=device) - KERNEL // 2
    x, y = place.view(1, 1, -1), place.view(1, -1, 1)
    along, beside = x * angle.cos() + y * angle.sin(), y * angle.cos() - x * angle.sin()
    weights = torch.exp(-0.5 * ((along / long).square() + (beside / short).square()))
    weights = weights / weights.sum((1, 2), keepdim=True)
    half = KERNEL // 2
    padded = F.pad(images, (half, half, half, half), mode="replicate")
    together = F.conv2d(padded.reshape(1, batch, *padded.shape[2:]), weights.unsqueeze(1), groups=batch)
    return together.reshape(
        images.shape
    )  # and no transpose: average pooling on a GPU trusts the stride of the one channel


def standardised(images: Float[Tensor, "b 1 h w"], widths: Int[Tensor, " b"]) -> Float[Tensor, "b 1 h w"]:
    """Pictures less their own mean, by their own deviation, as models see them; zero from their width on.

    What has next to no contrast is left dull: the deviation counts as 0.02 at least, where white is 1.
    """
    inside = (torch.arange(images.shape[-1], device=images.device) < widths.unsqueeze(1))[:, None, None, :]
    count = (widths * images.shape[2]).clamp(min=1).view(-1, 1, 1, 1)
    seen = images.masked_fill(~inside, 0.0)
    mean = seen.sum((2, 3), keepdim=True) / count
    apart = (images - mean).masked_fill(~inside, 0.0)
    deviation = (apart.square().sum((2, 3), keepdim=True) / count).sqrt()
    return apart / deviation.clamp(min=0.02)
