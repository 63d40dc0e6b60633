"""ResNet for small pictures: He et al. 2016, arXiv 1512.03385, section 4.2. The plain twin of senet and nonlocal."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.base import ConfigError, ShapeError, check_settings
from regard.base.ranges import Count, Range, Width
from regard.models.classifier import Classified

Gate = Callable[[int], nn.Module]  # channels → what a residual branch goes through before the addition
Between = Callable[[int, int, int, int], nn.Module | None]  # stage, block (from 1), blocks, channels → what follows


@dataclass(frozen=True)
class ResNetConfig:
    """Three stages of (depth − 2) / 6 blocks, with width, 2 · width and 4 · width channels."""

    classes: Count = 10  # how many; the data decide
    channels: Width = 3  # of a picture
    depth: Annotated[int, Range(most=10_000)] = 20  # 20, 32, 44, 56, 110: layers with weights
    width: Width = 16  # channels of the first stage

    def __post_init__(self) -> None:
        check_settings(self, "model")


def resnet20() -> ResNetConfig:
    """0.27 M parameters: 8.75 % error on CIFAR-10 in the paper."""
    return ResNetConfig(depth=20)


def resnet32() -> ResNetConfig:
    """0.46 M parameters: 7.51 % in the paper."""
    return ResNetConfig(depth=32)


def resnet56() -> ResNetConfig:
    """0.85 M parameters: 6.97 % in the paper."""
    return ResNetConfig(depth=56)


class ResidualBlock(nn.Module):
    """ReLU(x + gate(F(x))), F two convolutions of 3×3 with normalisation.

    Where the size changes, the shortcut takes every second position and adds channels of zeros: no weights (option A).
    """

    def __init__(self, channels: int, width: int, *, gate: nn.Module | None = None) -> None:
        super().__init__()
        self.stride, self.added = (1, 0) if channels == width else (2, width - channels)
        self.first, self.first_norm = convolution(channels, width, stride=self.stride), nn.BatchNorm2d(width)
        self.second, self.second_norm = convolution(width, width), nn.BatchNorm2d(width)
        self.gate = nn.Identity() if gate is None else gate

    def forward(self, x: Float[Tensor, "b c h w"]) -> Float[Tensor, "b d i j"]:
        """[b channels h w] → [b width h w], or half as high and wide."""
        branch = F.relu(self.first_norm(self.first(x)), inplace=True)
        branch = self.gate(self.second_norm(self.second(branch)))
        return F.relu(branch + self.shortcut(x), inplace=True)

    def shortcut(self, x: Tensor) -> Tensor:
        """x, as large as the branch."""
        if not self.added:
            return x
        before = self.added // 2
        return F.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, before, self.added - before))


class ResNet(nn.Module):
    """A convolution, three stages, the mean of all positions, and a linear layer.

    `gate` and `between` are for the papers that put attention into it: on every branch, and behind some blocks.
    """

    answers = ("to_logits.",)  # layers that depend on the question alone

    def __init__(self, config: ResNetConfig, *, gate: Gate | None = None, between: Between | None = None) -> None:
        super().__init__()
        self.config = config
        _check(config)
        blocks, channels = (config.depth - 2) // 6, config.width
        self.stem, self.stem_norm = convolution(config.channels, channels), nn.BatchNorm2d(channels)
        self.stages = nn.ModuleList()
        for stage, width in enumerate((config.width, 2 * config.width, 4 * config.width), start=1):
            parts: list[nn.Module] = []
            for block in range(1, blocks + 1):
                parts.append(ResidualBlock(channels, width, gate=None if gate is None else gate(width)))
                more = None if between is None else between(stage, block, blocks, width)
                parts += [] if more is None else [more]
                channels = width
            self.stages.append(nn.Sequential(*parts))
        self.to_logits = nn.Linear(channels, config.classes)

    def forward(self, images: Float[Tensor, "b c h w"]) -> Classified:
        """Logits [b 1 classes]: one label for each picture."""
        if images.shape[1] != self.config.channels:
            raise ShapeError(
                "pictures have the wrong number of channels", got=images.shape[1], expected=self.config.channels
            )
        x = images.to(self.stem.weight.dtype).contiguous(memory_format=torch.channels_last)
        x = F.relu(self.stem_norm(self.stem(x)), inplace=True)
        for stage in self.stages:
            x = stage(x)
        logits: Tensor = self.to_logits(x.mean((2, 3)))
        return Classified(logits.unsqueeze(1))


def convolution(channels: int, width: int, *, stride: int = 1) -> nn.Conv2d:
    """3×3, without a bias, as a normalisation follows; N(0, 2/n), n = 9 · channels (He et al. 2015)."""
    layer = nn.Conv2d(channels, width, 3, stride=stride, padding=1, bias=False)
    nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
    return layer


def _check(config: ResNetConfig) -> None:
    if config.depth < 8 or config.depth % 6 != 2:
        raise ConfigError("depth", got=config.depth, expected="6 n + 2, such as 20, 32 or 56")
