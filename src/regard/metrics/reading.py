"""How well words were read: the share that is right, and how many letters have to be changed.

>>> character_errors(["kitten", "a"], ["sitting", "a"])
37.5
"""

from collections.abc import Sequence

from regard.base import ShapeError


def edit_distance(one: str, other: str) -> int:
    """How many letters must be put in, left out or replaced to make one text of the other (Levenshtein).

    >>> edit_distance("kitten", "sitting")
    3
    """
    row = list(range(len(other) + 1))
    for number, letter in enumerate(one, 1):
        before, row[0] = row[0], number
        for place, facing in enumerate(other, 1):
            before, row[place] = row[place], min(row[place] + 1, row[place - 1] + 1, before + (letter != facing))
    return row[-1]


def word_accuracy(outputs: Sequence[str], references: Sequence[str]) -> float:
    """The share of words that are read without a mistake, in percent; 0 of no words."""
    _check(outputs, references)
    right = sum(output == reference for output, reference in zip(outputs, references, strict=True))
    return 100 * right / max(len(references), 1)


def character_errors(outputs: Sequence[str], references: Sequence[str]) -> float:
    """Changes of letters that all words together need, as percent of the letters of the references; may exceed 100."""
    _check(outputs, references)
    changes = sum(edit_distance(output, reference) for output, reference in zip(outputs, references, strict=True))
    return 100 * changes / max(sum(map(len, references)), 1)


def _check(outputs: Sequence[str], references: Sequence[str]) -> None:
    if len(outputs) != len(references):
        raise ShapeError("each word needs its reference", got=f"{len(outputs)} and {len(references)}")
