"""Distance kernels: attention as interpolation in a table. Meant for `Normalize`; with `log=True` for `Softmax`.

softmax(log K) = K / Σ K, so the two pairs are the same function; the logarithm is the safer one far from all keys.
"""

import math
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from regard.base import ConfigError
from regard.kernels.derivatives import transformed, with_second_derivative
from regard.score.edge import Edges
from regard.score.score import Score, check_positive, check_same_width, wide_alike


def _distance(query: Tensor, keys: Tensor) -> Tensor:
    """|q_i − k_j|, exact at 0 (no expansion into squares), in float32 or better."""
    return _with_all_derivatives(_fast_distance, _plain_distance, *wide_alike(query, keys))


def _squared_distance(query: Tensor, keys: Tensor) -> Tensor:
    """|q_i − k_j|², in the same way."""
    return _with_all_derivatives(lambda *both: _fast_distance(*both).square(), _plain_squares, *wide_alike(query, keys))


def _with_all_derivatives(
    fast: Callable[..., Tensor], plain: Callable[..., Tensor], query: Tensor, keys: Tensor
) -> Tensor:
    """torch's own distance has a first derivative, in reverse mode; the others come from the differences [q k d]."""
    return plain(query, keys) if transformed() else with_second_derivative(fast, plain, (query, keys))


def _fast_distance(query: Tensor, keys: Tensor) -> Tensor:
    return torch.cdist(query, keys, compute_mode="donot_use_mm_for_euclid_dist")


def _plain_squares(query: Tensor, keys: Tensor) -> Tensor:
    return (query.unsqueeze(-2) - keys.unsqueeze(-3)).square().sum(-1)


def _plain_distance(query: Tensor, keys: Tensor) -> Tensor:
    return _root(_plain_squares(query, keys))


def _root(squares: Tensor) -> Tensor:
    is_zero = squares == 0
    return squares.masked_fill(is_zero, 1.0).sqrt().masked_fill(is_zero, 0.0)  # with the derivative 0 there


def inverse_distance(
    query: Float[Tensor, "*#b q d"], keys: Float[Tensor, "*#b k d"], *, log: bool = False
) -> Float[Tensor, "*#b q k"]:
    """K_ij = 1 / |q_i − k_j|, or its logarithm; +∞ where the query hits the key, which every alignment understands.

    >>> inverse_distance(torch.tensor([[360.0]]), torch.tensor([[350.0], [364.0], [360.0]]))
    tensor([[0.1000, 0.2500,    inf]])
    """
    return _inverse(_distance(query, keys), log)


def _inverse(distance: Tensor, log: bool) -> Tensor:
    hit = distance <= torch.finfo(distance.dtype).max ** -0.5  # nearer than that, 1/distance² is not a number
    away = torch.where(hit, 1.0, distance)  # never divide by zero, not even in the backward pass
    return torch.where(hit, math.inf, -away.log() if log else away.reciprocal())


def gaussian_kernel(
    query: Float[Tensor, "*#b q d"], keys: Float[Tensor, "*#b k d"], *, bandwidth: float = 1.0, log: bool = False
) -> Float[Tensor, "*#b q k"]:
    """K_ij = exp(−|q_i − k_j|² / 2σ²), or its logarithm.

    >>> gaussian_kernel(torch.tensor([[0.0]]), torch.tensor([[0.0], [2.0]]), log=True)
    tensor([[-0., -2.]])
    """
    return _gaussian(_squared_distance(query, keys), bandwidth, log)


def _gaussian(squares: Tensor, bandwidth: float, log: bool) -> Tensor:
    exponent = -squares / (2 * bandwidth**2)
    return exponent if log else exponent.exp()


class Distance(Score):
    """A kernel of the distance: `"inverse"` is 1/|q − k|, `"gaussian"` is exp(−|q − k|²/2σ²) with bandwidth σ."""

    def __init__(self, kernel: str = "inverse", *, bandwidth: float = 1.0, log: bool = False) -> None:
        super().__init__()
        if kernel not in ("inverse", "gaussian"):
            raise ConfigError("Distance kernel", got=repr(kernel), expected="'inverse' or 'gaussian'")
        check_positive("Distance", bandwidth=bandwidth)
        self.kernel, self.bandwidth, self.log = kernel, bandwidth, log

    def compare(self, query: Tensor, keys: Tensor) -> Tensor:
        """Kernel of each query with each key."""
        check_same_width("Distance", query, keys)
        if self.kernel == "inverse":
            return inverse_distance(query, keys, log=self.log)
        return gaussian_kernel(query, keys, bandwidth=self.bandwidth, log=self.log)

    def compare_edges(self, query: Tensor, keys: Tensor, edges: Edges) -> Tensor:
        """Kernel of the pairs of an edge list."""
        check_same_width("Distance", query, keys)
        query, keys = wide_alike(query, keys)
        squares = (edges.at_targets(query) - edges.at_sources(keys)).square().sum(-1)
        if self.kernel == "inverse":
            return _inverse(_root(squares), self.log)
        return _gaussian(squares, self.bandwidth, self.log)

    def extra_repr(self) -> str:
        """Kernel, bandwidth, logarithm."""
        width = f", bandwidth={self.bandwidth}" if self.kernel == "gaussian" else ""
        return f"{self.kernel!r}{width}, log={self.log}"
