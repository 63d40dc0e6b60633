"""Consensus of many sentences at once, on tensors: the same numbers as `consensus`, and no loop over hypotheses."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

ORDER = 4  # that of BLEU
AT_ONCE = 2**26  # numbers in the largest tensor


def consensus_scores(
    tokens: Int[Tensor, "b h t"],
    lengths: Int[Tensor, "b h"],
    log_probs: Float[Tensor, "b h"],
    exist: Bool[Tensor, "b h"],
    *,
    sharpness: float,
) -> Float[Tensor, "b h"]:
    """Σ_j p_j^sharpness · agreement with j, of each hypothesis: its first `lengths` tokens count. −∞ if it is none.

    >>> tokens = torch.tensor([[[5, 6, 7], [5, 6, 8], [9, 0, 0]]])
    >>> lengths, log_probs = torch.tensor([[3, 3, 1]]), torch.tensor([[-1.0, -1.1, -0.9]])
    >>> consensus_scores(tokens, lengths, log_probs, lengths > 0, sharpness=1.0)
    tensor([[0.4491, 0.4298, 0.3672]], dtype=torch.float64)
    """
    log_probs = log_probs.double().masked_fill(~exist, -torch.inf)
    top = log_probs.amax(1, keepdim=True).clamp(min=torch.finfo(torch.float64).min)
    chances = torch.where(exist, (sharpness * (log_probs - top)).nan_to_num(nan=0.0).exp(), 0.0)
    size = max(1, AT_ONCE // max(1, tokens[0].numel() * max(tokens.shape[1:])))
    parts = [agreement(tokens[i : i + size], lengths[i : i + size]) for i in range(0, len(tokens), size)]
    agreed = (torch.cat(parts) * chances.unsqueeze(1)).sum(-1) / chances.sum(-1, keepdim=True)
    return agreed.masked_fill(~exist, -torch.inf)


def agreement(tokens: Int[Tensor, "b h t"], lengths: Int[Tensor, "b h"]) -> Float[Tensor, "b h h"]:
    """Of each with each: the mean F-measure of their n-grams, over those n of which one of both has some, or 1."""
    count = tokens.shape[1]
    total = torch.zeros(len(tokens), count, count, dtype=torch.float64, device=tokens.device)
    sizes = torch.zeros_like(total)
    words = _numbered(tokens)
    grams, span = words, tokens[0].numel()
    for order in range(1, min(ORDER, tokens.shape[2]) + 1):
        if order > 1:
            grams = _numbered(grams[..., :-1] * span + words[..., order - 1 :])
        starts = torch.arange(grams.shape[2], device=tokens.device)
        real = starts + order <= lengths.unsqueeze(-1)
        same = (grams.unsqueeze(-1) == grams.unsqueeze(-2)).tril(-1)  # the second "the" is not the first one
        columns = _numbered(torch.where(real, grams * span + same.sum(-1), -1))
        has = torch.zeros(*columns.shape[:2], columns[0].numel(), device=tokens.device)
        has.scatter_(2, columns, real.to(has.dtype))
        sums = real.sum(-1)
        both = (sums.unsqueeze(1) + sums.unsqueeze(2)).double()
        total += torch.where(both > 0, 2 * (has @ has.mT).double() / both.clamp(min=1), 0.0)
        sizes += both > 0
    return torch.where(sizes > 0, total / sizes.clamp(min=1), 1.0)


def _numbered(values: Int[Tensor, "b h t"]) -> Int[Tensor, "b h t"]:
    """Equal values of a sentence get equal numbers, from 0 on without a gap."""
    ordered, places = values.flatten(1).sort(1)
    steps = torch.zeros_like(ordered)
    steps[:, 1:] = (ordered[:, 1:] != ordered[:, :-1]).cumsum(1)
    return torch.zeros_like(ordered).scatter(1, places, steps).view(values.shape)
