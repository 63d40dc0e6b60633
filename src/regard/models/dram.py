"""DRAM: Ba, Mnih & Kavukcuoglu 2015, "Multiple Object Recognition with Visual Attention", arXiv 1412.7755.

Two LSTMs: the first sees glimpses and names things, the second decides where to look next, and begins with a coarse
view of the whole picture. That view never reaches the first one, so the answer must come from glimpses. After every
`glimpses` of them one label is read off, and the states go on to the next object. A class of its own ends a sequence.

Locations are cut off where they are looked at, so the cross entropy trains the first LSTM, and the reward the second
and the context network. Unless `joint`, the reward stops there; as published it trains the first LSTM too. The context
sets h of the second LSTM; its cell begins with zeros. docs/papers/dram.md says what else differs.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.tracing import record_path
from regard.base import check_settings
from regard.base.ranges import Count, Few, Range, Scales, Weight, Width
from regard.models.glimpse import (
    Core,
    Glimpsed,
    LocationNetwork,
    Rollout,
    Sigma,
    expected_reward,
    inside,
    log_normal,
    look_at,
    shifted,
)
from regard.nn.retina import glimpse, prepare

Side = Annotated[int, Range(least=4, most=2**14, cure="use 4 pixels or more, which three convolutions need")]


@dataclass(frozen=True)
class DRAMConfig:
    """Sizes are not all in the paper; these are for two digits on 100×100."""

    classes: Count = 10  # how many; the data decide
    labels: Few = 1  # objects, the end among them
    channels: Width = 1  # 1 for grey, 3 for colour; the data decide
    glimpses: Few = 4  # for each label
    size: Side = 14  # side of a patch
    scales: Scales = 3  # each twice as wide as the one before
    filters: tuple[Width, Width, Width] = (32, 32, 64)  # of the convolutions of both networks
    glimpse_dim: Width = 256  # width of a glimpse
    hidden_dim: Width = 256  # width of a state
    context: bool = True  # without it the second LSTM begins with zeros
    coarse: Side = 24  # side of the coarse view
    location_dim: Width | None = None  # width of the location network
    location_rate: Weight = 1.0  # share of the learning rate of all that decides where to look
    sigma: Sigma = 0.1  # how far from its mean a location is drawn
    joint: bool = False  # the reward trains the first LSTM too, as published
    he: bool = False  # convolutions begin as large as rectified units want (He et al. 2015), torch's are smaller

    def __post_init__(self) -> None:
        check_settings(self, "model")


def dram_pairs() -> DRAMConfig:
    """Two digits on 100×100, one question about both: eight glimpses."""
    return DRAMConfig(glimpses=8)


def dram_svhn() -> DRAMConfig:
    """House numbers: three glimpses for each of five digits and the end."""
    return DRAMConfig(
        classes=11, labels=6, channels=3, glimpses=3, size=14, scales=3, filters=(64, 64, 128), glimpse_dim=512,
        hidden_dim=512, he=True,
    )  # fmt: skip


class State(NamedTuple):
    """Two LSTMs between glimpses."""

    what: tuple[Tensor, ...]  # r⁽¹⁾ and its cell, [b d] each
    where: tuple[Tensor, ...]  # r⁽²⁾ and its cell


class Convolutions(nn.Module):
    """Three convolutions, the first two halved in size, and a layer of rectified units."""

    def __init__(
        self, channels: int, side: int, filters: tuple[int, int, int], out_dim: int, *, he: bool = False
    ) -> None:
        super().__init__()
        dims = (channels, *filters)
        self.layers = nn.ModuleList(nn.Conv2d(before, after, 3, padding=1) for before, after in pairwise(dims))
        self.out = nn.Linear(filters[-1] * (side // 4) ** 2, out_dim)
        if he:
            for layer in (*self.layers, self.out):
                nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
                nn.init.zeros_(layer.bias)

    def forward(self, images: Float[Tensor, "b c s s"]) -> Float[Tensor, "b g"]:
        """Features of whole patches. Largest values are taken first: bias and ReLU then have a quarter of the work."""
        x = images.to(self.out.weight.dtype).contiguous(memory_format=torch.channels_last)
        for number, layer in enumerate(self.layers):
            assert isinstance(layer, nn.Conv2d)
            assert layer.bias is not None
            x = F.conv2d(x, layer.weight, padding=1)
            if number < 2:
                x = F.max_pool2d(x, 2)
            x = torch.relu(x + layer.bias.view(-1, 1, 1))
        features: Tensor = self.out(x.flatten(1))
        return features.relu()


class DRAM(nn.Module):
    """What and where, apart."""

    answers = ("action.",)  # layers that depend on the question alone; see `start_from`

    def __init__(self, config: DRAMConfig) -> None:
        super().__init__()
        self.config = config
        patches, hidden = config.channels * config.scales, config.hidden_dim
        self.what = Convolutions(patches, config.size, config.filters, config.glimpse_dim, he=config.he)  # G_image
        self.where = nn.Linear(2, config.glimpse_dim)  # G_loc
        self.recognise = Core("lstm", config.glimpse_dim, hidden)  # r⁽¹⁾
        self.direct = Core("lstm", hidden, hidden)  # r⁽²⁾
        self.context = None
        if config.context:
            self.context = Convolutions(config.channels, config.coarse, config.filters, hidden, he=config.he)
        self.location = LocationNetwork(hidden, middle_dim=config.location_dim)  # E
        self.action = nn.Linear(hidden, config.classes)  # O
        self.baseline = nn.Linear(hidden, 1)

    @property
    def retina(self) -> DRAMConfig:
        """The settings of its retina: `size` and `scales`."""
        return self.config

    @property
    def rates(self) -> dict[str, float]:
        """Shares of the learning rate, by the beginning of a parameter's name; 1 for all others."""
        return dict.fromkeys(("location.", "direct.", "context."), self.config.location_rate)

    def forward(
        self,
        images: Float[Tensor, "b c h w"],
        *,
        sample: bool | None = None,
        where: Float[Tensor, "b t 2"] | None = None,
    ) -> Glimpsed:
        """A label after every few glimpses. `sample` draws locations (None: in training mode); `where` forces them."""
        config, device = self.config, images.device
        state = self.init_state(images)
        rollout = self.rollout(images, state, sample=self.training if sample is None else sample, where=where)
        batch, steps = rollout.points.shape[:2]
        place = inside(rollout.points)
        hidden = self.recognise(self.glimpse(rollout.patches, place), state.what)  # r⁽¹⁾
        before = shifted(self.direct(self._signal(hidden), state.where), state.where[0])  # r⁽²⁾, from which l is drawn
        log_probability = log_normal(rollout.points, self.location(before), config.sigma)
        everywhere = torch.ones(batch, steps, dtype=torch.bool, device=device)
        record_path(self, place, everywhere)
        return Glimpsed(
            logits=self.action(hidden[:, config.glimpses - 1 :: config.glimpses]),
            where=place,
            log_probability=log_probability,
            entropy=torch.zeros_like(log_probability),
            baseline=expected_reward(self.baseline, before),
            drawn=everywhere,
            active=everywhere,
            label_of_glimpse=torch.arange(steps, device=device) // config.glimpses,
        )

    def init_state(self, images: Float[Tensor, "b c h w"]) -> State:
        """r⁽¹⁾ = 0; r⁽²⁾ = C(coarse view), or 0."""
        zero = self.recognise.init_state(len(images))
        if self.context is None:
            return State(zero, zero)
        coarse = F.adaptive_avg_pool2d(images, self.config.coarse)
        return State(zero, (self.context(coarse), zero[1]))

    def glimpse(self, patch: Float[Tensor, "*b j s s"], place: Float[Tensor, "*b 2"]) -> Float[Tensor, "*b g"]:
        """g = G_image(x) ∘ G_loc(l): zero where either is."""
        what: Tensor = self.what(patch.flatten(0, -4)).view(*patch.shape[:-3], -1)
        where: Tensor = self.where(place.to(self.where.weight.dtype)).relu()
        return what * where

    @torch.no_grad()
    def rollout(
        self,
        images: Float[Tensor, "b c h w"],
        state: State,
        *,
        sample: bool,
        where: Float[Tensor, "b t 2"] | None = None,
    ) -> Rollout:
        """Look at one place after the other, without gradients; `where` forces the places."""
        config, steps = self.config, self.config.glimpses * self.config.labels
        noise = torch.randn(len(images), steps, 2, device=images.device) if sample else None
        pyramid = prepare(images, size=config.size, scales=config.scales)
        points, patches = [], []
        for step in range(steps):
            if where is None:
                mean = self.location(state.where[0])
                points.append(look_at(mean, None if noise is None else noise[:, step], config.sigma))
            else:
                points.append(where[:, step].float())
            place = inside(points[-1])
            patches.append(glimpse(pyramid, place))
            what = self.recognise.step(self.glimpse(patches[-1], place), state.what)
            state = State(what, self.direct.step(what[0], state.where))
        return Rollout(torch.stack(points, 1), torch.stack(patches, 1))

    def _signal(self, hidden: Float[Tensor, "b t d"]) -> Float[Tensor, "b t d"]:
        """What the second LSTM reads of the first."""
        return hidden if self.config.joint else hidden.detach()
