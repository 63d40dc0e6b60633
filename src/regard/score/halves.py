"""Scores in two halves: the query gives one number, the key another, and their sum goes through a (leaky) ReLU.

wᵀ [q_i, k_j] = uᵀ q_i + vᵀ k_j, so no pair is ever laid side by side, and a pair costs one addition.
"""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.base import ShapeError
from regard.score.edge import Edges
from regard.score.score import HalvesForm, Prepared, Score, check_positive, check_type, check_width, product, to_float32


def graph_additive(
    query: Float[Tensor, "*#b q d"],
    keys: Float[Tensor, "*#b k d"],
    weight: Float[Tensor, "2 *h d"],
    *,
    slope: float = 0.2,
) -> Float[Tensor, "*#b q k"]:
    """e_ij = LeakyReLU(aᵀ [q_i, k_j]) for query and keys that are projected already; `weight` is a, cut in two halves.

    >>> query, keys = torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 4.0], [-1.0, -2.0]])
    >>> graph_additive(query, keys, torch.tensor([[1.0, 0.0], [1.0, 1.0]]))
    tensor([[ 8.0000, -0.4000]])
    """
    sums = product(query, weight[0].unsqueeze(-2)) + product(keys, weight[1].unsqueeze(-2)).mT
    return F.leaky_relu(sums, slope)


class GraphAdditive(Score):
    """e_ij = LeakyReLU(aᵀ [q_i, k_j]), a learnt: the score of graph attention networks (Veličković 2018).

    Queries and keys are nodes after one shared projection, W h_i and W h_j, of width `dim`. `slope` is that of the
    LeakyReLU below zero. With `num_heads` each head has its own a, for queries [*b h q d]; without, all share one.
    """

    def __init__(self, dim: int, *, slope: float = 0.2, num_heads: int | None = None) -> None:
        super().__init__()
        check_positive("GraphAdditive", dim=dim, num_heads=1 if num_heads is None else num_heads)
        self.slope = slope
        heads = () if num_heads is None else (num_heads,)
        self.weight = nn.Parameter(torch.empty(2, *heads, dim))  # a: the half of the query, the half of the keys
        bound = math.sqrt(6 / (2 * dim + 1))  # Glorot, for a matrix [2·dim, 1]
        nn.init.uniform_(self.weight, -bound, bound)

    @classmethod
    def for_widths(cls, query_dim: int, key_dim: int, *, hidden_dim: int, max_keys: int) -> Score:
        """One width for both sides, by a projection where they differ."""
        return cls._projected_where_widths_differ(query_dim, key_dim, hidden_dim, cls)

    def prepare(self, keys: Tensor) -> Prepared:
        """The half of each key: [*b k 1]."""
        return Prepared(self._half("keys", keys, 1))

    def compare(self, query: Tensor, keys: Tensor) -> Tensor:
        """Scores of queries against prepared keys."""
        return F.leaky_relu(self._half("query", query, 0) + to_float32(keys).mT, self.slope)

    def compare_edges(self, query: Tensor, keys: Tensor, edges: Edges) -> Tensor:
        """Scores of the pairs of an edge list; the memory is that of one number for each edge."""
        sums = edges.at_targets(self._half("query", query, 0)) + edges.at_sources(to_float32(keys))
        return F.leaky_relu(sums.squeeze(-1), self.slope)

    def as_halves(self, query: Tensor, keys: Tensor) -> HalvesForm:
        """The half of each query beside that of each prepared key."""
        return HalvesForm(self._half("query", query, 0).squeeze(-1), to_float32(keys).squeeze(-1), self.slope)

    def _half(self, name: str, x: Tensor, half: int) -> Tensor:
        """The number that each item of x adds to a score: [*b n 1]."""
        check_width(name, x, self.weight.shape[-1], cure="write GraphAdditive(dim) with the width of both sides")
        check_type(name, x, self.weight)
        if self.weight.ndim == 3 and (x.ndim < 3 or x.shape[-3] != self.weight.shape[1]):
            expected = f"[..., {self.weight.shape[1]}, items, width]"
            raise ShapeError(
                f"GraphAdditive has a vector for each head of the {name}", got=list(x.shape), expected=expected
            )
        return product(x, self.weight[half].unsqueeze(-2))

    def extra_repr(self) -> str:
        """Width, slope and heads."""
        heads = f", num_heads={self.weight.shape[1]}" if self.weight.ndim == 3 else ""
        return f"dim={self.weight.shape[-1]}, slope={self.slope}{heads}"


class Concatenation(Score):
    """e_ij = ReLU(wᵀ [q_i, k_j]), w learnt: the concatenation of non-local networks (Wang 2018, eq. 5)."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        check_positive("Concatenation", dim=dim)
        self.weight = nn.Parameter(torch.empty(2, dim))  # w: the half of the query, the half of the keys
        nn.init.normal_(self.weight, std=0.01)

    @classmethod
    def for_widths(cls, query_dim: int, key_dim: int, *, hidden_dim: int, max_keys: int) -> Score:
        """One width for both sides, by a projection where they differ."""
        return cls._projected_where_widths_differ(query_dim, key_dim, hidden_dim, cls)

    def prepare(self, keys: Tensor) -> Prepared:
        """The half of each key: [*b k 1]."""
        return Prepared(self._half("keys", keys, 1))

    def compare(self, query: Tensor, keys: Tensor) -> Tensor:
        """Scores of queries against prepared keys."""
        return torch.relu(self._half("query", query, 0) + to_float32(keys).mT)

    def compare_edges(self, query: Tensor, keys: Tensor, edges: Edges) -> Tensor:
        """Scores of the pairs of an edge list."""
        sums = edges.at_targets(self._half("query", query, 0)) + edges.at_sources(to_float32(keys))
        return torch.relu(sums.squeeze(-1))

    def as_halves(self, query: Tensor, keys: Tensor) -> HalvesForm:
        """The half of each query beside that of each prepared key."""
        return HalvesForm(self._half("query", query, 0).squeeze(-1), to_float32(keys).squeeze(-1), 0.0)

    def _half(self, name: str, x: Tensor, half: int) -> Tensor:
        """The number that each item of x adds to a score: [*b n 1]."""
        check_width(name, x, self.weight.shape[-1], cure="write Concatenation(dim) with the width of both sides")
        check_type(name, x, self.weight)
        return product(x, self.weight[half : half + 1])

    def extra_repr(self) -> str:
        """The width."""
        return f"dim={self.weight.shape[-1]}"
