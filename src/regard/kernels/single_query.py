# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False, disallow-untyped-calls=False
# mypy: disallow-untyped-decorators=False, implicit-reexport=True
"""Additive attention for one query in each batch item, as in step-by-step decoding: one program, one item, all keys.

Here the keys are read once and used once, so memory is the limit and tanh is made from the arguments themselves.
"""

import torch
from torch import Tensor

from regard.kernels.parts import (
    Rules,
    contiguous_rows,
    falling,
    flags,
    jit,
    kept,
    mask_strides,
    on,
    pointers,
    power_of_two,
    tl,
    visible,
)


@jit
def _scores(query, keys, weight, columns, at, stride_k, num_keys, features):
    """The scores of one query against a tile of keys, and r with tanh = 1 − 2r."""
    inside = (columns[:, None] < num_keys) & (at[None, :] < features)
    key = tl.load(keys + columns[:, None] * stride_k + at[None, :], mask=inside, other=0.0).to(tl.float32)
    r = falling(query[None, :] + key)
    return tl.sum(weight[None, :] - 2.0 * weight[None, :] * r, 1), r


@jit
def _forward(
    query, keys, values, v, context, log_sum, lengths, allowed, seed,
    stride_qn, stride_kn, stride_k, stride_vn, stride_v, stride_an, stride_a,
    num_keys, features, depth, before, after, dropout,
    has_lengths: tl.constexpr, has_allowed: tl.constexpr, has_dropout: tl.constexpr,
    block: tl.constexpr, padded_features: tl.constexpr, padded_depth: tl.constexpr,
):  # fmt: skip
    """The context of one query."""
    item = tl.program_id(0).to(tl.int64)
    row, at, deep = tl.arange(0, 1), tl.arange(0, padded_features), tl.arange(0, padded_depth)
    q = tl.load(query + item * stride_qn + at, mask=at < features, other=0.0).to(tl.float32)
    weight = tl.load(v + at, mask=at < features, other=0.0).to(tl.float32)
    length = num_keys
    if has_lengths:
        length = tl.minimum(tl.load(lengths + item).to(tl.int32), num_keys)
    first = tl.maximum(num_keys - 1 - before, 0) // block
    highest = tl.full([], -float("inf"), tl.float32)
    total = tl.full([], 0.0, tl.float32)
    result = tl.zeros([padded_depth], tl.float32)
    for tile in range(first, tl.cdiv(length, block)):
        columns = tile * block + tl.arange(0, block)
        scores, _ = _scores(q, keys + item * stride_kn, weight, columns, at, stride_k, num_keys, features)
        seen = visible(
            allowed + item * stride_an, stride_a, row, columns, num_keys - 1, 1, length, before, after, has_allowed
        )
        scores = tl.where(tl.reshape(seen, [block]), scores, -float("inf"))
        higher = tl.maximum(highest, tl.max(scores, 0))
        base = tl.where(higher == -float("inf"), 0.0, higher)
        shrink = tl.exp(highest - base)
        weights = tl.exp(scores - base)
        total = total * shrink + tl.sum(weights, 0)
        if has_dropout:
            keep = tl.reshape(kept(seed, item, row, columns, dropout), [block])
            weights = tl.where(keep, weights / (1.0 - dropout), 0.0)
        there = (columns[:, None] < num_keys) & (deep[None, :] < depth)
        value = tl.load(values + item * stride_vn + columns[:, None] * stride_v + deep[None, :], mask=there, other=0.0)
        result = result * shrink + tl.sum(weights[:, None] * value.to(tl.float32), 0)
        highest = higher
    result = result / tl.where(total != 0.0, total, 1.0)
    tl.store(context + item * depth + deep, result.to(context.dtype.element_ty), mask=deep < depth)
    logarithm = tl.where(total != 0.0, highest + tl.log(tl.where(total != 0.0, total, 1.0)), -float("inf"))
    tl.store(log_sum + item, logarithm)


@jit
def _backward(
    query, keys, values, v, context, log_sum, grad_context, grad_query, grad_keys, grad_values, grad_v,
    lengths, allowed, seed, stride_qn, stride_kn, stride_k, stride_vn, stride_v, stride_an, stride_a,
    num_keys, features, depth, before, after, dropout,
    has_lengths: tl.constexpr, has_allowed: tl.constexpr, has_dropout: tl.constexpr,
    block: tl.constexpr, padded_features: tl.constexpr, padded_depth: tl.constexpr,
):  # fmt: skip
    """All gradients of one batch item; that of v is to be added over items."""
    item = tl.program_id(0).to(tl.int64)
    row, at, deep = tl.arange(0, 1), tl.arange(0, padded_features), tl.arange(0, padded_depth)
    q = tl.load(query + item * stride_qn + at, mask=at < features, other=0.0).to(tl.float32)
    weight = tl.load(v + at, mask=at < features, other=0.0).to(tl.float32)
    grad = tl.load(grad_context + item * depth + deep, mask=deep < depth, other=0.0).to(tl.float32)
    mean = tl.sum(grad * tl.load(context + item * depth + deep, mask=deep < depth, other=0.0).to(tl.float32), 0)
    logarithm = tl.load(log_sum + item)
    base = tl.where(logarithm == -float("inf"), 0.0, logarithm)
    length = num_keys
    if has_lengths:
        length = tl.minimum(tl.load(lengths + item).to(tl.int32), num_keys)
    total_query = tl.zeros([padded_features], tl.float32)
    total_v = tl.zeros([padded_features], tl.float32)
    for tile in range(tl.cdiv(num_keys, block)):
        columns = tile * block + tl.arange(0, block)
        scores, r = _scores(q, keys + item * stride_kn, weight, columns, at, stride_k, num_keys, features)
        seen = visible(
            allowed + item * stride_an, stride_a, row, columns, num_keys - 1, 1, length, before, after, has_allowed
        )
        weights = tl.where(tl.reshape(seen, [block]), tl.exp(scores - base), 0.0)
        there = (columns[:, None] < num_keys) & (deep[None, :] < depth)
        value = tl.load(values + item * stride_vn + columns[:, None] * stride_v + deep[None, :], mask=there, other=0.0)
        grads = tl.sum(value.to(tl.float32) * grad[None, :], 1)
        taken = weights
        if has_dropout:
            keep = tl.reshape(kept(seed, item, row, columns, dropout), [block])
            grads = tl.where(keep, grads / (1.0 - dropout), 0.0)
            taken = tl.where(keep, weights / (1.0 - dropout), 0.0)
        grads = weights * (grads - mean)
        place = (item * num_keys + columns)[:, None] * depth + deep[None, :]
        of_values = taken[:, None] * grad[None, :]
        tl.store(grad_values + place, of_values.to(grad_values.dtype.element_ty), mask=there)
        of_keys = 4.0 * grads[:, None] * weight[None, :] * (r - r * r)
        place = (item * num_keys + columns)[:, None] * features + at[None, :]
        inside = (columns[:, None] < num_keys) & (at[None, :] < features)
        tl.store(grad_keys + place, of_keys.to(grad_keys.dtype.element_ty), mask=inside)
        total_query += tl.sum(of_keys, 0)
        total_v += tl.sum(grads[:, None] * (1.0 - 2.0 * r), 0)
    tl.store(grad_query + item * features + at, total_query.to(grad_query.dtype.element_ty), mask=at < features)
    tl.store(grad_v + item * features + at, total_v, mask=at < features)


def forward(
    query: Tensor, keys: Tensor, values: Tensor, v: Tensor, rules: Rules, block: int | None = None
) -> tuple[Tensor, Tensor]:
    """The contexts [n 1 d] and the logarithms of the sums [n 1]."""
    (n, _, a), (k, d) = query.shape, values.shape[1:]
    query, keys, values, v = contiguous_rows(query), contiguous_rows(keys), contiguous_rows(values), v.contiguous()
    context = values.new_empty(n, 1, d)
    log_sum = torch.empty(n, 1, dtype=torch.float32, device=values.device)
    with on(query):
        _forward[(n,)](
            query, keys, values, v, context, log_sum, *pointers(rules, query), query.stride(0),
            *keys.stride()[:2], *values.stride()[:2], *mask_strides(rules),
            k, a, d, rules.before, rules.after, rules.dropout, **flags(rules), **_sizes(a, d, block),
        )  # fmt: skip
    return context, log_sum


def backward(
    grad: Tensor,
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    v: Tensor,
    context: Tensor,
    log_sum: Tensor,
    rules: Rules,
    block: int | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The gradients of query, keys, values and v, from that of the context."""
    (n, _, a), (k, d) = query.shape, values.shape[1:]
    query, keys, values, v = contiguous_rows(query), contiguous_rows(keys), contiguous_rows(values), v.contiguous()
    grad_query, grad_keys, grad_values = query.new_empty(n, 1, a), keys.new_empty(n, k, a), values.new_empty(n, k, d)
    grad_v = torch.empty(n, a, dtype=torch.float32, device=v.device)
    with on(query):
        _backward[(n,)](
            query, keys, values, v, context.contiguous(), log_sum.contiguous(), grad.contiguous(),
            grad_query, grad_keys, grad_values, grad_v, *pointers(rules, query), query.stride(0),
            *keys.stride()[:2], *values.stride()[:2], *mask_strides(rules),
            k, a, d, rules.before, rules.after, rules.dropout, **flags(rules), **_sizes(a, d, block),
        )  # fmt: skip
    return grad_query, grad_keys, grad_values, grad_v.sum(0).to(v.dtype)


def _sizes(features: int, depth: int, block: int | None) -> dict[str, int]:
    widest = power_of_two(max(features, depth), 16)
    return {
        "block": block or max(16, 8192 // widest // 2),
        "padded_features": power_of_two(features, 16),
        "padded_depth": power_of_two(depth, 16),
        "num_warps": 4,
        "num_stages": 1,
    }
