"""Attention as soft look-up: a table of keys and values, asked with a query that need not be one of the keys."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.align import Align, Normalize
from regard.attention.attention import attend
from regard.base import RegardError, ShapeError
from regard.score import Score


class Found(NamedTuple):
    """What a look-up gives: the value, and how much each key of the table had to do with it."""

    value: Any
    weights: dict[Any, float]


def lookup(table: Mapping[Any, Any], query: Any, *, score: Score | None = None, align: Align | None = None) -> Found:
    """Ask a table. Without a score the key must match, as in any dictionary; with one the answer is a mixture.

    >>> lookup({"Ann Jones": "555-1234", "Bob Smith": "555-5678"}, "Bob Smith").value
    '555-5678'
    >>> from regard.score import Distance
    >>> found = lookup({300: 30.0, 400: 40.0}, 360, score=Distance("inverse"))
    >>> found.value, {box: round(weight, 12) for box, weight in found.weights.items()}
    (36.0, {300: 0.4, 400: 0.6})
    """
    if not table:
        raise RegardError("the table is empty", cure="give a table with at least one key")
    if score is None:
        weights = {key: float(key == query) for key in table}
        if query not in table:
            raise KeyError(f"{query!r} is not in the table; pass score=Distance() to mix the values of near keys")
        return Found(table[query], weights)
    keys, values = _matrix("keys", table), _matrix("values", table.values())
    asked = _vector(query)
    if asked.shape != keys.shape[1:]:
        raise ShapeError("the query is not like the keys", got=list(asked.shape), expected=list(keys.shape[1:]))
    out = attend(asked.unsqueeze(0), keys, values, score=score, align=align or Normalize())
    assert out.weights is not None
    if not out.weights.any():
        raise RegardError(
            "no key is near enough to have weight",
            got=repr(query),
            cure="use a larger bandwidth, or Distance(…, log=True) with align=Softmax()",
        )
    value = out.context[0].tolist()
    return Found(value[0] if len(value) == 1 else value, dict(zip(table, out.weights[0].tolist(), strict=True)))


def _matrix(name: str, items: Iterable[Any]) -> Tensor:
    vectors = [_vector(item) for item in items]
    widths = {len(vector) for vector in vectors}
    if len(widths) > 1:
        raise ShapeError(f"{name} of a soft look-up differ in width", got=sorted(widths), expected="one width")
    return torch.stack(vectors)


def _vector(item: Any) -> Tensor:
    try:
        return torch.as_tensor(item, dtype=torch.float64).reshape(-1)
    except (TypeError, ValueError) as error:
        raise ShapeError(
            "a soft look-up mixes numbers",
            got=repr(item),
            expected="a number or a vector",
            cure="leave score out to match exactly",
        ) from error
