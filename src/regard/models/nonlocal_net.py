"""ResNet with non-local blocks: Wang et al. 2018, arXiv 1711.07971. Its plain twin is resnet, or `stages=()`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention import trace
from regard.base import ConfigError, ShapeError
from regard.base.ranges import Few, Natural, OneOf
from regard.models.resnet import ResNet, ResNetConfig
from regard.nn.evaluating import evaluating
from regard.nn.nonlocal_block import KINDS, NonLocal


@dataclass(frozen=True)
class NonLocalConfig(ResNetConfig):
    """`ResNetConfig`, and where non-local blocks stand: so many in each of some stages, evenly spread.

    The last one follows the last residual block. With 2 of 4 and 3 of 6 blocks that is the paper's "every second".
    """

    stages: tuple[int, ...] = (2,)  # of 1, 2, 3
    blocks: Natural = 1  # non-local ones in each of these stages
    kind: Annotated[str, OneOf(KINDS)] = "embedded_gaussian"  # gaussian, embedded_gaussian, dot, concatenation
    pool: Few = 1  # side of the windows that are one key
    scaled: bool = False  # scores by 1/√width, as in the authors' code


def nonlocal_resnet20() -> NonLocalConfig:
    """One block after the second stage, where 16×16 positions have 32 channels."""
    return NonLocalConfig(depth=20)


def nonlocal_resnet56() -> NonLocalConfig:
    """The same in resnet56."""
    return NonLocalConfig(depth=56)


class NonLocalNet(ResNet):
    """`ResNet` whose positions see each other."""

    config: NonLocalConfig

    def __init__(self, config: NonLocalConfig) -> None:
        _check(config)

        def between(stage: int, block: int, blocks: int, channels: int) -> NonLocal | None:
            places = {round(blocks * number / config.blocks) for number in range(1, config.blocks + 1)}
            if stage not in config.stages or block not in places:
                return None
            return NonLocal(channels, kind=config.kind, pool=config.pool, scaled=config.scaled)

        super().__init__(config, between=between)

    def maps(self, images: Float[Tensor, "b c h w"], places: Sequence[tuple[int, int]]) -> dict[str, Tensor]:
        """What some pixels (row, column) attend to: weights [b p i j] over the grid of keys, by name of the block.

        A pixel belongs to the position of the block's grid that covers it.
        """
        height, width = images.shape[-2:]
        if wrong := [place for place in places if not (0 <= place[0] < height and 0 <= place[1] < width)]:
            raise ShapeError("a place is outside the picture", got=wrong[0], expected=f"within {height} × {width}")
        with evaluating(self), trace(self, may_be_empty=True) as seen:
            self(images)
        weights_by_block = {}
        for name, record in seen.items():
            block = self.get_submodule(name.removesuffix(".attention"))
            assert isinstance(block, NonLocal)
            step = 2 ** int(name.split(".")[1])  # of the grid, in pixels
            across = -(-width // step)
            rows = [row // step * across + column // step for row, column in places]
            grid = block.key_shape(-(-height // step), across)
            weights = torch.from_numpy(record.weights[:, rows])
            weights_by_block[name.removesuffix(".attention")] = weights.reshape(len(images), len(rows), *grid)
        return weights_by_block


def _check(config: NonLocalConfig) -> None:
    most = (config.depth - 2) // 6
    if not 1 <= config.blocks <= most:
        cure = "set stages=() for the plain twin"
        raise ConfigError("blocks", got=config.blocks, expected=f"1 to {most}, as many as a stage has", cure=cure)
    if strange := [stage for stage in config.stages if stage not in (1, 2, 3)]:
        raise ConfigError("stages", got=strange[0], expected="some of 1, 2, 3")
