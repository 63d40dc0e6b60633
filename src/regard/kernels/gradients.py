# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False, disallow-untyped-calls=False
# mypy: disallow-untyped-decorators=False, implicit-reexport=True
"""The gradients of additive attention in tiles, for many queries.

For a chunk of queries, `_means` and `_pairs` make the gradients g_ij of the scores, from scores that were kept or are
made once more, and from the saved logarithms of the sums. With s = 1/(exp(−k) + exp(2q)·exp(k)), so that
1 − tanh² = 4 exp(2q)·s² and tanh = 1 − 2 exp(−k)·s, `_sums` makes of them

    ∂q_ia = 4 v_a exp(2q_ia) Σ_j g_ij s²        ∂v_a = −2 Σ_ij g_ij (exp(−k_ja) s − ½),

and ∂k_ja likewise, with q and k exchanged. Nothing cancels here; r − r² with r = 1/(1 + E·F) costs as much and loses a
digit where tanh is near 1. A program of `_sums` owns a tile [rows, features] and walks along the other axis, two steps
with one reciprocal, so that nothing is added across threads. A walk is no longer than LONGEST, since every addition to
a long sum costs accuracy. Every number is written by one program, and partial sums are added in a fixed order: results
repeat bit by bit.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.kernels import series, series_gradients
from regard.kernels.arithmetic import dot, precise_exp, reciprocal, signed_falling, signed_tanh, within
from regard.kernels.dropout import kept
from regard.kernels.launch import INTERPRETED, contiguous_rows, jit, on, power_of_two, tl
from regard.kernels.masks import Rules, flags, mask_strides, pointers, walk_span
from regard.kernels.tile_weights import tile_weights
from regard.kernels.tiled import Blocks, blocks, chunks, four, score_tiles

PAIR_BITS = tl.constexpr(120.0)  # of the product of two factors
LIMIT = tl.constexpr(20.0)  # |q| and |k| of the way without exponentials: squares stay far from the ends of float32
FAR = tl.constexpr(1e9)  # the peak of a tile that has an argument beyond the limit
BIT = tl.constexpr(1.4426950408889634)  # exp(x) = 2^(x · log2 e)
LONGEST = 512  # steps of a walk


@jit
def _raise(
    queries, keys, own_q, falling_q, rising_q, peaks_q, own_k, falling_k, rising_k, peaks_k,
    stride_qn, stride_q, stride_kn, stride_k, num_queries, num_keys, features, own_features, tiles_q, tiles_k, items,
    block: tl.constexpr, padded_features: tl.constexpr,
):  # fmt: skip
    """Of a tile of queries or keys exp(2x) [n rows features], exp(∓x) [n rows/4 features 4], and the largest bits."""
    program, of_queries = tl.program_id(0), tiles_q * items
    if program < of_queries:
        _raise_tile(
            program, queries, own_q, falling_q, rising_q, peaks_q, stride_qn, stride_q, num_queries, features,
            own_features, tiles_q, block, padded_features,
        )  # fmt: skip
    else:
        _raise_tile(
            program - of_queries, keys, own_k, falling_k, rising_k, peaks_k, stride_kn, stride_k, num_keys, features,
            own_features, tiles_k, block, padded_features,
        )  # fmt: skip


@jit
def _raise_tile(
    number, raw, own, falling_walk, rising_walk, peaks, stride_n, stride_row, num_rows, features, own_features, tiles,
    block: tl.constexpr, padded_features: tl.constexpr,
):  # fmt: skip
    """The tile of this number, of queries or of keys."""
    tile, item = number % tiles, (number // tiles).to(tl.int64)
    fours, each = tile * (block // 4) + tl.arange(0, block // 4)[:, None, None], tl.arange(0, 4)[None, None, :]
    rows, at = fours * 4 + each, tl.arange(0, padded_features)[None, :, None]
    here, inside = (rows < num_rows) & (at < features), (rows >= 0) & (at < own_features)  # of one shape
    x = tl.load(raw + item * stride_n + rows * stride_row + at, mask=here, other=0.0).to(tl.float32)
    beyond = tl.max(tl.max(tl.abs(x), 2), 0) > LIMIT
    x = within(x, LIMIT)
    start = item * (tiles * block * own_features)
    tl.store(own + start + rows * own_features + at, tl.where(here, precise_exp(2.0 * x), 0.0), mask=inside)
    place = start + (fours * own_features + at) * 4 + each
    tl.store(falling_walk + place, precise_exp(-x), mask=inside)
    tl.store(rising_walk + place, tl.where(here, precise_exp(x), 0.0), mask=inside)
    peak = tl.where(beyond, FAR, tl.max(tl.max(x, 2), 0) * BIT)
    at = tl.arange(0, padded_features)
    tl.store(peaks + (item * tiles + tile) * own_features + at, peak, mask=at < own_features)


@jit
def _span(
    lengths, item, tile, num_queries, num_keys, shift, before, after, has_lengths: tl.constexpr, block: tl.constexpr
):
    """How many keys an item has, the first that a tile of queries may see, and the one after the last."""
    length = num_keys
    if has_lengths:
        length = tl.minimum(tl.load(lengths + item).to(tl.int32), num_keys)
    end = tl.minimum(tl.minimum(tile * block + block, num_queries) + shift + after, length)
    return length, tile * block + shift - before, end


@jit
def _means(
    scores, values, log_sum, grad_context, grad_weights, grad_scores, means, lengths, allowed, seed,
    stride_vn, stride_v, stride_on, depth, stride_wn, stride_w, stride_an, stride_a, stride_sn,
    num_queries, num_keys, shift, first_item, first_row, before, after, dropout, step_item, step_row,
    tiles_q, tiles_k, splits, items,
    has_lengths: tl.constexpr, has_window: tl.constexpr, has_allowed: tl.constexpr, has_dropout: tl.constexpr,
    has_grad_weights: tl.constexpr, block_q: tl.constexpr, block_k: tl.constexpr, block_depth: tl.constexpr,
):  # fmt: skip
    """∂w_ij of a tile of queries, along all j or one part of them, and the sums Σ_j w_ij ∂w_ij and Σ_j w_ij.

    ∂w_ij comes from the context, by way of the values, and where weights were asked for also from outside; dropout
    stands between weights and context alone.

    The first sum is the product of the context and its gradient, too, and the second is one. But what is off by
    rounding moves all of a row the same way; only with the sums of the very numbers of `_pairs` do its gradients sum to
    zero.
    """
    number = tl.program_id(0)
    tile, number = number % tiles_q, number // tiles_q
    split, item = number % splits, (number // splits).to(tl.int64)
    rows, padded_q, padded_k = tile * block_q + tl.arange(0, block_q), tiles_q * block_q, tiles_k * block_k
    products, totals = tl.zeros([block_q], tl.float32), tl.zeros([block_q], tl.float32)
    length, first, end = _span(lengths, item, tile, num_queries, num_keys, shift, before, after, has_lengths, block_q)
    first = tl.maximum(tl.maximum(first, 0) // block_k, split * tiles_k // splits)
    for column in range(first, tl.minimum(tl.cdiv(end, block_k), (split + 1) * tiles_k // splits)):
        weights, seen = tile_weights(
            scores, log_sum, allowed, item, tile, column, length, stride_an, stride_a, stride_sn,
            num_queries, shift, before, after, step_item, step_row, has_window, has_allowed, block_q, block_k,
        )  # fmt: skip
        columns = column * block_k + tl.arange(0, block_k)
        grads = tl.zeros([block_q, block_k], tl.float32)
        for start in range(0, depth, block_depth):  # in slices, since all would fill the shared memory
            deep = start + tl.arange(0, block_depth)
            inside = (rows[:, None] < num_queries) & (deep[None, :] < depth)
            place = item * stride_on + rows[:, None] * depth + deep[None, :]
            grad = tl.load(grad_context + place, mask=inside, other=0.0)
            there = (columns[None, :] < num_keys) & (deep[:, None] < depth)
            place = item * stride_vn + columns[None, :] * stride_v + deep[:, None]
            value = tl.load(values + place, mask=there, other=0.0)
            if INTERPRETED:
                grad, value = grad.to(tl.float32), value.to(tl.float32)  # its products of bfloat16 are wrong
            grads += dot(grad, value)
        if has_dropout:
            keep = kept(seed, item + first_item, rows + first_row, columns, dropout)
            grads = tl.where(keep, grads / (1.0 - dropout), 0.0)
        if has_grad_weights:
            place = item * stride_wn + rows[:, None].to(tl.int64) * stride_w + columns[None, :]
            outer = tl.load(grad_weights + place, mask=seen, other=0.0)
            grads += tl.where(weights == 0.0, 0.0, outer)  # which may be infinite there
        place = item * padded_q * padded_k + rows[:, None] * padded_k + columns[None, :]
        tl.store(grad_scores + place, grads, mask=seen)
        products += tl.sum(weights * grads, 1)
        totals += tl.sum(weights, 1)
    place = (split * items + item) * padded_q + rows
    tl.store(means + place, products)
    tl.store(means + place + splits * items * padded_q, totals)


@jit
def _pairs(
    scores, log_sum, means, grad_weights, grad_scores, turned, weighted, lengths, allowed, seed,
    stride_an, stride_a, stride_sn,
    num_queries, num_keys, shift, first_item, first_row, before, after, dropout, step_item, step_row,
    tiles_q, tiles_k, splits, items,
    has_lengths: tl.constexpr, has_window: tl.constexpr, has_allowed: tl.constexpr, has_dropout: tl.constexpr,
    block_q: tl.constexpr, block_k: tl.constexpr,
):  # fmt: skip
    """One tile of the gradients of the scores, also turned round, and of the weights after dropout.

    `grad_weights` of float32 and `grad_scores` may be the same tensor.
    """
    number = tl.program_id(0)
    column, tile, item = number % tiles_k, number // tiles_k % tiles_q, (number // tiles_k // tiles_q).to(tl.int64)
    rows, columns = tile * block_q + tl.arange(0, block_q), column * block_k + tl.arange(0, block_k)
    length, first, end = _span(lengths, item, tile, num_queries, num_keys, shift, before, after, has_lengths, block_q)
    length = tl.where(
        (column * block_k < end) & (column * block_k + block_k > first), length, 0
    )  # scores may be missing
    weights, seen = tile_weights(
        scores, log_sum, allowed, item, tile, column, length, stride_an, stride_a, stride_sn,
        num_queries, shift, before, after, step_item, step_row, has_window, has_allowed, block_q, block_k,
    )  # fmt: skip
    padded_q, padded_k = tiles_q * block_q, tiles_k * block_k
    place = item * padded_q * padded_k + rows[:, None] * padded_k + columns[None, :]
    grads = tl.load(grad_weights + place, mask=seen, other=0.0)
    mean, total = tl.zeros([block_q], tl.float32), tl.zeros([block_q], tl.float32)
    for split in range(splits):
        mean += tl.load(means + (split * items + item) * padded_q + rows)
        total += tl.load(means + ((splits + split) * items + item) * padded_q + rows)
    total = 1.0 / tl.where(total > 0.0, total, 1.0)
    weights *= total[:, None]
    grads = weights * (grads - (mean * total)[:, None])
    if has_dropout:
        keep = kept(seed, item + first_item, rows + first_row, columns, dropout)
        weights = tl.where(keep, weights / (1.0 - dropout), 0.0)
    tl.store(grad_scores + place, grads.to(grad_scores.dtype.element_ty))
    tl.store(weighted + place, weights.to(weighted.dtype.element_ty))
    tl.store(
        turned + item * padded_q * padded_k + rows[:, None] + columns[None, :] * padded_q,
        grads.to(turned.dtype.element_ty),
    )


@jit
def _sums(
    grad_scores, raw_own, raw_walk, v, own, falling_walk, rising_walk, own_peaks, walk_peaks, grad_own, grad_v, lengths,
    counts, stride_on, stride_o, stride_wn, stride_w, num_own, num_walk, features, own_features, shift, behind, ahead,
    tiles_own, tiles_walk, tiles_features, splits, items,
    has_lengths: tl.constexpr, has_counts: tl.constexpr, own_keys: tl.constexpr, with_v: tl.constexpr,
    block_own: tl.constexpr, block_walk: tl.constexpr, block_features: tl.constexpr, stages: tl.constexpr,
):  # fmt: skip
    """A tile [rows, features] of Σ_j g_ij (1 − tanh²) v, along all j or one part of them; and Σ_ij g_ij tanh."""
    number = tl.program_id(0)
    tile, number = number % tiles_own, number // tiles_own
    slab, number = number % tiles_features, number // tiles_features
    split, item = number % splits, (number // splits).to(tl.int64)
    rows, at = tile * block_own + tl.arange(0, block_own), slab * block_features + tl.arange(0, block_features)
    padded_walk = tiles_walk * block_walk
    first, end = walk_span(
        lengths, item, tile, num_own, num_walk, shift, behind, ahead, has_lengths, own_keys, block_own
    )
    if has_counts:
        end = tl.where(tl.load(counts + item) > 0, 0, end)  # the item has its gradients
    first = tl.maximum(first // block_walk, split * tiles_walk // splits)
    end = tl.minimum(tl.cdiv(end, block_walk), (split + 1) * tiles_walk // splits)
    grad_scores += item * tiles_own * block_own * padded_walk
    falling_walk += item * padded_walk * own_features
    rising_walk += item * padded_walk * own_features
    raw_own += item * stride_on
    raw_walk += item * stride_wn
    start = item * tiles_own * block_own * own_features
    e = tl.load(own + start + rows[:, None] * own_features + at[None, :])
    own_peak = tl.load(own_peaks + (item * tiles_own + tile) * own_features + at)
    total = tl.zeros([block_own, block_features], tl.float32)
    total_v = tl.zeros([block_own, block_features], tl.float32)
    for block in range(first, end):
        peak = 2.0 * own_peak + tl.load(walk_peaks + (item * tiles_walk + block) * own_features + at)
        bits = 2.0 * (tl.maximum(tl.max(peak, 0), 0.0) + 1.0)
        if bits <= PAIR_BITS:
            for step in tl.range(block * block_walk, block * block_walk + block_walk, 4, num_stages=stages):
                g0, g1, g2, g3 = four(grad_scores + step, rows, padded_walk)
                d0, d1, d2, d3 = four(falling_walk + step * own_features, at, 4)
                f0, f1, f2, f3 = four(rising_walk + step * own_features, at, 4)
                x, y = d0[None, :] + e * f0[None, :], d1[None, :] + e * f1[None, :]
                shared = reciprocal(x * y)
                x, y = y * shared, x * shared
                total += g0[:, None] * (x * x)
                total += g1[:, None] * (y * y)
                if with_v:
                    total_v += g0[:, None] * (d0[None, :] * x - 0.5)
                    total_v += g1[:, None] * (d1[None, :] * y - 0.5)
                x, y = d2[None, :] + e * f2[None, :], d3[None, :] + e * f3[None, :]
                shared = reciprocal(x * y)
                x, y = y * shared, x * shared
                total += g2[:, None] * (x * x)
                total += g3[:, None] * (y * y)
                if with_v:
                    total_v += g2[:, None] * (d2[None, :] * x - 0.5)
                    total_v += g3[:, None] * (d3[None, :] * y - 0.5)
        else:
            inside = (rows[:, None] < num_own) & (at[None, :] < features)
            mine = tl.load(raw_own + rows[:, None] * stride_o + at[None, :], mask=inside, other=0.0).to(tl.float32)
            inverse = 1.0 / tl.where(e > 0.0, e, 1.0)
            for step in range(block * block_walk, tl.minimum(block * block_walk + block_walk, num_walk)):
                other = tl.load(raw_walk + step * stride_w + at, mask=at < features, other=0.0).to(tl.float32)
                g = tl.load(grad_scores + rows * padded_walk + step).to(tl.float32)
                r = signed_falling(mine + other[None, :])
                total += g[:, None] * ((tl.abs(r) - r * r) * inverse)
                if with_v:
                    total_v += g[:, None] * (-0.5 * signed_tanh(r))
    weight = tl.load(v + at, mask=at < features, other=0.0).to(tl.float32)
    total = 4.0 * weight[None, :] * (e * total)
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
    log_sum: Tensor,
    rules: Rules,
    tiles: Blocks | None = None,
    *,
    grad_weights: Tensor | None = None,
    scores: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The gradients of query, keys, values and v, from that of the context and, where there is one, of the weights.

    `scores` are those that `tiled.forward` kept; without them they are made again.
    """
    (n, q, a), (k, d) = query.shape, values.shape[1:]
    tiles = tiles or blocks(q, k, a, d)
    query, keys, values, v = contiguous_rows(query), contiguous_rows(keys), contiguous_rows(values), v.contiguous()
    grad = grad.contiguous()
    grad_weights = None if grad_weights is None else contiguous_rows(grad_weights)
    all_chunks = list(chunks(n, q, k, tiles, tiles.backward_chunk))
    if len(all_chunks) == 1:
        grads = _backward_chunk(
            grad, query, keys, values, v, log_sum, rules, (k - q, 0, 0), tiles, grad_weights, scores
        )
        of_query, of_keys, of_values, of_v = (
            g.to(x.dtype) for g, x in zip(grads, (query, keys, values, v), strict=True)
        )
        return of_query, of_keys, of_values, of_v
    grad_query, grad_keys, grad_values = (torch.empty_like(x) for x in (query, keys, values))
    grad_v = torch.zeros(a, dtype=torch.float32, device=v.device)
    sums: tuple[Tensor, Tensor] | None = None
    for chunk in all_chunks:
        some, rows = chunk.items, chunk.rows
        of_query, of_keys, of_values, of_v = _backward_chunk(
            grad[some, rows], query[some, rows], keys[some], values[some], v, log_sum[some, rows],
            rules.of(chunk), chunk.at(q, k), tiles, None if grad_weights is None else grad_weights[some, rows],
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
    log_sum: Tensor,
    rules: Rules,
    place: tuple[int, int, int],
    tiles: Blocks,
    grad_weights: Tensor | None,
    scores: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of one chunk of rows, in float32; those of keys and values are to be added over chunks."""
    (n, q, _), (k, d), (shift, item, row) = query.shape, values.shape[1:], place
    if scores is None:
        scores, _ = score_tiles(query, keys, v, rules, shift, tiles, for_gradients=True)
    mine, theirs = _raised(query, keys, tiles)
    rows, columns = mine.tiles * tiles.own, theirs.tiles * tiles.own
    narrow = series.pays(query, keys)  # products of matrices take gradients of scores in bfloat16
    kind = torch.bfloat16 if narrow else torch.float32
    all_grads = torch.empty(n, rows, columns, dtype=torch.float32, device=query.device)
    grad_scores = all_grads.new_empty(n, rows, columns, dtype=kind) if narrow else all_grads
    turned = all_grads.new_empty(n, columns, rows, dtype=kind)
    weighted = values.new_empty(n, rows, columns)
    splits = max(1, min(columns // tiles.mean_keys, tiles.programs // (n * rows // tiles.mean_queries)))
    means = torch.empty(2, splits, n, rows, dtype=torch.float32, device=query.device)
    shared_arguments = (
        *mask_strides(rules), log_sum.stride(0), q, k, shift, item, row, rules.before, rules.after, rules.dropout,
        *scores.stride()[:2],
    )  # fmt: skip
    built = {**flags(rules), "num_stages": 1}
    mean_tiles = rows // tiles.mean_queries, columns // tiles.mean_keys
    masked, outer = pointers(rules, query), scores if grad_weights is None else grad_weights
    with on(query):
        _means[(mean_tiles[0] * splits * n,)](
            scores, values, log_sum, grad, outer, all_grads, means, *masked, *values.stride()[:2], grad.stride(0), d,
            *outer.stride()[:2], *shared_arguments, *mean_tiles, splits, n,
            **built, has_grad_weights=grad_weights is not None, block_q=tiles.mean_queries, block_k=tiles.mean_keys,
            block_depth=min(64, power_of_two(d, 16)), num_warps=tiles.mean_warps,
        )  # fmt: skip
        _pairs[(theirs.tiles * mine.tiles * n,)](
            scores, log_sum, means, all_grads, grad_scores, turned, weighted, *masked, *shared_arguments,
            mine.tiles, theirs.tiles, splits, n,
            **built, block_q=tiles.own, block_k=tiles.own, num_warps=tiles.pair_warps,
        )  # fmt: skip
    del scores, all_grads
    of_values = torch.bmm(weighted[:, :q, :k].mT, grad)
    made = series_gradients.gradients(grad_scores, turned, query, keys, v, rules, shift) if narrow else None
    counts, window = None if made is None else made[3], (rules.before, rules.after)
    of_query, of_v = _walk(
        grad_scores, query, keys, v, mine, theirs, rules.lengths, counts, shift, window, False, tiles
    )
    of_keys, _ = _walk(turned, keys, query, v, theirs, mine, rules.lengths, counts, -shift, window[::-1], True, tiles)
    if made is not None:  # of each item one is zero
        of_query, of_keys, of_v = of_query.add_(made[0]), of_keys.add_(made[1]), of_v.add_(made[2])
    return of_query, of_keys, of_values, of_v


@dataclass(frozen=True)
class _Raised:
    """Exponentials in the orders of the inner loop."""

    own: Tensor  # [n rows features], exp(2x)
    walked: tuple[Tensor, ...]  # two of [n rows/4 features 4], exp(−x) and exp(x)
    peaks: Tensor  # [n tiles features], the most bits of exp(x) in a tile
    tiles: int


def _raised(query: Tensor, keys: Tensor, tiles: Blocks) -> tuple[_Raised, _Raised]:
    """What `_raise` makes of queries and keys."""
    (n, q, a), k = query.shape, keys.shape[1]
    features = -(-a // tiles.features) * tiles.features

    def buffer(*shape: int) -> Tensor:
        return torch.empty(shape, dtype=torch.float32, device=query.device)

    def side(rows: int) -> _Raised:
        count = -(-rows // tiles.own)
        walked = buffer(2, n, count * tiles.own // 4, features, 4).unbind()
        return _Raised(buffer(n, count * tiles.own, features), walked, buffer(n, count, features), count)

    mine, theirs = side(q), side(k)
    with on(query):
        _raise[((mine.tiles + theirs.tiles) * n,)](
            query, keys, mine.own, *mine.walked, mine.peaks, theirs.own, *theirs.walked, theirs.peaks,
            *query.stride()[:2], *keys.stride()[:2], q, k, a, features, mine.tiles, theirs.tiles, n,
            block=tiles.own, padded_features=power_of_two(features), num_warps=8, num_stages=1,
        )  # fmt: skip
    return mine, theirs


def _walk(
    grad_scores: Tensor,
    raw: Tensor,
    other: Tensor,
    v: Tensor,
    own: _Raised,
    walk: _Raised,
    lengths: Tensor | None,
    counts: Tensor | None,
    shift: int,
    window: tuple[int, int],
    own_keys: bool,
    tiles: Blocks,
) -> tuple[Tensor, Tensor]:
    """The gradients of `raw`, queries or keys, and what its rows give to v."""
    n, rows, a = raw.shape
    slabs = own.own.shape[-1] // tiles.features
    programs = n * own.tiles * slabs
    splits = max(-(-walk.tiles * tiles.own // LONGEST), min(walk.tiles, tiles.programs // programs))
    parts = () if splits == 1 else (splits,)
    result = torch.empty(*parts, n, rows, a, dtype=torch.float32, device=raw.device)
    result_v = torch.empty(1 if own_keys else splits * n * own.tiles, a, dtype=torch.float32, device=raw.device)
    with on(raw):
        _sums[(programs * splits,)](
            grad_scores, raw, other, v, own.own, *walk.walked, own.peaks, walk.peaks, result, result_v,
            raw if lengths is None else lengths, raw if counts is None else counts,
            *raw.stride()[:2], *other.stride()[:2], rows, other.shape[1], a,
            own.own.shape[-1], shift, *window, own.tiles, walk.tiles, slabs, splits, n,
            has_lengths=lengths is not None, has_counts=counts is not None, own_keys=own_keys, with_v=not own_keys,
            block_own=tiles.own, block_walk=tiles.own, block_features=tiles.features,
            stages=tiles.sum_stages, num_warps=tiles.sum_warps, num_stages=1,
        )  # fmt: skip
    return result if splits == 1 else result.sum(0), result_v[0] if own_keys else result_v.sum(0)
