# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False, disallow-untyped-calls=False
# mypy: disallow-untyped-decorators=False, implicit-reexport=True
"""Attention for one query in each batch item, as in step-by-step decoding: one program, one item, all keys.

Here the keys are read once and used once, so memory is the limit and tanh is made from the arguments themselves. The
same kernels take the dot product as score, for widths at which torch's own fused kernels give up.
"""

import math
from functools import partial

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.base import ImplementationUnavailable
from regard.kernels.arithmetic import precise_exp, signed_falling, signed_tanh
from regard.kernels.blocked import check_inputs, sides
from regard.kernels.derivatives import differentiable_again, plain_dot, refuse_transforms, visible_keys
from regard.kernels.dropout import kept
from regard.kernels.launch import contiguous_rows, jit, on, power_of_two, tl
from regard.kernels.limits import EVERYWHERE, WIDEST_SINGLE, reasons_against_triton
from regard.kernels.masks import Rules, flags, mask_strides, pointers, visible
from regard.kernels.masks import rules as rules_of
from regard.kernels.opaque import opaque

MANY = 528  # items, from which on a GPU with 132 multiprocessors has four for each


@jit
def _scores(query, key, weight, scale, is_dot: tl.constexpr):
    """The scores of one query against a tile of keys; and the tile, or r of `signed_falling`."""
    if is_dot:
        side = key
        scores = scale * tl.sum(query[None, :] * key, 1)
    else:
        side = signed_falling(query[None, :] + key)
        scores = tl.sum(weight[None, :] * signed_tanh(side), 1)
    return scores, side


@jit
def _last_allowed(allowed, length, chunk: tl.constexpr):
    """The place after the last key that a mask allows: beyond it is padding, which nobody has to read."""
    last = tl.zeros([chunk], tl.int32)
    for start in range(0, length, chunk):
        columns = start + tl.arange(0, chunk)
        is_open = tl.load(allowed + columns, mask=columns < length, other=0) != 0
        last = tl.maximum(last, tl.where(is_open, columns + 1, 0))
    return tl.max(last, 0)


@jit
def _forward(
    query, keys, values, v, context, log_sum, sums, all_weights, lengths, allowed, seed,
    stride_qn, stride_kn, stride_k, stride_vn, stride_v, stride_an, stride_a,
    num_keys, features, depth, scale, before, after, dropout,
    has_lengths: tl.constexpr, has_window: tl.constexpr, has_allowed: tl.constexpr, has_dropout: tl.constexpr,
    is_dot: tl.constexpr, with_weights: tl.constexpr, unit: tl.constexpr, chunk: tl.constexpr,
    block: tl.constexpr, padded_features: tl.constexpr, padded_depth: tl.constexpr,
):  # fmt: skip
    """The context of one query; and its weights, for which the scores are kept where the weights will stand."""
    item = tl.program_id(0).to(tl.int64)
    features, depth, stride_qn = features * unit, depth * unit, stride_qn * unit  # so that loads can be wide
    stride_kn, stride_k, stride_vn, stride_v = stride_kn * unit, stride_k * unit, stride_vn * unit, stride_v * unit
    row, at, deep = tl.arange(0, 1), tl.arange(0, padded_features), tl.arange(0, padded_depth)
    q = tl.load(query + item * stride_qn + at, mask=at < features, other=0.0).to(tl.float32)
    weight = q
    if not is_dot:
        weight = tl.load(v + at, mask=at < features, other=0.0).to(tl.float32)
    length = num_keys
    if has_lengths:
        length = tl.minimum(tl.load(lengths + item).to(tl.int32), num_keys)
    end = length
    if has_allowed:
        end = _last_allowed(allowed + item * stride_an, length, chunk)
    first = tl.maximum(num_keys - 1 - before, 0) // block
    highest = tl.full([], -float("inf"), tl.float32)
    total = tl.full([], 0.0, tl.float32)
    result = tl.zeros([padded_depth], tl.float32)
    for tile in range(first, tl.cdiv(end, block)):
        columns = tile * block + tl.arange(0, block)
        inside = (columns[:, None] < end) & (at[None, :] < features)
        there = (columns[:, None] < end) & (deep[None, :] < depth)
        key = tl.load(keys + item * stride_kn + columns[:, None] * stride_k + at[None, :], mask=inside, other=0.0)
        value = tl.load(values + item * stride_vn + columns[:, None] * stride_v + deep[None, :], mask=there, other=0.0)
        scores, _ = _scores(q, key.to(tl.float32), weight, scale, is_dot)
        seen = visible(
            allowed + item * stride_an, stride_a, row, columns, num_keys - 1, 1, length,
            before, after, has_window, has_allowed,
        )  # fmt: skip
        seen = tl.reshape(seen, [block])
        scores = tl.where(seen, scores, -float("inf"))
        if with_weights:
            tl.store(all_weights + item * num_keys + columns, scores, mask=columns < num_keys)
        higher = tl.maximum(highest, tl.max(scores, 0))
        base = tl.where(higher == -float("inf"), 0.0, higher)
        shrink = tl.exp(highest - base)
        weights = tl.where(seen, precise_exp(tl.where(seen, scores - base, 0.0)), 0.0)
        total = total * shrink + tl.sum(weights, 0)
        if has_dropout:
            keep = tl.reshape(kept(seed, item, row, columns, dropout), [block])
            weights = tl.where(keep, weights / (1.0 - dropout), 0.0)
        result = result * shrink + tl.sum(weights[:, None] * value.to(tl.float32), 0)
        highest = higher
    divisor = tl.where(total != 0.0, total, 1.0)
    result = result / divisor
    tl.store(context + item * depth + deep, result.to(context.dtype.element_ty), mask=deep < depth)
    logarithm = tl.where(total != 0.0, highest + tl.log(divisor), -float("inf"))
    tl.store(log_sum + item, logarithm)
    tl.store(sums + 2 * item, highest)
    tl.store(sums + 2 * item + 1, total)
    if with_weights:
        tl.debug_barrier()  # all scores are there
        base = tl.where(highest == -float("inf"), 0.0, highest)
        for tile in range(tl.cdiv(num_keys, block)):
            columns = tile * block + tl.arange(0, block)
            seen = visible(
                allowed + item * stride_an, stride_a, row, columns, num_keys - 1, 1, length,
                before, after, has_window, has_allowed,
            )  # fmt: skip
            seen = tl.reshape(seen, [block])
            scores = tl.load(all_weights + item * num_keys + columns, mask=seen, other=-float("inf"))
            weights = tl.where(seen, precise_exp(tl.where(seen, scores - base, 0.0)) / divisor, 0.0)
            tl.store(all_weights + item * num_keys + columns, weights, mask=columns < num_keys)


@jit
def _backward_tile(
    q, keys, values, weight, grad, grad_weights, base, item, tile, length, allowed, seed, stride_k, stride_v, stride_a,
    num_keys, features, depth, scale, before, after, dropout,
    has_window: tl.constexpr, has_allowed: tl.constexpr, has_dropout: tl.constexpr, is_dot: tl.constexpr,
    has_grad_weights: tl.constexpr,
    block: tl.constexpr, padded_features: tl.constexpr, padded_depth: tl.constexpr,
):  # fmt: skip
    """Of a tile of keys: the second of `_scores`, weights but for their sum, after dropout too, and their gradients."""
    row, at, deep = tl.arange(0, 1), tl.arange(0, padded_features), tl.arange(0, padded_depth)
    columns = tile * block + tl.arange(0, block)
    inside = (columns[:, None] < num_keys) & (at[None, :] < features)
    there = (columns[:, None] < num_keys) & (deep[None, :] < depth)
    key = tl.load(keys + columns[:, None] * stride_k + at[None, :], mask=inside, other=0.0)
    value = tl.load(values + columns[:, None] * stride_v + deep[None, :], mask=there, other=0.0)
    scores, side = _scores(q, key.to(tl.float32), weight, scale, is_dot)
    seen = visible(
        allowed, stride_a, row, columns, num_keys - 1, 1, length, before, after, has_window, has_allowed
    )  # fmt: skip
    weights = tl.where(tl.reshape(seen, [block]), precise_exp(scores - base), 0.0)
    grads = tl.sum(value.to(tl.float32) * grad[None, :], 1)
    taken = weights
    if has_dropout:
        keep = tl.reshape(kept(seed, item, row, columns, dropout), [block])
        grads = tl.where(keep, grads / (1.0 - dropout), 0.0)
        taken = tl.where(keep, weights / (1.0 - dropout), 0.0)
    if has_grad_weights:  # dropout stands between weights and context alone
        outer = tl.load(grad_weights + columns, mask=columns < num_keys, other=0.0)
        grads += tl.where(weights == 0.0, 0.0, outer)  # which may be infinite there
    return side, weights, taken, grads


@jit
def _backward(
    query, keys, values, v, context, sums, grad_context, grad_weights, grad_query, grad_keys, grad_values, grad_v,
    lengths, allowed, seed,
    stride_gn, stride_wn, stride_qn, stride_kn, stride_k, stride_vn, stride_v, stride_an, stride_a,
    num_keys, features, depth, scale, before, after, dropout,
    has_lengths: tl.constexpr, has_window: tl.constexpr, has_allowed: tl.constexpr, has_dropout: tl.constexpr,
    is_dot: tl.constexpr, is_step: tl.constexpr, has_grad_weights: tl.constexpr, unit: tl.constexpr,
    block: tl.constexpr, padded_features: tl.constexpr, padded_depth: tl.constexpr,
):  # fmt: skip
    """All gradients of one batch item; that of v is to be added over items.

    With `is_step` that of the query alone; `grad_keys` takes the gradients of the scores and the weights instead, and
    one walk has to do. Otherwise a first walk finds the sums of the very weights and gradients that the second has, as
    `_means` of `gradients.py` does for many queries.
    """
    item = tl.program_id(0).to(tl.int64)
    features, depth, stride_qn = features * unit, depth * unit, stride_qn * unit  # so that loads can be wide
    stride_kn, stride_k, stride_vn, stride_v = stride_kn * unit, stride_k * unit, stride_vn * unit, stride_v * unit
    at, deep = tl.arange(0, padded_features), tl.arange(0, padded_depth)
    q = tl.load(query + item * stride_qn + at, mask=at < features, other=0.0).to(tl.float32)
    weight = q
    if not is_dot:
        weight = tl.load(v + at, mask=at < features, other=0.0).to(tl.float32)
    grad = tl.load(grad_context + item * stride_gn * unit + deep, mask=deep < depth, other=0.0).to(tl.float32)
    keys, values, allowed = keys + item * stride_kn, values + item * stride_vn, allowed + item * stride_an
    grad_weights += item * stride_wn
    highest, total = tl.load(sums + 2 * item), tl.load(sums + 2 * item + 1)
    base = tl.where(total > 0.0, highest, 0.0)
    length = num_keys
    if has_lengths:
        length = tl.minimum(tl.load(lengths + item).to(tl.int32), num_keys)
    if is_step:
        mean = tl.sum(grad * tl.load(context + item * depth + deep, mask=deep < depth, other=0.0).to(tl.float32), 0)
    else:
        products, totals = tl.zeros([block], tl.float32), tl.zeros([block], tl.float32)
        for tile in range(tl.cdiv(length, block)):
            _, weights, _, grads = _backward_tile(
                q, keys, values, weight, grad, grad_weights, base, item, tile, length, allowed, seed,
                stride_k, stride_v, stride_a,
                num_keys, features, depth, scale, before, after, dropout,
                has_window, has_allowed, has_dropout, is_dot, has_grad_weights, block, padded_features, padded_depth,
            )  # fmt: skip
            products += weights * grads
            totals += weights
        total = tl.sum(totals, 0)
        mean = tl.sum(products, 0) / tl.where(total > 0.0, total, 1.0)
    share = 1.0 / tl.where(total > 0.0, total, 1.0)
    total_query = tl.zeros([padded_features], tl.float32)
    total_v = tl.zeros([padded_features], tl.float32)
    for tile in range(tl.cdiv(num_keys, block)):
        side, weights, taken, grads = _backward_tile(
            q, keys, values, weight, grad, grad_weights, base, item, tile, length, allowed, seed,
            stride_k, stride_v, stride_a,
            num_keys, features, depth, scale, before, after, dropout,
            has_window, has_allowed, has_dropout, is_dot, has_grad_weights, block, padded_features, padded_depth,
        )  # fmt: skip
        columns = tile * block + tl.arange(0, block)
        grads = (share * weights) * (grads - mean)
        taken *= share
        if is_step:
            place = item * 2 * num_keys + columns
            tl.store(grad_keys + place, grads, mask=columns < num_keys)
            tl.store(grad_keys + place + num_keys, taken, mask=columns < num_keys)
        else:
            there = (columns[:, None] < num_keys) & (deep[None, :] < depth)
            place = (item * num_keys + columns)[:, None] * depth + deep[None, :]
            of_values = taken[:, None] * grad[None, :]
            tl.store(grad_values + place, of_values.to(grad_values.dtype.element_ty), mask=there)
        if is_dot:
            of_keys = scale * grads[:, None] * q[None, :]
            total_query += tl.sum(scale * grads[:, None] * side, 0)
        else:
            of_keys = 4.0 * grads[:, None] * weight[None, :] * (tl.abs(side) - side * side)
            total_query += tl.sum(of_keys, 0)
            if not is_step:
                total_v += tl.sum(grads[:, None] * signed_tanh(side), 0)
        if not is_step:
            inside = (columns[:, None] < num_keys) & (at[None, :] < features)
            place = (item * num_keys + columns)[:, None] * features + at[None, :]
            tl.store(grad_keys + place, of_keys.to(grad_keys.dtype.element_ty), mask=inside)
    tl.store(grad_query + item * features + at, total_query.to(grad_query.dtype.element_ty), mask=at < features)
    if not is_dot and not is_step:
        tl.store(grad_v + item * features + at, total_v, mask=at < features)


def forward(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    v: Tensor | None,
    rules: Rules,
    block: int | None = None,
    *,
    scale: float = 1.0,
    weights: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The contexts [n 1 d], the logarithms of the sums [n 1], and the highest scores and the sums [n 2].

    Without v, the score is scale · q·k. A logarithm has lost a digit or two of its sum, which `backward` wants. Fills
    `weights` [n 1 k] of float32, contiguous, if it is given.
    """
    (n, _, a), (k, d) = query.shape, values.shape[1:]
    query, keys, values = contiguous_rows(query), contiguous_rows(keys), contiguous_rows(values)
    strides = (query.stride(0), *keys.stride()[:2], *values.stride()[:2])
    unit = math.gcd(8, a, d, *strides)
    context = values.new_empty(n, 1, d)
    log_sum, sums = (torch.empty(n, width, dtype=torch.float32, device=values.device) for width in (1, 2))
    with on(query):
        _forward[(n,)](
            query, keys, values, query if v is None else v.contiguous(), context, log_sum, sums,
            sums if weights is None else weights, *pointers(rules, query),
            *(stride // unit for stride in strides), *mask_strides(rules),
            k, a // unit, d // unit, float(scale), rules.before, rules.after, rules.dropout,
            **flags(rules), is_dot=v is None, with_weights=weights is not None, unit=unit,
            chunk=min(128, power_of_two(k, 16)),
            **_sizes(a, d, block, most_warps=_warps(n)),
        )  # fmt: skip
    return context, log_sum, sums


def backward(
    grad: Tensor,
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    v: Tensor | None,
    context: Tensor,
    sums: Tensor,
    rules: Rules,
    block: int | None = None,
    *,
    scale: float = 1.0,
    grad_weights: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The gradients of query, keys, values and v (zeros, where there is none), from that of the context.

    `grad_weights` [n 1 k] is that of the weights, where there is one.
    """
    (n, _, a), (k, d) = query.shape, values.shape[1:]
    grad_query, grad_keys, grad_values = query.new_empty(n, 1, a), keys.new_empty(n, k, a), values.new_empty(n, k, d)
    grad_v = query if v is None else torch.empty(n, a, dtype=torch.float32, device=v.device)
    places = (grad_query, grad_keys, grad_values, grad_v)
    given = grad, query, keys, values, v, context, sums, rules, block, scale
    _launch_backward(places, *given, is_step=False, grad_weights=grad_weights)
    return grad_query, grad_keys, grad_values, query.new_zeros(0) if v is None else grad_v.sum(0).to(v.dtype)


def backward_of_step(
    grad: Tensor,
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    v: Tensor | None,
    context: Tensor,
    sums: Tensor,
    rules: Rules,
    *,
    scale: float = 1.0,
) -> tuple[Tensor, Tensor]:
    """The gradient of the query alone, and for each key that of its score beside its weight [n 2 k] in float32: from
    these numbers of all steps, keys, values and v get their gradients at once.
    """
    grad_query = query.new_empty(query.shape)
    pairs = keys.new_empty(len(query), 2, keys.shape[1], dtype=torch.float32)
    given = grad, query, keys, values, v, context, sums, rules, None, scale
    _launch_backward((grad_query, pairs, pairs, pairs), *given, is_step=True)
    return grad_query, pairs


def _launch_backward(
    places: tuple[Tensor, Tensor, Tensor, Tensor],
    grad: Tensor,
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    v: Tensor | None,
    context: Tensor,
    sums: Tensor,
    rules: Rules,
    block: int | None,
    scale: float,
    *,
    is_step: bool,
    grad_weights: Tensor | None = None,
) -> None:
    (n, _, a), (k, d) = query.shape, values.shape[1:]
    query, keys, values = contiguous_rows(query), contiguous_rows(keys), contiguous_rows(values)
    grad = contiguous_rows(grad)
    strides = (grad.stride(0), query.stride(0), *keys.stride()[:2], *values.stride()[:2])
    unit, outer = math.gcd(8, a, d, *strides), sums if grad_weights is None else contiguous_rows(grad_weights)
    with on(query):
        _backward[(n,)](
            query, keys, values, query if v is None else v.contiguous(),
            context.contiguous(), sums, grad, outer, *places, *pointers(rules, query),
            strides[0] // unit, outer.stride(0), *(stride // unit for stride in strides[1:]), *mask_strides(rules),
            k, a // unit, d // unit, float(scale), rules.before, rules.after, rules.dropout,
            **flags(rules), is_dot=v is None, is_step=is_step, has_grad_weights=grad_weights is not None, unit=unit,
            **_sizes(a, d, block, most_warps=8),
        )  # fmt: skip


def _warps(items: int) -> int:
    """How many warps an item may have: 16 take all registers of a multiprocessor, and four such items hide each other's
    waits better than one, where there are as many.
    """
    return 16 if items <= MANY // 4 else 8 if items <= MANY // 2 else 4


def _sizes(features: int, depth: int, block: int | None, *, most_warps: int) -> dict[str, int]:
    """Tiles of keys and values that leave a thread 32 numbers of each, and an item as many threads as that takes."""
    widest = power_of_two(max(features, depth), 16)
    warps = min(most_warps, max(4, widest // 64))
    return {
        "block": block or min(256, 1024 * warps // widest),
        "padded_features": power_of_two(features, 16),
        "padded_depth": power_of_two(depth, 16),
        "num_warps": warps,
        "num_stages": 1,
    }


# ── the dot product ─────────────────────────────────────────────────────────────────────────────────────────────────


def fused_single_dot(
    query: Float[Tensor, "n 1 d"],
    keys: Float[Tensor, "n k d"],
    values: Float[Tensor, "n k v"],
    *,
    scale: float = 1.0,
    lengths: Int[Tensor, " n"] | None = None,
    causal: bool = False,
    window: tuple[int, int] | None = None,
    allowed: Bool[Tensor, "#n 1 k"] | None = None,
) -> Float[Tensor, "n 1 v"]:
    """The context of one query in each batch item for the scores scale · q·k_j; masks as in `fused_additive`.

    Widths to 2048, where torch's own fused kernels end at 256. A query that sees no key has the context 0.
    """
    check_inputs(query, keys, values, query.new_empty(query.shape[-1]), lengths, allowed, 0.0)
    refuse_transforms("fused_single_dot")
    reasons = reasons_against_triton(query.device, query, keys, values, widest=WIDEST_SINGLE)
    if query.shape[1] != 1:
        reasons.append(f"there are {query.shape[1]} queries, not one")
    if reasons:
        raise ImplementationUnavailable(
            "fused_single_dot cannot run here: " + "; ".join(reasons), cure="use impl='sdpa'"
        )
    context, _ = _dot_forward(query, keys, values, lengths, allowed, *_reach(window, causal), float(scale))
    assert isinstance(context, Tensor)
    return context


def single_dot_with_weights(
    query: Float[Tensor, "n 1 d"],
    keys: Float[Tensor, "n k d"],
    values: Float[Tensor, "n k v"],
    *,
    scale: float = 1.0,
    lengths: Int[Tensor, " n"] | None = None,
    causal: bool = False,
    window: tuple[int, int] | None = None,
    allowed: Bool[Tensor, "#n 1 k"] | None = None,
) -> tuple[Float[Tensor, "n 1 v"], Float[Tensor, "n 1 k"]]:
    """The same without a gradient, and the weights in float32, from one pass, as in a step of a search."""
    refuse_transforms("single_dot_with_weights")
    weights = query.new_zeros(len(query), 1, keys.shape[1], dtype=torch.float32)
    if 0 in (*query.shape, *values.shape):
        return values.new_zeros(len(query), 1, values.shape[2]), weights
    rules = rules_of(query, keys, lengths, allowed, None, *_reach(window, causal), 0.0)
    return forward(query, keys, values, None, rules, scale=scale, weights=weights)[0], weights


def _reach(window: tuple[int, int] | None, causal: bool) -> tuple[int, int]:
    """How many keys before and after its own one the query sees: one query is the last, and has no later keys."""
    before, after = (EVERYWHERE, EVERYWHERE) if window is None else (min(side, EVERYWHERE) for side in sides(window))
    return before, 0 if causal and window is not None else after


@opaque("regard::single_dot_forward")
def _dot_forward(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    lengths: Tensor | None,
    allowed: Tensor | None,
    before: int,
    after: int,
    scale: float,
) -> tuple[Tensor, Tensor]:
    if 0 in (*query.shape, *values.shape):
        context = values.new_zeros(query.shape[0], 1, values.shape[2])
        return context, query.new_zeros(len(query), 2, dtype=torch.float32)
    rules = rules_of(query, keys, lengths, allowed, None, before, after, 0.0)
    context, _, sums = forward(query, keys, values, None, rules, scale=scale)
    return context, sums


@opaque("regard::single_dot_backward")
def _dot_backward(
    grad: Tensor,
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    context: Tensor,
    sums: Tensor,
    lengths: Tensor | None,
    allowed: Tensor | None,
    before: int,
    after: int,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor]:
    if 0 in (*query.shape, *values.shape):
        return torch.zeros_like(query), torch.zeros_like(keys), torch.zeros_like(values)
    rules = rules_of(query, keys, lengths, allowed, None, before, after, 0.0)
    return backward(grad, query, keys, values, None, context, sums, rules, scale=scale)[:3]


@_dot_forward.register_fake
def _(query, keys, values, *rest):
    context = values.new_empty(query.shape[0], query.shape[1], values.shape[2])
    return context, query.new_empty(len(query), 2, dtype=torch.float32)


@_dot_backward.register_fake
def _(grad, query, keys, values, *rest):
    return tuple(x.new_empty(x.shape) for x in (query, keys, values))


def _remember(ctx, inputs, output):
    query, keys, values, lengths, allowed, *ctx.settings = inputs
    context, sums = output
    ctx.save_for_backward(query, keys, values, context, sums, lengths, allowed)
    ctx.mark_non_differentiable(sums)
    ctx.set_materialize_grads(False)


def _differentiate(ctx, grad, *_):
    if grad is None:
        return (None,) * 8
    if not torch.is_grad_enabled():
        return *_dot_backward(grad, *ctx.saved_tensors, *ctx.settings), *(None,) * 5
    query, keys, values, _context, _sums, lengths, allowed = ctx.saved_tensors
    before, after, scale = ctx.settings  # somebody wants a second derivative
    plain = partial(plain_dot, scale=scale, seen=visible_keys(query, keys, lengths, allowed, before, after))
    inputs = query, keys, values
    return *differentiable_again(plain, inputs, ctx.needs_input_grad[:3], grad, dropout=0.0), *(None,) * 5


_dot_forward.register_autograd(_differentiate, setup_context=_remember)
