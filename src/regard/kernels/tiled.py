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
(1/x below 2^-30 changes nothing); or `far`, where q or k is beyond ±34: from q + k itself, exact for any input.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.kernels.parts import (
    INTERPRETED,
    Rules,
    at_most,
    contiguous_rows,
    falling,
    flags,
    jit,
    kept,
    mask_strides,
    on,
    pointers,
    power_of_two,
    reciprocal,
    tl,
    visible,
    within,
)

LIMIT = tl.constexpr(34.0)  # |q| and |k| of the ways without exponentials: E, F and c·E are normal float32 numbers
FAR = tl.constexpr(1e9)  # the peak of a tile that has an argument beyond the limit
BITS = tl.constexpr(122.0)  # of the product of four factors
LID = tl.constexpr(2.0**30)  # of a factor
DOUBLE = tl.constexpr(2.8853900817779268)  # exp(2x) = 2^(x · 2 log2 e)


# ── parts ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@jit
def _double_exp(x):
    """exp(2x) for |x| ≤ LIMIT, good to two units in the last place: the plain one loses digits with the size of x."""
    doubled = 2.0 * within(x, LIMIT)
    power = tl.floor(doubled * 1.4426950408889634 + 0.5)
    rest = (doubled - power * 0.693359375) + power * 2.12194440e-4  # ln 2 in two parts, the first with few digits
    return tl.exp(rest) * tl.exp2(power)


@jit
def four(pointer, rows, stride):
    """Four neighbouring numbers of each row, as four vectors."""
    block = tl.load(pointer + rows[:, None] * stride + tl.arange(0, 4)[None, :])
    even, odd = tl.split(tl.reshape(block, [block.shape[0], 2, 2]))
    first, third = tl.split(even)
    second, fourth = tl.split(odd)
    return first, second, third, fourth


@jit
def _near(total, queries, keys, scales, rows, columns, step_q, step_k, groups, lid: tl.constexpr, stages: tl.constexpr):
    """Σ_a ±1/(c_a + c_a·E·F) over groups of four features, signs + − + −."""
    for group in tl.range(0, groups, num_stages=stages):
        e0, e1, e2, e3 = four(queries + group * step_q, rows, 4)
        f0, f1, f2, f3 = four(keys + group * step_k, columns, 4)
        x = e0[:, None] * f0[None, :] + tl.load(scales + group * 4)
        y = e1[:, None] * f1[None, :] + tl.load(scales + group * 4 + 1)
        z = e2[:, None] * f2[None, :] + tl.load(scales + group * 4 + 2)
        w = e3[:, None] * f3[None, :] + tl.load(scales + group * 4 + 3)
        if lid:
            x, y, z, w = at_most(x, LID), at_most(y, LID), at_most(z, LID), at_most(w, LID)
        top, bottom = y - x, x * y
        top, bottom = top * z + bottom, bottom * z
        top, bottom = top * w - bottom, bottom * w
        total += top * reciprocal(bottom)
    return total


@jit
def _far(total, queries, keys, v, rows, columns, stride_q, stride_k, num_rows, num_columns, features):
    """Σ_a v_a tanh(q + k) from the arguments themselves."""
    for feature in range(features):
        q = tl.load(queries + rows * stride_q + feature, mask=rows < num_rows, other=0.0).to(tl.float32)
        k = tl.load(keys + columns * stride_k + feature, mask=columns < num_columns, other=0.0).to(tl.float32)
        weight = tl.load(v + feature).to(tl.float32)
        total += weight - 2.0 * weight * falling(q[:, None] + k[None, :])
    return total


@jit
def tile_scores(
    queries, keys, v, raised_q, raised_k, scales, facts, peaks_q, peaks_k, rows, columns,
    stride_q, stride_k, step_q, step_k, num_rows, num_columns, features, groups,
    padded_groups: tl.constexpr, stages: tl.constexpr,
):  # fmt: skip
    """The scores of a tile, true up to rounding. All pointers at the batch item, peaks at the tile."""
    four, wide = tl.arange(0, 4)[None, :], tl.arange(0, padded_groups)[:, None]
    at, real = wide * 4 + four, wide < groups
    least = tl.load(scales + groups * 4 + at, mask=real, other=0.0)  # the bits of c
    peaks = tl.load(peaks_q + at, mask=real, other=0.0) + tl.load(peaks_k + at, mask=real, other=0.0)
    bits = tl.max(tl.sum(tl.maximum(peaks, least) + 1.0, 1), 0)
    largest, constants = tl.load(facts), tl.load(facts + 1)
    # Loops of no steps in place of branches: Triton would move the softmax into a branch, and its registers overflow.
    is_far = bits > FAR / 2
    steps = tl.where(bits <= BITS, groups, 0)
    total = tl.zeros([rows.shape[0], columns.shape[0]], tl.float32)
    total = _near(total, raised_q, raised_k, scales, rows, columns, step_q, step_k, steps, False, stages)
    steps = tl.where((bits > BITS) & (bits <= FAR / 2), groups, 0)
    total = _near(total, raised_q, raised_k, scales, rows, columns, step_q, step_k, steps, True, stages)
    steps = tl.where(is_far, features, 0)
    total = _far(total, queries, keys, v, rows, columns, stride_q, stride_k, num_rows, num_columns, steps)
    return tl.where(is_far, total, largest * (constants - 2.0 * total))


# ── kernels ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@jit
def _raise(
    raw, v, raised, peaks, scales, facts, plain, walked, plain_peaks, stride_n, stride_row,
    num_rows, features, groups, plain_features, tiles,
    is_query: tl.constexpr, backward: tl.constexpr,
    block: tl.constexpr, padded_features: tl.constexpr,
):  # fmt: skip
    """exp(2x) of one tile of queries or keys in the order of the inner loops, and the largest argument of each feature.

    raised [n groups rows 4]; for the backward pass also plain [n rows features] and walked [n rows/4 features 4].
    """
    tile, item = tl.program_id(0) % tiles, (tl.program_id(0) // tiles).to(tl.int64)
    rows, at = tile * block + tl.arange(0, block), tl.arange(0, padded_features)
    padded_rows = tiles * block
    real = at < features
    here = (rows[:, None] < num_rows) & real[None, :]
    x = tl.load(raw + item * stride_n + rows[:, None] * stride_row + at[None, :], mask=here, other=0.0).to(tl.float32)
    beyond = tl.max(tl.abs(x), 0) > LIMIT
    weight = tl.load(v + at, mask=real, other=0.0).to(tl.float32)
    flip = tl.where(weight < 0.0, -1.0, 1.0) * tl.where(at % 2 == 0, 1.0, -1.0)
    largest = tl.max(tl.abs(weight), 0)
    share = tl.maximum(tl.abs(weight) / tl.where(largest > 0.0, largest, 1.0), 2.0**-24)
    scale = tl.where(real, 1.0 / share, 1.0)
    turned = x * flip[None, :]
    up = _double_exp(turned)
    peak = tl.max(turned, 0) * DOUBLE
    if is_query:
        up *= scale[None, :]
        peak += tl.log2(scale)
        if tl.program_id(0) == 0:
            sign = tl.where(at % 2 == 0, 1.0, -1.0)
            inside = at < groups * 4
            tl.store(scales + at, scale, mask=inside)
            tl.store(scales + groups * 4 + at, tl.log2(scale), mask=inside)
            tl.store(facts, largest)
            tl.store(facts + 1, tl.sum(tl.where(inside, sign * tl.where(real, share, 2.0), 0.0), 0))
    up = tl.where(here, up, 0.0)
    inside = at[None, :] < groups * 4
    place = (at[None, :] // 4) * (padded_rows * 4) + rows[:, None] * 4 + at[None, :] % 4
    tl.store(raised + item * (groups * 4 * padded_rows) + place, up, mask=inside)
    peak = tl.where(real, tl.where(beyond, FAR, peak), 0.0)
    tl.store(peaks + (item * tiles + tile) * groups * 4 + at, peak, mask=at < groups * 4)
    if backward:
        up = tl.where(here, _double_exp(x), 0.0)
        inside = at[None, :] < plain_features
        start = item * (padded_rows * plain_features)
        tl.store(plain + start + rows[:, None] * plain_features + at[None, :], up, mask=inside)
        place = (rows[:, None] // 4) * (plain_features * 4) + at[None, :] * 4 + rows[:, None] % 4
        tl.store(walked + start + place, up, mask=inside)
        peak = tl.where(beyond, FAR, tl.max(x, 0) * DOUBLE)
        tl.store(plain_peaks + (item * tiles + tile) * plain_features + at, peak, mask=at < plain_features)


@jit
def _forward(
    queries, keys, values, v, raised_q, raised_k, scales, facts, peaks_q, peaks_k, context, log_sum,
    lengths, allowed, seed, stride_qn, stride_q, stride_kn, stride_k, stride_vn, stride_v, stride_an, stride_a,
    num_queries, num_keys, features, groups, depth, before, after, dropout, tiles_q, tiles_k,
    has_lengths: tl.constexpr, has_allowed: tl.constexpr, has_dropout: tl.constexpr,
    block_q: tl.constexpr, block_k: tl.constexpr, padded_depth: tl.constexpr,
    padded_groups: tl.constexpr, stages: tl.constexpr,
):  # fmt: skip
    """The contexts of a tile of queries: all its keys, tile by tile, with the softmax made on the way."""
    tile, item = tl.program_id(0) % tiles_q, (tl.program_id(0) // tiles_q).to(tl.int64)
    rows, deep = tile * block_q + tl.arange(0, block_q), tl.arange(0, padded_depth)
    step_q, step_k = tiles_q * block_q * 4, tiles_k * block_k * 4
    length, shift = num_keys, num_keys - num_queries
    if has_lengths:
        length = tl.minimum(tl.load(lengths + item).to(tl.int32), num_keys)
    first = tl.maximum(tile * block_q + shift - before, 0) // block_k
    end = tl.minimum(tl.minimum(tile * block_q + block_q, num_queries) + shift + after, length)
    highest = tl.full([block_q], -float("inf"), tl.float32)
    total = tl.zeros([block_q], tl.float32)
    result = tl.zeros([block_q, padded_depth], tl.float32)
    for at in range(first, tl.cdiv(end, block_k)):
        columns = at * block_k + tl.arange(0, block_k)
        scores = tile_scores(
            queries + item * stride_qn, keys + item * stride_kn, v,
            raised_q + item * groups * step_q, raised_k + item * groups * step_k, scales, facts,
            peaks_q + (item * tiles_q + tile) * groups * 4, peaks_k + (item * tiles_k + at) * groups * 4, rows, columns,
            stride_q, stride_k, step_q, step_k, num_queries, num_keys, features, groups, padded_groups, stages,
        )  # fmt: skip
        seen = visible(
            allowed + item * stride_an, stride_a, rows, columns, shift, num_queries, length, before, after, has_allowed
        )
        scores = tl.where(seen, scores, -float("inf"))
        higher = tl.maximum(highest, tl.max(scores, 1))
        base = tl.where(higher == -float("inf"), 0.0, higher)
        shrink = tl.exp(highest - base)
        weights = tl.exp(scores - base[:, None])
        total = total * shrink + tl.sum(weights, 1)
        if has_dropout:
            weights = tl.where(kept(seed, item, rows, columns, dropout), weights / (1.0 - dropout), 0.0)
        there = (columns[:, None] < num_keys) & (deep[None, :] < depth)
        value = tl.load(values + item * stride_vn + columns[:, None] * stride_v + deep[None, :], mask=there, other=0.0)
        if INTERPRETED:
            value = value.to(tl.float32)  # its products of bfloat16 are wrong
        result = result * shrink[:, None] + tl.dot(weights.to(value.dtype), value, input_precision="tf32x3")
        highest = higher
    result = result / tl.where(total != 0.0, total, 1.0)[:, None]
    place = (item * num_queries + rows)[:, None] * depth + deep[None, :]
    inside = (rows[:, None] < num_queries) & (deep[None, :] < depth)
    tl.store(context + place, result.to(context.dtype.element_ty), mask=inside)
    logarithm = tl.where(total != 0.0, highest + tl.log(tl.where(total != 0.0, total, 1.0)), -float("inf"))
    tl.store(log_sum + item * num_queries + rows, logarithm, mask=rows < num_queries)


# ── launches ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Blocks:
    """The sizes of tiles, all powers of two, and how a kernel is built. `replace` them to tune."""

    queries: int = 64
    keys: int = 64
    features: int = 64  # of the tiles of `_sums`
    warps: int = 4
    registers: int | None = None  # of a thread, at most
    stages: int = 3  # loads that are under way in the loop over features
    sum_warps: int = 4
    sum_stages: int = 3
    chunk: int = 2**24  # most (query, key) pairs of the backward pass in memory at once, three numbers each
    programs: int = 512  # walks are split until there are as many


def blocks(num_queries: int, num_keys: int, features: int, depth: int) -> Blocks:
    """The tiles for inputs of these sizes."""
    return Blocks(
        queries=min(64, power_of_two(num_queries, 16)),
        keys=min(64, power_of_two(num_keys, 16)),
        features=min(64, power_of_two(features, 16)),
        warps=8 if depth > 128 else 4,  # the contexts of a tile stay in registers
    )


def forward(
    query: Tensor, keys: Tensor, values: Tensor, v: Tensor, rules: Rules, tiles: Blocks | None = None
) -> tuple[Tensor, Tensor]:
    """The contexts [n q d] and the logarithms of the sums [n q]."""
    (n, q, a), (k, d) = query.shape, values.shape[1:]
    tiles = tiles or blocks(q, k, a, d)
    query, keys, values, v = contiguous_rows(query), contiguous_rows(keys), contiguous_rows(values), v.contiguous()
    context = values.new_empty(n, q, d)
    log_sum = torch.empty(n, q, dtype=torch.float32, device=values.device)
    mine, theirs = raised_rows(query, v, tiles.queries, True), raised_rows(keys, v, tiles.keys, False)
    with on(query):
        _forward[(mine.tiles * n,)](
            query, keys, values, v, mine.raised, theirs.raised, mine.scales, mine.facts, mine.peaks, theirs.peaks,
            context, log_sum, *pointers(rules, query),
            *query.stride()[:2], *keys.stride()[:2], *values.stride()[:2], *mask_strides(rules),
            q, k, a, mine.groups, d, rules.before, rules.after, rules.dropout, mine.tiles, theirs.tiles,
            **flags(rules), block_q=tiles.queries, block_k=tiles.keys, padded_depth=power_of_two(d, 16),
            padded_groups=power_of_two(mine.groups), stages=tiles.stages,
            num_warps=tiles.warps, num_stages=1, maxnreg=tiles.registers,
        )  # fmt: skip
    return context, log_sum


@dataclass(frozen=True)
class Raised:
    """exp(2x) in the orders of the inner loops."""

    raised: Tensor  # [n groups rows 4], times c for queries
    peaks: Tensor  # [n tiles features], the most bits of a tile
    scales: Tensor  # [2 features], c and its bits
    facts: Tensor  # [2], max|v| and the sum of the shares of v
    plain: Tensor  # [n rows features]
    walked: Tensor  # [n rows/4 features 4]
    plain_peaks: Tensor  # [n tiles features]
    tiles: int
    groups: int


def raised_rows(x: Tensor, v: Tensor, block: int, is_query: bool, plain_features: int = 0) -> Raised:
    """What `_raise` makes of queries or keys; `plain_features` are for the backward pass."""
    n, rows, a = x.shape
    groups, tiles = -(-a // 4), -(-rows // block)

    def buffer(*shape: int) -> Tensor:
        return torch.empty(shape, dtype=torch.float32, device=x.device)

    result = Raised(
        raised=buffer(n, groups, tiles * block, 4),
        peaks=buffer(n, tiles, groups * 4),
        scales=buffer(2, groups * 4),
        facts=buffer(2),
        plain=buffer(n, tiles * block, plain_features),
        walked=buffer(n, tiles * block // 4, plain_features, 4),
        plain_peaks=buffer(n, tiles, plain_features),
        tiles=tiles,
        groups=groups,
    )
    with on(x):
        _raise[(tiles * n,)](
            x, v, result.raised, result.peaks, result.scales, result.facts, result.plain, result.walked,
            result.plain_peaks, *x.stride()[:2], rows, a, groups, plain_features, tiles,
            is_query=is_query, backward=plain_features > 0, block=block,
            padded_features=power_of_two(max(a, plain_features), 4), num_warps=8, num_stages=1,
        )  # fmt: skip
    return result
