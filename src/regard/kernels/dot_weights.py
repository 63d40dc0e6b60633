# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False, disallow-untyped-calls=False
# mypy: disallow-untyped-decorators=False, implicit-reexport=True
"""softmax(scale · q·k) for some rows, beside a fused pass that does not give it: nothing but the weights is written.

The first kernel walks along the keys and leaves the logarithm of the sum of each row, or of split of it; the second
makes the scores once more and writes the weights. So memory is passed over once, where scores, softmax and a change of
dtype pass over it five times.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.kernels.arithmetic import dot
from regard.kernels.derivatives import refuse_transforms
from regard.kernels.launch import INTERPRETED, contiguous_rows, jit, on, power_of_two, tl
from regard.kernels.limits import EVERYWHERE
from regard.kernels.masks import Rules, mask_strides, masks, pointers, rules, visible

BLOCK_Q, BLOCK_K, PROGRAMS = 64, 64, 512


@jit
def _pass(
    queries, keys, chosen, sums, weights, lengths, allowed,
    stride_qn, stride_q, stride_kn, stride_k, stride_an, stride_a,
    num_rows, num_queries, num_keys, features, scale, before, after, tiles_q, splits, items,
    has_rows: tl.constexpr, has_lengths: tl.constexpr, has_window: tl.constexpr, has_allowed: tl.constexpr,
    is_first: tl.constexpr,
    block_q: tl.constexpr, block_k: tl.constexpr, padded_features: tl.constexpr, padded_splits: tl.constexpr,
):  # fmt: skip
    """The logarithms of the sums of one tile of rows over one part of the keys; or, with all of them, its weights."""
    number = tl.program_id(0)
    tile, number = number % tiles_q, number // tiles_q
    split, item = number % splits, (number // splits).to(tl.int64)
    places, wide = tile * block_q + tl.arange(0, block_q), tl.arange(0, padded_features)
    rows = places
    if has_rows:
        rows = tl.load(chosen + places, mask=places < num_rows, other=num_queries).to(tl.int32)
    length, shift = num_keys, num_keys - num_queries
    if has_lengths:
        length = tl.minimum(tl.load(lengths + item).to(tl.int32), num_keys)
    inside = (places[:, None] < num_rows) & (wide[None, :] < features)
    query = tl.load(queries + item * stride_qn + rows[:, None] * stride_q + wide[None, :], mask=inside, other=0.0)
    tiles_k = tl.cdiv(num_keys, block_k)
    first, end = split * tiles_k // splits, (split + 1) * tiles_k // splits
    highest = tl.full([block_q], -float("inf"), tl.float32)
    total = tl.zeros([block_q], tl.float32)
    if is_first:  # what nobody sees adds nothing; rows may be in any order
        first = tl.maximum(first, tl.maximum(tl.min(rows) + shift - before, 0) // block_k)
        last = tl.max(tl.where(places < num_rows, rows, 0)) + shift + after
        end = tl.minimum(end, tl.cdiv(tl.minimum(last + 1, length), block_k))
    else:
        split = tl.arange(0, padded_splits)
        here = (places[:, None] < num_rows) & (split[None, :] < splits)
        beside = (split[None, :] * items + item) * num_rows + places[:, None]
        sums_here = tl.load(sums + beside, mask=here, other=-float("inf"))
        highest = tl.max(sums_here, 1)
        highest = tl.where(highest == -float("inf"), 0.0, highest)
        highest += tl.log(tl.maximum(tl.sum(tl.exp(sums_here - highest[:, None]), 1), 1e-37))
    for at in range(first, end):
        columns = at * block_k + tl.arange(0, block_k)
        there = (columns[None, :] < num_keys) & (wide[:, None] < features)
        key = tl.load(keys + item * stride_kn + columns[None, :] * stride_k + wide[:, None], mask=there, other=0.0)
        if INTERPRETED:
            query, key = query.to(tl.float32), key.to(tl.float32)  # its products of bfloat16 are wrong
        scores = dot(query, key) * scale
        seen = visible(
            allowed + item * stride_an, stride_a, rows, columns, shift, num_queries, length,
            before, after, has_window, has_allowed,
        )  # fmt: skip
        scores = tl.where(seen, scores, -float("inf"))
        if is_first:
            higher = tl.maximum(highest, tl.max(scores, 1))
            base = tl.where(higher == -float("inf"), 0.0, higher)
            total = total * tl.exp(highest - base) + tl.sum(tl.exp(scores - base[:, None]), 1)
            highest = higher
        else:
            shares = tl.exp(scores - highest[:, None])
            place = (item * num_rows + places)[:, None] * num_keys + columns[None, :]
            store = (places[:, None] < num_rows) & (columns[None, :] < num_keys)
            tl.store(weights + place, shares.to(weights.dtype.element_ty), mask=store)
    if is_first:
        logarithm = tl.where(total > 0.0, highest + tl.log(tl.where(total > 0.0, total, 1.0)), -float("inf"))
        tl.store(sums + (split * items + item) * num_rows + places, logarithm, mask=places < num_rows)


def dot_weights(
    query: Float[Tensor, "n q d"],
    keys: Float[Tensor, "n k d"],
    *,
    scale: float = 1.0,
    rows: Int[Tensor, " r"] | None = None,
    lengths: Int[Tensor, " n"] | None = None,
    causal: bool = False,
    window: tuple[int, int] | None = None,
    allowed: Bool[Tensor, "#n #q k"] | None = None,
    dtype: torch.dtype | None = None,
) -> Float[Tensor, "n r k"]:
    """The weights softmax_j(scale · q_i·k_j) of the queries numbered `rows`, or of all; masks as in `fused_additive`.

    In `dtype` or that of the query, from sums in float32; a query that sees no key has weights 0. No gradient.
    """
    refuse_transforms("dot_weights")
    before, after = (EVERYWHERE, EVERYWHERE) if window is None else (min(side, EVERYWHERE) for side in window)
    around = rules(query, keys, lengths, allowed, None, before, 0 if causal else after, 0.0)
    query, keys = contiguous_rows(query.detach()), contiguous_rows(keys.detach())
    rows = None if rows is None else rows.contiguous()
    (n, q, a), k = query.shape, keys.shape[1]
    count = q if rows is None else len(rows)
    if 0 in (n, count, k):
        return query.new_zeros(n, count, k, dtype=dtype)
    tiles = -(-count // min(BLOCK_Q, power_of_two(count, 16)))
    splits = max(1, min(64, -(-k // BLOCK_K), PROGRAMS // (n * tiles)))
    sums = torch.empty(splits, n, count, dtype=torch.float32, device=query.device)
    weights = query.new_empty(n, count, k, dtype=dtype)
    with on(query):
        for is_first in (True, False):
            _launch(query, keys, rows, sums, weights, around, scale, (count, q, k, a, tiles, splits, n), is_first)
    return weights


def _launch(
    query: Tensor,
    keys: Tensor,
    rows: Tensor | None,
    sums: Tensor,
    weights: Tensor,
    around: Rules,
    scale: float,
    sizes: tuple[int, ...],
    is_first: bool,
) -> None:
    count, q, k, a, tiles, splits, n = sizes
    lengths, allowed, _ = pointers(around, query)
    _pass[(tiles * splits * n,)](
        query, keys, query if rows is None else rows, sums, weights, lengths, allowed,
        *query.stride()[:2], *keys.stride()[:2], *mask_strides(around),
        count, q, k, a, float(scale), around.before, around.after, tiles, splits, n,
        has_rows=rows is not None, **masks(around), is_first=is_first,
        block_q=min(BLOCK_Q, power_of_two(count, 16)), block_k=BLOCK_K,
        padded_features=power_of_two(a, 16), padded_splits=power_of_two(splits, 2),
        num_warps=4, num_stages=2,
    )  # fmt: skip
