"""Monotonic attention (Raffel 2017): the reader moves left to right and stops at one key per query."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.align.align import Align, Alignment, masked_scores, zero_masked
from regard.base import ConfigError, ShapeError


def monotonic(stop: Float[Tensor, "*b q k"], previous: Float[Tensor, "*#b k"] | None = None) -> Float[Tensor, "*b q k"]:
    """The expected alignment when query i, starting where query i−1 stopped, stops at key j with probability p_ij.

    reach_ij = (1 − p_i,j−1) · reach_i,j−1 + w_i−1,j    and    w_ij = p_ij · reach_ij

    Before the first query the reader stands at the first key, or is spread as `previous` [*b k] says. What never stops
    is lost, so rows sum to at most one. Both terms of the recurrence lie on the anti-diagonal before, so it takes
    q + k − 1 vector steps, without the division of the closed form that underflows.

    >>> monotonic(torch.tensor([[0.5, 0.5, 1.0], [0.0, 1.0, 1.0]]))
    tensor([[0.5000, 0.2500, 0.2500],
            [0.0000, 0.7500, 0.2500]])
    """
    num_queries, num_keys = stop.shape[-2:]
    if num_queries == 0:
        return stop
    width = num_queries + num_keys - 1
    lead = stop.shape[:-2]
    skewed = F.pad(stop, (0, num_queries)).flatten(-2)[..., : num_queries * width].reshape(*lead, num_queries, width)
    if previous is None:  # row i of `skewed` is row i of `stop`, moved right by i
        above = stop.new_zeros(*lead, width)
        above[..., 0] = 1.0
    else:
        above = F.pad(previous.to(stop.dtype), (0, num_queries - 1)).expand(*lead, width)
    weights = left = torch.zeros_like(stop[..., 0])  # [*b q]: one entry per query, on the current anti-diagonal
    diagonals = []
    for step in range(width):
        reach = left + torch.cat([above[..., step : step + 1], weights[..., :-1]], -1)
        weights = skewed[..., step] * reach
        left = reach - weights
        diagonals.append(weights)
    stacked = F.pad(torch.stack(diagonals, -1).flatten(-2), (0, num_queries))
    return stacked.reshape(*lead, num_queries, width + 1)[..., :num_keys]


class Monotonic(Align):
    """p_ij = sigmoid(e_ij + offset). Training takes the expected alignment, evaluation the hard one (p > 0.5).

    `offset` (learnt) starts below zero so that the reader can get past the first keys; Gaussian `noise` on the scores
    in training pushes p towards 0 and 1, which is what the hard scan needs. `previous` is [*b k], the weights of the
    query before.
    """

    needs = ("previous",)

    def __init__(self, *, offset: float = -1.0, noise: float = 1.0) -> None:
        super().__init__()
        if noise < 0:
            raise ConfigError("Monotonic noise", got=noise, expected="0 or more", cure="use 1.0, the published value")
        self.noise = noise
        self.offset = nn.Parameter(torch.tensor(float(offset)))

    def forward(self, scores: Tensor, mask: Tensor | None = None, *, previous: Tensor | None = None) -> Alignment:
        """Weights whose rows sum to at most one, and whose focus never moves back."""
        if previous is not None and previous.shape[-1] != scores.shape[-1]:
            raise ShapeError(
                "previous weights and scores differ in length",
                got=f"{previous.shape[-1]} and {scores.shape[-1]}",
                cure="pass out.weights[..., -1, :] of the step before",
            )
        filled, allowed = masked_scores(scores, mask)
        energy = filled + self.offset
        if self.training:
            stop = torch.sigmoid(energy + self.noise * torch.randn_like(energy) if self.noise else energy)
        else:
            stop = (energy > 0).to(energy.dtype)
        return Alignment(monotonic(zero_masked(stop, allowed, stop.dtype), previous).to(scores.dtype))

    def extra_repr(self) -> str:
        """The noise."""
        return f"noise={self.noise}"
