"""What glimpse models share: what one returns, the glimpse network, the core, and where to look next.

A walk over a picture: the retina sees a patch, the glimpse network joins what was seen with where it was, the core
takes it in, and the location network says where to look next: a Gaussian around a mean. Classification trains all but
the location network; that one learns from rewards. So locations are cut off from the gradient where they are looked at,
and states where they enter the location and baseline networks.

This cuts the work in two. First the rollout goes one glimpse after the other, without gradients, and leaves a path:
places, and the patches that were seen there. Then the replay takes in the path again, all glimpses at once, with
gradients. A trace sees the path: `seen["ram"].places`.
"""

import math
from typing import Annotated, Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.base.ranges import Range

Sigma = Annotated[float, Range(above=0, least=1e-6, cure="use 0.03 to 0.3")]
Start = Literal["centre", "random", "learned"]


class Glimpsed(NamedTuple):
    """A batch of pictures, looked at in t glimpses, with s labels of c classes each."""

    logits: Tensor  # [b s c]
    where: Tensor  # [b t 2]: the places that were looked at, (x, y) in [−1, 1]
    log_probability: Tensor  # [b t]: of what was drawn before glimpse t; 0 where nothing was
    entropy: Tensor  # [b t]: of the discrete choices; that of a Gaussian of fixed width is a constant, and left out
    baseline: Tensor  # [b t]: the reward that was expected before it was drawn
    drawn: Tensor  # [b t] bool: whether anything was drawn
    active: Tensor  # [b t] bool: the glimpses that count; after a model has stopped, none does
    label_of_glimpse: Tensor  # [t]: which of the s labels a glimpse serves, and gets its reward from; s: all of them
    logits_per_glimpse: Tensor | None = None  # [b t c]: logits after each glimpse, for models that can tell


class Rollout(NamedTuple):
    """Where a walk went, and what it saw: constants."""

    points: Tensor  # [b t 2]: as they were drawn, perhaps beyond the border
    patches: Tensor  # [b t j s s]: what the retina saw, j being scales and channels


class GlimpseNetwork(nn.Module):
    """g = ReLU(W₁ ReLU(W what) + W₂ ReLU(W where)): RAM, section 4."""

    def __init__(self, patch_dim: int, *, part_dim: int = 128, glimpse_dim: int = 256) -> None:
        super().__init__()
        self.what = nn.Linear(patch_dim, part_dim)
        self.where = nn.Linear(2, part_dim)
        self.from_what = nn.Linear(part_dim, glimpse_dim)
        self.from_where = nn.Linear(part_dim, glimpse_dim)

    def forward(self, patch: Float[Tensor, "*b j s s"], where: Float[Tensor, "*b 2"]) -> Float[Tensor, "*b g"]:
        """What was seen, and where."""
        dtype = self.what.weight.dtype
        what = self.what(patch.flatten(-3).to(dtype)).relu()
        place = self.where(where.to(dtype)).relu()
        glimpse: Tensor = self.from_what(what) + self.from_where(place)
        return glimpse.relu()


class Core(nn.Module):
    """The state that glimpses are taken into: "rnn" is h = ReLU(W h + U g), as published, or "lstm"."""

    def __init__(self, kind: Literal["rnn", "lstm"], input_dim: int, hidden_dim: int) -> None:
        super().__init__()
        self.layer: nn.RNNBase
        if kind == "lstm":
            self.layer = nn.LSTM(input_dim, hidden_dim, batch_first=True)
        else:
            self.layer = nn.RNN(input_dim, hidden_dim, nonlinearity="relu", batch_first=True)

    def init_state(self, batch: int) -> tuple[Tensor, ...]:
        """Zeros; the first part of a state is what others read."""
        zero = self._parts()[0].new_zeros(batch, self.layer.hidden_size)
        return (zero, zero) if isinstance(self.layer, nn.LSTM) else (zero,)

    def step(self, glimpse: Float[Tensor, "b g"], state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """The state after one more glimpse."""
        if isinstance(self.layer, nn.LSTM):
            return torch.lstm_cell(glimpse, state, *self._parts())
        return (torch.rnn_relu_cell(glimpse, state[0], *self._parts()),)

    def forward(self, glimpses: Float[Tensor, "b t g"], state: tuple[Tensor, ...]) -> Float[Tensor, "b t d"]:
        """What is read of the states after each of several glimpses."""
        start = tuple(each.unsqueeze(0) for each in state)
        hidden: Tensor = self.layer(glimpses, start if isinstance(self.layer, nn.LSTM) else start[0])[0]
        return hidden

    def _parts(self) -> list[Tensor]:
        names = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
        return [getattr(self.layer, name) for name in names]


class LocationNetwork(nn.Module):
    """The mean of where to look next, tanh(W h) in (−1, 1)², with a hidden layer if asked."""

    def __init__(self, hidden_dim: int, *, middle_dim: int | None = None) -> None:
        super().__init__()
        last = nn.Linear(hidden_dim if middle_dim is None else middle_dim, 2)
        layers = [last] if middle_dim is None else [nn.Linear(hidden_dim, middle_dim), nn.ReLU(), last]
        self.layers = nn.Sequential(*layers)

    def forward(self, hidden: Float[Tensor, "*b d"]) -> Float[Tensor, "*b 2"]:
        """In float32, whatever the state is in."""
        mean: Tensor = self.layers(hidden)
        return mean.float().tanh()


def look_at(mean: Float[Tensor, "b 2"], noise: Float[Tensor, "b 2"] | None, sigma: float) -> Float[Tensor, "b 2"]:
    """A place drawn around the mean, or the mean itself."""
    return mean if noise is None else torch.add(mean, noise, alpha=sigma)


def log_normal(point: Float[Tensor, "*b 2"], mean: Float[Tensor, "*b 2"], sigma: float) -> Float[Tensor, "*b"]:
    """log N(point; mean, σ² I), over x and y together."""
    return (point - mean).square().sum(-1) * (-0.5 / sigma**2) - math.log(2 * math.pi * sigma**2)


def inside(point: Float[Tensor, "*b 2"]) -> Float[Tensor, "*b 2"]:
    """Where the eye really goes: not beyond the border. What was drawn keeps the density that it was drawn with."""
    return point.clamp(-1.0, 1.0)


def expected_reward(linear: nn.Linear, states: Float[Tensor, "b t d"]) -> Float[Tensor, "b t"]:
    """Baselines from states, which they do not train."""
    rewards: Tensor = linear(states.detach().to(linear.weight.dtype))
    return rewards.squeeze(-1).float()


def shifted(after: Float[Tensor, "b t d"], first: Float[Tensor, "b d"]) -> Float[Tensor, "b t d"]:
    """States before each glimpse from those after it, and the one before the first."""
    return torch.cat([first.unsqueeze(1), after[:, :-1]], 1)
