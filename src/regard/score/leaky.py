"""The score of GATv2 (Brody et al. 2022): the nonlinearity stands between the sum and the vector.

`GraphAdditive` adds one number of the query and one of the key, so all queries rank the keys alike. Here vectors are
added, go through a leaky ReLU, and only then become a number: which key is best depends on who asks.
"""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.base import ShapeError
from regard.score.edge import Edges
from regard.score.score import Prepared, Score, check_positive, check_type, check_width, wide_alike


def leaky_additive(
    query: Float[Tensor, "*#b q d"],
    keys: Float[Tensor, "*#b k d"],
    weight: Float[Tensor, "*h d"],
    *,
    slope: float = 0.2,
) -> Float[Tensor, "*#b q k"]:
    """e_ij = aᵀ LeakyReLU(q_i + k_j) for query and keys that are projected already; `weight` is a.

    >>> query, keys = torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 4.0], [-2.0, -3.0]])
    >>> leaky_additive(query, keys, torch.tensor([1.0, 2.0]))
    tensor([[16.0000, -0.6000]])
    """
    query, keys = wide_alike(query, keys)
    mixed = F.leaky_relu(query.unsqueeze(-2) + keys.unsqueeze(-3), slope)  # [*b q k d]
    return (mixed * weight.to(mixed.dtype)[..., None, None, :]).sum(-1)


class LeakyAdditive(Score):
    """e_ij = aᵀ LeakyReLU(q_i + k_j), a learnt: the score of GATv2 (Brody et al. 2022).

    Queries and keys are nodes after two projections, W_t h_i and W_s h_j, of width `dim`. `slope` is that of the
    LeakyReLU below zero. With `num_heads` each head has its own a, for queries [*b h q d]; without, all share one.
    """

    def __init__(self, dim: int, *, slope: float = 0.2, num_heads: int | None = None) -> None:
        super().__init__()
        check_positive("LeakyAdditive", dim=dim, num_heads=1 if num_heads is None else num_heads)
        self.slope = slope
        self.weight = nn.Parameter(torch.empty(*(() if num_heads is None else (num_heads,)), dim))
        bound = math.sqrt(6 / (dim + 1))  # Glorot, for a matrix [dim, 1]
        nn.init.uniform_(self.weight, -bound, bound)

    @classmethod
    def for_widths(cls, query_dim: int, key_dim: int, *, hidden_dim: int, max_keys: int) -> Score:
        """One width for both sides, by a projection where they differ."""
        return cls._projected_where_widths_differ(query_dim, key_dim, hidden_dim, cls)

    def prepare(self, keys: Tensor) -> Prepared:
        """The keys as they are, after a look at their width and type."""
        self._check("keys", keys)
        return Prepared(keys)

    def compare(self, query: Tensor, keys: Tensor) -> Tensor:
        """Scores of queries against prepared keys."""
        self._check("query", query)
        return leaky_additive(query, keys, self.weight, slope=self.slope)

    def compare_edges(self, query: Tensor, keys: Tensor, edges: Edges) -> Tensor:
        """Scores of the pairs of an edge list; the memory is that of one vector for each edge."""
        self._check("query", query)
        query, keys = wide_alike(query, keys)
        mixed = F.leaky_relu(edges.at_targets(query) + edges.at_sources(keys), self.slope)
        return (mixed * self.weight.to(mixed.dtype).unsqueeze(-2)).sum(-1)

    def _check(self, name: str, x: Tensor) -> None:
        """The width, the type and the number of heads are those of the learnt vector."""
        check_width(name, x, self.weight.shape[-1], cure="write LeakyAdditive(dim) with the width of both sides")
        check_type(name, x, self.weight)
        if self.weight.ndim == 2 and (x.ndim < 3 or x.shape[-3] != self.weight.shape[0]):
            expected = f"[..., {self.weight.shape[0]}, items, width]"
            raise ShapeError(
                f"LeakyAdditive has a vector for each head of the {name}", got=list(x.shape), expected=expected
            )

    def extra_repr(self) -> str:
        """Width, slope and heads."""
        heads = f", num_heads={self.weight.shape[0]}" if self.weight.ndim == 2 else ""
        return f"dim={self.weight.shape[-1]}, slope={self.slope}{heads}"
