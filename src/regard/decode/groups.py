"""The best of many continuations from one quick pass: the best m tokens are in those m groups whose best ones are best.

Straight from logits, a second pass sums their exponentials; the log-probabilities of all tokens are never written.
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

ROWS = 64  # whose exponentials are held at once: they stay in the cache of a processor
LARGEST = 60.0  # a largest logit between −60 and 60: its exponentials neither overflow nor vanish


class Barred(NamedTuple):
    """Tokens that may not be taken."""

    tokens: frozenset[int]
    added: Tensor  # [v], −∞ for them, else 0


class Best(NamedTuple):
    """The best m continuations of each of a sentences, best first."""

    log_prob: Tensor  # [a m]
    row: Tensor  # [a m] of the prefix, in [n]
    token: Tensor  # [a m]


def best_by_groups(
    log_prob: Float[Tensor, " n"], log_probs: Float[Tensor, "n v"], first: Int[Tensor, "a 1"], wanted: int
) -> Best:
    """The best `wanted` of log_prob + log_probs; `first` is the first row of each sentence.

    A sentence has at least 4·wanted² continuations, so that there are enough groups.
    """
    width = _width(log_probs, len(first), wanted)
    return _among_best_groups(log_prob, log_probs, _bests(log_probs, width), width, first, wanted, None, None)


def best_of_logits(
    log_prob: Float[Tensor, " n"],
    logits: Float[Tensor, "n v"],
    first: Int[Tensor, "a 1"],
    wanted: int,
    barred: Barred | None = None,
) -> Best | None:
    """The best `wanted` of log_prob + log softmax(logits), without tokens that may not be taken.

    None where the logits are so large, or not numbers, that their exponentials cannot simply be summed.
    """
    width = _width(logits, len(first), wanted)
    best = _bests(logits, width)
    low, high = best.amax(1).aminmax()
    if not (low >= -LARGEST and high <= LARGEST):  # of NaN too
        return None
    normaliser = torch.cat([part.exp().sum(1) for part in torch.split(logits, ROWS)]).log()
    if barred is not None:
        for group in {token // width for token in barred.tokens}:
            here = slice(group * width, (group + 1) * width)
            best[:, group] = (logits[:, here] + barred.added[here]).amax(1)
    added = None if barred is None else barred.added
    return _among_best_groups(log_prob, logits, best, width, first, wanted, normaliser, added)


def best_in_one_pass(
    log_prob: Float[Tensor, " n"],
    logits: Float[Tensor, "n v"],
    first: Int[Tensor, "a 1"],
    wanted: int,
    added: Float[Tensor, " v"] | None,
) -> tuple[Best, Bool[Tensor, " n"]]:
    """The same by one kernel over the logits, and which rows have NaN or +∞; `added` bars tokens by −∞."""
    from regard.kernels.launch import power_of_two
    from regard.kernels.next_words import group_bests

    width = power_of_two(_width(logits, len(first), wanted))
    found = group_bests(logits, width, added)
    best = _among_best_groups(log_prob, logits, found.best, width, first, wanted, found.log_sum, added)
    return best, found.wrong


def _width(scores: Tensor, sentences: int, wanted: int) -> int:
    """How many tokens a group has; the last one may have fewer."""
    rows, size = scores.shape
    return 16 * -(-math.isqrt(rows // sentences * size // wanted) // 16)


def _bests(scores: Float[Tensor, "n v"], width: int) -> Float[Tensor, "n g"]:
    """The best of each group."""
    size = scores.shape[1]
    full = size - size % width
    bests = [scores[:, :full].view(len(scores), -1, width).amax(-1)] if full else []
    if full < size:
        bests.append(scores[:, full:].amax(-1, keepdim=True))
    return torch.cat(bests, 1)


def _among_best_groups(
    log_prob: Tensor,
    scores: Tensor,
    best: Float[Tensor, "n g"],
    width: int,
    first: Tensor,
    wanted: int,
    normaliser: Float[Tensor, " n"] | None,
    added: Float[Tensor, " v"] | None,
) -> Best:
    size, sentences = scores.shape[1], len(first)
    offset = log_prob if normaliser is None else log_prob - normaliser
    groups = (offset.unsqueeze(1) + best).view(sentences, -1).topk(wanted, dim=1).indices  # [a m]
    row = (first + groups // best.shape[1]).unsqueeze(-1)  # [a m 1]
    token = (groups % best.shape[1] * width).unsqueeze(-1) + torch.arange(width, device=groups.device)  # [a m width]
    inside = token.clamp(max=size - 1)
    total = scores[row, inside]
    if normaliser is not None:
        total = total - normaliser[row]
    if added is not None:
        total = total + added[inside]
    total = (log_prob[row] + total).masked_fill(token >= size, -math.inf).flatten(1)
    top, where = total.topk(wanted, dim=1)
    return Best(top, row.squeeze(-1).gather(1, where // width), token.flatten(1).gather(1, where))
