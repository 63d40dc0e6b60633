"""Location scores: from the query alone (Luong 2015), and from the earlier weights (Chorowski 2015)."""

import math
from typing import ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.base import ConfigError, ShapeError
from regard.score.additive import additive
from regard.score.edge import Edges
from regard.score.score import Prepared, Score, check_positive, check_type, check_width, product, wide_alike


def location(
    query: Float[Tensor, "*#b q d"], weight: Float[Tensor, "s d"], num_keys: int
) -> Float[Tensor, "*#b q {num_keys}"]:
    """e_ij = w_j · q_i for the first s positions, −∞ (no weight) beyond them. The keys are not looked at.

    >>> location(torch.tensor([[1.0, 2.0]]), torch.tensor([[1.0, 0.0], [0.0, 1.0]]), num_keys=3)
    tensor([[1., 2., -inf]])
    """
    scores = product(query, weight[:num_keys])
    return F.pad(scores, (0, num_keys - scores.shape[-1]), value=-math.inf)


class Location(Score):
    """e_ij = w_j · q_i with a learnt row w_j for each of `max_keys` positions; keys beyond them get no weight."""

    depends_on_place: ClassVar[bool] = True

    def __init__(self, query_dim: int, max_keys: int) -> None:
        super().__init__()
        check_positive("Location", query_dim=query_dim, max_keys=max_keys)
        self.weight = nn.Parameter(torch.empty(max_keys, query_dim))
        nn.init.uniform_(self.weight, -math.sqrt(1 / query_dim), math.sqrt(1 / query_dim))

    @classmethod
    def for_widths(cls, query_dim: int, key_dim: int, *, hidden_dim: int, max_keys: int) -> Score:
        """One row of the table for each of `max_keys` positions."""
        return cls(query_dim, max_keys)

    def compare(self, query: Tensor, keys: Tensor) -> Tensor:
        """Scores of positions; of the keys only their number counts."""
        check_width(
            "query", query, self.weight.shape[1], cure="give the query width first: Location(query_dim, max_keys)"
        )
        return location(query, self.weight, keys.shape[-2])

    def compare_edges(self, query: Tensor, keys: Tensor, edges: Edges) -> Tensor:
        """Scores of the pairs of an edge list; −∞ for keys beyond the table."""
        check_width(
            "query", query, self.weight.shape[1], cure="give the query width first: Location(query_dim, max_keys)"
        )
        query, table = wide_alike(query, self.weight)
        rows = table.index_select(0, edges.sources.clamp(max=table.shape[0] - 1))
        scores = (edges.at_targets(query) * rows).sum(-1)
        return scores.masked_fill(edges.sources >= table.shape[0], -math.inf)

    def extra_repr(self) -> str:
        """Width and table size."""
        return f"query_dim={self.weight.shape[1]}, max_keys={self.weight.shape[0]}"


class LocationAware(Score):
    """e_ij = vᵀ tanh(W q_i + U k_j + F f_ij), f = convolution of the previous weights along the keys.

    `previous` is [*b k], the weights of the query before; None stands for zeros, as at the first step.
    """

    needs: ClassVar[tuple[str, ...]] = ("previous",)

    def __init__(self, query_dim: int, key_dim: int, hidden_dim: int, *, filters: int = 10, width: int = 15) -> None:
        super().__init__()
        check_positive("LocationAware", query_dim=query_dim, key_dim=key_dim, hidden_dim=hidden_dim, filters=filters)
        if width < 1 or width % 2 == 0:
            raise ConfigError("LocationAware width", got=width, expected="an odd number", cure="use width=2n+1")
        self.to_query = nn.Linear(query_dim, hidden_dim, bias=False)  # W
        self.to_keys = nn.Linear(key_dim, hidden_dim, bias=False)  # U
        self.convolution = nn.Conv1d(1, filters, width, padding=width // 2, bias=False)
        self.to_features = nn.Linear(filters, hidden_dim, bias=False)  # F
        self.v = nn.Parameter(torch.empty(hidden_dim))
        nn.init.uniform_(self.v, -math.sqrt(1 / hidden_dim), math.sqrt(1 / hidden_dim))

    @classmethod
    def for_widths(cls, query_dim: int, key_dim: int, *, hidden_dim: int, max_keys: int) -> Score:
        """Its three widths as they are."""
        return cls(query_dim, key_dim, hidden_dim)

    def prepare(self, keys: Tensor) -> Prepared:
        """U k_j: [*b k hidden_dim]."""
        check_width(
            "keys",
            keys,
            self.to_keys.in_features,
            cure="give the widths in this order: LocationAware(query_dim, key_dim, hidden_dim)",
        )
        check_type("keys", keys, self.to_keys.weight)
        return Prepared(self.to_keys(keys))

    def compare(self, query: Tensor, keys: Tensor, previous: Tensor | None = None) -> Tensor:
        """Scores of one query against prepared keys, given the weights [*b k] of the query before."""
        check_width(
            "query",
            query,
            self.to_query.in_features,
            cure="give the widths in this order: LocationAware(query_dim, key_dim, hidden_dim)",
        )
        check_type("query", query, self.to_query.weight)
        if previous is not None:
            if previous.shape[-1] != keys.shape[-2]:
                raise ShapeError(
                    "previous weights and keys differ in length",
                    got=f"{previous.shape[-1]} and {keys.shape[-2]}",
                    cure="pass out.weights[..., -1, :] of the step before",
                )
            flat = previous.to(keys.dtype).reshape(math.prod(previous.shape[:-1]), 1, previous.shape[-1])
            features = self.convolution(flat).mT  # [B k filters]
            keys = keys + self.to_features(features).reshape(*previous.shape, keys.shape[-1])  # [*b k a]
        return additive(self.to_query(query), keys, self.v.to(keys.dtype))
