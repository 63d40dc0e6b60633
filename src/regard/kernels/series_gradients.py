# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False, disallow-untyped-calls=False
# mypy: disallow-untyped-decorators=False, implicit-reexport=True
"""The gradients of additive attention where its scores are sums of sines: products of matrices too.

With the terms of `series.py`, tanh(q + k) = Σ_m b_m (sin ω_m q · cos ω_m k + cos ω_m q · sin ω_m k). For the gradients
g_ij of the scores, S_m = Σ_j g_ij sin ω_m k_j and C_m = Σ_j g_ij cos ω_m k_j are products of matrices, and

    ∂q_ia = v_a Σ_m b_m ω_m (cos ω_m q_ia · C_m − sin ω_m q_ia · S_m),
    ∂v_a  = Σ_i Σ_m b_m (sin ω_m q_ia · C_m + cos ω_m q_ia · S_m),

and ∂k_ja likewise, with q and k exchanged. A program owns a tile of rows and some features, and walks along the other
axis once for each m; nothing is added across programs in an order that could change.
"""

import torch
from torch import Tensor

from regard.kernels.launch import INTERPRETED, jit, on, power_of_two, tl
from regard.kernels.masks import Rules, walk_span
from regard.kernels.series import PARTS, PI, Terms, choice, coefficient, make_terms, sine_and_cosine

OWN, WALK, FEATURES = 128, 64, 64  # rows and features of a program, and steps of its walk
PROGRAMS = 256  # terms are shared among programs until there are as many


@jit
def _walk(
    narrow_grads, raw_own, sines_of, counts, bounds_q, bounds_k, v, grad_own, grad_v, lengths,
    stride_n, stride_row, num_own, num_walk, term_rows, features, padded_features, width, parts_q, parts_k,
    padded_own, padded_walk, shift, behind, ahead, tiles_own, tiles_features, splits, items,
    has_lengths: tl.constexpr, own_keys: tl.constexpr, with_v: tl.constexpr, block_own: tl.constexpr,
    block_walk: tl.constexpr, block_features: tl.constexpr, block_parts: tl.constexpr, stages: tl.constexpr,
):  # fmt: skip
    """The gradient of a tile [rows, features], and what it gives to v, of all terms or one part of them."""
    number = tl.program_id(0)
    tile, number = number % tiles_own, number // tiles_own
    slab, number = number % tiles_features, number // tiles_features
    split, item = number % splits, (number // splits).to(tl.int64)
    rows, at = tile * block_own + tl.arange(0, block_own), slab * block_features + tl.arange(0, block_features)
    steps = tl.arange(0, block_walk)
    period, _ = choice(bounds_q, bounds_k, item, items, parts_q, parts_k, features, padded_features, at, block_parts)
    count = tl.load(counts + item)
    first, end = walk_span(
        lengths, item, tile, num_own, num_walk, shift, behind, ahead, has_lengths, own_keys, block_own
    )
    first, end = first // block_walk, tl.cdiv(end, block_walk)
    inside, real_rows = (rows[:, None] < num_own) & (at[None, :] < features), num_own
    if has_lengths and own_keys:
        real_rows = tl.minimum(tl.load(lengths + item).to(tl.int32), num_own)
    mine = raw_own + item * stride_n + rows[:, None].to(tl.int64) * stride_row + at[None, :]
    total = tl.zeros([block_own, block_features], tl.float32)
    total_v = tl.zeros([block_own, block_features], tl.float32)
    own = tl.minimum(rows, padded_own - 1)[:, None]
    narrow_grads += item * padded_own * padded_walk
    sines_of += item * term_rows * width
    for m in range(split * count // splits, (split + 1) * count // splits):
        sines, cosines = tl.zeros_like(total), tl.zeros_like(total)
        for block in tl.range(first, end, num_stages=stages):
            walk = block * block_walk + steps
            g = tl.load(narrow_grads + own * padded_walk + walk[None, :])
            beside = sines_of + walk[:, None] * width + (2 * m * padded_features + at)[None, :]
            s, c = tl.load(beside), tl.load(beside + padded_features)
            if INTERPRETED:  # which takes the bits of bfloat16 for numbers
                sines += tl.dot(g.to(tl.float32), s.to(tl.float32))
                cosines += tl.dot(g.to(tl.float32), c.to(tl.float32))
            else:
                sines = tl.dot(g, s, sines)
                cosines = tl.dot(g, c, cosines)
        x = tl.load(mine, mask=inside & (rows[:, None] < real_rows), other=0.0).to(tl.float32)
        sine, cosine = sine_and_cosine(x, period[None, :], m)  # made anew, since registers are short
        b = coefficient(m, period)
        omega = (m + 0.5) * PI / period
        total += (b * omega)[None, :] * (cosine * cosines - sine * sines)
        if with_v:
            total_v += b[None, :] * (sine * cosines + cosine * sines)
    weight = tl.load(v + at, mask=at < features, other=0.0).to(tl.float32)
    place = ((split * items + item) * num_own + rows)[:, None] * features + at[None, :]
    tl.store(grad_own + place, weight[None, :] * total, mask=inside)
    if with_v:
        total_v = tl.where(inside, total_v, 0.0)
        place = ((split * items + item) * tiles_own + tile) * features + at
        tl.store(grad_v + place, tl.sum(total_v, 0), mask=at < features)


def gradients(
    grads: Tensor, turned: Tensor, query: Tensor, keys: Tensor, v: Tensor, rules: Rules, shift: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Those of queries, keys and v in float32, zeros for items that need too many terms, and the terms of items [n].

    `grads` [n q k] and `turned` [n k q], of bfloat16 and padded, are those of the scores, zero where nothing is seen.
    """
    made, window = make_terms(query, keys, v, rules, weighs=False), (rules.before, rules.after)
    of_query, of_v = _side(
        grads, query, made.of_keys, keys.shape[1], made, v, rules.lengths, shift, window, own_keys=False
    )
    of_keys, _ = _side(
        turned, keys, made.of_query, query.shape[1], made, v, rules.lengths, -shift, window[::-1], own_keys=True
    )
    return of_query, of_keys, of_v, made.counts


def _side(
    grads: Tensor,
    raw: Tensor,
    terms: Tensor,
    num_walk: int,
    made: Terms,
    v: Tensor,
    lengths: Tensor | None,
    shift: int,
    window: tuple[int, int],
    *,
    own_keys: bool,
) -> tuple[Tensor, Tensor]:
    """The gradients of `raw`, queries or keys, and what its rows give to v."""
    (n, rows, a), (bounds_q, bounds_k) = raw.shape, made.bounds
    own, steps = min(OWN, power_of_two(rows, 16)), min(WALK, grads.shape[2] & -grads.shape[2])
    features = FEATURES if made.padded % FEATURES == 0 else FEATURES // 2
    tiles, slabs = -(-rows // own), -(-a // features)
    splits = max(1, min(6, PROGRAMS // (n * tiles * slabs)))
    result = torch.empty(splits, n, rows, a, dtype=torch.float32, device=raw.device)
    result_v = torch.empty(1 if own_keys else splits * n * tiles, a, dtype=torch.float32, device=raw.device)
    with on(raw):
        _walk[(n * tiles * slabs * splits,)](
            grads, raw, terms, made.counts, bounds_q, bounds_k, v, result, result_v,
            raw if lengths is None else lengths,
            *raw.stride()[:2], rows, num_walk, terms.shape[1], a, made.padded, made.width,
            bounds_q.shape[2], bounds_k.shape[2], *grads.shape[1:], shift, *window, tiles, slabs, splits, n,
            has_lengths=lengths is not None, own_keys=own_keys, with_v=not own_keys, block_own=own, block_walk=steps,
            block_features=features, block_parts=PARTS, stages=3, num_warps=8 if own == OWN else 4, num_stages=1,
        )  # fmt: skip
    return result[0] if splits == 1 else result.sum(0), result_v[0] if own_keys else result_v.sum(0)
