"""Consensus: of several hypotheses the one that most of them agree with (minimum Bayes risk, Kumar & Byrne 2004)."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from regard.base import ConfigError
from regard.decode.hypothesis import Hypothesis

Grams = list[Counter[tuple[int, ...]]]


def consensus(found: Sequence[Hypothesis], *, sharpness: float = 1.0, order: int = 4) -> list[Hypothesis]:
    """Best first, by Σ_j p_j^sharpness · agreement with j; that becomes the `score`, 1 where all are the same.

    The agreement of two is the mean over n = 1 … `order` of the F-measure of their n-grams, of those n that one of them
    has. With a large sharpness the most probable one alone counts, with 0 all count the same.

    >>> texts = {(5, 6, 7): -1.0, (5, 6, 8): -1.1, (9,): -0.9}
    >>> best, *_ = consensus([Hypothesis(list(tokens), p, p) for tokens, p in texts.items()])
    >>> best.tokens
    [5, 6, 7]
    """
    if not 0 <= sharpness < math.inf:
        raise ConfigError("consensus sharpness", got=sharpness, expected="0 or more", cure="1 weighs by probability")
    if order < 1:
        raise ConfigError("consensus order", got=order, expected="1 or more", cure="4 is that of BLEU")
    if not found:
        return []
    top = max(one.log_prob for one in found)
    chances = [math.exp(sharpness * (one.log_prob - top)) for one in found]
    grams = [_grams(one.tokens, order) for one in found]
    total = sum(chances)
    scored = []
    for one, mine in zip(found, grams, strict=True):
        agreed = (chance * agreement(mine, theirs) for chance, theirs in zip(chances, grams, strict=True))
        scored.append(replace(one, score=sum(agreed) / total))
    return sorted(scored, key=lambda one: one.score, reverse=True)


def agreement(mine: Grams, theirs: Grams) -> float:
    """The mean F-measure of n-grams, over those n of which one side has some; 1 for two empty ones."""
    found = [
        2 * (ours & others).total() / (ours.total() + others.total())
        for ours, others in zip(mine, theirs, strict=True)
        if ours or others
    ]
    return sum(found) / len(found) if found else 1.0


def _grams(tokens: Sequence[int], order: int) -> Grams:
    return [Counter(zip(*(tokens[start:] for start in range(n)), strict=False)) for n in range(1, order + 1)]
