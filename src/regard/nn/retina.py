"""The retina of glimpse models: square patches around one point, each twice as wide as the one before, all as small.

Patch j is size·2^j pixels wide and averaged down to size×size; outside of the picture there is zero. A point (x, y) is
in [−1, 1]², (0, 0) is the centre and (−1, −1) the top left corner of the top left pixel. Averages over 2^j×2^j pixels
are taken once for a picture, at every offset (`prepare`). A glimpse then reads size×size values of each scale, between
whole pixels by bilinear interpolation, which is exactly what averaging the interpolated patch would give.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from regard.base import ConfigError


class Pyramid(NamedTuple):
    """Pictures, prepared for glimpses: at [y x] of level j is the mean of 2^j×2^j pixels from (y − m, x − m) on."""

    levels: Tensor  # [b j c h+m w+m] for a margin of m = 2^(scales−1) − 1 pixels
    scale: Tensor  # [2]: from (x, y) to coordinates of `grid_sample`
    shift: Tensor  # [j s s 2]: the places of the patches around (0, 0)


def retina(
    images: Float[Tensor, "b c h w"], where: Float[Tensor, "b 2"], *, size: int, scales: int
) -> Float[Tensor, "b j_c s s"]:
    """What is seen at `where`: channels of the sharpest scale first. It is differentiable in both arguments.

    >>> image = torch.arange(16.0).view(1, 1, 4, 4)
    >>> retina(image, torch.tensor([[0.0, 0.0]]), size=2, scales=2).round(decimals=3)[0]
    tensor([[[ 5.0000,  6.0000],
             [ 9.0000, 10.0000]],
    <BLANKLINE>
            [[ 2.5000,  4.5000],
             [10.5000, 12.5000]]])
    """
    return glimpse(prepare(images, size=size, scales=scales), where)


def prepare(images: Float[Tensor, "b c h w"], *, size: int, scales: int) -> Pyramid:
    """Everything that does not depend on where one looks."""
    if size < 1 or scales < 1:
        raise ConfigError("retina", got=f"size {size}, {scales} scales", expected="1 or more of each")
    height, width = images.shape[-2:]
    margin = 2 ** (scales - 1) - 1
    images = images.to(torch.promote_types(images.dtype, torch.float32))
    x = F.pad(images, (margin, margin, margin, margin)) if margin else images
    levels = [x]
    for level in range(scales - 1):
        side = 2**level  # two means over 2^j pixels, side by side, make one over 2^(j+1)
        x = torch.lerp(x[..., :-side, :], x[..., side:, :], 0.5)
        x = torch.lerp(x[..., :-side], x[..., side:], 0.5)
        levels.append(x)
    stacked = torch.stack([x[..., : height + margin, : width + margin] for x in levels], 1)
    step = 2.0 ** torch.arange(scales, device=images.device, dtype=images.dtype)
    corner = (torch.arange(size, device=images.device) - size / 2) * step.unsqueeze(1) + margin
    pairs = ((width, width + margin), (height, height + margin))
    x, y = ((side + 2 * corner + 1) / total - 1 for side, total in pairs)  # [j s]
    shift = torch.stack([x.unsqueeze(1).expand(-1, size, -1), y.unsqueeze(2).expand(-1, -1, size)], -1)
    scale = torch.cat([step.new_full((1,), side / total) for side, total in pairs])
    return Pyramid(stacked, scale, shift)


def glimpse(pyramid: Pyramid, where: Float[Tensor, "b 2"]) -> Float[Tensor, "b j_c s s"]:
    """The patches around one point of each picture."""
    batch, scales, channels = pyramid.levels.shape[:3]
    size = pyramid.shift.shape[1]
    point = where[:, None, None, None].to(pyramid.scale.dtype)
    grid = torch.addcmul(pyramid.shift, point, pyramid.scale)  # [b j s s 2]
    seen = F.grid_sample(pyramid.levels.flatten(0, 1), grid.flatten(0, 1), align_corners=False)
    return seen.view(batch, scales * channels, size, size)
