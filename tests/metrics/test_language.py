"""Perplexity and bits: by hand, and whatever the grouping."""

import math

import numpy as np
import pytest

from regard.metrics import bits_per_character, perplexity, perplexity_by_position
from regard.metrics.language import cut_after


def test_uniform_guesses() -> None:
    assert perplexity(7 * math.log(50), 7) == pytest.approx(50)
    assert bits_per_character(7 * math.log(50), 7) == pytest.approx(math.log2(50))
    assert math.isfinite(perplexity(1e9, 1))


def test_groups_cover_all_tokens_once() -> None:
    random = np.random.default_rng(1)
    lines = [random.exponential(2.0, size) for size in random.integers(1, 60, 40)]
    groups = perplexity_by_position(lines, (1, 5, 20))
    assert [group.places for group in groups] == ["1", "2–5", "6–20", "from 21"]
    assert sum(group.size for group in groups) == sum(map(len, lines))
    total = sum(math.log(group.perplexity) * group.size for group in groups)
    assert total == pytest.approx(sum(line.sum() for line in lines))
    assert groups[0].perplexity == pytest.approx(math.exp(np.mean([line[0] for line in lines])))


def test_lines_end_after_their_last_token() -> None:
    tokens = np.array([5, 2, 2, 7, 8, 2])
    assert [line.tolist() for line in cut_after(np.arange(6.0), tokens, end=2)] == [[0, 1], [2], [3, 4, 5]]
