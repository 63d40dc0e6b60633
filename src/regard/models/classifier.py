"""What every classifier of pictures returns, and the two baselines of the RAM paper (Mnih et al. 2014, section 4.1)."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.base import ConfigError, check_settings
from regard.base.ranges import Count, Few, Pixels, Range, Width


class Classified(NamedTuple):
    """A batch of pictures: for each of s labels (mostly one) the logits of c classes."""

    logits: Tensor  # [b s c]


@dataclass(frozen=True)
class FullyConnectedConfig:
    """Layers of rectified units on all pixels; the paper has two of 64 or of 256."""

    classes: Count = 10  # how many; the data decide
    labels: Few = 1  # how many each picture has
    channels: Width = 1  # 1 for grey, 3 for colour; the data decide
    image_size: Pixels = 28  # height and width
    hidden_dim: Width = 256  # width of a hidden layer
    layers: Annotated[int, Range(least=0, most=1000)] = 2  # hidden layers

    def __post_init__(self) -> None:
        check_settings(self, "model")


class FullyConnected(nn.Module):
    """Every pixel has its own weights: the baseline that cannot move."""

    answers = ("output.",)  # layers that depend on the question alone

    def __init__(self, config: FullyConnectedConfig) -> None:
        super().__init__()
        self.config = config
        dims = [config.channels * config.image_size**2, *[config.hidden_dim] * config.layers]
        parts: list[nn.Module] = []
        for before, after in pairwise(dims):
            parts += [nn.Linear(before, after), nn.ReLU()]
        self.hidden = nn.Sequential(*parts)
        self.output = nn.Linear(dims[-1], config.labels * config.classes)

    def forward(self, images: Float[Tensor, "b c h w"]) -> Classified:
        """Logits [b s c]."""
        return _classified(self.hidden, self.output, images, self.config.labels)


@dataclass(frozen=True)
class ConvolutionalConfig:
    """One convolution and one layer of rectified units: 8 filters of 10×10 at stride 5, then 256."""

    classes: Count = 10  # how many; the data decide
    labels: Few = 1  # how many a picture has; the data decide
    channels: Width = 1  # 1 for grey, 3 for colour; the data decide
    image_size: Pixels = 60  # height and width
    filters: Width = 8  # of the convolution
    width: Pixels = 10  # side of a filter, in pixels
    stride: Pixels = 5  # of the convolution, in pixels
    hidden_dim: Width = 256  # width of a hidden layer

    def __post_init__(self) -> None:
        check_settings(self, "model")
        if self.width > self.image_size:
            what, got = "the filters are wider than the pictures", f"width={self.width}, image_size={self.image_size}"
            raise ConfigError(what, got=got, cure="lower model.width")


class Convolutional(nn.Module):
    """Shared weights, every place looked at: the baseline whose cost grows with the picture."""

    answers = ("output.",)  # layers that depend on the question alone

    def __init__(self, config: ConvolutionalConfig) -> None:
        super().__init__()
        self.config = config
        side = (config.image_size - config.width) // config.stride + 1
        self.hidden = nn.Sequential(
            nn.Conv2d(config.channels, config.filters, config.width, config.stride),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(config.filters * side**2, config.hidden_dim),
            nn.ReLU(),
        )
        self.output = nn.Linear(config.hidden_dim, config.labels * config.classes)

    def forward(self, images: Float[Tensor, "b c h w"]) -> Classified:
        """Logits [b s c]."""
        return _classified(self.hidden, self.output, images, self.config.labels)


def _classified(hidden: nn.Sequential, output: nn.Linear, images: Tensor, labels: int) -> Classified:
    x = images.to(output.weight.dtype)
    x = hidden(x.flatten(1) if isinstance(hidden[0], nn.Linear) else x)
    logits: Tensor = output(x)
    return Classified(torch.unflatten(logits, 1, (labels, -1)))
