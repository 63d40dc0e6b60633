"""Attention rollout: what each place is made of after all layers, from the weights of a trace."""

import fnmatch
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.attention.layer_stack import listed
from regard.attention.record import Record
from regard.base import ConfigError, ShapeError


def rollout(seen: Mapping[str, Record], layers: str = "*", *, residual: float = 0.5) -> NDArray[Any]:
    """Shares [*b q k] of the inputs in the places after the last layer (Abnar and Zuidema 2020).

    With W_l the weights of layer l, averaged over its heads: A_l = (1 − residual) W_l + residual · I, each row divided
    by its sum, and the result is A_L ⋯ A_2 A_1. The layers are those of the trace that match, in the order in which
    they ran; each must attend from all places to all places. A row without weights keeps what it has.

    >>> weights = np.array([[1.0, 0.0], [0.5, 0.5]])
    >>> rollout({"a": Record("a", [weights]), "b": Record("b", [weights])})
    array([[1.    , 0.    ],
           [0.4375, 0.5625]])
    """
    if not 0 <= residual < 1:
        raise ConfigError("residual of a rollout", got=residual, expected="a share from 0 to below 1")
    records = [record for name, record in seen.items() if fnmatch.fnmatchcase(name, layers)]
    if not records:
        raise ConfigError("no layer has this name", got=repr(layers), expected=f"a pattern for {listed(seen)}")
    mixed: NDArray[Any] | None = None
    for record in records:
        weights = _of_all_places(record)
        size = weights.shape[-1]
        if mixed is not None and size != mixed.shape[-1]:
            got = f"{mixed.shape[-1]} and {size} places"
            raise ShapeError(
                "the layers of a rollout differ in length", got=got, cure='choose them: rollout(seen, "encoder.*")'
            )
        share = (1 - residual) * weights + residual * np.eye(size)
        totals = share.sum(-1, keepdims=True)
        share = np.where(totals > 0, share / np.where(totals > 0, totals, 1), np.eye(size))
        mixed = share if mixed is None else share @ mixed
    assert mixed is not None
    return mixed


def _of_all_places(record: Record) -> NDArray[Any]:
    """The weights [*b q q] of a layer, averaged over its heads, in float64."""
    if record.queries is not None or record.head_numbers is not None or len(record.calls) != 1:
        raise ConfigError(
            f"a rollout needs all rows and heads of one pass, also of {record.name}",
            got=f"rows {record.queries}, heads {record.head_numbers}, {len(record.calls)} calls",
            cure="trace one call of the model without rows= and heads=",
        )
    weights = record.dense().astype(np.float64)
    weights = weights.mean(-3) if record.heads else weights
    if weights.shape[-1] != weights.shape[-2]:
        raise ShapeError(
            f"a rollout needs layers that attend from all places to all places, not {record.name}",
            got=list(weights.shape),
            cure='choose layers of self-attention: rollout(seen, "encoder.*")',
        )
    return weights
