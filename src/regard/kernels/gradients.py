# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False, disallow-untyped-calls=False
# mypy: disallow-untyped-decorators=False, implicit-reexport=True
"""The gradients of additive attention in tiles, for many queries.

For a chunk of queries, `_pairs` makes the gradients g_ij of the scores, from scores that are made once more and the
saved logarithms of the sums. With r = 1/(1 + E·F), so that tanh = 1 − 2r and 1 − tanh² = 4 (r − r²), `_sums` makes of
them

    ∂q_ia = 4 v_a Σ_j g_ij (r − r²)        ∂k_ja = 4 v_a Σ_i g_ij (r − r²)        ∂v_a = Σ_ij g_ij (1 − 2r).

A program of `_sums` owns a tile [rows, features] and walks along the other axis, two
steps with one reciprocal, so that nothing is added across threads. Every number is written by one program, and partial
sums are added in a fixed order: results repeat bit by bit.
"""

import torch
from torch import Tensor

from regard.kernels.parts import (
    INTERPRETED,
    Rules,
    contiguous_rows,
    dot,
    falling,
    flags,
    jit,
    kept,
    mask_strides,
    on,
    pointers,
    power_of_two,
    precise_exp,
    reciprocal,
    tl,
    visible,
)
from regard.kernels.tiled import Blocks, Raised, blocks, chunks, four, raised_rows, score_tiles

PAIR_BITS = tl.constexpr(120.0)  # of the product of two factors


@jit
def _pairs(
    scores, values, context, log_sum, grad_context, grad_scores, turned, weighted, lengths, allowed, seed,
    stride_vn, stride_v, stride_an, stride_a, stride_on, stride_sn,
    num_queries, num_keys, depth, shift, first_item, first_row, before, after, dropout,
    step_item, step_row, tiles_q, tiles_k,
    has_lengths: tl.constexpr, has_window: tl.constexpr, has_allowed: tl.constexpr, has_dropout: tl.constexpr,
    block_q: tl.constexpr, block_k: tl.constexpr, block_depth: tl.constexpr,
):  # fmt: skip
    """One tile of the gradients of the scores, also turned round, and of the weights after dropout."""
    number = tl.program_id(0)
    column, tile, item = number % tiles_k, number // tiles_k % tiles_q, (number // tiles_k // tiles_q).to(tl.int64)
    rows, columns = tile * block_q + tl.arange(0, block_q), column * block_k + tl.arange(0, block_k)
    length = num_keys
    if has_lengths:
        length = tl.minimum(tl.load(lengths + item).to(tl.int32), num_keys)
    first = tile * block_q + shift - before
    end = tl.minimum(tl.minimum(tile * block_q + block_q, num_queries) + shift + after, length)
    grads = tl.zeros([block_q, block_k], tl.float32)
    weights = tl.zeros([block_q, block_k], tl.float32)
    if (column * block_k < end) & (column * block_k + block_k > first):
        seen = visible(
            allowed + item * stride_an, stride_a, rows, columns, shift, num_queries, length,
            before, after, has_window, has_allowed,
        )  # fmt: skip
        known = item * step_item + rows[:, None] * step_row + columns[None, :]
        score = tl.load(scores + known, mask=seen, other=0.0)
        logarithm = tl.load(log_sum + item * stride_sn + rows, mask=rows < num_queries, other=0.0)
        base = tl.where(logarithm == -float("inf"), 0.0, logarithm)
        weights = tl.where(seen, precise_exp(score - base[:, None]), 0.0)
        mean = tl.zeros([block_q], tl.float32)
        for start in range(0, depth, block_depth):  # in slices, since all would fill the shared memory
            deep = start + tl.arange(0, block_depth)
            inside = (rows[:, None] < num_queries) & (deep[None, :] < depth)
            place = item * stride_on + rows[:, None] * depth + deep[None, :]
            grad = tl.load(grad_context + place, mask=inside, other=0.0)
            result = tl.load(context + place, mask=inside, other=0.0)
            mean += tl.sum(result.to(tl.float32) * grad.to(tl.float32), 1)
            there = (columns[None, :] < num_keys) & (deep[:, None] < depth)
            place = item * stride_vn + columns[None, :] * stride_v + deep[:, None]
            value = tl.load(values + place, mask=there, other=0.0)
            if INTERPRETED:
                grad, value = grad.to(tl.float32), value.to(tl.float32)  # its products of bfloat16 are wrong
            grads += dot(grad, value)
        if has_dropout:
            keep = kept(seed, item + first_item, rows + first_row, columns, dropout)
            grads = tl.where(keep, grads / (1.0 - dropout), 0.0)
            grads = weights * (grads - mean[:, None])
            weights = tl.where(keep, weights / (1.0 - dropout), 0.0)
        else:
            grads = weights * (grads - mean[:, None])
    padded_q, padded_k = tiles_q * block_q, tiles_k * block_k
    place = item * padded_q * padded_k + rows[:, None] * padded_k + columns[None, :]
    tl.store(grad_scores + place, grads)
    tl.store(weighted + place, weights.to(weighted.dtype.element_ty))
    tl.store(turned + item * padded_q * padded_k + rows[:, None] + columns[None, :] * padded_q, grads)


@jit
def _sums(
    grad_scores, raw_own, raw_walk, v, own, walk, own_peaks, walk_peaks, grad_own, grad_v, lengths,
    stride_on, stride_o, stride_wn, stride_w, num_own, num_walk, features, plain_features, shift, behind, ahead,
    tiles_own, tiles_walk, tiles_features, splits, items,
    has_lengths: tl.constexpr, own_keys: tl.constexpr, with_v: tl.constexpr,
    block_own: tl.constexpr, block_walk: tl.constexpr, block_features: tl.constexpr, stages: tl.constexpr,
):  # fmt: skip
    """A tile [rows, features] of Σ_j g_ij (1 − tanh²) v, along all j or one part of them; and −2 Σ_ij g_ij r."""
    number = tl.program_id(0)
    tile, number = number % tiles_own, number // tiles_own
    slab, number = number % tiles_features, number // tiles_features
    split, item = number % splits, (number // splits).to(tl.int64)
    rows, at = tile * block_own + tl.arange(0, block_own), slab * block_features + tl.arange(0, block_features)
    padded_walk = tiles_walk * block_walk
    first = tl.maximum(tile * block_own + shift - behind, 0) // block_walk
    end = tl.minimum(tl.minimum(tile * block_own + block_own, num_own) + shift + ahead, num_walk)
    if has_lengths:
        length = tl.load(lengths + item).to(tl.int32)
        end = tl.where(tile * block_own < length, end, 0) if own_keys else tl.minimum(end, length)
    first = tl.maximum(first, split * tiles_walk // splits)
    end = tl.minimum(tl.cdiv(end, block_walk), (split + 1) * tiles_walk // splits)
    grad_scores += item * tiles_own * block_own * padded_walk
    walk += item * padded_walk * plain_features
    raw_own += item * stride_on
    raw_walk += item * stride_wn
    start = item * tiles_own * block_own * plain_features
    e = tl.load(own + start + rows[:, None] * plain_features + at[None, :])
    own_peak = tl.load(own_peaks + (item * tiles_own + tile) * plain_features + at)
    total = tl.zeros([block_own, block_features], tl.float32)
    total_v = tl.zeros([block_own, block_features], tl.float32)
    for block in range(first, end):
        peak = own_peak + tl.load(walk_peaks + (item * tiles_walk + block) * plain_features + at)
        bits = 2.0 * (tl.maximum(tl.max(peak, 0), 0.0) + 1.0)
        if bits <= PAIR_BITS:
            for step in tl.range(block * block_walk, block * block_walk + block_walk, 4, num_stages=stages):
                g0, g1, g2, g3 = four(grad_scores + step, rows, padded_walk)
                f0, f1, f2, f3 = four(walk + step * plain_features, at, 4)
                x, y = 1.0 + e * f0[None, :], 1.0 + e * f1[None, :]
                shared = reciprocal(x * y)
                r, s = y * shared, x * shared
                total += g0[:, None] * (r - r * r)
                total += g1[:, None] * (s - s * s)
                if with_v:
                    total_v += g0[:, None] * r
                    total_v += g1[:, None] * s
                x, y = 1.0 + e * f2[None, :], 1.0 + e * f3[None, :]
                shared = reciprocal(x * y)
                r, s = y * shared, x * shared
                total += g2[:, None] * (r - r * r)
                total += g3[:, None] * (s - s * s)
                if with_v:
                    total_v += g2[:, None] * r
                    total_v += g3[:, None] * s
        else:
            inside = (rows[:, None] < num_own) & (at[None, :] < features)
            mine = tl.load(raw_own + rows[:, None] * stride_o + at[None, :], mask=inside, other=0.0).to(tl.float32)
            for step in range(block * block_walk, tl.minimum(block * block_walk + block_walk, num_walk)):
                other = tl.load(raw_walk + step * stride_w + at, mask=at < features, other=0.0).to(tl.float32)
                g = tl.load(grad_scores + rows * padded_walk + step)
                r = falling(mine + other[None, :])
                total += g[:, None] * (r - r * r)
                if with_v:
                    total_v += g[:, None] * r
    weight = tl.load(v + at, mask=at < features, other=0.0).to(tl.float32)
    total = 4.0 * weight[None, :] * total
    place = ((split * items + item) * num_own + rows)[:, None] * features + at[None, :]
    inside = (rows[:, None] < num_own) & (at[None, :] < features)
    tl.store(grad_own + place, total.to(grad_own.dtype.element_ty), mask=inside)
    if with_v:
        place = ((split * items + item) * tiles_own + tile) * features + at
        tl.store(grad_v + place, -2.0 * tl.sum(total_v, 0), mask=at < features)


def backward(
    grad: Tensor,
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    v: Tensor,
    context: Tensor,
    log_sum: Tensor,
    rules: Rules,
    tiles: Blocks | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The gradients of query, keys, values and v, from that of the context."""
    (n, q, a), (k, d) = query.shape, values.shape[1:]
    tiles = tiles or blocks(q, k, a, d)
    query, keys, values, v = contiguous_rows(query), contiguous_rows(keys), contiguous_rows(values), v.contiguous()
    grad, context = grad.contiguous(), context.contiguous()
    parts = list(chunks(n, q, k, tiles, tiles.backward_chunk))
    if len(parts) == 1:
        found = _backward_chunk(grad, query, keys, values, v, context, log_sum, rules, (k - q, 0, 0), tiles)
        of_query, of_keys, of_values, of_v = (
            g.to(x.dtype) for g, x in zip(found, (query, keys, values, v), strict=True)
        )
        return of_query, of_keys, of_values, of_v
    grad_query, grad_keys, grad_values = (torch.empty_like(x) for x in (query, keys, values))
    grad_v = torch.zeros(a, dtype=torch.float32, device=v.device)
    sums: tuple[Tensor, Tensor] | None = None
    for part in parts:
        some, rows = part.items, part.rows
        of_query, of_keys, of_values, of_v = _backward_chunk(
            grad[some, rows], query[some, rows], keys[some], values[some], v, context[some, rows], log_sum[some, rows],
            rules.of(part), part.at(q, k), tiles,
        )  # fmt: skip
        grad_query[some, rows] = of_query
        grad_v += of_v
        sums = (of_keys, of_values) if sums is None else (sums[0].add_(of_keys), sums[1].add_(of_values))
        if rows.stop == q:
            grad_keys[some], grad_values[some] = sums
            sums = None
    return grad_query, grad_keys, grad_values, grad_v.to(v.dtype)


def _backward_chunk(
    grad: Tensor,
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    v: Tensor,
    context: Tensor,
    log_sum: Tensor,
    rules: Rules,
    place: tuple[int, int, int],
    tiles: Blocks,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of one chunk of rows, in float32; those of keys and values are to be added over chunks."""
    (n, q, a), (k, d), (shift, item, row) = query.shape, values.shape[1:], place
    scores, _ = score_tiles(query, keys, v, rules, shift, tiles)
    slabs = -(-a // tiles.features)
    mine = raised_rows(query, v, tiles.own, True, plain_features=slabs * tiles.features)
    theirs = raised_rows(keys, v, tiles.own, False, plain_features=slabs * tiles.features)
    rows, columns = mine.tiles * tiles.own, theirs.tiles * tiles.own
    grad_scores = torch.empty(n, rows, columns, dtype=torch.float32, device=query.device)
    turned = torch.empty(n, columns, rows, dtype=torch.float32, device=query.device)
    weighted = values.new_empty(n, rows, columns)
    with on(query):
        _pairs[(theirs.tiles * mine.tiles * n,)](
            scores, values, context, log_sum, grad, grad_scores, turned, weighted, *pointers(rules, query),
            *values.stride()[:2], *mask_strides(rules), grad.stride(0), log_sum.stride(0),
            q, k, d, shift, item, row, rules.before, rules.after, rules.dropout, *scores.stride()[:2],
            mine.tiles, theirs.tiles,
            **flags(rules), block_q=tiles.own, block_k=tiles.own, block_depth=min(64, power_of_two(d, 16)),
            num_warps=tiles.pair_warps, num_stages=1,
        )  # fmt: skip
    del scores
    of_values = torch.bmm(weighted[:, :q, :k].mT, grad)
    window = (rules.before, rules.after)
    of_query, of_v = _walk(grad_scores, query, keys, v, mine, theirs, rules.lengths, shift, window, False, tiles)
    of_keys, _ = _walk(turned, keys, query, v, theirs, mine, rules.lengths, -shift, window[::-1], True, tiles)
    return of_query, of_keys, of_values, of_v + grad_scores.sum()  # but for rounding, g sums to 0 along keys


def _walk(
    grad_scores: Tensor,
    raw: Tensor,
    other: Tensor,
    v: Tensor,
    own: Raised,
    walk: Raised,
    lengths: Tensor | None,
    shift: int,
    window: tuple[int, int],
    own_keys: bool,
    tiles: Blocks,
) -> tuple[Tensor, Tensor]:
    """The gradients of `raw`, queries or keys, and what its rows give to v."""
    n, rows, a = raw.shape
    slabs = own.plain.shape[-1] // tiles.features
    programs = n * own.tiles * slabs
    splits = max(1, min(walk.tiles, tiles.programs // programs))
    result = torch.empty(splits, n, rows, a, dtype=torch.float32, device=raw.device)
    result_v = torch.empty(1 if own_keys else splits * n * own.tiles, a, dtype=torch.float32, device=raw.device)
    with on(raw):
        _sums[(programs * splits,)](
            grad_scores, raw, other, v, own.plain, walk.walked, own.peaks, walk.peaks, result, result_v,
            raw if lengths is None else lengths, *raw.stride()[:2], *other.stride()[:2], rows, other.shape[1], a,
            own.plain.shape[-1], shift, *window, own.tiles, walk.tiles, slabs, splits, n,
            has_lengths=lengths is not None, own_keys=own_keys, with_v=not own_keys,
            block_own=tiles.own, block_walk=tiles.own, block_features=tiles.features,
            stages=tiles.sum_stages, num_warps=tiles.sum_warps, num_stages=1,
        )  # fmt: skip
    return result[0] if splits == 1 else result.sum(0), result_v[0] if own_keys else result_v.sum(0)
