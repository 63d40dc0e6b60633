"""The stories of a task: where they come from, their words, and their numbers on the device."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import torch

from regard.base import RegardError, check_settings, fill, followed, write_atomically
from regard.base.ranges import BatchSize, Count, Natural, UserPath
from regard.data import DataError, Question, Stories, Vocabulary, encode_stories, read_stories
from regard.data.stories import EncodedStories, hold_out, story_vocabulary
from regard.datasets import DATASETS, choose
from regard.tasks.inputs import checked_split

WORDS = "words.json"  # in a run folder: the vocabulary
OWN = "own"  # the name of the data set that is a user's file


@dataclass(frozen=True)
class QuestionAnsweringConfig:
    """Which stories, in which batches."""

    dataset: str = "babi"  # of DATASETS
    size: Literal["1k", "10k"] = "1k"  # training questions of each task
    tasks: tuple[str, ...] = ()  # numbers of tasks, such as 1,2,6; none: all tasks together
    memories: Count = 50  # sentences of a story, counted from its end, that a model remembers
    linear_epochs: Natural = 0  # epochs at the start in which attention leaves its softmax out (linear start)
    batch_size: BatchSize = 32  # questions in a batch
    stories_file: UserPath | None = None  # your own stories in bAbI format, in place of the data set
    test_file: UserPath | None = None  # those to test on; none: the last tenth of stories_file

    def __post_init__(self) -> None:
        check_settings(self, "task")

    def describe_data(self) -> str:
        """The data in a few words, for tables."""
        tasks = f" task{'s' * (len(self.tasks) > 1)} {','.join(self.tasks)}" if self.tasks else ""
        return f"{self.data_set()}{' 10k' * (self.size == '10k')}{tasks}"

    def data_set(self) -> str:
        """The name of the data set."""
        return OWN if self.stories_file is not None else self.dataset


class StoryQuestions:
    """Train, valid and test questions, read when they are first asked for, and as numbers where a model needs them."""

    def __init__(self, config: QuestionAnsweringConfig, vocabulary: Vocabulary | None = None) -> None:
        self.config = config
        self._vocabulary = vocabulary
        self._places: dict[tuple[str, torch.device], EncodedStories] = {}

    @cached_property
    def splits(self) -> dict[str, Stories]:
        """Train, valid and test questions by name, read when they are first asked for."""
        config = self.config
        if config.stories_file is None:
            dataset = choose(DATASETS, "stories", config.dataset, setting="task.dataset")
            splits: dict[str, Stories] = dataset.read(size=config.size, tasks=config.tasks)
            return splits
        cure = "name it again by --source"
        stories = read_stories(followed(config.stories_file, cure=cure), task=OWN)
        if config.test_file is not None:
            test = read_stories(followed(config.test_file, cure="name it again by --target"), task=OWN)
        else:
            stories, test = hold_out(stories)
        train, valid = hold_out(stories)
        for name, split in (("train", train), ("valid", valid), ("test", test)):
            if not split.size:
                expected = "at least 20 questions, so that there are some to train on, to choose by and to test on"
                raise DataError(f"there are no questions for the split {name}", got=stories.size, expected=expected)
        return {"train": train, "valid": valid, "test": test}

    @property
    def vocabulary(self) -> Vocabulary:
        """The words and answers of the training file."""
        if self._vocabulary is None:
            known = [*self.splits["train"].questions, *self.splits["valid"].questions]
            self._vocabulary = story_vocabulary(Stories(known))
        return self._vocabulary

    @classmethod
    def from_files(cls, config: QuestionAnsweringConfig, source: str, target: str | None) -> QuestionAnsweringConfig:
        """`regard train memn2n/smoke --source stories.txt --target test_stories.txt`."""
        return replace(config, stories_file=source, test_file=target, tasks=())

    def complete(self, model_config: Any) -> Any:
        """A model must know how many words and how many sentences there are."""
        return fill(model_config, {"vocabulary": len(self.vocabulary), "memories": self.config.memories})

    def save(self, folder: Path) -> None:
        """Writes the vocabulary, so that a run answers questions without its data."""
        write_atomically(folder / WORDS, self.vocabulary.to_json())

    @classmethod
    def load(cls, folder: Path, config: QuestionAnsweringConfig) -> Any:
        """The task of a run folder; its stories are read only when asked for."""
        path = folder / WORDS
        try:
            return cls(config, Vocabulary.from_json(path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return cls(config)
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise RegardError(f"{path} cannot be read", got=str(error), cure="restore it, or train anew") from error

    def on_device(self, split: str, device: torch.device) -> EncodedStories:
        """The questions of a split as numbers, on a device, where they stay."""
        if (split, device) not in self._places:
            stories = self.splits[checked_split(split, self.splits)]
            encoded = self.encoded(stories.questions, self.splits["train"].tasks)
            self._places[split, device] = encoded.to(device)
        return self._places[split, device]

    def encoded(self, questions: Sequence[Question], tasks: Sequence[str] = ()) -> EncodedStories:
        """Questions as numbers, with the sentences of their stories that are remembered."""
        return encode_stories(questions, self.vocabulary, tasks, memories=self.config.memories)
