"""Weights beside a fused pass: a second one, over the rows and heads that are asked for, in bounded memory.

A row of weights needs its own scores alone, so any rows can be had without the others. They are those that the fused
pass used, before dropout: the same scores, in float32, under the same mask.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from regard.align import Softmax
from regard.attention.fused import broadcast, mask_rules
from regard.attention.mask import Mask, fit
from regard.base import ShapeError
from regard.kernels import reasons_against_triton
from regard.score import Prepared, Score
from regard.score.score import common_type, to_float32

AT_ONCE = 2**25  # numbers in a block of scores, or of the sums inside an additive score


@torch.no_grad()
def recompute_weights(
    query: Tensor,
    keys: Tensor | Prepared,
    values: Tensor,
    score: Score,
    align: Softmax,
    mask: Mask | None,
    bias: Tensor | None,
    *,
    rows: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
) -> Tensor:
    """Weights [*b r k] of the queries numbered `rows`, or of all; with `heads`, of those on the last batch axis."""
    prepared = keys.keys if isinstance(keys, Prepared) else score.prepare(keys).keys
    lead = broadcast(query, prepared, values)
    num_queries, num_keys = query.shape[-2], values.shape[-2]
    chosen = torch.arange(num_queries, device=query.device) if rows is None else _numbers(rows, num_queries, query)
    query, prepared = (side.expand(*lead, -1, -1) for side in (query, prepared))
    some = None if heads is None else _numbers(heads, lead[-1] if lead else 1, query)
    if some is not None:
        query, prepared = query.index_select(-3, some), prepared.index_select(-3, some)
    shape = (*query.shape[:-2], len(chosen), num_keys)
    if 0 in shape:
        return query.new_zeros(shape)
    if score.is_dot and bias is None and not reasons_against_triton(query.device, query, prepared):
        return _in_one_pass(query, prepared, score, align, mask, lead, None if rows is None else chosen, some)
    prepared = prepared if score.is_dot and query.device.type == "cuda" else to_float32(prepared)  # once for all blocks
    inside = prepared.shape[-1] if score.is_additive else 1
    size = max(1, AT_ONCE // max(1, math.prod(shape[:-2]) * num_keys * inside))
    out = query.new_empty(shape) if size < len(chosen) else None
    for start in range(0, len(chosen), size):
        block_rows = chosen[start : start + size]
        asked = query if rows is None and size >= num_queries else query.index_select(-2, block_rows)
        scores = _scores(score, asked, prepared)
        if bias is not None:
            scores = scores + select_pairs(bias, block_rows, some)
        allowed = None
        if mask is not None:
            allowed = mask.dense(num_queries, num_keys, device=query.device, rows=block_rows)
            allowed = select_pairs(fit(allowed, (*lead, len(block_rows), num_keys)), None, some)
        weights = align(scores, allowed).weights.to(query.dtype)
        if out is None:
            return weights
        out[..., start : start + size, :] = weights
    assert out is not None
    return out


def _in_one_pass(
    query: Tensor,
    prepared: Tensor,
    score: Score,
    align: Softmax,
    mask: Mask | None,
    lead: tuple[int, ...],
    rows: Tensor | None,
    heads: Tensor | None,
) -> Tensor:
    """The same through a kernel that writes nothing but the weights."""
    from regard.kernels.dot_weights import dot_weights

    rules = mask_rules(mask, lead, query.shape[-2], prepared.shape[-2], query.device)
    if heads is not None:
        for name, value in rules.items():
            if isinstance(value, Tensor) and value.shape[0] > 1:
                by_head = value.view(*lead, *value.shape[1:])
                rules[name] = by_head.index_select(len(lead) - 1, heads).flatten(0, len(lead) - 1)
    form = score.as_dot(query, prepared)
    dtype = common_type(form.query, form.keys)
    left, right = (side.to(dtype).reshape(-1, *side.shape[-2:]) for side in (form.query, form.keys))
    weights = dot_weights(left, right, scale=form.scale / align.temperature, rows=rows, **rules)
    return weights.view(*query.shape[:-2], *weights.shape[1:]).to(query.dtype)


def _scores(score: Score, query: Tensor, prepared: Tensor) -> Tensor:
    """Scores in float32. On a GPU half-precision factors go to the matrix units, which add in float32."""
    if not (score.is_dot and query.device.type == "cuda" and query.dtype in (torch.bfloat16, torch.float16)):
        return score.compare(query, prepared)
    form = score.as_dot(query, prepared)
    if form.query.dtype != form.keys.dtype or form.query.dtype not in (torch.bfloat16, torch.float16):
        return score.compare(query, prepared)
    left, right = (side.reshape(-1, *side.shape[-2:]) for side in (form.query, form.keys))
    scores: Tensor = torch.bmm(left, right.mT, out_dtype=torch.float32)
    return scores.mul_(form.scale).view(*query.shape[:-1], prepared.shape[-2])


def _numbers(asked: Sequence[int], size: int, like: Tensor) -> Tensor:
    numbers = [number + size if number < 0 else number for number in asked]
    if any(not 0 <= number < size for number in numbers):
        raise ShapeError("a row or head is not there", got=list(asked), expected=f"numbers below {size}")
    return torch.tensor(numbers, dtype=torch.long, device=like.device)


def select_pairs(tensor: Tensor, rows: Tensor | None, heads: Tensor | None) -> Tensor:
    """Rows and heads of a tensor whose axes of size 1 serve all."""
    if rows is not None and tensor.shape[-2] > 1:
        tensor = tensor.index_select(-2, rows)
    if heads is not None and tensor.ndim > 2 and tensor.shape[-3] > 1:
        tensor = tensor.index_select(-3, heads)
    return tensor
