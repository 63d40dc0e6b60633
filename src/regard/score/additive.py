"""The additive score (Bahdanau 2015) and its concatenated form (Luong 2015): the same function, stored differently.

Parameter map: `Concat.weight = [Additive.to_query.weight | Additive.to_keys.weight]`, side by side, and the same v.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.score.projected import Projected
from regard.score.score import (
    AdditiveForm,
    Prepared,
    Score,
    check_positive,
    check_type,
    check_width,
    product,
    to_float32,
)


def additive(
    query: Float[Tensor, "*#b q a"], keys: Float[Tensor, "*#b k a"], v: Float[Tensor, " a"]
) -> Float[Tensor, "*#b q k"]:
    """e_ij = vᵀ tanh(q_i + k_j) for query and keys that are projected already; |e_ij| ≤ Σ|v|.

    >>> query, keys = torch.tensor([[0.5, 1.0]]), torch.tensor([[0.75, -1.0], [-0.25, -0.125], [0.0, -0.25]])
    >>> additive(query, keys, torch.tensor([1.0, -1.0]))
    tensor([[ 0.8483, -0.4590, -0.1730]])
    """
    mixed = torch.tanh(to_float32(query).unsqueeze(-2) + to_float32(keys).unsqueeze(-3))  # [*b q k a]
    return product(mixed, v.unsqueeze(0)).squeeze(-1)


class Additive(Score):
    """e_ij = vᵀ tanh(W q_i + U k_j), with W, U and v learnt; query and keys may have any width."""

    def __init__(self, query_dim: int, key_dim: int, hidden_dim: int) -> None:
        super().__init__()
        check_positive("Additive", query_dim=query_dim, key_dim=key_dim, hidden_dim=hidden_dim)
        self.to_query = nn.Linear(query_dim, hidden_dim, bias=False)  # W
        self.to_keys = nn.Linear(key_dim, hidden_dim, bias=False)  # U
        self.v = nn.Parameter(torch.empty(hidden_dim))
        nn.init.uniform_(self.v, -math.sqrt(1 / hidden_dim), math.sqrt(1 / hidden_dim))

    @classmethod
    def for_widths(cls, query_dim: int, key_dim: int, *, hidden_dim: int, max_keys: int) -> Score:
        """Its three widths as they are."""
        return cls(query_dim, key_dim, hidden_dim)

    def prepare(self, keys: Tensor) -> Prepared:
        """U k_j: [*b k hidden_dim]."""
        width = self.to_keys.in_features
        check_width("keys", keys, width, cure="give the key width second: Additive(query_dim, key_dim, hidden_dim)")
        check_type("keys", keys, self.to_keys.weight)
        return Prepared(self.to_keys(keys))

    def compare(self, query: Tensor, keys: Tensor) -> Tensor:
        """Scores of queries against prepared keys."""
        return additive(*self.as_additive(query, keys))

    @property
    def features(self) -> int:
        """hidden_dim."""
        return self.v.numel()

    def as_additive(self, query: Tensor, keys: Tensor) -> AdditiveForm:
        """W q_i beside the prepared keys."""
        width = self.to_query.in_features
        check_width("query", query, width, cure="give the query width first: Additive(query_dim, key_dim, hidden_dim)")
        check_type("query", query, self.to_query.weight)
        return AdditiveForm(self.to_query(query), keys, self.v.to(keys.dtype))


class Concat(Score):
    """e_ij = vᵀ tanh(W [q_i; k_j]): the additive score as Luong writes it, one W [hidden_dim, query_dim + key_dim].

    W [q; k] = W_q q + W_k k, so the keys are still projected once and no concatenation is ever built.
    """

    def __init__(self, query_dim: int, key_dim: int, hidden_dim: int) -> None:
        super().__init__()
        check_positive("Concat", query_dim=query_dim, key_dim=key_dim, hidden_dim=hidden_dim)
        self.query_dim, self.key_dim = query_dim, key_dim
        self.weight = nn.Parameter(torch.empty(hidden_dim, query_dim + key_dim))
        self.v = nn.Parameter(torch.empty(hidden_dim))
        bound = math.sqrt(1 / (query_dim + key_dim))
        nn.init.uniform_(self.weight, -bound, bound)
        nn.init.uniform_(self.v, -math.sqrt(1 / hidden_dim), math.sqrt(1 / hidden_dim))

    @classmethod
    def for_widths(cls, query_dim: int, key_dim: int, *, hidden_dim: int, max_keys: int) -> Score:
        """Its three widths as they are."""
        return cls(query_dim, key_dim, hidden_dim)

    def prepare(self, keys: Tensor) -> Prepared:
        """W_k k_j: [*b k hidden_dim]."""
        check_width(
            "keys", keys, self.key_dim, cure="give the key width second: Concat(query_dim, key_dim, hidden_dim)"
        )
        check_type("keys", keys, self.weight)
        return Prepared(keys @ self.weight[:, self.query_dim :].mT)

    def compare(self, query: Tensor, keys: Tensor) -> Tensor:
        """Scores of queries against prepared keys."""
        return additive(*self.as_additive(query, keys))

    @property
    def features(self) -> int:
        """hidden_dim."""
        return self.v.numel()

    def as_additive(self, query: Tensor, keys: Tensor) -> AdditiveForm:
        """W_q q_i beside the prepared keys."""
        width = self.query_dim
        check_width("query", query, width, cure="give the query width first: Concat(query_dim, key_dim, hidden_dim)")
        check_type("query", query, self.weight)
        return AdditiveForm(query @ self.weight[:, :width].mT, keys, self.v.to(keys.dtype))

    def extra_repr(self) -> str:
        """The three widths."""
        return f"query_dim={self.query_dim}, key_dim={self.key_dim}, hidden_dim={self.weight.shape[0]}"


class ProjectedAdditive(Score):
    """e_ij = vᵀ tanh(q_i + k_j) for query and keys that are projected already, by a layer that does more than that.

    `v` is the vector itself, such as that of another score, or its width; then it is learnt here.
    """

    def __init__(self, v: Float[Tensor, " a"] | int) -> None:
        super().__init__()
        if isinstance(v, int):
            check_positive("ProjectedAdditive", width=v)
            bound = math.sqrt(1 / v)
            v = nn.Parameter(torch.empty(v).uniform_(-bound, bound))
        self.v = v

    @classmethod
    def for_widths(cls, query_dim: int, key_dim: int, *, hidden_dim: int, max_keys: int) -> Score:
        """Both sides projected to `hidden_dim`, as it takes them."""
        return Projected(cls(hidden_dim), query_dim, key_dim, hidden_dim)

    @property
    def features(self) -> int:
        """The width of query and keys."""
        return self.v.numel()

    def as_additive(self, query: Tensor, keys: Tensor) -> AdditiveForm:
        """Query and keys as they are."""
        for name, tensor in (("query", query), ("keys", keys)):
            check_width(name, tensor, self.v.numel(), cure="make both sides as wide as v of ProjectedAdditive(v)")
        return AdditiveForm(query, keys, self.v.to(keys.dtype))

    def compare(self, query: Tensor, keys: Tensor) -> Tensor:
        """Scores of queries against keys."""
        return additive(*self.as_additive(query, keys))

    def extra_repr(self) -> str:
        """The width."""
        return str(self.v.numel())
