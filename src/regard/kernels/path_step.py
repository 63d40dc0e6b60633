# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False, disallow-untyped-calls=False
# mypy: disallow-untyped-decorators=False, implicit-reexport=True
"""A step of a greedy search in one kernel: the best word of each row of logits, and all that is noted about it.

One program reads the logits of one sentence once. Log-probabilities of all words are never written, and the thirty
small operations on a number for each sentence, each of which takes as long as its launch, are gone.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from regard.kernels.launch import contiguous_rows, jit, on, power_of_two, tl
from regard.kernels.next_words import BLOCK, next_block


@jit
def _path(
    logits, added, sentence, done, last, lengths, finished, tokens, path, gains, looks, weights, time, bad,
    stride, size, stride_weights, width, sentences, eos,
    has_added: tl.constexpr, has_weights: tl.constexpr, block: tl.constexpr, block_width: tl.constexpr,
):  # fmt: skip
    """The step of one sentence that goes on, or of one that has ended, of which only its place is written."""
    row = tl.program_id(0).to(tl.int64)
    highest, total = tl.full([], -float("inf"), tl.float32), tl.full([], 0.0, tl.float32)
    best, place = tl.full([], -float("inf"), tl.float32), tl.full([], 0, tl.int32)
    for start in range(0, size, block):
        columns = start + tl.arange(0, block)
        words, highest, total = next_block(logits + row * stride, added, columns, size, highest, total, has_added)
        here = tl.max(words, 0)
        place = tl.where(here > best, start + tl.argmax(words, 0), place)
        best = tl.maximum(best, here)
    base = tl.where(highest == -float("inf"), 0.0, highest)
    gained = tl.where(best == -float("inf"), best, (best - base) - tl.log(tl.where(total == 0.0, 1.0, total)))
    step, goes_on = tl.load(time), tl.load(done + row) == 0
    moved, is_end, is_wrong = gained > -float("inf"), place == eos, total != total
    here = step * sentences + tl.load(sentence + row)
    tl.store(tokens + row, place.to(tl.int64))
    tl.store(path + here, place.to(tl.int64))
    tl.store(gains + here, tl.where(moved, gained, 0.0).to(gains.dtype.element_ty))
    tl.store(lengths + row, tl.load(lengths + row) + (moved & goes_on).to(tl.int64))
    tl.store(finished + row, (tl.load(finished + row) != 0) | (moved & is_end & goes_on))
    tl.store(done + row, (not goes_on) | (not moved) | is_end | (step >= tl.load(last + row)))
    if is_wrong & goes_on:
        tl.store(bad, 1)
    if has_weights:
        for start in range(0, width, block_width):
            columns = start + tl.arange(0, block_width)
            share = tl.load(weights + row * stride_weights + columns, mask=columns < width, other=0.0)
            tl.store(looks + here * width + columns, share.to(looks.dtype.element_ty), mask=columns < width)


def path_step(
    logits: Float[Tensor, "m v"],
    added: Float[Tensor, " v"] | None,
    now: dict[str, Tensor],
    *,
    path: Tensor,
    gains: Tensor,
    looks: Tensor | None,
    weights: Float[Tensor, "m k"] | None,
    time: Tensor,
    bad: Tensor,
    eos: int,
) -> None:
    """Takes the best word of each row, of equal ones the first, where `added` (0 or −∞) bars some.

    `now` are the rows of `PathBoard`, of which the first m are used; the step `time` is written into `path` and `gains`
    [t b] and `looks` [t b … k]. See `limits.can_read_logits`.
    """
    logits, size = contiguous_rows(logits), logits.shape[1]
    weights = None if weights is None else contiguous_rows(weights)
    width = 1 if weights is None else weights.shape[1]
    with on(logits):
        _path[(len(logits),)](
            logits, logits if added is None else added, now["sentence"], now["done"].view(torch.uint8), now["last"],
            now["length"], now["finished"].view(torch.uint8), now["tokens"], path, gains,
            gains if looks is None else looks, gains if weights is None else weights, time, bad.view(torch.uint8),
            logits.stride(0), size, 0 if weights is None else weights.stride(0), width, path.shape[1], eos,
            has_added=added is not None, has_weights=weights is not None and width > 0,
            block=min(BLOCK, power_of_two(size, 16)), block_width=min(BLOCK, power_of_two(max(width, 1), 16)),
            num_warps=4,
        )  # fmt: skip
