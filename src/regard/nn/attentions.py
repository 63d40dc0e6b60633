"""Attention by name: how a model's settings choose any score and any alignment."""

from regard.align import ALIGNS
from regard.attention import Attention
from regard.base.ranges import OneOf
from regard.score import SCORES


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

    Each class says how it is built for these widths (`Score.for_widths`, `Align.for_queries`). Scores that need equal
    widths get them, where they differ, by a projection of both sides to `hidden_dim`.

    >>> build_attention("additive", "softmax", query_dim=8, key_dim=16, hidden_dim=4).score
    Additive(
      (to_query): Linear(in_features=8, out_features=4, bias=False)
      (to_keys): Linear(in_features=16, out_features=4, bias=False)
    )
    """
    check_names(score, align)
    return Attention(
        SCORES[score].for_widths(query_dim, key_dim, hidden_dim=hidden_dim, max_keys=max_keys),
        ALIGNS[align].for_queries(query_dim, window=window),
        dropout=dropout,
    )


def check_names(score: str, align: str, *, prefix: str = "") -> None:
    """An error that lists the menu, unless there are a score and an alignment of these names.

    `prefix` is that of the two settings, such as "inter_", which the error names.
    """
    for role, name, menu in (("score", score, SCORES), ("align", align, ALIGNS)):
        OneOf(menu).check(f"unknown {prefix}{role}", name)
