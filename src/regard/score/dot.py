"""Products: dot (Luong 2015), scaled dot (Vaswani 2017), general or bilinear (Luong 2015)."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.score.score import (
    DotForm,
    Prepared,
    Score,
    check_positive,
    check_same_width,
    check_type,
    check_width,
    product,
)


def dot(query: Float[Tensor, "*#b q d"], keys: Float[Tensor, "*#b k d"]) -> Float[Tensor, "*#b q k"]:
    """e_ij = q_i · k_j.

    >>> dot(torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 4.0], [-1.0, 0.5], [0.0, 1.0]]))
    tensor([[11.,  0.,  2.]])
    """
    return product(query, keys)


def scaled_dot(query: Float[Tensor, "*#b q d"], keys: Float[Tensor, "*#b k d"]) -> Float[Tensor, "*#b q k"]:
    """e_ij = q_i · k_j / √d, so that entries of unit variance give scores of unit variance.

    >>> scaled_dot(torch.tensor([[1.0, 2.0, 2.0, 0.0]]), torch.tensor([[1.0, 1.0, 1.0, 1.0]]))
    tensor([[2.5000]])
    """
    return product(query, keys) / math.sqrt(max(1, query.shape[-1]))  # of no width, all products are 0


def general(
    query: Float[Tensor, "*#b q d"], keys: Float[Tensor, "*#b k f"], weight: Float[Tensor, "d f"]
) -> Float[Tensor, "*#b q k"]:
    """e_ij = q_iᵀ W k_j: query and keys may differ in width.

    >>> weight = torch.tensor([[1.0, 0.5], [0.0, -1.0]])
    >>> general(torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 4.0], [-1.0, 0.5], [0.0, 1.0]]), weight)
    tensor([[-3.0000, -1.7500, -1.5000]])
    """
    return product(query, keys @ weight.mT)


class Dot(Score):
    """e_ij = q_i · k_j; nothing is learnt, the widths must agree."""

    def compare(self, query: Tensor, keys: Tensor) -> Tensor:
        """Scores of queries against keys."""
        check_same_width("Dot", query, keys)
        return dot(query, keys)

    def as_dot(self, query: Tensor, keys: Tensor) -> DotForm:
        """Scale 1."""
        check_same_width("Dot", query, keys)
        return DotForm(query, keys, 1.0)


class ScaledDot(Score):
    """e_ij = q_i · k_j / √d; d is the width of the keys."""

    def compare(self, query: Tensor, keys: Tensor) -> Tensor:
        """Scores of queries against keys."""
        check_same_width("ScaledDot", query, keys)
        return scaled_dot(query, keys)

    def as_dot(self, query: Tensor, keys: Tensor) -> DotForm:
        """Scale 1/√d."""
        check_same_width("ScaledDot", query, keys)
        return DotForm(query, keys, 1 / math.sqrt(max(1, query.shape[-1])))


class General(Score):
    """e_ij = q_iᵀ W k_j with W [query_dim, key_dim] learnt; the keys are projected once."""

    def __init__(self, query_dim: int, key_dim: int) -> None:
        super().__init__()
        check_positive("General", query_dim=query_dim, key_dim=key_dim)
        self.weight = nn.Parameter(torch.empty(query_dim, key_dim))
        nn.init.uniform_(self.weight, -math.sqrt(1 / key_dim), math.sqrt(1 / key_dim))

    @classmethod
    def for_widths(cls, query_dim: int, key_dim: int, *, hidden_dim: int, max_keys: int) -> Score:
        """W takes both widths as they are."""
        return cls(query_dim, key_dim)

    def prepare(self, keys: Tensor) -> Prepared:
        """W k_j: [*b k query_dim]."""
        check_width("keys", keys, self.weight.shape[1], cure="give the key width second: General(query_dim, key_dim)")
        check_type("keys", keys, self.weight)
        return Prepared(keys @ self.weight.mT)

    def compare(self, query: Tensor, keys: Tensor) -> Tensor:
        """Scores of queries against prepared keys."""
        check_width(
            "query", query, self.weight.shape[0], cure="give the query width first: General(query_dim, key_dim)"
        )
        return dot(query, keys)

    def as_dot(self, query: Tensor, keys: Tensor) -> DotForm:
        """Scale 1, after the projection of the keys."""
        check_width(
            "query", query, self.weight.shape[0], cure="give the query width first: General(query_dim, key_dim)"
        )
        return DotForm(query, keys, 1.0)

    def extra_repr(self) -> str:
        """The two widths."""
        return f"query_dim={self.weight.shape[0]}, key_dim={self.weight.shape[1]}"
