"""What a caption's places add to its loss: that all get their share, and what drawn ones earn."""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from regard.data import PAD
from regard.nn.reward import reinforce


def doubly_stochastic(weights: Float[Tensor, "b t k"], real: Shaped[Tensor, "b t"]) -> Float[Tensor, ""]:
    """Σ_b Σ_i (1 − Σ_t α_ti)², over the steps that are `real`; a row without any counts nothing.

    >>> doubly_stochastic(torch.tensor([[[1.0, 0.0], [0.5, 0.5]]]), torch.tensor([[True, False]]))
    tensor(1.)
    """
    wide = weights.to(torch.promote_types(weights.dtype, torch.float32))
    covered = (wide * real.unsqueeze(-1)).sum(1)
    return ((1 - covered).square().sum(-1) * real.any(1)).sum()


def twice(tokens: Int[Tensor, "b t"], *, each: int) -> Int[Tensor, "c t"]:
    """Captions in pairs: `each` of every picture, and the same again.

    >>> twice(torch.tensor([[5], [6], [7], [8]]), each=2).flatten().tolist()
    [5, 6, 5, 6, 7, 8, 7, 8]
    """
    return tokens.view(-1, 1, each, tokens.shape[-1]).expand(-1, 2, -1, -1).flatten(0, 2)


def hard_loss(
    out: Any, targets: Int[Tensor, "b t"], *, reward: float, entropy: float, pairs: int | None = None
) -> tuple[Float[Tensor, ""], dict[str, Float[Tensor, ""]]]:
    """What sampled places add to the loss (11): λ_r times REINFORCE's term, minus λ_e times their entropy.

    The reward of a place is the log-probability of the words from its step on: earlier ones do not depend on it, so the
    mean is the paper's and the variance smaller. Of each word the running mean b is taken off, b ← 0.9 b + 0.1 · (mean
    log-probability of a word).

    With `pairs` the captions are those of `twice`, and the second ones have drawn places. What a word has with expected
    ones is then taken off as well, and b is a mean of differences. How hard a word is falls out, and it is most of what
    rewards differ by.
    """
    real = targets != PAD
    logits = out.logits.detach().to(torch.promote_types(out.logits.dtype, torch.float32))
    words = -F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=PAD, reduction="none")
    words, log_prob, spread = words.view_as(targets), out.log_prob, out.entropy
    if pairs is not None:
        words, real, log_prob, spread = (
            x.view(-1, 2, pairs, x.shape[-1]).transpose(0, 1).flatten(1, 2) for x in (words, real, log_prob, spread)
        )
        words, real, log_prob, spread = words[1] - words[0], real[1], log_prob[1], spread[1]
    before = out.baseline(words.sum() / real.sum().clamp(min=1))
    better = (words - before).masked_fill(~real, 0.0)
    to_go = better.flip(1).cumsum(1).flip(1)
    sampled = reinforce(log_prob, to_go).masked_fill(~real, 0.0).sum()
    spread = spread.masked_fill(~real, 0.0).sum()
    return reward * sampled - entropy * spread, {"entropy": spread, "reward": words.sum()}
