"""Attention by name: how a model's settings choose any score and any alignment."""

from regard.align import ALIGNS, Align, Entmax, Hard, LocalMonotonic, LocalPredictive, Shift, TopK
from regard.attention import Attention
from regard.base.ranges import OneOf
from regard.score import (
    SCORES,
    Additive,
    Concat,
    Concatenation,
    Cosine,
    General,
    GraphAdditive,
    Location,
    LocationAware,
    Projected,
    ProjectedAdditive,
    Score,
)


def build_attention(
    score: str,
    align: str,
    *,
    query_dim: int,
    key_dim: int,
    hidden_dim: int,
    window: int = 10,
    max_keys: int = 200,
    dropout: float = 0.0,
) -> Attention:
    """`Attention` with the score and the alignment of these names, for queries and keys of these widths.

    Scores that need equal widths get them, where they differ, by a projection of both sides to `hidden_dim`. Cosine
    gets a learnt key strength that starts at 8, since at 1 it cannot focus.

    >>> build_attention("additive", "softmax", query_dim=8, key_dim=16, hidden_dim=4).score
    Additive(
      (to_query): Linear(in_features=8, out_features=4, bias=False)
      (to_keys): Linear(in_features=16, out_features=4, bias=False)
    )
    """
    check_names(score, align)
    return Attention(
        _score(score, query_dim, key_dim, hidden_dim, max_keys), _align(align, query_dim, window), dropout=dropout
    )


def _score(name: str, query_dim: int, key_dim: int, hidden_dim: int, max_keys: int) -> Score:
    kind = SCORES[name]
    if kind in (Additive, Concat, LocationAware):
        return kind(query_dim, key_dim, hidden_dim)
    if kind is General:
        return General(query_dim, key_dim)
    if kind is Location:
        return Location(query_dim, max_keys)
    if kind is ProjectedAdditive:
        return Projected(ProjectedAdditive(hidden_dim), query_dim, key_dim, hidden_dim)
    if kind in (Concatenation, GraphAdditive):
        if query_dim == key_dim:
            return kind(query_dim)
        return Projected(kind(hidden_dim), query_dim, key_dim, hidden_dim)
    inner = Cosine(8.0, learned=True) if kind is Cosine else kind()
    return inner if query_dim == key_dim else Projected(inner, query_dim, key_dim, hidden_dim)


def _align(name: str, query_dim: int, window: int) -> Align:
    kind = ALIGNS[name]
    if kind is LocalPredictive:
        return LocalPredictive(query_dim, window=window)
    if kind is LocalMonotonic:
        return LocalMonotonic(window)
    if kind is TopK:
        return TopK(4)
    if kind is Entmax:
        return Entmax(1.5)
    if kind is Shift:
        return Shift(learned=True)
    if kind is Hard:
        return Hard("gumbel_straight_through")
    return kind()


def check_names(score: str, align: str) -> None:
    """An error that lists the menu, unless there are a score and an alignment of these names."""
    for role, name, menu in (("score", score, SCORES), ("align", align, ALIGNS)):
        OneOf(menu).check(f"unknown {role}", name)
