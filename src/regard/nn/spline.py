"""Thin-plate splines: pictures that are straightened by moving some points of their frame (Shi et al. 2016, RARE)."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.base import ConfigError


def frame_points(count: int, *, inset: float = 1.0) -> Float[Tensor, "p 2"]:
    """Points (x, y) in −1 … 1: one half along the upper edge, from left to right, and one half along the lower.

    >>> frame_points(4).tolist()
    [[-1.0, -1.0], [1.0, -1.0], [-1.0, 1.0], [1.0, 1.0]]
    """
    if count < 4 or count % 2:
        raise ConfigError("control points of a spline", got=count, expected="an even number, 4 or more", cure="use 20")
    x = torch.linspace(-inset, inset, count // 2)
    return torch.stack([x.repeat(2), torch.tensor([-inset, inset]).repeat_interleave(count // 2)], -1)


def spline_weights(points: Float[Tensor, "p 2"], size: tuple[int, int]) -> Float[Tensor, "n p"]:
    """How much each of n = h · w pixels of the new picture follows each control point: rows sum to 1.

    A thin-plate spline is linear in where its points go. With ρ(r) = r² log r², the matrix
    [[1, P, ρ(|P − P|)], [0, 0, 1ᵀ], [0, 0, Pᵀ]] is inverted once, in float64, and what the pixels need of it is kept.
    """
    points = points.double()
    count = len(points)
    system = torch.zeros(count + 3, count + 3, dtype=torch.float64)
    system[:count, 0] = 1.0
    system[:count, 1:3] = points
    system[:count, 3:] = _radial(torch.cdist(points, points))
    system[count, 3:] = 1.0
    system[count + 1 :, 3:] = points.T
    height, width = size
    y = (torch.arange(height, dtype=torch.float64) * 2 + 1) / height - 1  # the middles of pixels
    x = (torch.arange(width, dtype=torch.float64) * 2 + 1) / width - 1
    pixels = torch.stack([x.repeat(height), y.repeat_interleave(width)], -1)
    terms = torch.cat([torch.ones(len(pixels), 1), pixels, _radial(torch.cdist(pixels, points))], 1)
    weights: Tensor = terms @ torch.linalg.inv(system)[:, :count]
    return weights.float()


def _radial(distance: Float[Tensor, "n m"]) -> Float[Tensor, "n m"]:
    square = distance.square()
    return torch.where(square > 0, square * square.clamp(min=1e-12).log(), 0.0)


class Rectifier(nn.Module):
    """A small network looks at a picture, says where the points of its frame should be read, and reads them there.

    It begins as the identity: all that it learns is by how much points move.
    """

    weights: Tensor
    start: Tensor

    def __init__(self, size: tuple[int, int], *, points: int = 20, channels: int = 16) -> None:
        super().__init__()
        self.size, wide = size, channels
        frame = frame_points(points)
        self.register_buffer("weights", spline_weights(frame, size), persistent=False)
        self.register_buffer("start", frame, persistent=False)
        layers: list[nn.Module] = []
        for narrow, broad in ((1, wide), (wide, 2 * wide), (2 * wide, 4 * wide), (4 * wide, 4 * wide)):
            layers += [nn.Conv2d(narrow, broad, 3, padding=1, bias=False), nn.BatchNorm2d(broad), nn.ReLU()]
            layers += [nn.MaxPool2d(2)]
        self.look = nn.Sequential(*layers)  # from 32 × 64 to 2 × 4
        self.think = nn.Sequential(nn.Linear(4 * wide * 8, 8 * wide), nn.ReLU())
        self.move = nn.Linear(8 * wide, 2 * points)
        nn.init.zeros_(self.move.weight)
        nn.init.zeros_(self.move.bias)

    def points(self, images: Float[Tensor, "b 1 h w"]) -> Float[Tensor, "b p 2"]:
        """Where in each picture (x, y from −1 to 1) the points of the frame are read."""
        small = F.interpolate(images, size=(32, 64), mode="bilinear", align_corners=False)
        moved: Tensor = self.move(self.think(self.look(small).flatten(1)))
        return self.start + moved.float().view(len(images), -1, 2)

    def grid(self, points: Float[Tensor, "b p 2"]) -> Float[Tensor, "b h w 2"]:
        """Where each pixel of the new picture is read."""
        with torch.autocast(points.device.type, enabled=False):  # places need more digits than bfloat16 has
            places: Tensor = self.weights @ points.to(self.weights.dtype)
        return places.view(len(points), *self.size, 2)

    def forward(self, images: Float[Tensor, "b 1 h w"]) -> Float[Tensor, "b 1 h w"]:
        """Pictures, straightened."""
        grid = self.grid(self.points(images))
        with torch.autocast(images.device.type, enabled=False):
            straight = F.grid_sample(images.to(grid.dtype), grid, padding_mode="border", align_corners=False)
        return straight.to(images.dtype)
