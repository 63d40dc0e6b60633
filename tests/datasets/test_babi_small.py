"""The embedded stories: how many, of which tasks, and that their answers follow from the supporting facts."""

import pytest

from regard.base import ConfigError
from regard.datasets.babi_small import babi_small


def test_sizes_and_tasks() -> None:
    splits = babi_small()
    assert {name: split.size for name, split in splits.items()} == {"train": 2025, "valid": 225, "test": 600}
    assert splits["train"].tasks == splits["test"].tasks == ("1", "2", "6")


def test_the_last_move_of_a_person_is_the_supporting_fact() -> None:
    """Task 1 by its rule, which the file does not say: an independent way to the same answers."""
    for question in babi_small(tasks=["1"])["test"].questions:
        person = question.question.rstrip("?").split()[-1]
        moves = [place for place, sentence in enumerate(question.story) if sentence.startswith(person)]
        assert question.supporting == (moves[-1],)
        assert question.story[moves[-1]].rstrip(".").split()[-1] == question.answer


def test_other_tasks_are_not_embedded() -> None:
    with pytest.raises(ConfigError, match="no such task of bAbI: got '3'; expected some of 1, 2, 6"):
        babi_small(tasks=["3"])
