"""Consensus among hypotheses: by hand, against a plain double loop, and at its ends."""

import math
import random
from collections import Counter

import pytest

from regard.base import ConfigError
from regard.decode import Hypothesis, consensus


def one(tokens: list[int], log_prob: float) -> Hypothesis:
    return Hypothesis(tokens, log_prob, score=log_prob / 2)


def f_measure(mine: list[int], theirs: list[int], n: int) -> float | None:
    """Of n-grams, each as often as it stands in both."""
    ours, others = (Counter(tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1)) for tokens in (mine, theirs))
    if not ours and not others:
        return None
    matched = sum(min(count, others[gram]) for gram, count in ours.items())
    return 2 * matched / (sum(ours.values()) + sum(others.values()))


def test_against_a_double_loop() -> None:
    chance = random.Random(0)
    for _ in range(50):
        found = [
            one([chance.randint(4, 7) for _ in range(chance.randint(0, 6))], -chance.random() * 3)
            for _ in range(chance.randint(1, 6))
        ]
        weights = [math.exp(0.7 * each.log_prob) for each in found]
        wanted = []
        for mine in found:
            total = 0.0
            for weight, theirs in zip(weights, found, strict=True):
                parts = [f_measure(mine.tokens, theirs.tokens, n) for n in (1, 2, 3)]
                real = [part for part in parts if part is not None]
                total += weight * (sum(real) / len(real) if real else 1.0)
            wanted.append(total / sum(weights))
        best = consensus(found, sharpness=0.7, order=3)
        assert [each.score for each in best] == pytest.approx(sorted(wanted, reverse=True))
        assert sorted(each.log_prob for each in best) == sorted(each.log_prob for each in found)


def test_the_middle_wins_over_the_most_probable() -> None:
    lonely, middle, near = one([9, 9, 9], -1.0), one([4, 5, 6, 7], -1.2), one([4, 5, 6, 8], -1.3)
    assert consensus([lonely, middle, near])[0].tokens == middle.tokens
    assert consensus([lonely, middle, near], sharpness=100.0)[0].tokens == lonely.tokens  # it alone counts
    far = one([4, 5, 6, 8], -50.0)
    assert consensus([lonely, middle, far])[0].tokens == lonely.tokens  # who is hardly probable hardly counts
    assert consensus([lonely, middle, far], sharpness=0.0)[0].tokens == middle.tokens


def test_alone_and_alike() -> None:
    assert consensus([]) == []
    [same] = consensus([one([4, 5], -2.0)])
    assert (same.tokens, same.log_prob, same.score) == ([4, 5], -2.0, 1.0)
    [empty] = consensus([one([], -2.0)])
    assert empty.score == 1.0
    tied = [one([4, 5], -1.0), one([4, 5], -2.0)]
    assert [each.log_prob for each in consensus(tied)] == [-1.0, -2.0]  # the order of the search
    impossible = consensus([one([4], -1e9), one([5], 0.0)])
    assert impossible[0].tokens == [5]


@pytest.mark.parametrize(("options", "text"), [({"sharpness": -1.0}, "0 or more"), ({"order": 0}, "1 or more"),
                                               ({"sharpness": math.nan}, "sharpness")])  # fmt: skip
def test_what_makes_no_sense(options: dict[str, float], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        consensus([one([4], -1.0)], **options)  # type: ignore[arg-type]


def test_up_to_four_words_at_a_time_unless_told() -> None:
    alike = (2 * 4 / 10 + 2 * 3 / 8 + 2 * 2 / 6 + 2 * 1 / 4) / 4  # of five words the first four
    for each in consensus([one([4, 5, 6, 7, 8], -1.0), one([4, 5, 6, 7, 9], -1.0)]):
        assert each.score == pytest.approx((1 + alike) / 2)


def test_single_words_alone_may_count() -> None:
    same, turned = consensus([one([4, 5, 6], -1.0), one([6, 5, 4], -1.0)], order=1)
    assert same.score == turned.score == 1.0
