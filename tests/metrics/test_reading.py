import random

import pytest

from regard.base import ShapeError
from regard.metrics import character_errors, edit_distance, word_accuracy


def slow_distance(one: str, other: str) -> int:
    """The definition, without a table."""
    if not one or not other:
        return len(one) + len(other)
    if one[0] == other[0]:
        return slow_distance(one[1:], other[1:])
    return 1 + min(slow_distance(one[1:], other), slow_distance(one, other[1:]), slow_distance(one[1:], other[1:]))


def test_distances_equal_their_definition() -> None:
    source = random.Random(0)
    for _ in range(60):
        one, other = ("".join(source.choices("ab1", k=source.randrange(6))) for _ in range(2))
        assert edit_distance(one, other) == edit_distance(other, one) == slow_distance(one, other)


def test_figures_of_words() -> None:
    assert word_accuracy(["a", "b", "cc"], ["a", "x", "cc"]) == pytest.approx(200 / 3)
    assert character_errors(["abcd", ""], ["ab", "xy"]) == 100
    assert word_accuracy([], []) == character_errors([], []) == 0
    with pytest.raises(ShapeError, match="each word needs its reference: got 1 and 0"):
        word_accuracy(["a"], [])
