"""Which elements of a split are shown as examples: the same ones every time, and of every kind that there is."""

from collections import Counter
from collections.abc import Sequence

from regard.base import ConfigError


def checked_count(count: int) -> int:
    """How many examples are wanted: none, or more."""
    if count < 0:
        raise ConfigError("samples", got=count, expected="0 or more")
    return count


def evenly(size: int, count: int) -> list[int]:
    """Numbers below `size` at even distances.

    >>> evenly(10, 3)
    [0, 3, 6]
    """
    count = min(checked_count(count), size)
    return [place * size // count for place in range(count)]


def evenly_by_size(sizes: Sequence[int], count: int) -> list[int]:
    """Elements of all sizes, evenly from the smallest to the largest.

    >>> evenly_by_size([9, 1, 5, 5], 3)
    [1, 2, 0]
    """
    order = sorted(range(len(sizes)), key=lambda number: (sizes[number], number))
    count = min(checked_count(count), len(order))
    ranked = [sizes[number] for number in order]
    taken: list[int] = []
    for place in range(count):
        wanted = ranked[0] + place * (ranked[-1] - ranked[0]) / max(count - 1, 1)
        left = [rank for rank in range(len(order)) if rank not in taken]
        taken.append(min(left, key=lambda rank: abs(ranked[rank] - wanted)))
    return [order[rank] for rank in sorted(taken)]


def first_of_each(labels: Sequence[int], count: int) -> list[int]:
    """The first element of each class, then the second of each, and so on.

    >>> first_of_each([0, 0, 1, 1, 1], 3)
    [0, 2, 1]
    """
    checked_count(count)
    occurrences: Counter[int] = Counter()
    ranks = []
    for number, label in enumerate(labels):
        ranks.append((occurrences[label], label, number))
        occurrences[label] += 1
    return [number for _, _, number in sorted(ranks)[:count]]
