import pytest

from regard.base import ConfigError
from regard.tasks.samples import evenly, evenly_by_size, first_of_each


@pytest.mark.parametrize(("count", "numbers"), [(0, []), (1, [3]), (2, [3, 2]), (3, [3, 0, 2]), (9, [3, 0, 1, 2])])
def test_sentences_are_of_all_lengths_from_the_shortest_to_the_longest(count: int, numbers: list[int]) -> None:
    assert evenly_by_size([2, 3, 4, 1], count) == numbers


def test_pictures_are_of_all_classes() -> None:
    labels = [1, 1, 0, 1, 2, 0]
    assert first_of_each(labels, 3) == [2, 0, 4]
    assert first_of_each(labels, 9) == [2, 0, 4, 5, 1, 3]
    assert first_of_each(labels, 0) == []


def test_at_even_distances() -> None:
    assert evenly(5, 2) == [0, 2]
    assert evenly(3, 9) == [0, 1, 2]
    assert evenly(0, 2) == []


def test_a_count_is_none_or_more() -> None:
    for choose in (lambda: evenly(3, -1), lambda: evenly_by_size([1], -1), lambda: first_of_each([1], -1)):
        with pytest.raises(ConfigError, match="samples: got -1; expected 0 or more"):
            choose()
