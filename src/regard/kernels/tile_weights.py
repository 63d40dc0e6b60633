# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False, disallow-untyped-calls=False
# mypy: disallow-untyped-decorators=False, implicit-reexport=True
"""Weights of additive attention from its scores and the saved logarithms of their sums, tile by tile.

The backward pass makes them inside its kernels; `write_weights` gives them to a caller who asked for them, from the
scores that the context was made of: exp(score − log_sum), with no second sum.
"""

from torch import Tensor

from regard.kernels.arithmetic import precise_exp
from regard.kernels.launch import jit, on, power_of_two, tl
from regard.kernels.masks import Rules, mask_strides, masks, pointers, visible


@jit
def tile_weights(
    scores, log_sum, allowed, item, tile, column, length, stride_an, stride_a, stride_sn,
    num_queries, shift, before, after, step_item, step_row,
    has_window: tl.constexpr, has_allowed: tl.constexpr, block_q: tl.constexpr, block_k: tl.constexpr,
):  # fmt: skip
    """The weights of one tile, and which of them are seen."""
    rows, columns = tile * block_q + tl.arange(0, block_q), column * block_k + tl.arange(0, block_k)
    seen = visible(
        allowed + item * stride_an, stride_a, rows, columns, shift, num_queries, length,
        before, after, has_window, has_allowed,
    )  # fmt: skip
    score = tl.load(scores + item * step_item + rows[:, None] * step_row + columns[None, :], mask=seen, other=0.0)
    logarithm = tl.load(log_sum + item * stride_sn + rows, mask=rows < num_queries, other=0.0)
    base = tl.where(logarithm == -float("inf"), 0.0, logarithm)
    return tl.where(seen, precise_exp(score - base[:, None]), 0.0), seen


@jit
def _write(
    scores, log_sum, weights, lengths, allowed, stride_an, stride_a, stride_sn, stride_wn, stride_w,
    num_queries, num_keys, shift, before, after, step_item, step_row, tiles_q, tiles_k,
    has_lengths: tl.constexpr, has_window: tl.constexpr, has_allowed: tl.constexpr,
    block_q: tl.constexpr, block_k: tl.constexpr,
):  # fmt: skip
    """One tile of weights; what nobody may see is zero."""
    number = tl.program_id(0)
    column, tile, item = number % tiles_k, number // tiles_k % tiles_q, (number // tiles_k // tiles_q).to(tl.int64)
    length = num_keys
    if has_lengths:
        length = tl.minimum(tl.load(lengths + item).to(tl.int32), num_keys)
    found, _ = tile_weights(
        scores, log_sum, allowed, item, tile, column, length, stride_an, stride_a, stride_sn,
        num_queries, shift, before, after, step_item, step_row, has_window, has_allowed, block_q, block_k,
    )  # fmt: skip
    rows, columns = tile * block_q + tl.arange(0, block_q), column * block_k + tl.arange(0, block_k)
    inside = (rows[:, None] < num_queries) & (columns[None, :] < num_keys)
    place = item * stride_wn + rows[:, None].to(tl.int64) * stride_w + columns[None, :]
    tl.store(weights + place, found, mask=inside)


def write_weights(scores: Tensor, log_sum: Tensor, weights: Tensor, rules: Rules, shift: int) -> None:
    """Fills `weights` [n q k] of float32, whose rows may lie apart, from padded scores and the sums of its rows."""
    (n, q, k), lengths_and_mask = weights.shape, pointers(rules, scores)[:2]
    block_q, block_k = min(32, power_of_two(q, 16)), min(64, power_of_two(k, 16))
    tiles_q, tiles_k = -(-q // block_q), -(-k // block_k)
    with on(scores):
        _write[(tiles_q * tiles_k * n,)](
            scores, log_sum, weights, *lengths_and_mask, *mask_strides(rules), log_sum.stride(0), *weights.stride()[:2],
            q, k, shift, rules.before, rules.after, *scores.stride()[:2], tiles_q, tiles_k,
            **masks(rules), block_q=block_q, block_k=block_k, num_warps=4, num_stages=1,
        )  # fmt: skip
