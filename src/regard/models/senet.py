"""SE-ResNet: Squeeze-and-Excitation in every block. Hu et al. 2018, arXiv 1709.01507. Its plain twin is resnet."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention import trace
from regard.base.ranges import Count
from regard.models.resnet import ResNet, ResNetConfig
from regard.nn.evaluating import evaluating
from regard.nn.squeeze import SqueezeExcitation


@dataclass(frozen=True)
class SENetConfig(ResNetConfig):
    """`ResNetConfig`, and by how much the gates narrow the channels; one unit stays, however few they are."""

    reduction: Count = 16  # by which the squeezed channels are fewer
    bias: float = 0.0  # of the gates at the start: 0 halves a branch, 2 leaves 0.88 of it
    normalised: bool = False  # what is narrowed, over the batch


def se_resnet20() -> SENetConfig:
    """2,373 parameters more than resnet20, which has 269,722."""
    return SENetConfig(depth=20)


def se_resnet32() -> SENetConfig:
    """3,955 parameters more than resnet32."""
    return SENetConfig(depth=32)


def se_resnet56() -> SENetConfig:
    """7,119 parameters more than resnet56."""
    return SENetConfig(depth=56)


class SENet(ResNet):
    """`ResNet` with gates on its branches: after the last normalisation, before the addition."""

    def __init__(self, config: SENetConfig) -> None:
        super().__init__(
            config,
            gate=lambda width: SqueezeExcitation(
                width, config.reduction, bias=config.bias, normalised=config.normalised
            ),
        )

    def gates(self, images: Float[Tensor, "b c h w"]) -> dict[str, Tensor]:
        """The gates [b channels] of each block, by name: `stages.0.2` is the third block of the first stage."""
        with evaluating(self), trace(self, may_be_empty=True) as seen:
            self(images)
        return {name.removesuffix(".gate"): torch.from_numpy(record.weights[:, 0]) for name, record in seen.items()}
