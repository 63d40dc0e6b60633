"""The stories of a task: sets of the menu, files of the user, and settings in words."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from regard.base import ConfigError
from regard.data import DataError
from regard.tasks.question_answering import QuestionAnswering
from regard.tasks.story_questions import QuestionAnsweringConfig


def test_a_split_stays_on_its_device_as_numbers() -> None:
    task = QuestionAnswering(QuestionAnsweringConfig("babi_small", tasks=("6", "1"), memories=4))
    encoded = task.on_device("test", torch.device("cpu"))
    assert encoded is task.on_device("test", torch.device("cpu"))
    assert encoded.slots.shape[1] == 4
    names = [task.splits["train"].tasks[number] for number in encoded.tasks.tolist()]
    assert names == [question.task for question in task.splits["test"].questions]
    right = [task.vocabulary.tokens[number] for number in encoded.answers.tolist()]
    assert right == [question.answer for question in task.splits["test"].questions]


def test_files_of_the_user(tmp_path: Path) -> None:
    lines = "".join(f"1 Mary saw {n}.\n2 What did Mary see?\t{n % 5}\t1\n" for n in range(40))
    (tmp_path / "own.txt").write_text(lines)
    config = QuestionAnswering.from_files(QuestionAnsweringConfig(tasks=("1",)), str(tmp_path / "own.txt"), None)
    assert (config.data_set(), config.tasks) == ("own", ())
    task = QuestionAnswering(config)
    assert {name: split.size for name, split in task.splits.items()} == {"train": 33, "valid": 3, "test": 4}
    both = QuestionAnswering.from_files(config, str(tmp_path / "own.txt"), str(tmp_path / "own.txt"))
    assert QuestionAnswering(both).splits["test"].size == 40
    (tmp_path / "few.txt").write_text("1 Mary left.\n2 Who left?\tmary\t1\n")
    few = replace(config, stories_file=str(tmp_path / "few.txt"))
    with pytest.raises(DataError, match=r"no questions for the split valid: got 1; expected at least 20"):
        QuestionAnswering(few).splits  # noqa: B018


def test_settings_in_words() -> None:
    assert QuestionAnsweringConfig().describe_data() == "babi"
    assert QuestionAnsweringConfig(tasks=("2",)).describe_data() == "babi task 2"
    assert QuestionAnsweringConfig("babi_small", tasks=("1", "6")).describe_data() == "babi_small tasks 1,6"
    assert QuestionAnsweringConfig(size="10k").describe_data() == "babi 10k"
    with pytest.raises(ConfigError, match=r"task\.dataset: got 'babbi'; expected one of babi, babi_small"):
        QuestionAnswering(QuestionAnsweringConfig("babbi")).splits  # noqa: B018
