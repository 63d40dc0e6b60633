# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False, disallow-untyped-calls=False
# mypy: disallow-untyped-decorators=False, implicit-reexport=True
"""What a search over beams asks of the logits of a step, in one pass: log-probabilities of all words are never written.

`group_bests` gives the logarithm of the sum of exponentials and the best logit of each group of neighbouring words: the
best m words of a row are in those m groups whose best ones are best.
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.kernels.launch import contiguous_rows, jit, on, power_of_two, tl

BLOCK = 1024  # words at a time


class GroupBests(NamedTuple):
    """What a search over groups of words needs to know of each row of logits."""

    log_sum: Float[Tensor, " n"]  # of the exponentials of all words, barred or not; 0 where no word is possible
    best: Float[Tensor, "n g"]  # the best logit of each group, barred words left out
    wrong: Bool[Tensor, " n"]


@jit
def next_block(logits, added, columns, size, highest, total, has_added: tl.constexpr):
    """Some logits of a row, with −∞ for words that `added` bars; and, of all words so far, barred ones too, the largest
    logit and the sum of exponentials relative to it."""
    words = tl.load(logits + columns, mask=columns < size, other=-float("inf")).to(tl.float32)
    higher = tl.maximum(highest, tl.max(words, 0))
    base = tl.where(higher == -float("inf"), 0.0, higher)
    total = total * tl.exp(highest - base) + tl.sum(tl.exp(words - base), 0)
    if has_added:
        words += tl.load(added + columns, mask=columns < size, other=0.0)
    return words, higher, total


@jit
def _groups(
    logits, added, log_sum, best, wrong, stride, size, groups,
    has_added: tl.constexpr, width: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    highest, total = tl.full([], -float("inf"), tl.float32), tl.full([], 0.0, tl.float32)
    for start in range(0, size, block):
        columns = start + tl.arange(0, block)
        words, highest, total = next_block(logits + row * stride, added, columns, size, highest, total, has_added)
        number = start // width + tl.arange(0, block // width)
        tops = tl.max(tl.reshape(words, [block // width, width]), 1)
        tl.store(best + row * groups + number, tops, mask=number < groups)
    base = tl.where(highest == -float("inf"), 0.0, highest)
    tl.store(log_sum + row, base + tl.log(tl.where(total == 0.0, 1.0, total)))
    tl.store(wrong + row, (total != total).to(tl.int8))


def group_bests(logits: Float[Tensor, "n v"], width: int, added: Float[Tensor, " v"] | None = None) -> GroupBests:
    """Sums, and bests of groups of `width` words, a power of two, where `added` (0 or −∞) bars some.

    See `limits.can_read_logits`.
    """
    logits, (rows, size) = contiguous_rows(logits), logits.shape
    groups = -(-size // width)
    found = GroupBests(
        logits.new_empty(rows, dtype=torch.float32),
        logits.new_empty(rows, groups, dtype=torch.float32),
        logits.new_empty(rows, dtype=torch.bool),
    )
    with on(logits):
        _groups[(rows,)](
            logits, logits if added is None else added, *found[:2], found.wrong.view(torch.int8),
            logits.stride(0), size, groups, has_added=added is not None,
            width=width, block=max(width, min(BLOCK, power_of_two(size, 16))), num_warps=4,
        )  # fmt: skip
    return found
