"""A detector of words: each pixel says whether it lies on a word, and how far away the sides of its box are.

After EAST (Zhou et al. 2017, arXiv 1704.03155), with upright boxes and a small network of its own.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.base import ShapeError, check_settings
from regard.base.ranges import Width

STRIDE = 4  # pixels of a side of a cell
UNIT = 16.0  # pixels: distances are learnt in these


@dataclass(frozen=True)
class TextDetectorConfig:
    """The width of the network."""

    channels: Width = 32  # of the first stage; the following ones have 2, 4 and 8 times as many, at most 128

    def __post_init__(self) -> None:
        check_settings(self, "model")


class Detected(NamedTuple):
    """What each cell of 4 × 4 pixels says."""

    scores: Tensor  # logits [b i j]: whether it lies on a word
    sides: Tensor  # [b 4 i j]: pixels from its middle up, left, down and right to the sides of the box


class TextDetector(nn.Module):
    """Convolutions down to a sixteenth of the picture, and up again to a fourth."""

    def __init__(self, config: TextDetectorConfig) -> None:
        super().__init__()
        self.config = config
        widths = [min(config.channels * factor, 128) for factor in (1, 2, 4, 8)]
        self.down = nn.ModuleList()
        before = 1
        for width in widths:
            self.down.append(nn.Sequential(*_layer(before, width, 2), *_layer(width, width)))
            before = width
        self.up = nn.ModuleList()
        for width in widths[2:0:-1]:
            self.up.append(nn.Sequential(*_layer(before + width, width), *_layer(width, width)))
            before = width
        self.say = nn.Conv2d(before, 5, 1)
        bias = self.say.bias
        assert bias is not None
        nn.init.constant_(bias[:1], -2.0)  # most cells are empty

    def forward(self, images: Float[Tensor, "b 1 h w"]) -> Detected:
        """Scores and boxes of each cell; 16 must divide height and width."""
        if images.shape[-1] % 16 or images.shape[-2] % 16:
            got = f"{images.shape[-2]} × {images.shape[-1]}"
            raise ShapeError("the sides of a picture", got=got, expected="multiples of 16", cure="pad it")
        levels, seen = [], images
        for stage in self.down:
            seen = stage(seen)
            levels.append(seen)
        for stage, beside in zip(self.up, levels[2:0:-1], strict=True):
            larger = F.interpolate(seen, size=beside.shape[-2:], mode="bilinear", align_corners=False)
            seen = stage(torch.cat([larger, beside], 1))
        said = self.say(seen).float()
        return Detected(said[:, 0], F.softplus(said[:, 1:]) * UNIT)


def _layer(before: int, width: int, stride: int = 1) -> tuple[nn.Module, ...]:
    return nn.Conv2d(before, width, 3, stride, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()
