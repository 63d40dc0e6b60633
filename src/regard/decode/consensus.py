"""Consensus: of several hypotheses the one that most of them agree with (minimum Bayes risk, Kumar & Byrne 2004)."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from regard.base import ConfigError
from regard.base.ranges import Range
from regard.decode.hypothesis import Hypothesis

SHARPNESS = Range(least=0, cure="use 1, which weighs by probability")
Sharpness = Annotated[float, SHARPNESS]


def consensus(hypotheses: Sequence[Hypothesis], *, sharpness: float = 1.0, order: int = 4) -> list[Hypothesis]:
    """Best first, by Σ_j p_j^sharpness · agreement with j; that becomes the `score`, 1 where all are the same.

    The agreement of two is the mean over n = 1 … `order` of the F-measure of their n-grams, of those n that one of them
    has. With a large sharpness the most probable one alone counts, with 0 all count the same.

    >>> texts = {(5, 6, 7): -1.0, (5, 6, 8): -1.1, (9,): -0.9}
    >>> best, *_ = consensus([Hypothesis(list(tokens), p, p) for tokens, p in texts.items()])
    >>> best.tokens
    [5, 6, 7]
    """
    SHARPNESS.check("consensus sharpness", sharpness)
    if order < 1:
        raise ConfigError("consensus order", got=order, expected="1 or more", cure="use 4, the order of BLEU")
    if not hypotheses:
        return []
    top = max(one.log_prob for one in hypotheses)
    chances = np.array([math.exp(sharpness * (one.log_prob - top)) for one in hypotheses])
    agreed = (_agreement([one.tokens for one in hypotheses], order) * chances).sum(1) / chances.sum()
    scored = [replace(one, score=float(score)) for one, score in zip(hypotheses, agreed, strict=True)]
    return sorted(scored, key=lambda one: one.score, reverse=True)


def _agreement(token_lists: Sequence[Sequence[int]], order: int) -> NDArray[np.float64]:
    """Of each with each [h h]: the mean F-measure over those n of which one of both has n-grams, or 1.

    The second "the" of a hypothesis is another column than the first: a product of zeros and ones then counts each
    n-gram as often as it stands in both.
    """
    count = len(token_lists)
    total, sizes = np.zeros((count, count)), np.zeros((count, count))
    for n in range(1, order + 1):
        columns: dict[tuple[tuple[int, ...], int], int] = {}
        places: list[tuple[int, int]] = []
        for row, tokens in enumerate(token_lists):
            before: Counter[tuple[int, ...]] = Counter()
            for gram in zip(*(tokens[start:] for start in range(n)), strict=False):
                places.append((row, columns.setdefault((gram, before[gram]), len(columns))))
                before[gram] += 1
        has = np.zeros((count, len(columns)))
        has[tuple(zip(*places, strict=True)) or ([], [])] = 1.0
        both = np.add.outer(has.sum(1), has.sum(1))
        total += np.divide(2 * has @ has.T, both, out=np.zeros_like(both), where=both > 0)
        sizes += both > 0
    return np.divide(total, sizes, out=np.ones_like(total), where=sizes > 0)
