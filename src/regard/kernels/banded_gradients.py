# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False, disallow-untyped-calls=False
# mypy: disallow-untyped-decorators=False, implicit-reexport=True
"""The gradients of attention over a band, from weights that are made once more with the saved logarithms of the sums.

With w_ij the weights, m_ij the factor of dropout (0 or 1 / (1 − p)) and g_i the gradient of the context,

    δ_i = g_i·context_i        ∂e_ij = w_ij (m_ij g_i·v_j − δ_i)        ∂v_j = Σ_i w_ij m_ij g_i
    ∂q_i = scale Σ_j ∂e_ij k_j        ∂k_j = scale Σ_i ∂e_ij q_i        ∂bias_ij = bias_scale ∂e_ij.

`_of_queries` owns a tile of rows, walks along the keys, and writes δ, ∂q and ∂bias; `_of_keys` owns a tile of keys and
walks along the rows that see one of them. No number is added to by two programs.
"""

import torch
from torch import Tensor

from regard.kernels.band_tiles import (
    BITS,
    Band,
    add_product,
    allows_tf32,
    anew,
    end_of_places,
    first_key,
    item_strides,
    key_bounds,
    load_tile,
    product,
    shifted_strides,
    tile_of,
    widths,
)
from regard.kernels.dropout import kept, kept_turned
from regard.kernels.launch import contiguous_rows, jit, on, tl

ZEROS = 64  # columns of the gradient of the bias that are blanked at a time


@jit
def _walk_keys(
    result, query, grad, base, delta, keys, values, bias, grad_bias, seed, item, row_start, first, last, start, end,
    stride_k, stride_v, stride_b, stride_w, num_queries, num_keys, features, depth, factor, bias_factor, bias_scale,
    dropout, kept_scale,
    has_bias: tl.constexpr, writes_bias: tl.constexpr, has_dropout: tl.constexpr,
    even_features: tl.constexpr, even_depth: tl.constexpr, tf32: tl.constexpr, ragged: tl.constexpr,
    block_q: tl.constexpr, block_k: tl.constexpr, padded_features: tl.constexpr, padded_depth: tl.constexpr,
):  # fmt: skip
    """Adds the keys from `start` to `end` to the gradient of a tile of queries, and writes that of their bias."""
    local, beside = tl.arange(0, block_q), tl.arange(0, block_k)
    wide, deep = tl.arange(0, padded_features), tl.arange(0, padded_depth)
    rows = row_start + local
    for column in range(start, end, block_k):
        columns = column + beside
        key = load_tile(keys, stride_k, column, beside, wide, num_keys, features, ragged, even_features)
        value = load_tile(values, stride_v, column, beside, deep, num_keys, depth, ragged, even_depth)
        seen = (columns[None, :] >= first[:, None]) & (columns[None, :] <= last[:, None])
        if has_bias:
            place = bias + column + (anew(local, column)[:, None] * stride_b + beside[None, :])
            added = tl.load(place, mask=seen, other=0.0) if ragged else tl.load(place)
        scores = product(query, tl.trans(key), tf32) * factor
        if has_bias:
            scores += added.to(tl.float32) * bias_factor
        weights = tl.exp2(scores - base[:, None])
        if ragged:
            weights = tl.where(seen, weights, 0.0)
        grads = product(grad, tl.trans(value), tf32)
        if has_dropout:
            grads = tl.where(kept(seed, item, rows, columns, dropout), grads * kept_scale, 0.0)
        grads = weights * (grads - delta[:, None])
        if writes_bias:
            place = grad_bias + column + (anew(local, column)[:, None] * stride_w + beside[None, :])
            if ragged:
                tl.store(place, (grads * bias_scale).to(grad_bias.dtype.element_ty), mask=seen)
            else:
                tl.store(place, (grads * bias_scale).to(grad_bias.dtype.element_ty))
        result = add_product(result, grads.to(key.dtype), key, tf32)
    return result


@jit
def _blank(grad_bias, row_start, first, last, stride_w, width, num_queries, block_q: tl.constexpr, block: tl.constexpr):
    """Zeros in all columns of the gradient of the bias whose keys the rows do not see."""
    local = tl.arange(0, block_q)
    rows = row_start + local
    for start in range(0, width, block):
        columns = start + tl.arange(0, block)
        keys = columns[None, :] - (num_queries - 1 - rows)[:, None]
        unseen = (keys < first[:, None]) | (keys > last[:, None])
        unseen &= (rows < num_queries)[:, None] & (columns < width)[None, :]
        place = grad_bias + local[:, None] * stride_w + columns[None, :]
        tl.store(place, tl.zeros([block_q, block], grad_bias.dtype.element_ty), mask=unseen)


@jit
def _of_queries(
    query, keys, values, bias, context, grad, log_sum, delta, grad_query, grad_bias, starts, lengths, seed,
    stride_qb, stride_qh, stride_q, stride_kb, stride_kh, stride_k, stride_vb, stride_vh, stride_v,
    stride_bb, stride_bh, stride_b, stride_cb, stride_ch, stride_c, stride_gb, stride_gh, stride_g,
    stride_ob, stride_oh, stride_o, stride_wb, stride_wh, stride_w, stride_sb, stride_sh, stride_lb, stride_lh,
    heads, num_queries, num_keys, features, depth, before, after, block, lift, tiles, width,
    scale, bias_scale, dropout, kept_scale,
    has_bias: tl.constexpr, writes_bias: tl.constexpr, has_starts: tl.constexpr, has_lengths: tl.constexpr,
    has_dropout: tl.constexpr, even_features: tl.constexpr, even_depth: tl.constexpr, tf32: tl.constexpr,
    block_q: tl.constexpr, block_k: tl.constexpr, padded_features: tl.constexpr, padded_depth: tl.constexpr,
    zeros: tl.constexpr,
):  # fmt: skip
    """The gradients of one tile of queries in one head and of their bias; and δ, which `_of_keys` needs."""
    item, tile = tl.program_id(0) // tiles, tiles - 1 - tl.program_id(0) % tiles
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
    grad_bias += batch * stride_wb + head * stride_wh
    bias_here = grad_bias + row_start.to(tl.int64) * (stride_w - 1) + (num_queries - 1)
    asking = load_tile(query, stride_q, row_start, local, wide, num_queries, features, True, even_features)
    outer = load_tile(
        grad + batch * stride_gb + head * stride_gh, stride_g, row_start, local, deep, num_queries, depth,
        True, even_depth,
    )  # fmt: skip
    made = load_tile(
        context + batch * stride_cb + head * stride_ch, stride_c, row_start, local, deep, num_queries, depth,
        True, even_depth,
    )  # fmt: skip
    product_of_row = tl.sum(outer.to(tl.float32) * made.to(tl.float32), 1)
    place = item.to(tl.int64) * num_queries + rows
    tl.store(delta + place, product_of_row, mask=rows < num_queries)
    logarithm = tl.load(log_sum + place, mask=rows < num_queries, other=-float("inf"))
    base = tl.where(logarithm == -float("inf"), float("inf"), logarithm * BITS)
    result = tl.zeros([block_q, padded_features], tl.float32)
    factor, bias_factor = scale * BITS, bias_scale * BITS
    result = _walk_keys(
        result, asking, outer, base, product_of_row, keys, values, bias, bias_here, seed, item, row_start, first, last,
        begin, tl.minimum(full, end), stride_k, stride_v, stride_b, stride_w - 1, num_queries, num_keys, features,
        depth, factor, bias_factor, bias_scale, dropout, kept_scale, has_bias, writes_bias, has_dropout,
        even_features, even_depth, tf32, True, block_q, block_k, padded_features, padded_depth,
    )  # fmt: skip
    result = _walk_keys(
        result, asking, outer, base, product_of_row, keys, values, bias, bias_here, seed, item, row_start, first, last,
        full, full_end, stride_k, stride_v, stride_b, stride_w - 1, num_queries, num_keys, features,
        depth, factor, bias_factor, bias_scale, dropout, kept_scale, has_bias, writes_bias, has_dropout,
        even_features, even_depth, tf32, False, block_q, block_k, padded_features, padded_depth,
    )  # fmt: skip
    result = _walk_keys(
        result, asking, outer, base, product_of_row, keys, values, bias, bias_here, seed, item, row_start, first, last,
        full_end, end, stride_k, stride_v, stride_b, stride_w - 1, num_queries, num_keys, features,
        depth, factor, bias_factor, bias_scale, dropout, kept_scale, has_bias, writes_bias, has_dropout,
        even_features, even_depth, tf32, True, block_q, block_k, padded_features, padded_depth,
    )  # fmt: skip
    place = grad_query + batch * stride_ob + head * stride_oh + row_start.to(tl.int64) * stride_o
    place += local[:, None] * stride_o + wide[None, :]
    inside = (rows < num_queries)[:, None] & (wide < features)[None, :]
    tl.store(place, (result * scale).to(grad_query.dtype.element_ty), mask=inside)
    if writes_bias:
        from_row = grad_bias + row_start.to(tl.int64) * stride_w
        _blank(from_row, row_start, first, last, stride_w, width, num_queries, block_q, zeros)


@jit
def _walk_rows(
    to_key, to_value, key, value, query, grad, bias, log_sum, delta, seed, item, column, start, end, first, length,
    stride_q, stride_g, stride_b, num_queries, num_keys, features, depth, shift, before, after, block, lift,
    factor, bias_factor, dropout, kept_scale,
    has_bias: tl.constexpr, has_dropout: tl.constexpr, even_features: tl.constexpr, even_depth: tl.constexpr,
    tf32: tl.constexpr, ragged: tl.constexpr, block_q: tl.constexpr, block_k: tl.constexpr,
    padded_features: tl.constexpr, padded_depth: tl.constexpr,
):  # fmt: skip
    """Adds the rows from `start` to `end` to the gradients of a tile of keys and values. Scores are [keys, rows]."""
    local, beside = tl.arange(0, block_q), tl.arange(0, block_k)
    wide, deep = tl.arange(0, padded_features), tl.arange(0, padded_depth)
    columns = column + beside
    for row in range(start, end, block_q):
        rows = row + local
        asking = load_tile(query, stride_q, row, local, wide, num_queries, features, ragged, even_features)
        outer = load_tile(grad, stride_g, row, local, deep, num_queries, depth, ragged, even_depth)
        if ragged:
            logarithm = tl.load(log_sum + rows, mask=rows < num_queries, other=-float("inf"))
            mean = tl.load(delta + rows, mask=rows < num_queries, other=0.0)
        else:
            logarithm, mean = tl.load(log_sum + rows), tl.load(delta + rows)
        base = tl.where(logarithm == -float("inf"), float("inf"), logarithm * BITS)
        earliest = tl.maximum(first_key(rows + shift, before, block, lift), first)
        latest = tl.where(rows < num_queries, tl.minimum(rows + shift + after, length - 1), -1)
        seen = (columns[:, None] >= earliest[None, :]) & (columns[:, None] <= latest[None, :])
        if has_bias:
            place = bias + tl.cast(row, tl.int64) * stride_b + (anew(local, row)[None, :] * stride_b + beside[:, None])
            added = tl.load(place, mask=seen, other=0.0) if ragged else tl.load(place)
        scores = product(key, tl.trans(asking), tf32) * factor
        if has_bias:
            scores += added.to(tl.float32) * bias_factor
        weights = tl.exp2(scores - base[None, :])
        if ragged:
            weights = tl.where(seen, weights, 0.0)
        grads = product(value, tl.trans(outer), tf32)
        taken = weights
        if has_dropout:
            keep = kept_turned(seed, item, rows, columns, dropout)
            grads = tl.where(keep, grads * kept_scale, 0.0)
            taken = tl.where(keep, weights * kept_scale, 0.0)
        to_value = add_product(to_value, taken.to(outer.dtype), outer, tf32)
        grads = weights * (grads - mean[None, :])
        to_key = add_product(to_key, grads.to(asking.dtype), asking, tf32)
    return to_key, to_value


@jit
def _of_keys(
    query, keys, values, bias, grad, log_sum, delta, grad_keys, grad_values, starts, lengths, seed,
    stride_qb, stride_qh, stride_q, stride_kb, stride_kh, stride_k, stride_vb, stride_vh, stride_v,
    stride_bb, stride_bh, stride_b, stride_gb, stride_gh, stride_g,
    stride_ob, stride_oh, stride_o, stride_wb, stride_wh, stride_w, stride_sb, stride_sh, stride_lb, stride_lh,
    heads, num_queries, num_keys, features, depth, before, after, block, lift, tiles,
    scale, bias_scale, dropout, kept_scale,
    has_bias: tl.constexpr, has_starts: tl.constexpr, has_lengths: tl.constexpr, has_dropout: tl.constexpr,
    even_features: tl.constexpr, even_depth: tl.constexpr, tf32: tl.constexpr,
    block_q: tl.constexpr, block_k: tl.constexpr, padded_features: tl.constexpr, padded_depth: tl.constexpr,
):  # fmt: skip
    """The gradients of one tile of keys and values in one head, over all rows that see one of them."""
    item, tile = tl.program_id(0) // tiles, tl.program_id(0) % tiles
    batch, head = (item // heads).to(tl.int64), (item % heads).to(tl.int64)
    column, shift = tile * block_k, num_keys - num_queries
    beside, wide, deep = tl.arange(0, block_k), tl.arange(0, padded_features), tl.arange(0, padded_depth)
    columns = column + beside
    first, length = key_bounds(
        starts, lengths, batch, head, stride_sb, stride_sh, stride_lb, stride_lh, num_keys, has_starts, has_lengths
    )
    final = column + block_k - 1
    begin = tl.maximum(column - shift - after, 0) // block_q * block_q
    end = tl.minimum(end_of_places(final, before, block, lift) - shift, num_queries)
    end = tl.where((column < length) & (final >= first), end, 0)
    full = tl.cdiv(tl.maximum(final - shift - after, 0), block_q) * block_q
    full_end = tl.minimum(end_of_places(column, before, block, lift) - shift, num_queries)
    full_end = tl.maximum(full_end, 0) // block_q * block_q
    full_end = tl.where((column >= first) & (final < length), tl.maximum(full_end, full), full)
    query += batch * stride_qb + head * stride_qh
    grad += batch * stride_gb + head * stride_gh
    bias += batch * stride_bb + head * stride_bh + (num_queries - 1) + column
    log_sum += item.to(tl.int64) * num_queries
    delta += item.to(tl.int64) * num_queries
    key = load_tile(
        keys + batch * stride_kb + head * stride_kh, stride_k, column, beside, wide, num_keys, features,
        True, even_features,
    )  # fmt: skip
    value = load_tile(
        values + batch * stride_vb + head * stride_vh, stride_v, column, beside, deep, num_keys, depth,
        True, even_depth,
    )  # fmt: skip
    to_key = tl.zeros([block_k, padded_features], tl.float32)
    to_value = tl.zeros([block_k, padded_depth], tl.float32)
    factor, bias_factor = scale * BITS, bias_scale * BITS
    to_key, to_value = _walk_rows(
        to_key, to_value, key, value, query, grad, bias, log_sum, delta, seed, item, column, begin,
        tl.minimum(full, end), first, length, stride_q, stride_g, stride_b, num_queries, num_keys, features, depth,
        shift, before, after, block, lift, factor, bias_factor, dropout, kept_scale, has_bias, has_dropout,
        even_features, even_depth, tf32, True, block_q, block_k, padded_features, padded_depth,
    )  # fmt: skip
    to_key, to_value = _walk_rows(
        to_key, to_value, key, value, query, grad, bias, log_sum, delta, seed, item, column, full,
        full_end, first, length, stride_q, stride_g, stride_b, num_queries, num_keys, features, depth,
        shift, before, after, block, lift, factor, bias_factor, dropout, kept_scale, has_bias, has_dropout,
        even_features, even_depth, tf32, False, block_q, block_k, padded_features, padded_depth,
    )  # fmt: skip
    to_key, to_value = _walk_rows(
        to_key, to_value, key, value, query, grad, bias, log_sum, delta, seed, item, column, full_end,
        end, first, length, stride_q, stride_g, stride_b, num_queries, num_keys, features, depth,
        shift, before, after, block, lift, factor, bias_factor, dropout, kept_scale, has_bias, has_dropout,
        even_features, even_depth, tf32, True, block_q, block_k, padded_features, padded_depth,
    )  # fmt: skip
    place = grad_keys + batch * stride_ob + head * stride_oh + column.to(tl.int64) * stride_o
    place += beside[:, None] * stride_o + wide[None, :]
    inside = (columns < num_keys)[:, None] & (wide < features)[None, :]
    tl.store(place, (to_key * scale).to(grad_keys.dtype.element_ty), mask=inside)
    place = grad_values + batch * stride_wb + head * stride_wh + column.to(tl.int64) * stride_w
    place += beside[:, None] * stride_w + deep[None, :]
    inside = (columns < num_keys)[:, None] & (deep < depth)[None, :]
    tl.store(place, to_value.to(grad_values.dtype.element_ty), mask=inside)


def backward(
    grad: Tensor, query: Tensor, keys: Tensor, values: Tensor, by_distance: Tensor | None, context: Tensor,
    log_sum: Tensor, starts: Tensor | None, lengths: Tensor | None, seed: Tensor | None, band: Band,
    scale: float, bias_scale: float, dropout: float, writes_bias: bool, room: tuple[Tensor, ...],
) -> None:  # fmt: skip
    """Writes the gradients of query, keys, values and bias into the tensors `room`, by two kernels."""
    (batch, heads, num_queries, features), (num_keys, depth) = query.shape, values.shape[2:]
    grad_query, grad_keys, grad_values, grad_bias = room
    grad, delta = contiguous_rows(grad), torch.empty_like(log_sum)
    bias = query if by_distance is None else by_distance
    bounds = *item_strides(starts), *item_strides(lengths)
    sizes = heads, num_queries, num_keys, features, depth, *band
    floats = scale, bias_scale, dropout, 1.0 / (1.0 - dropout) if dropout < 1.0 else 0.0
    flags = {
        "has_bias": by_distance is not None, "has_starts": starts is not None, "has_lengths": lengths is not None,
        "has_dropout": dropout > 0.0, "tf32": allows_tf32(query), **widths(query, values),
    }  # fmt: skip
    starts, lengths, seed = (query if x is None else x for x in (starts, lengths, seed))
    strides = *query.stride()[:3], *keys.stride()[:3], *values.stride()[:3], *shifted_strides(by_distance)
    rows, columns = (tile_of(kernel, query, keys, values, by_distance) for kernel in ("queries", "keys"))
    tiles = -(-num_queries // rows.queries), -(-num_keys // columns.keys)
    with on(query):
        _of_queries[(tiles[0] * batch * heads,)](
            query, keys, values, bias, context, grad, log_sum, delta, grad_query, grad_bias, starts, lengths, seed,
            *strides, *context.stride()[:3], *grad.stride()[:3], *grad_query.stride()[:3],
            *(grad_bias.stride()[:3] if writes_bias else (0, 0, 1)), *bounds, *sizes, tiles[0],
            grad_bias.shape[-1], *floats, **flags, writes_bias=writes_bias,
            block_q=rows.queries, block_k=rows.keys, zeros=ZEROS, num_warps=rows.warps, num_stages=rows.stages,
        )  # fmt: skip
        _of_keys[(tiles[1] * batch * heads,)](
            query, keys, values, bias, grad, log_sum, delta, grad_keys, grad_values, starts, lengths, seed,
            *strides, *grad.stride()[:3], *grad_keys.stride()[:3], *grad_values.stride()[:3], *bounds, *sizes,
            tiles[1], *floats, **flags,
            block_q=columns.queries, block_k=columns.keys, num_warps=columns.warps, num_stages=columns.stages,
        )  # fmt: skip
