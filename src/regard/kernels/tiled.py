# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False, disallow-untyped-calls=False
# mypy: disallow-untyped-decorators=False, implicit-reexport=True
"""Additive attention in tiles, for many queries: the Triton kernels behind `fused_additive`.

No exponential in the inner loop. With E = exp(2q) and F = exp(2k), made once for each row,

    tanh(q + k) = 1 − 2 / (1 + E·F)        and        e = Σ_a v_a − 2 Σ_a v_a / (1 + E_a·F_a).

1. *Four features share one reciprocal*: 1/x + 1/y = (x + y)/(x·y), and so on. A reciprocal is eight times as dear as a
   multiplication on the machines this is for.
2. *v is in the factors.* v/(1 + E·F) = 1/(c + (c·E)·F) with c = 1/v, so numerators need no multiplications. c is
   max|v|/|v_a|, at most 2^24: smaller parts of v are below the rounding of the sum.
3. *Signs alternate.* tanh is odd, so the sign of v_a may be moved to q and k. The signs are chosen + − + − …, and the
   partial sums stay near zero, where rounding is small.

That is three instructions for each (query, key, feature). Products of four overflow for large arguments, so each tile
looks at the largest q and k of each feature first and takes one of three ways: `near`; `near` with a lid on each factor
(1/x below 2^-30 changes nothing); or `far`, where q or k is beyond ±34: from q + k itself, exact for any input. In
float32, features are summed in parts where Σ|v|, and so a score, may be large, and where gradients are made of scores.

Scores and contexts are made by two kernels, chunk by chunk: `_scores` needs every register for its sums, and a score
that took 64 features to make costs little to write and to read again. The chunks bound the memory. Scores that
the backward pass would make again as a single chunk are kept for it: 256 MiB at most.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from regard.kernels import series
from regard.kernels.arithmetic import at_most, dot, precise_exp, reciprocal, signed_falling, signed_tanh, within
from regard.kernels.dropout import kept
from regard.kernels.launch import INTERPRETED, contiguous_rows, jit, on, power_of_two, tl
from regard.kernels.masks import Chunk, Rules, flags, mask_strides, pointers, visible
from regard.kernels.tile_weights import write_weights

LIMIT = tl.constexpr(34.0)  # |q| and |k| of the ways without exponentials: E, F and c·E are normal float32 numbers
FAR = tl.constexpr(1e9)  # the peak of a tile that has an argument beyond the limit
BITS = tl.constexpr(122.0)  # of the product of four factors
LID = tl.constexpr(2.0**30)  # of a factor
SMALL = tl.constexpr(16.0)  # scores of which rounding is not what results are off by, and safe to raise as they are
DOUBLE = tl.constexpr(2.8853900817779268)  # exp(2x) = 2^(x · 2 log2 e)


# ── parts ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@jit
def _double_exp(x):
    """exp(2x), for |x| ≤ LIMIT."""
    return precise_exp(2.0 * within(x, LIMIT))


@jit
def four(pointer, rows, stride):
    """Four neighbouring numbers of each row, as four vectors."""
    block = tl.load(pointer + rows[:, None] * stride + tl.arange(0, 4)[None, :]).to(tl.float32)
    even, odd = tl.split(tl.reshape(block, [block.shape[0], 2, 2]))
    first, third = tl.split(even)
    second, fourth = tl.split(odd)
    return first, second, third, fourth


@jit
def _near(total, raised_q, raised_k, scales, step_q, step_k, groups, lid: tl.constexpr):
    """Σ_a ±1/(c_a + c_a·E·F) over groups of four features, signs + − + −. The first two point at rows and columns.

    Vectors are loaded one by one: no more numbers than threads, so each thread reads its own from the cache, and
    nothing waits for the others.
    """
    for group in range(groups):
        x = tl.load(raised_q)[:, None] * tl.load(raised_k)[None, :] + tl.load(scales + group * 4)
        y = tl.load(raised_q + step_q)[:, None] * tl.load(raised_k + step_k)[None, :] + tl.load(scales + group * 4 + 1)
        z = tl.load(raised_q + 2 * step_q)[:, None] * tl.load(raised_k + 2 * step_k)[None, :]
        w = tl.load(raised_q + 3 * step_q)[:, None] * tl.load(raised_k + 3 * step_k)[None, :]
        z += tl.load(scales + group * 4 + 2)
        w += tl.load(scales + group * 4 + 3)
        if lid:
            x, y, z, w = at_most(x, LID), at_most(y, LID), at_most(z, LID), at_most(w, LID)
        top, bottom = y - x, x * y
        top, bottom = top * z + bottom, bottom * z
        top, bottom = top * w - bottom, bottom * w
        total += top * reciprocal(bottom)
        raised_q += 4 * step_q
        raised_k += 4 * step_k
    return total


@jit
def _near_in_parts(total, raised_q, raised_k, scales, step_q, step_k, groups, lid: tl.constexpr):
    """The same, sixteen features at a time: every addition to a large sum costs accuracy, and so there are fewer."""
    for first in range(0, groups, 4):
        total += _near(
            tl.zeros_like(total), raised_q + 4 * first * step_q, raised_k + 4 * first * step_k, scales + 4 * first,
            step_q, step_k, tl.minimum(4, groups - first), lid,
        )  # fmt: skip
    return total


@jit
def _far(total, queries, keys, v, rows, columns, stride_q, stride_k, num_rows, num_columns, features):
    """Σ_a v_a tanh(q + k) from the arguments themselves, sixteen at a time."""
    for first in range(0, features, 16):
        partial_sum = tl.zeros_like(total)
        for feature in range(first, tl.minimum(first + 16, features)):
            q = tl.load(queries + rows * stride_q + feature, mask=rows < num_rows, other=0.0).to(tl.float32)
            k = tl.load(keys + columns * stride_k + feature, mask=columns < num_columns, other=0.0).to(tl.float32)
            weight = tl.load(v + feature).to(tl.float32)
            partial_sum += weight * signed_tanh(signed_falling(q[:, None] + k[None, :]))
        total += partial_sum
    return total


# ── kernels ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@jit
def _raise(
    queries, keys, v, raised_q, raised_k, peaks_q, peaks_k, scales, facts,
    stride_qn, stride_q, stride_kn, stride_k, num_queries, num_keys, features, groups, tiles_q, tiles_k, items,
    block_q: tl.constexpr, block_k: tl.constexpr, padded_features: tl.constexpr,
):  # fmt: skip
    """exp(2x) [n features rows] of one tile of queries or keys, and the largest argument of each feature."""
    program, of_queries = tl.program_id(0), tiles_q * items
    if program < of_queries:
        _raise_tile(
            program, queries, v, raised_q, peaks_q, scales, facts, stride_qn, stride_q, num_queries, features, groups,
            tiles_q, True, block_q, padded_features,
        )  # fmt: skip
    else:
        _raise_tile(
            program - of_queries, keys, v, raised_k, peaks_k, scales, facts, stride_kn, stride_k, num_keys, features,
            groups, tiles_k, False, block_k, padded_features,
        )  # fmt: skip


@jit
def _raise_tile(
    number, raw, v, raised, peaks, scales, facts, stride_n, stride_row, num_rows, features, groups, tiles,
    is_query: tl.constexpr, block: tl.constexpr, padded_features: tl.constexpr,
):  # fmt: skip
    """The tile of this number, of queries or of keys; the first one of queries says what v is like."""
    tile, item = number % tiles, (number // tiles).to(tl.int64)
    rows, at = tile * block + tl.arange(0, block), tl.arange(0, padded_features)
    padded_rows = tiles * block
    real = at < features
    here = (rows[:, None] < num_rows) & real[None, :]
    x = tl.load(raw + item * stride_n + rows[:, None] * stride_row + at[None, :], mask=here, other=0.0).to(tl.float32)
    beyond = tl.max(tl.abs(x), 0) > LIMIT
    weight = tl.load(v + at, mask=real, other=0.0).to(tl.float32)
    flip = tl.where(weight < 0.0, -1.0, 1.0) * tl.where(at % 2 == 0, 1.0, -1.0)
    largest = tl.max(tl.abs(weight), 0)
    unit = tl.where(largest > 0.0, largest, 1.0)
    scale = tl.div_rn(unit + 0.0 * weight, tl.maximum(tl.abs(weight), unit * 2.0**-24))  # rounded once: it stands for v
    scale = tl.where(real, scale, 1.0)
    turned = x * flip[None, :]
    up = _double_exp(turned)
    peak = tl.max(turned, 0) * DOUBLE
    if is_query:
        up *= scale[None, :]
        peak += tl.log2(scale)
        if number == 0:
            sign = tl.where(at % 2 == 0, 1.0, -1.0)
            inside = at < groups * 4
            tl.store(scales + at, scale, mask=inside)
            tl.store(scales + groups * 4 + at, tl.log2(scale), mask=inside)
            tl.store(facts, largest)
            tl.store(facts + 2, 0.0)
            tl.store(facts + 3, tl.sum(tl.abs(weight), 0))
            tl.store(facts + 1, tl.sum(tl.where(inside, sign * tl.where(real, tl.abs(weight), 2.0 * largest), 0.0), 0))
    up = tl.where(here, up, 0.0)
    place = at[:, None] * padded_rows + rows[None, :]
    tl.store(raised + item * (groups * 4 * padded_rows) + place, tl.trans(up), mask=at[:, None] < groups * 4)
    peak = tl.where(real, tl.where(beyond, FAR, peak), 0.0)
    tl.store(peaks + (item * tiles + tile) * groups * 4 + at, peak, mask=at < groups * 4)


@jit
def _scores(
    queries, keys, v, raised_q, raised_k, scales, facts, peaks_q, peaks_k, scores, lengths, counts,
    stride_qn, stride_q, stride_kn, stride_k, num_queries, num_keys, features, groups, shift, before, after,
    tiles_q, tiles_k, num_tiles, tiles_per_program,
    has_lengths: tl.constexpr, has_counts: tl.constexpr, rest: tl.constexpr, careful: tl.constexpr,
    strict: tl.constexpr, block_q: tl.constexpr, block_k: tl.constexpr, padded_groups: tl.constexpr,
):  # fmt: skip
    """Tiles of scores [rows, columns], true up to rounding; a tile that nobody may see is left as it is.

    A program goes the near way, or leaves a note that it cannot; `rest` looks for the note and goes the other ways. In
    one kernel they would take each other's registers. A program has `tiles_per_program` tiles: of those of `rest`,
    which mostly have nothing to do, there need not be many.
    """
    step_q, step_k = tiles_q * block_q, tiles_k * block_k
    start = tl.program_id(0) * tiles_per_program
    end = tl.minimum(start + tiles_per_program, num_tiles)
    if rest:
        end = tl.where(tl.load(facts + 2) > 0.0, end, start)
    for number in range(start, end):
        tile, column, item = number % tiles_q, number // tiles_q % tiles_k, (number // tiles_q // tiles_k).to(tl.int64)
        rows, columns = tile * block_q + tl.arange(0, block_q), column * block_k + tl.arange(0, block_k)
        last = tl.minimum(tl.minimum(tile * block_q + block_q, num_queries) + shift + after, num_keys)
        if has_lengths:
            last = tl.minimum(last, tl.load(lengths + item).to(tl.int32))
        if has_counts:
            last = tl.where(tl.load(counts + item) > 0, 0, last)  # the item has its scores
        if (column * block_k < last) & (column * block_k + block_k > tile * block_q + shift - before):
            four, wide = tl.arange(0, 4)[None, :], tl.arange(0, padded_groups)[:, None]
            at, real = wide * 4 + four, wide < groups
            least = tl.load(scales + groups * 4 + at, mask=real, other=0.0)  # the bits of c
            peaks = tl.load(peaks_q + (item * tiles_q + tile) * groups * 4 + at, mask=real, other=0.0)
            peaks += tl.load(peaks_k + (item * tiles_k + column) * groups * 4 + at, mask=real, other=0.0)
            bits = tl.max(tl.sum(tl.maximum(peaks, least) + 1.0, 1), 0)
            is_near = bits <= BITS
            if strict:
                is_near &= tl.load(facts + 3) <= SMALL
            largest, constant = tl.load(facts), tl.load(facts + 1)
            total = tl.zeros([block_q, block_k], tl.float32)
            up, across = raised_q + item * groups * 4 * step_q + rows, raised_k + item * groups * 4 * step_k + columns
            place = item * step_q * step_k + rows[:, None] * step_k + columns[None, :]
            if rest:
                if bits <= FAR / 2:
                    total = _near_in_parts(total, up, across, scales, step_q, step_k, groups, True)
                    total = constant - (2.0 * largest) * total
                else:
                    total = _far(
                        total, queries + item * stride_qn, keys + item * stride_kn, v, rows, columns,
                        stride_q, stride_k, num_queries, num_keys, features,
                    )  # fmt: skip
                if not is_near:
                    tl.store(scores + place, total)
            else:
                if is_near:
                    if careful:
                        total = _near_in_parts(total, up, across, scales, step_q, step_k, groups, False)
                    else:
                        total = _near(total, up, across, scales, step_q, step_k, groups, False)
                    tl.store(scores + place, constant - (2.0 * largest) * total)
                else:
                    tl.store(facts + 2, 1.0)


@jit
def _mix(
    scores, values, facts, context, log_sum, lengths, allowed, seed,
    stride_vn, stride_v, stride_an, stride_a, stride_cs,
    num_queries, num_keys, depth, shift, first_item, first_row, before, after, dropout, padded_q, padded_k,
    tiles_q, splits, items,
    has_lengths: tl.constexpr, has_window: tl.constexpr, has_allowed: tl.constexpr, has_dropout: tl.constexpr,
    block_q: tl.constexpr, block_k: tl.constexpr, padded_depth: tl.constexpr,
):  # fmt: skip
    """The contexts of a tile of queries over all its keys, or one part of them.

    No score is larger than Σ|v|. Where that is small enough, exp needs no largest score to be safe, and nothing is
    added across threads before the end; otherwise the largest is found by a walk of its own.
    """
    number = tl.program_id(0)
    tile, number = number % tiles_q, number // tiles_q
    split, item = number % splits, (number // splits).to(tl.int64)
    rows, deep = tile * block_q + tl.arange(0, block_q), tl.arange(0, padded_depth)
    length = num_keys
    if has_lengths:
        length = tl.minimum(tl.load(lengths + item).to(tl.int32), num_keys)
    tiles_k = tl.cdiv(num_keys, block_k)
    first, end = split * tiles_k // splits, (split + 1) * tiles_k // splits
    if has_window:
        first = tl.maximum(tl.maximum(tile * block_q + shift - before, 0) // block_k, first)
        last = tl.minimum(tl.minimum(tile * block_q + block_q, num_queries) + shift + after, length)
        end = tl.minimum(tl.cdiv(last, block_k), end)
    elif has_lengths:
        end = tl.minimum(tl.cdiv(length, block_k), end)
    scores += item * padded_q * padded_k
    allowed += item * stride_an
    peaks = tl.full([block_q, block_k], -float("inf"), tl.float32)
    is_large = tl.load(facts + 3) > SMALL
    for at in range(first, tl.where(is_large, end, first)):
        columns = at * block_k + tl.arange(0, block_k)
        seen = visible(
            allowed, stride_a, rows, columns, shift, num_queries, length,
            before, after, has_window, has_allowed,
        )  # fmt: skip
        place = rows[:, None] * padded_k + columns[None, :]
        peaks = tl.maximum(peaks, tl.load(scores + place, mask=seen, other=-float("inf")))
    base = tl.max(peaks, 1)
    base = tl.where(base == -float("inf"), 0.0, base)
    totals = tl.zeros([block_q, block_k], tl.float32)
    result = tl.zeros([block_q, padded_depth], tl.float32)
    for at in range(first, end):
        columns = at * block_k + tl.arange(0, block_k)
        seen = visible(
            allowed, stride_a, rows, columns, shift, num_queries, length,
            before, after, has_window, has_allowed,
        )  # fmt: skip
        place = rows[:, None] * padded_k + columns[None, :]
        score = tl.load(scores + place, mask=seen, other=-float("inf"))
        weights = tl.exp(score - base[:, None])
        totals += weights
        if has_dropout:
            keep = kept(seed, item + first_item, rows + first_row, columns, dropout)
            weights = tl.where(keep, weights / (1.0 - dropout), 0.0)
        there = (columns[:, None] < num_keys) & (deep[None, :] < depth)
        value = tl.load(values + item * stride_vn + columns[:, None] * stride_v + deep[None, :], mask=there, other=0.0)
        if INTERPRETED:
            value = value.to(tl.float32)  # its products of bfloat16 are wrong
        result += dot(weights.to(value.dtype), value)
    total = tl.sum(totals, 1)
    result = result / tl.where(total != 0.0, total, 1.0)[:, None]
    inside = (rows[:, None] < num_queries) & (deep[None, :] < depth)
    here = context + split * stride_cs + (item * num_queries + rows)[:, None] * depth + deep[None, :]
    tl.store(here, result.to(context.dtype.element_ty), mask=inside)
    logarithm = tl.where(total != 0.0, base + tl.log(tl.where(total != 0.0, total, 1.0)), -float("inf"))
    tl.store(log_sum + (split * items + item) * num_queries + rows, logarithm, mask=rows < num_queries)


# ── launches ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Blocks:
    """The sizes of tiles, all powers of two, and how a kernel is built. `replace` them to tune."""

    queries: int = 32  # of a tile of scores
    keys: int = 64  # no more than threads, so that vectors need not be shared
    warps: int = 2
    registers: int | None = 96  # of a thread, at most
    mix_queries: int = 32  # of a tile of contexts
    mix_keys: int = 32
    mix_warps: int = 2
    mix_stages: int = 2
    own: int = 64  # rows of a tile of gradients, and steps between looks at the size of arguments
    mean_queries: int = 32  # of a tile of the gradients of weights
    mean_keys: int = 32
    mean_warps: int = 2
    pair_warps: int = 4
    features: int = 16
    sum_warps: int = 1
    sum_stages: int = 3  # loads that are under way
    chunk: int = 2**27  # most (query, key) pairs in memory at once
    backward_chunk: int = 2**26  # in the backward pass, which has four numbers for each
    programs: int = 512  # walks are split until there are as many


@lru_cache
def blocks(num_queries: int, num_keys: int, features: int, depth: int) -> Blocks:
    """The tiles for inputs of these sizes."""
    most, keys = power_of_two(num_queries, 16), power_of_two(num_keys, 16)
    return Blocks(
        queries=min(32, most),
        keys=min(64, keys),
        mix_queries=min(32, most),
        mix_keys=min(32, keys),
        mix_warps=2 if depth <= 64 else 4 if depth <= 128 else 8,  # the contexts of a tile stay in registers
        own=min(64, most, keys),
        mean_queries=min(32, most, keys),
        mean_keys=min(32, most, keys),
    )


def forward(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    v: Tensor,
    rules: Rules,
    tiles: Blocks | None = None,
    *,
    weights: Tensor | None = None,
    keep: bool = False,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """The contexts [n q d] and the logarithms of the sums [n q]; fills `weights` [n q k] of float32, if it is given.

    With `keep` the third is what `gradients.backward` takes as its scores: see `kept_shape`.
    """
    (n, q, a), (k, d) = query.shape, values.shape[1:]
    tiles = tiles or blocks(q, k, a, d)
    query, keys, values, v = contiguous_rows(query), contiguous_rows(keys), contiguous_rows(values), v.contiguous()
    all_chunks = list(chunks(n, q, k, tiles, tiles.chunk))
    if len(all_chunks) == 1:
        return _forward_chunk(query, keys, values, v, rules, (k - q, 0, 0), tiles, weights, keep=keep)
    context = values.new_empty(n, q, d)
    log_sum = torch.empty(n, q, dtype=torch.float32, device=values.device)
    for chunk in all_chunks:
        items, rows = chunk.items, chunk.rows
        context[items, rows], log_sum[items, rows], _ = _forward_chunk(
            query[items, rows], keys[items], values[items], v, rules.of(chunk), chunk.at(q, k), tiles,
            None if weights is None else weights[items, rows],
        )  # fmt: skip
    return context, log_sum, None


def kept_shape(n: int, q: int, k: int, tiles: Blocks) -> tuple[int, int, int] | None:
    """The shape of all scores in whole tiles, or None where there are too many to keep them for the backward pass."""
    rows, columns = -(-q // tiles.queries) * tiles.queries, -(-k // tiles.keys) * tiles.keys
    return (n, rows, columns) if n * rows * columns <= tiles.backward_chunk else None


def _forward_chunk(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    v: Tensor,
    rules: Rules,
    place: tuple[int, int, int],
    tiles: Blocks,
    weights: Tensor | None,
    *,
    keep: bool = False,
) -> tuple[Tensor, Tensor, Tensor | None]:
    (n, q, _), (k, d), (shift, item, row) = query.shape, values.shape[1:], place
    scores, facts = score_tiles(query, keys, v, rules, shift, tiles, for_gradients=keep)
    num_tiles = -(-q // tiles.mix_queries)
    splits = max(1, min(-(-k // tiles.mix_keys) // 4, tiles.programs // (n * num_tiles)))
    dtype, parts = (values.dtype, ()) if splits == 1 else (torch.float32, (splits,))
    context = torch.empty(*parts, n, q, d, dtype=dtype, device=values.device)
    log_sum = torch.empty(*parts, n, q, dtype=torch.float32, device=values.device)
    with on(query):
        _mix[(num_tiles * splits * n,)](
            scores, values, facts, context, log_sum, *pointers(rules, query),
            *values.stride()[:2], *mask_strides(rules), context.stride(0),
            q, k, d, shift, item, row, rules.before, rules.after, rules.dropout,
            *scores.shape[1:], num_tiles, splits, n,
            **flags(rules), block_q=tiles.mix_queries, block_k=tiles.mix_keys, padded_depth=power_of_two(d, 16),
            num_warps=tiles.mix_warps, num_stages=tiles.mix_stages,
        )  # fmt: skip
    total_log_sum = log_sum if splits == 1 else log_sum.logsumexp(0)
    if weights is not None:
        write_weights(scores, total_log_sum, weights, rules, shift)
    kept_scores = scores if keep else None
    if splits == 1:
        return context, total_log_sum, kept_scores
    shares = (log_sum - total_log_sum.masked_fill(total_log_sum == -torch.inf, 0.0)).exp().unsqueeze(-1)
    return (shares * context).sum(0).to(values.dtype), total_log_sum, kept_scores


def chunks(n: int, q: int, k: int, tiles: Blocks, most: int) -> Iterator[Chunk]:
    """All batch items and rows of queries, with no more than `most` pairs at once, but one row of tiles at least."""
    padded_k = -(-k // tiles.keys) * tiles.keys
    padded_q = -(-q // tiles.queries) * tiles.queries
    if padded_q * padded_k <= most:
        num_items, num_rows = min(n, most // (padded_q * padded_k)), q
    else:
        num_items, num_rows = 1, max(1, most // padded_k // tiles.queries) * tiles.queries
    for item in range(0, n, num_items):
        for row in range(0, q, num_rows):
            yield Chunk(slice(item, min(n, item + num_items)), slice(row, min(q, row + num_rows)))


def score_tiles(
    query: Tensor, keys: Tensor, v: Tensor, rules: Rules, shift: int, tiles: Blocks, *, for_gradients: bool
) -> tuple[Tensor, Tensor]:
    """Scores [n q k] of float32, both axes padded to whole tiles, and facts; what no query may see is not written.

    In float32 they are summed in parts for gradients, and for results where they may be large.
    """
    (n, q, a), k = query.shape, keys.shape[1]
    made = raised(query, keys, v, tiles)
    tiles_q, tiles_k = made.tiles
    scores = torch.empty(n, tiles_q * tiles.queries, tiles_k * tiles.keys, dtype=torch.float32, device=query.device)
    count = tiles_k * tiles_q * n
    exact = query.dtype == torch.float32
    counts = series.fill(scores, query, keys, v, made.facts, rules, shift) if series.pays(query, keys) else None
    with on(query):
        for rest in (False, True):
            programs = 1024 if rest else count if counts is None else 8192  # few where most have nothing to do
            each = -(-count // programs)
            _scores[(-(-count // each),)](
                query, keys, v, *made.rows, made.scales, made.facts, *made.peaks, scores,
                query if rules.lengths is None else rules.lengths, query if counts is None else counts,
                *query.stride()[:2], *keys.stride()[:2], q, k, a, made.groups, shift, rules.before, rules.after,
                tiles_q, tiles_k, count, each,
                has_lengths=rules.lengths is not None, has_counts=counts is not None, rest=rest,
                careful=for_gradients and exact, strict=exact and not for_gradients,
                block_q=tiles.queries, block_k=tiles.keys, padded_groups=power_of_two(made.groups),
                num_warps=tiles.warps, num_stages=1, maxnreg=None if rest else tiles.registers,
            )  # fmt: skip
    return scores, made.facts


@dataclass(frozen=True)
class Raised:
    """exp(2x) of queries and keys in the order of the inner loop, and what a tile has to know about it."""

    rows: tuple[Tensor, Tensor]  # [n features rows], times c for queries
    peaks: tuple[Tensor, Tensor]  # [n tiles features], the most bits of a tile
    scales: Tensor  # [2 features], c and its bits
    facts: Tensor  # [4], max|v|, the sum of ±|v|, whether a tile has large arguments, Σ|v|
    tiles: tuple[int, int]
    groups: int


def raised(query: Tensor, keys: Tensor, v: Tensor, tiles: Blocks) -> Raised:
    """What `_raise` makes of queries and keys."""
    (n, q, a), k = query.shape, keys.shape[1]
    groups, tiles_q, tiles_k = -(-a // 4), -(-q // tiles.queries), -(-k // tiles.keys)

    def buffer(*shape: int) -> Tensor:
        return torch.empty(shape, dtype=torch.float32, device=query.device)

    rows = buffer(n, groups * 4, tiles_q * tiles.queries), buffer(n, groups * 4, tiles_k * tiles.keys)
    peaks = buffer(n, tiles_q, groups * 4), buffer(n, tiles_k, groups * 4)
    scales, facts = buffer(2, groups * 4), buffer(4)
    with on(query):
        _raise[((tiles_q + tiles_k) * n,)](
            query, keys, v, *rows, *peaks, scales, facts, *query.stride()[:2], *keys.stride()[:2], q, k, a, groups,
            tiles_q, tiles_k, n,
            block_q=tiles.queries, block_k=tiles.keys, padded_features=power_of_two(a, 4), num_warps=8, num_stages=1,
        )  # fmt: skip
    return Raised(rows, peaks, scales, facts, (tiles_q, tiles_k), groups)
