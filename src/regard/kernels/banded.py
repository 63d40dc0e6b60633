# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False, disallow-untyped-calls=False
# mypy: disallow-untyped-decorators=False, implicit-reexport=True
"""Scaled dot product and softmax over a band of keys, with a bias for each distance: linear memory, both passes.

One program owns a tile of rows and walks along the keys that one of them sees: it forms the scores, keeps the highest
one of each row and the sum of exponentials, and adds up the values. Tiles of keys that all of its rows see need no
mask; those that no row sees are not visited. The bias of Transformer-XL comes as it leaves its product of matrices,
with one column for each distance, and is read where row and key meet; so nobody copies it into the order of the keys.
`banded_gradients.py` has the backward pass. Every number is written by one program: results repeat bit by bit.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.base import ConfigError, ImplementationUnavailable, ShapeError
from regard.kernels import banded_gradients
from regard.kernels.band_tiles import (
    BITS,
    add_product,
    allows_tf32,
    anew,
    band_of,
    first_key,
    item_strides,
    key_bounds,
    load_tile,
    product,
    shifted_strides,
    tile_of,
    widths,
)
from regard.kernels.derivatives import by_key, differentiable_again, plain_dot, refuse_transforms, visible_band
from regard.kernels.dropout import kept
from regard.kernels.launch import contiguous_rows, jit, on, tl
from regard.kernels.limits import WIDEST_BANDED, reasons_against_triton
from regard.kernels.opaque import opaque


@jit
def _walk(
    peak, total, mixed, query, keys, values, bias, seed, item, row_start, first, last, start, end,
    stride_k, stride_v, stride_b, num_queries, num_keys, features, depth, factor, bias_factor, dropout,
    has_bias: tl.constexpr, has_dropout: tl.constexpr, even_features: tl.constexpr, even_depth: tl.constexpr,
    tf32: tl.constexpr, ragged: tl.constexpr, block_q: tl.constexpr, block_k: tl.constexpr,
    padded_features: tl.constexpr, padded_depth: tl.constexpr,
):  # fmt: skip
    """Takes in the keys from `start` to `end`; where `ragged`, each row takes only those from `first` to `last`."""
    local, beside = tl.arange(0, block_q), tl.arange(0, block_k)
    wide, deep = tl.arange(0, padded_features), tl.arange(0, padded_depth)
    rows = row_start + local
    for column in range(start, end, block_k):
        columns = column + beside
        key = load_tile(keys, stride_k, column, beside, wide, num_keys, features, ragged, even_features)
        value = load_tile(values, stride_v, column, beside, deep, num_keys, depth, ragged, even_depth)
        seen = (columns[None, :] >= first[:, None]) & (columns[None, :] <= last[:, None])
        if has_bias:  # fetched before the product is made, which hides the time that it takes
            place = bias + column + (anew(local, column)[:, None] * stride_b + beside[None, :])
            added = tl.load(place, mask=seen, other=0.0) if ragged else tl.load(place)
        scores = product(query, tl.trans(key), tf32) * factor
        if has_bias:
            scores += added.to(tl.float32) * bias_factor
        if ragged:
            scores = tl.where(seen, scores, -float("inf"))
        higher = tl.maximum(peak, tl.max(scores, 1))
        base = tl.where(higher == -float("inf"), 0.0, higher)
        shares, shrink = tl.exp2(scores - base[:, None]), tl.exp2(peak - base)
        total = total * shrink + tl.sum(shares, 1)
        if has_dropout:
            shares = tl.where(kept(seed, item, rows, columns, dropout), shares, 0.0)
        mixed = add_product(mixed * shrink[:, None], shares.to(value.dtype), value, tf32)
        peak = higher
    return peak, total, mixed


@jit
def _forward(
    query, keys, values, bias, context, log_sum, starts, lengths, seed,
    stride_qb, stride_qh, stride_q, stride_kb, stride_kh, stride_k, stride_vb, stride_vh, stride_v,
    stride_bb, stride_bh, stride_b, stride_cb, stride_ch, stride_c, stride_sb, stride_sh, stride_lb, stride_lh,
    heads, num_queries, num_keys, features, depth, before, after, block, lift, tiles,
    scale, bias_scale, dropout, kept_scale,
    has_bias: tl.constexpr, has_starts: tl.constexpr, has_lengths: tl.constexpr, has_dropout: tl.constexpr,
    even_features: tl.constexpr, even_depth: tl.constexpr, tf32: tl.constexpr,
    block_q: tl.constexpr, block_k: tl.constexpr, padded_features: tl.constexpr, padded_depth: tl.constexpr,
):  # fmt: skip
    """The context of one tile of rows in one head, and the logarithms of the sums of its rows."""
    item, tile = tl.program_id(0) // tiles, tiles - 1 - tl.program_id(0) % tiles  # the longest walks begin first
    batch, head = (item // heads).to(tl.int64), (item % heads).to(tl.int64)
    row_start, shift = tile * block_q, num_keys - num_queries
    local, wide, deep = tl.arange(0, block_q), tl.arange(0, padded_features), tl.arange(0, padded_depth)
    rows = row_start + local
    start, length = key_bounds(
        starts, lengths, batch, head, stride_sb, stride_sh, stride_lb, stride_lh, num_keys, has_starts, has_lengths
    )
    final_row = tl.minimum(row_start + block_q, num_queries) - 1
    first = tl.maximum(first_key(rows + shift, before, block, lift), start)
    last = tl.where(rows < num_queries, tl.minimum(rows + shift + after, length - 1), -1)
    begin = tl.maximum(first_key(row_start + shift, before, block, lift), start) // block_k * block_k
    end = tl.minimum(final_row + shift + after + 1, length)
    full = tl.cdiv(tl.maximum(first_key(final_row + shift, before, block, lift), start), block_k) * block_k
    full_end = tl.maximum(tl.minimum(row_start + shift + after + 1, length), 0) // block_k * block_k
    full_end = tl.where(row_start + block_q <= num_queries, tl.maximum(full_end, full), full)
    query += batch * stride_qb + head * stride_qh
    keys += batch * stride_kb + head * stride_kh
    values += batch * stride_vb + head * stride_vh
    bias += batch * stride_bb + head * stride_bh + row_start.to(tl.int64) * stride_b + (num_queries - 1)
    asking = load_tile(query, stride_q, row_start, local, wide, num_queries, features, True, even_features)
    peak = tl.full([block_q], -float("inf"), tl.float32)
    total = tl.zeros([block_q], tl.float32)
    mixed = tl.zeros([block_q, padded_depth], tl.float32)
    factor, bias_factor = scale * BITS, bias_scale * BITS
    peak, total, mixed = _walk(
        peak, total, mixed, asking, keys, values, bias, seed, item, row_start, first, last, begin,
        tl.minimum(full, end), stride_k, stride_v, stride_b, num_queries, num_keys, features, depth,
        factor, bias_factor, dropout, has_bias, has_dropout, even_features, even_depth, tf32, True,
        block_q, block_k, padded_features, padded_depth,
    )  # fmt: skip
    peak, total, mixed = _walk(
        peak, total, mixed, asking, keys, values, bias, seed, item, row_start, first, last, full, full_end,
        stride_k, stride_v, stride_b, num_queries, num_keys, features, depth, factor, bias_factor, dropout,
        has_bias, has_dropout, even_features, even_depth, tf32, False, block_q, block_k, padded_features, padded_depth,
    )  # fmt: skip
    peak, total, mixed = _walk(
        peak, total, mixed, asking, keys, values, bias, seed, item, row_start, first, last, full_end, end,
        stride_k, stride_v, stride_b, num_queries, num_keys, features, depth, factor, bias_factor, dropout,
        has_bias, has_dropout, even_features, even_depth, tf32, True, block_q, block_k, padded_features, padded_depth,
    )  # fmt: skip
    result = mixed * (kept_scale / tl.where(total > 0.0, total, 1.0))[:, None]
    place = batch * stride_cb + head * stride_ch + row_start.to(tl.int64) * stride_c
    place += local[:, None] * stride_c + deep[None, :]
    inside = (rows < num_queries)[:, None] & (deep < depth)[None, :]
    tl.store(context + place, result.to(context.dtype.element_ty), mask=inside)
    logarithm = (peak + tl.log2(tl.where(total > 0.0, total, 1.0))) / BITS
    tl.store(
        log_sum + item.to(tl.int64) * num_queries + rows,
        tl.where(total > 0.0, logarithm, -float("inf")),
        mask=rows < num_queries,
    )


# ── operations ──────────────────────────────────────────────────────────────────────────────────────────────────────


@opaque("regard::banded_forward")
def _forward_op(
    query: Tensor, keys: Tensor, values: Tensor, by_distance: Tensor | None, starts: Tensor | None,
    lengths: Tensor | None, seed: Tensor | None, before: int | None, after: int | None, block: int,
    scale: float, bias_scale: float, dropout: float,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    context, log_sum = _made(query, values)
    if context.numel() == 0:
        return context, log_sum.fill_(-torch.inf)
    (batch, heads, num_queries, features), (num_keys, depth) = query.shape, values.shape[2:]
    tile = tile_of("forward", query, keys, values, by_distance)
    tiles = -(-num_queries // tile.queries)
    filled = (query if x is None else x for x in (starts, lengths, seed))
    with on(query):
        _forward[(tiles * batch * heads,)](
            query, keys, values, query if by_distance is None else by_distance, context, log_sum, *filled,
            *query.stride()[:3], *keys.stride()[:3], *values.stride()[:3], *shifted_strides(by_distance),
            *context.stride()[:3], *item_strides(starts), *item_strides(lengths),
            heads, num_queries, num_keys, features, depth, *band_of(num_queries, num_keys, before, after, block), tiles,
            scale, bias_scale, dropout, 1.0 / (1.0 - dropout) if dropout < 1.0 else 0.0,
            has_bias=by_distance is not None, has_starts=starts is not None, has_lengths=lengths is not None,
            has_dropout=dropout > 0.0, tf32=allows_tf32(query), **widths(query, values),
            block_q=tile.queries, block_k=tile.keys, num_warps=tile.warps, num_stages=tile.stages,
        )  # fmt: skip
    return context, log_sum


@opaque("regard::banded_backward")
def _backward_op(
    grad: Tensor, query: Tensor, keys: Tensor, values: Tensor, by_distance: Tensor | None, context: Tensor,
    log_sum: Tensor, starts: Tensor | None, lengths: Tensor | None, seed: Tensor | None,
    before: int | None, after: int | None, block: int,
    scale: float, bias_scale: float, dropout: float, writes_bias: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    room = _gradients(query, keys, values, by_distance, writes_bias)
    if context.numel() == 0 or keys.shape[2] == 0:
        for gradient in room:
            gradient.zero_()
        return room
    band = band_of(query.shape[2], keys.shape[2], before, after, block)
    banded_gradients.backward(
        grad, query, keys, values, by_distance, context, log_sum, starts, lengths, seed, band,
        scale, bias_scale, dropout, writes_bias, room,
    )  # fmt: skip
    return room


def _made(query: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """Room for the context, in which the heads of a row lie side by side, and for the logarithms of the sums."""
    batch, heads, num_queries, _ = query.shape
    context = values.new_empty(batch, num_queries, heads, values.shape[-1]).transpose(1, 2)
    return context, query.new_empty(batch, heads, num_queries, dtype=torch.float32)


def _gradients(
    query: Tensor, keys: Tensor, values: Tensor, by_distance: Tensor | None, writes_bias: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Room for the gradients; that of a bias that needs none is empty."""
    to_query, to_keys, to_values = (_like(x) for x in (query, keys, values))
    to_bias = _like(by_distance) if writes_bias and by_distance is not None else query.new_empty(0)
    return to_query, to_keys, to_values, to_bias


def _like(x: Tensor) -> Tensor:
    """Room of the same shape, with the same order of axes where no axis is spread."""
    room = torch.empty_like(x)
    return room if room.stride(-1) == 1 else x.new_empty(x.shape)


@_forward_op.register_fake
def _(query, keys, values, *rest):
    return _made(query, values)


@_backward_op.register_fake
def _(grad, query, keys, values, by_distance, *rest):
    return _gradients(query, keys, values, by_distance, rest[-1])


def _remember(ctx, inputs, output):
    query, keys, values, by_distance, starts, lengths, seed, *ctx.settings = inputs
    context, log_sum = output
    ctx.save_for_backward(query, keys, values, by_distance, context, log_sum, starts, lengths, seed)
    ctx.mark_non_differentiable(log_sum)
    ctx.set_materialize_grads(False)


def _differentiate(ctx, grad, *_):
    if grad is None:
        return (None,) * 13
    if not torch.is_grad_enabled():
        writes_bias = ctx.needs_input_grad[3]
        *three, to_bias = _backward_op(grad, *ctx.saved_tensors, *ctx.settings, writes_bias)
        return *three, to_bias if writes_bias else None, *(None,) * 9
    query, keys, values, by_distance, _context, _log_sum, starts, lengths, _seed = ctx.saved_tensors
    before, after, block, scale, bias_scale, dropout = ctx.settings  # somebody wants a second derivative
    num_queries, num_keys = query.shape[2], keys.shape[2]
    seen = visible_band(num_queries, num_keys, before, after, block, starts, lengths, device=query.device)

    def plain(query, keys, values, by_distance=None):
        bias = None if by_distance is None else by_key(by_distance, num_keys) * bias_scale
        return plain_dot(query, keys, values, bias, scale=scale, seen=seen)

    inputs = [x for x in (query, keys, values, by_distance) if x is not None]
    needed = ctx.needs_input_grad[: len(inputs)]
    gradients = differentiable_again(plain, inputs, needed, grad, dropout=dropout)
    return *gradients, *(None,) * (13 - len(gradients))


_forward_op.register_autograd(_differentiate, setup_context=_remember)


# ── functions ───────────────────────────────────────────────────────────────────────────────────────────────────────


def fused_banded(
    query: Float[Tensor, "b h q d"],
    keys: Float[Tensor, "b h k d"],
    values: Float[Tensor, "b h k v"],
    *,
    by_distance: Float[Tensor, "b h q w"] | None = None,
    scale: float = 1.0,
    bias_scale: float = 1.0,
    before: int | None = None,
    after: int | None = None,
    block: int = 1,
    starts: Int[Tensor, "b h"] | None = None,
    lengths: Int[Tensor, "b h"] | None = None,
    dropout: float = 0.0,
    seed: Int[Tensor, "1"] | None = None,
) -> tuple[Float[Tensor, "b h q v"], Float[Tensor, "b h q"]]:
    """The context of scale · q_i·k_j + bias_scale · bias_ij over a band of keys, and the logarithms of the sums.

    The query in row i stands at the place i + k − q, and sees the keys from `before` ahead of the first place of its
    block of `block` places, to `after` behind its own; None is without end. `starts` is the first key of each item that
    may be seen, `lengths` the one after the last. `by_distance` has the bias of row i and key j in the column
    j + q − 1 − i; it is k + q − 1 wide, or k where no later key is seen. A row that sees no key gets zeros.

    Query, keys and values are of one type, float32, bfloat16 or float16, up to 128 wide; the bias may be of another.
    `dropout` acts on the weights, with noise from `seed` or else from torch's generator. The logarithms have no
    gradient.
    """
    refuse_transforms("fused_banded")
    if reasons := reasons_against_triton(query.device, query, keys, values, widest=WIDEST_BANDED):
        what, cure = "fused_banded cannot run here: " + "; ".join(reasons), "use attend(…, impl='reference')"
        raise ImplementationUnavailable(what, cure=cure)
    _check(query, keys, values, by_distance, before, after, block, dropout)
    if dropout > 0.0 and seed is None:
        seed = torch.randint(1 << 62, (1,), device=query.device)
    query, keys, values = (contiguous_rows(x) for x in (query, keys, values))
    by_distance = None if by_distance is None else contiguous_rows(by_distance)
    context, log_sum = _forward_op(
        query, keys, values, by_distance, starts, lengths, seed if dropout > 0.0 else None, before, after, block,
        float(scale), float(bias_scale), float(dropout),
    )  # fmt: skip
    return context, log_sum


def _check(query, keys, values, by_distance, before, after, block, dropout):
    types = {x.dtype for x in (query, keys, values)}
    if len(types) > 1:
        got = ", ".join(sorted(map(str, types)))
        raise ConfigError("query, keys and values are of several types", got=got, expected="one", cure="cast them")
    if not 0.0 <= dropout <= 1.0:
        raise ConfigError("dropout", got=dropout, expected="0 to 1", cure="give the share of weights to drop")
    if block < 1 or any(side is not None and side < 0 for side in (before, after)):
        got = f"before={before}, after={after}, block={block}"
        raise ConfigError("the band of keys", got=got, expected="sides of 0 or more, a block of 1 or more")
    num_queries, num_keys = query.shape[2], keys.shape[2]
    wide = num_keys + num_queries - 1
    least = num_keys if after == 0 and num_queries <= num_keys else wide
    if by_distance is not None and by_distance.shape[-1] not in (least, wide):
        expected = f"{wide}, one for each distance, or {num_keys} where no later key is seen"
        raise ShapeError("columns of the bias by distance", got=by_distance.shape[-1], expected=expected)
