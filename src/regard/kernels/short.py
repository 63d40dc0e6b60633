# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False, disallow-untyped-calls=False
# mypy: disallow-untyped-decorators=False, implicit-reexport=True
"""Scaled dot-product attention over short texts: one program has all keys of a head, forward and backward.

Kernels for long texts walk along the keys and keep sums; of forty keys they use a small part of a tile, and of a chip.
Here one program of few threads does one item and head: scores, mask, softmax, dropout and context, row tile by row
tile, while keys and values stay in registers. The backward pass makes the scores again, so nothing is saved but what
went in, and all three gradients come from one program, so results repeat bit by bit. Keys that nobody may see are not
read. float32 inside; products of float32 keep 22 bits.
"""

from functools import partial

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.base import ConfigError, ImplementationUnavailable, ShapeError
from regard.kernels.arithmetic import dot
from regard.kernels.derivatives import (
    differentiable_again,
    has_no_memory,
    plain_dot,
    refuse_transforms,
)
from regard.kernels.dropout import kept
from regard.kernels.joined import room_alike
from regard.kernels.launch import contiguous_rows, jit, on, power_of_two, tl
from regard.kernels.limits import MOST_SHORT_KEYS, WIDEST_SHORT, reasons_against_triton

BITS = tl.constexpr(1.4426950408889634)  # 1 / ln 2


@jit
def _load(place, stride, rows, columns, num_rows, num_columns):
    inside = (rows[:, None] < num_rows) & (columns[None, :] < num_columns)
    return tl.load(place + rows[:, None] * stride + columns[None, :], mask=inside, other=0.0)


@jit
def _shares(
    scores, allowed, stride_aq, stride_ak, rows, columns, length, shift, num_queries,
    causal: tl.constexpr, has_allowed: tl.constexpr,
):  # fmt: skip
    """The weights of a tile of scores, already in bits; a row that sees no key has zeros."""
    seen = (columns[None, :] < length) & (rows[:, None] < num_queries)
    if causal:
        seen &= columns[None, :] <= rows[:, None] + shift
    if has_allowed:
        place = allowed + rows[:, None] * stride_aq + columns[None, :] * stride_ak
        seen &= tl.load(place, mask=seen, other=0) != 0
    scores = tl.where(seen, scores, -float("inf"))
    peak = tl.max(scores, 1)
    raised = tl.exp2(scores - tl.where(peak == -float("inf"), 0.0, peak)[:, None])
    total = tl.sum(raised, 1)
    return raised / tl.where(total == 0.0, 1.0, total)[:, None]


@jit
def _forward(
    query, keys, values, context, lengths, allowed, seed,
    stride_qb, stride_qh, stride_q, stride_kb, stride_kh, stride_k, stride_vb, stride_vh, stride_v,
    stride_cb, stride_ch, stride_c, stride_ab, stride_ah, stride_aq, stride_ak,
    heads, num_queries, num_keys, features, depth, scale, dropout, kept_scale,
    has_lengths: tl.constexpr, causal: tl.constexpr, has_allowed: tl.constexpr, has_dropout: tl.constexpr,
    block_q: tl.constexpr, padded_keys: tl.constexpr, padded_features: tl.constexpr, padded_depth: tl.constexpr,
):  # fmt: skip
    """The context of one head of one item."""
    item = tl.program_id(0)
    batch, head = (item // heads).to(tl.int64), (item % heads).to(tl.int64)
    query += batch * stride_qb + head * stride_qh
    keys += batch * stride_kb + head * stride_kh
    values += batch * stride_vb + head * stride_vh
    context += batch * stride_cb + head * stride_ch
    allowed += batch * stride_ab + head * stride_ah
    length = num_keys
    if has_lengths:
        length = tl.minimum(tl.load(lengths + batch), num_keys).to(tl.int32)
    local, columns = tl.arange(0, block_q), tl.arange(0, padded_keys)
    wide, deep = tl.arange(0, padded_features), tl.arange(0, padded_depth)
    key = _load(keys, stride_k, columns, wide, length, features)
    value = _load(values, stride_v, columns, deep, length, depth)
    for start in range(0, num_queries, block_q):
        rows = start + local
        asking = _load(query, stride_q, rows, wide, num_queries, features)
        scores = dot(asking, tl.trans(key)) * (scale * BITS)
        shares = _shares(
            scores, allowed, stride_aq, stride_ak, rows, columns, length, num_keys - num_queries, num_queries,
            causal, has_allowed,
        )  # fmt: skip
        if has_dropout:
            shares = tl.where(kept(seed, item, rows, columns, dropout), shares * kept_scale, 0.0)
        mixed = dot(shares.to(value.dtype), value)
        place = context + rows[:, None] * stride_c + deep[None, :]
        inside = (rows[:, None] < num_queries) & (deep[None, :] < depth)
        tl.store(place, mixed.to(context.dtype.element_ty), mask=inside)


@jit
def _backward(
    grad, query, keys, values, grad_query, grad_keys, grad_values, lengths, allowed, seed,
    stride_gb, stride_gh, stride_g, stride_qb, stride_qh, stride_q, stride_kb, stride_kh, stride_k,
    stride_vb, stride_vh, stride_v, stride_xb, stride_xh, stride_x, stride_yb, stride_yh, stride_y,
    stride_zb, stride_zh, stride_z, stride_ab, stride_ah, stride_aq, stride_ak,
    heads, num_queries, num_keys, features, depth, scale, dropout, kept_scale,
    has_lengths: tl.constexpr, causal: tl.constexpr, has_allowed: tl.constexpr, has_dropout: tl.constexpr,
    block_q: tl.constexpr, padded_keys: tl.constexpr, padded_features: tl.constexpr, padded_depth: tl.constexpr,
):  # fmt: skip
    """The gradients of one head of one item."""
    item = tl.program_id(0)
    batch, head = (item // heads).to(tl.int64), (item % heads).to(tl.int64)
    grad += batch * stride_gb + head * stride_gh
    query += batch * stride_qb + head * stride_qh
    keys += batch * stride_kb + head * stride_kh
    values += batch * stride_vb + head * stride_vh
    grad_query += batch * stride_xb + head * stride_xh
    grad_keys += batch * stride_yb + head * stride_yh
    grad_values += batch * stride_zb + head * stride_zh
    allowed += batch * stride_ab + head * stride_ah
    length = num_keys
    if has_lengths:
        length = tl.minimum(tl.load(lengths + batch), num_keys).to(tl.int32)
    local, columns = tl.arange(0, block_q), tl.arange(0, padded_keys)
    wide, deep = tl.arange(0, padded_features), tl.arange(0, padded_depth)
    key = _load(keys, stride_k, columns, wide, length, features)
    value = _load(values, stride_v, columns, deep, length, depth)
    of_keys = tl.zeros([padded_keys, padded_features], tl.float32)
    of_values = tl.zeros([padded_keys, padded_depth], tl.float32)
    for start in range(0, num_queries, block_q):
        rows = start + local
        asking = _load(query, stride_q, rows, wide, num_queries, features)
        outer = _load(grad, stride_g, rows, deep, num_queries, depth)
        scores = dot(asking, tl.trans(key)) * (scale * BITS)
        shares = _shares(
            scores, allowed, stride_aq, stride_ak, rows, columns, length, num_keys - num_queries, num_queries,
            causal, has_allowed,
        )  # fmt: skip
        used, of_shares = shares, dot(outer, tl.trans(value))
        if has_dropout:
            keep = kept(seed, item, rows, columns, dropout)
            used = tl.where(keep, shares * kept_scale, 0.0)
            of_shares = tl.where(keep, of_shares * kept_scale, 0.0)
        of_values += dot(tl.trans(used.to(outer.dtype)), outer)
        of_scores = shares * (of_shares - tl.sum(shares * of_shares, 1)[:, None]) * scale
        of_scores = of_scores.to(key.dtype)
        of_keys += dot(tl.trans(of_scores), asking)
        place = grad_query + rows[:, None] * stride_x + wide[None, :]
        inside = (rows[:, None] < num_queries) & (wide[None, :] < features)
        tl.store(place, dot(of_scores, key).to(grad_query.dtype.element_ty), mask=inside)
    below = columns[:, None] < num_keys
    place = grad_keys + columns[:, None] * stride_y + wide[None, :]
    tl.store(place, of_keys.to(grad_keys.dtype.element_ty), mask=below & (wide[None, :] < features))
    place = grad_values + columns[:, None] * stride_z + deep[None, :]
    tl.store(place, of_values.to(grad_values.dtype.element_ty), mask=below & (deep[None, :] < depth))


def fused_short(
    query: Float[Tensor, "b h q d"],
    keys: Float[Tensor, "b h k d"],
    values: Float[Tensor, "b h k v"],
    *,
    scale: float = 1.0,
    lengths: Int[Tensor, " b"] | None = None,
    causal: bool = False,
    allowed: Bool[Tensor, "#b #h #q #k"] | None = None,
    dropout: float = 0.0,
    seed: Int[Tensor, "1"] | None = None,
) -> Float[Tensor, "b h q v"]:
    """The context of scale · q_i·k_j, over up to 128 keys; heads of a row of the context lie side by side.

    A query sees the first `lengths` keys of its item; with `causal` none after its own place, where the last query
    stands at the last key; and keys where `allowed` is True. A row that sees no key is zero, and so is its gradient.
    `dropout` acts on the weights, with noise from `seed` or else from torch's generator. Queries, keys and values have
    one type. A second derivative comes from plain operations, and there is none with dropout.
    """
    refuse_transforms("fused_short")
    _check(query, keys, values, lengths, allowed, dropout)
    reasons = reasons_against_short(query, keys, values)
    if reasons:
        raise ImplementationUnavailable(
            "fused_short cannot run here: " + "; ".join(reasons), cure="use plain operations"
        )
    if dropout > 0.0 and seed is None:
        seed = torch.randint(1 << 62, (1,), device=query.device)
    context: Tensor = _Short.apply(
        query, keys, values, lengths, allowed, seed if dropout > 0.0 else None, float(scale), causal, float(dropout)
    )
    return context


def reasons_against_short(query: Tensor, keys: Tensor | None, values: Tensor) -> list[str]:
    """Every reason why the kernel cannot serve such tensors; empty if it can."""
    reasons = reasons_against_triton(query.device, query, keys, values, widest=WIDEST_SHORT)
    if query.shape[-1] > WIDEST_SHORT:
        reasons.append(f"the query is {query.shape[-1]} wide, more than {WIDEST_SHORT}")
    if values.shape[-2] > MOST_SHORT_KEYS:
        reasons.append(f"there are {values.shape[-2]} keys, more than {MOST_SHORT_KEYS}")
    return reasons


class _Short(torch.autograd.Function):
    """Saves what went in, from which the backward pass makes the weights again."""

    @staticmethod
    def forward(ctx, query, keys, values, lengths, allowed, seed, scale, causal, dropout):
        query, keys, values = (contiguous_rows(x) for x in (query, keys, values))
        lengths = None if lengths is None else lengths.contiguous()
        batch, heads, num_queries, _ = query.shape
        context = values.new_empty(batch, num_queries, heads, values.shape[-1]).transpose(1, 2)
        ctx.save_for_backward(query, keys, values, lengths, allowed, seed)
        ctx.settings = scale, causal, dropout
        if keys.shape[2] == 0:
            return context.zero_()
        if context.numel():
            with on(query):
                _forward[(batch * heads,)](
                    query, keys, values, context, *_pointers(query, lengths, allowed, seed),
                    *(x for tensor in (query, keys, values, context) for x in tensor.stride()[:3]),
                    *_mask_strides(allowed), *_sizes(query, values), scale, dropout, _kept_scale(dropout),
                    **_flags(lengths, allowed, causal, dropout), **_tile(query, keys, values),
                )  # fmt: skip
        return context

    @staticmethod
    def backward(ctx, grad):
        query, keys, values, lengths, allowed, seed = ctx.saved_tensors
        scale, causal, dropout = ctx.settings
        needed = ctx.needs_input_grad[:3]
        if torch.is_grad_enabled() or has_no_memory(grad):  # a second derivative, or many gradients at once
            seen = visible(query, keys, lengths, allowed, causal)
            plain = partial(plain_dot, scale=scale, seen=seen)
            gradients = differentiable_again(plain, (query, keys, values), needed, grad, dropout=dropout)
            return *gradients, *(None,) * 6
        grad = contiguous_rows(grad)
        room = room_alike(query, keys, values)
        if 0 in (*query.shape[:3], keys.shape[2]) or values.shape[3] == 0:
            for gradient in room:
                gradient.zero_()
        else:
            with on(query):
                _backward[(query.shape[0] * query.shape[1],)](
                    grad, query, keys, values, *room, *_pointers(query, lengths, allowed, seed),
                    *(x for tensor in (grad, query, keys, values, *room) for x in tensor.stride()[:3]),
                    *_mask_strides(allowed), *_sizes(query, values), scale, dropout, _kept_scale(dropout),
                    **_flags(lengths, allowed, causal, dropout), **_tile(query, keys, values),
                )  # fmt: skip
        return *room, *(None,) * 6


def visible(query: Tensor, keys: Tensor, lengths: Tensor | None, allowed: Tensor | None, causal: bool) -> Tensor | None:
    """The same rules as one tensor [b h q k] with axes of 1, True = may attend; None if all may."""
    num_queries, num_keys = query.shape[-2], keys.shape[-2]
    place = torch.arange(num_keys, device=query.device)
    rules = [] if lengths is None else [(place < lengths.unsqueeze(-1))[:, None, None, :]]
    rules += [place <= place[num_keys - num_queries :, None]] if causal and num_queries <= num_keys else []
    if causal and num_queries > num_keys:
        rows = torch.arange(num_queries, device=query.device).unsqueeze(1)
        rules.append(place <= rows + num_keys - num_queries)
    rules += [] if allowed is None else [allowed]
    seen = None
    for rule in rules:
        seen = rule if seen is None else seen & rule
    return seen


def _check(
    query: Tensor, keys: Tensor, values: Tensor, lengths: Tensor | None, allowed: Tensor | None, dropout: float
) -> None:
    if (
        query.shape[:2] != keys.shape[:2]
        or query.shape[3] != keys.shape[3]
        or keys.shape[:3] != values.shape[:3]
        or not query.dtype == keys.dtype == values.dtype
    ):
        raise ShapeError(
            "query, keys and values do not fit",
            got=", ".join(f"{list(x.shape)} {x.dtype}" for x in (query, keys, values)),
            expected="[b h q d], [b h k d] and [b h k v] of one type",
        )
    if lengths is not None and lengths.shape != query.shape[:1]:
        raise ShapeError("lengths", got=list(lengths.shape), expected=f"[{query.shape[0]}]: one for each item")
    if allowed is not None:
        full = (*query.shape[:3], keys.shape[2])
        if allowed.ndim != 4 or any(have not in (1, want) for have, want in zip(allowed.shape, full, strict=True)):
            raise ShapeError("allowed", got=list(allowed.shape), expected=f"axes of 1 or those of {list(full)}")
    if not 0.0 <= dropout < 1.0:
        raise ConfigError("dropout", got=dropout, expected="0 ≤ dropout < 1", cure="use 0.1, or 0 for none")


def _pointers(filler: Tensor, *tensors: Tensor | None) -> list[Tensor]:
    found = [filler if tensor is None else tensor for tensor in tensors]
    return [tensor.view(torch.uint8) if tensor.dtype == torch.bool else tensor for tensor in found]


def _mask_strides(allowed: Tensor | None) -> list[int]:
    if allowed is None:
        return [0, 0, 0, 0]
    return [0 if size == 1 else stride for size, stride in zip(allowed.shape, allowed.stride(), strict=True)]


def _sizes(query: Tensor, values: Tensor) -> tuple[int, ...]:
    return query.shape[1], query.shape[2], values.shape[2], query.shape[3], values.shape[3]


def _kept_scale(dropout: float) -> float:
    return 1.0 / (1.0 - dropout)


def _flags(lengths: Tensor | None, allowed: Tensor | None, causal: bool, dropout: float) -> dict[str, bool]:
    return {
        "has_lengths": lengths is not None,
        "causal": causal,
        "has_allowed": allowed is not None,
        "has_dropout": dropout > 0.0,
    }


def _tile(query: Tensor, keys: Tensor, values: Tensor) -> dict[str, int]:
    """Sizes of tiles, and as many threads as leave 64 numbers of all keys to each."""
    padded_keys = power_of_two(keys.shape[2], 16)
    padded_features, padded_depth = power_of_two(query.shape[3], 16), power_of_two(values.shape[3], 16)
    widest = max(padded_features, padded_depth)
    return {
        "block_q": min(32, power_of_two(query.shape[2], 16)),
        "padded_keys": padded_keys,
        "padded_features": padded_features,
        "padded_depth": padded_depth,
        "num_warps": min(8, max(1, padded_keys * widest // (1024 if query.element_size() == 2 else 512))),
        "num_stages": 1,
    }
