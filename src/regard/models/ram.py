"""RAM: Mnih, Heess, Graves & Kavukcuoglu 2014, "Recurrent Models of Visual Attention", arXiv 1406.6247.

Choices where the paper leaves room: the mean of a location goes through tanh; what is drawn beyond the border is looked
at on the border, and keeps its density; the baseline of a location is made from the state from which it was drawn.
In evaluation mode locations are their means, and a random start is the centre.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.tracing import record_path
from regard.base import check_settings
from regard.base.ranges import Count, Few, Pixels, Scales, Weight, Width
from regard.models.glimpse import (
    Core,
    Glimpsed,
    GlimpseNetwork,
    LocationNetwork,
    Rollout,
    Sigma,
    Start,
    expected_reward,
    inside,
    log_normal,
    look_at,
    shifted,
)
from regard.nn.retina import glimpse, prepare


@dataclass(frozen=True)
class RAMConfig:
    """Sizes of the paper (section 4); the defaults are those for MNIST of 28×28."""

    classes: Count = 10  # how many; the data decide
    labels: Few = 1  # several are read off the last state together
    channels: Width = 1  # 1 for grey, 3 for colour; the data decide
    glimpses: Few = 6  # how many places are looked at
    size: Pixels = 8  # side of a patch
    scales: Scales = 1  # each twice as wide as the one before
    part_dim: Width = 128  # what, and where
    glimpse_dim: Width = 256  # width of a glimpse
    hidden_dim: Width = 256  # width of a state
    core: Literal["rnn", "lstm"] = "rnn"  # the recurrent network that takes glimpses in
    location_dim: Width | None = None  # a hidden layer of the location network
    location_rate: Weight = 1.0  # share of the learning rate: where to look is learnt from little, and overdone easily
    sigma: Sigma = 0.1  # how far from its mean a location is drawn
    start: Start = "centre"  # of the first glimpse; "learned" is one place for all, and drawn like the others
    random: bool = False  # look at uniformly random places, in evaluation too: what learning where to look is worth

    def __post_init__(self) -> None:
        check_settings(self, "model")


def ram_28() -> RAMConfig:
    """For digits of 28×28: 6 glimpses of 8×8, one scale; 209,677 parameters."""
    return RAMConfig()


def ram_60() -> RAMConfig:
    """For canvases of 60×60: 8 glimpses of 12×12, three scales; 256,781 parameters."""
    return RAMConfig(glimpses=8, size=12, scales=3)


def ram_100() -> RAMConfig:
    """For canvases of 100×100: 8 glimpses of 12×12, four scales; 275,213 parameters."""
    return RAMConfig(glimpses=8, size=12, scales=4)


class Replay(NamedTuple):
    """What the glimpses at pictures leave behind."""

    hidden: Tensor  # [b t d]: the state after each glimpse
    where: Tensor  # [b t 2]: looked at
    log_probability: Tensor  # [b t]: of each location; 0 where it was not drawn
    baseline: Tensor  # [b t]
    drawn: Tensor  # [b t] bool


class RAM(nn.Module):
    """One glimpse after the other; the label is read off the last state."""

    answers = ("action.",)  # layers that depend on the question alone; see `start_from`

    def __init__(self, config: RAMConfig) -> None:
        super().__init__()
        self.config = config
        patch_dim = config.channels * config.scales * config.size**2
        self.glimpse = GlimpseNetwork(patch_dim, part_dim=config.part_dim, glimpse_dim=config.glimpse_dim)
        self.core = Core(config.core, config.glimpse_dim, config.hidden_dim)
        self.location = LocationNetwork(config.hidden_dim, middle_dim=config.location_dim)
        self.action = nn.Linear(config.hidden_dim, config.labels * config.classes)
        self.baseline = nn.Linear(config.hidden_dim, 1)
        self.first = nn.Parameter(torch.zeros(2)) if config.start == "learned" else None

    @property
    def retina(self) -> RAMConfig:
        """The settings of its retina: `size` and `scales`."""
        return self.config

    @property
    def rates(self) -> dict[str, float]:
        """Shares of the learning rate, by the beginning of a parameter's name; 1 for all others."""
        return {"location.": self.config.location_rate, "first": self.config.location_rate}

    def forward(
        self,
        images: Float[Tensor, "b c h w"],
        *,
        sample: bool | None = None,
        where: Float[Tensor, "b t 2"] | None = None,
    ) -> Glimpsed:
        """Logits and the path. `sample` draws locations (None: in training mode); `where` forces them."""
        replay = self.replay(images, sample=sample, where=where)
        batch, steps = replay.where.shape[:2]
        logits = self.logits(replay.hidden)  # [b t s c]
        one_label = self.config.labels == 1
        active = torch.ones(batch, steps, dtype=torch.bool, device=images.device)
        record_path(self, replay.where, active)
        return Glimpsed(
            logits=logits[:, -1],
            where=replay.where,
            log_probability=replay.log_probability,
            entropy=torch.zeros_like(replay.log_probability),
            baseline=replay.baseline,
            drawn=replay.drawn,
            active=active,
            label_of_glimpse=torch.full((steps,), self.config.labels, device=images.device),
            logits_per_glimpse=logits.squeeze(2) if one_label else None,
        )

    def logits(self, hidden: Float[Tensor, "*b d"]) -> Float[Tensor, "*b s c"]:
        """What the action network makes of states."""
        logits: Tensor = self.action(hidden)
        return torch.unflatten(logits, -1, (self.config.labels, self.config.classes))

    def replay(
        self,
        images: Float[Tensor, "b c h w"],
        *,
        sample: bool | None = None,
        where: Float[Tensor, "b t 2"] | None = None,
    ) -> Replay:
        """Look, then take in all glimpses at once, with gradients; what they show is not said here."""
        sample = self.training if sample is None else sample
        rollout = self.rollout(images, sample=sample, where=where)
        batch, steps = rollout.points.shape[:2]
        place, state = inside(rollout.points), self.core.init_state(batch)
        hidden = self.core(self.glimpse(rollout.patches, place), state)
        before = shifted(hidden, state[0])

        means = self._means(before)
        first = steps - means.shape[1]  # the glimpses before it were not drawn
        log_probability = log_normal(rollout.points[:, first:], means, self.config.sigma)
        drawn = (torch.arange(steps, device=images.device) >= first).expand(batch, steps)
        return Replay(hidden, place, F.pad(log_probability, (first, 0)), expected_reward(self.baseline, before), drawn)

    @torch.no_grad()
    def rollout(
        self, images: Float[Tensor, "b c h w"], *, sample: bool, where: Float[Tensor, "b t 2"] | None = None
    ) -> Rollout:
        """Look at one place after the other, without gradients; `where` forces the places."""
        config, batch = self.config, len(images)
        pyramid = prepare(images, size=config.size, scales=config.scales)
        chosen = self._chosen_places(images, sample) if where is None else where.float()
        noise = torch.randn(batch, config.glimpses, 2, device=images.device) if sample else None  # all at once
        state, points, patches = self.core.init_state(batch), [], []
        for step in range(config.glimpses if where is None else where.shape[1]):
            if step < chosen.shape[1]:
                point = chosen[:, step]
            else:
                mean = self._first(batch) if step == 0 else self.location(state[0])
                point = look_at(mean, None if noise is None else noise[:, step], config.sigma)
            place = inside(point)
            points.append(point)
            patches.append(glimpse(pyramid, place))
            state = self.core.step(self.glimpse(patches[-1], place), state)
        return Rollout(torch.stack(points, 1), torch.stack(patches, 1))

    def _chosen_places(self, images: Tensor, sample: bool) -> Float[Tensor, "b n 2"]:
        """Places that are not drawn around a mean: all, the first, or none."""
        config, batch, device = self.config, len(images), images.device
        if config.random:
            return torch.rand(batch, config.glimpses, 2, device=device) * 2 - 1
        if config.start == "random" and sample:
            return torch.rand(batch, 1, 2, device=device) * 2 - 1
        return torch.zeros(batch, 0 if config.start == "learned" else 1, 2, device=device)

    def _means(self, before: Float[Tensor, "b t d"]) -> Float[Tensor, "b n 2"]:
        """What the last n places were drawn around, from the states before them, which are not trained by it."""
        if self.config.random:
            return before.new_zeros(len(before), 0, 2, dtype=torch.float32)
        means: Tensor = self.location(before[:, 1:].detach())
        return means if self.first is None else torch.cat([self._first(len(before)).unsqueeze(1), means], 1)

    def _first(self, batch: int) -> Float[Tensor, "b 2"]:
        assert self.first is not None
        return self.first.float().tanh().expand(batch, 2)
