"""Texts as a classifier reads them: splits, units, word vectors, and what a run folder keeps of them."""

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from regard.base import ConfigError, check_settings, fill, write_atomically
from regard.base.ranges import BatchSize, Count, Few, Seed, Share, UserPath, VocabularySize, Weight
from regard.data import Codec, SubwordCodec
from regard.data.text_batches import Ids
from regard.tasks.labelled_text import (
    FACTS,
    FILES,
    UNITS,
    Splits,
    StartVectors,
    TextFacts,
    check_dataset,
    check_vectors,
    fill_table,
    learn_units,
    load_units,
    read_dataset,
    read_files,
    shortened,
    start_vectors,
    units_of,
)
from regard.tasks.task import Progress


@dataclass(frozen=True)
class TextClassificationConfig:
    """Which texts, in which units, in which batches, and which word vectors."""

    dataset: str = "toy_reviews"  # of DATASETS, or "files"
    train_file: UserPath | None = None  # dataset="files": lines label<TAB>text, or JSON lines
    test_file: UserPath | None = None  # dataset="files": the test set; without it a part of the first file
    split_seed: Seed = 0  # which examples are held out, where a data set does not say
    phrases: bool = False  # sst: train on all phrases of the training sentences
    binary: bool = False  # sst: negative and positive alone
    units: Literal["words", "bpe", "unigram"] = "words"  # what a text is cut into
    vocabulary: VocabularySize | None = None  # words: the most frequent ones, None: all; sub-words: None: 8000
    min_count: Count = 1  # words that are rarer are unknown
    lower: bool = True  # whether texts are lower-cased
    max_units: Count | None = None  # longer texts are shortened to so many words or sub-words
    kept: Literal["start", "end", "ends"] = "start"  # which part of a text that is too long; ends: half of both
    vectors: str | None = None  # word vectors to begin with, of DATASETS
    vectors_file: UserPath | None = None  # the same from a file: GloVe's or word2vec's format
    batch_size: BatchSize = 32  # examples in a batch
    fit: Few | None = None  # pad lengths to multiples of this, batches to their full size: few shapes for train.capture
    smoothing: Share = 0.0  # of labels
    labels: Weight = 1.0  # of the labels in the loss; 0: only what the model adds to the loss is learnt

    def __post_init__(self) -> None:
        check_settings(self, "task")
        if self.vectors is not None and self.vectors_file is not None:
            cure = "choose one of them"
            raise ConfigError("task.vectors and task.vectors_file", got="both", expected="one of them", cure=cure)
        if self.vectors is not None:
            check_vectors(self.vectors)

    def describe_data(self) -> str:
        """The data set in a few words: "sst, two classes, with phrases"."""
        return ", ".join([self.dataset, *["two classes"] * self.binary, *["with phrases"] * self.phrases])

    def data_set(self) -> str:
        """The name of the data set on the menu."""
        return self.dataset


class PreparedTexts:
    """What a task on labelled texts has of its data; the texts are read when they are first asked for."""

    config: TextClassificationConfig

    def __init__(
        self,
        config: TextClassificationConfig,
        *,
        codec: Codec | None = None,
        splits: Splits | None = None,
        facts: TextFacts | None = None,
    ) -> None:
        check_dataset(config.dataset)
        self.config = config
        self._held_out: dict[str, list[Ids]] = {}
        if splits is not None:
            self.splits = splits
        if codec is not None:
            self.codec = codec
        if facts is not None:
            self.facts = facts

    @cached_property
    def splits(self) -> Splits:
        """Train, valid and test sets by name, read when they are first asked for."""
        config = self.config
        if config.dataset == FILES:
            return read_files(config.train_file, config.test_file)
        options = {"phrases": config.phrases, "binary": config.binary}
        return read_dataset(config.dataset, seed=config.split_seed, options=options)

    @cached_property
    def codec(self) -> Codec:
        """The units of texts, learnt from the training texts unless they were given."""
        config = self.config
        return learn_units(
            self.splits["train"], units=config.units, vocabulary=config.vocabulary, min_count=config.min_count,
            lower=config.lower,
        )  # fmt: skip

    @cached_property
    def start(self) -> StartVectors | None:
        """Word vectors for the units, read when a training begins; None where none are asked for."""
        config = self.config
        if config.vectors is None and config.vectors_file is None:
            return None
        return start_vectors(self.codec, self.splits["train"], name=config.vectors, file=config.vectors_file)

    @cached_property
    def facts(self) -> TextFacts:
        """Classes, number of texts and word vectors: what a run folder keeps."""
        train, start = self.splits["train"], self.start
        facts = TextFacts(train.classes, train.sides)
        if start is None:
            return facts
        origin = self.config.vectors or Path(str(self.config.vectors_file)).name
        return facts._replace(width=start.matrix.shape[1], vectors=origin, coverage=start.coverage)

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes."""
        return self.facts.classes

    def complete(self, model_config: Any) -> Any:
        """The model's settings with the sizes of vocabulary, classes, texts and word vectors."""
        facts = self.facts
        known = {"vocabulary": len(self.codec), "classes": len(facts.classes), "texts": facts.sides}
        known |= {} if facts.width is None else {"embed_dim": facts.width}
        missing = {"vocabulary", "classes"} - set(vars(model_config))
        if missing:
            raise TypeError(f"{type(model_config).__name__} has no {' and no '.join(sorted(missing))}")
        if facts.sides > 1 and "texts" not in vars(model_config):
            raise ConfigError("this model reads one text", got="pairs", cure="take a model that reads pairs")
        return fill(model_config, known)

    def save(self, folder: Path) -> None:
        """Writes units, classes, and how many words have vectors."""
        write_atomically(folder / UNITS, self.codec.to_json())
        self.facts.save(folder / FACTS)

    @classmethod
    def load(cls, folder: Path, config: TextClassificationConfig) -> "PreparedTexts":
        """The task of a run folder; its texts are read only when asked for."""
        return cls(config, codec=load_units(folder / UNITS), facts=TextFacts.load(folder / FACTS))

    @classmethod
    def from_files(cls, config: TextClassificationConfig, source: str, target: str | None) -> TextClassificationConfig:
        """The settings for the user's own texts: a file to train on, and perhaps another one to judge by."""
        return replace(config, dataset=FILES, train_file=source, test_file=target, phrases=False, binary=False)

    def prepare(self, device: str | torch.device, progress: Progress | None = None) -> None:
        """Reads word vectors, and says how many words have one.

        A run that starts from another one has that one's words; its classes are those of its own texts.
        """
        train = self.splits["train"]
        self.facts = self.facts._replace(classes=train.classes, sides=train.sides)
        coverage = self.facts.coverage
        if coverage is not None and progress is not None:
            said = f"words, of which {coverage.covered:,} have a vector of {self.facts.vectors}"
            progress(said, coverage.words, coverage.words)  # said in a log too, where only what is done is told

    def begin(self, model: nn.Module) -> None:
        """Writes word vectors into a new model."""
        if self.start is None:
            return
        table = getattr(model, "words", None)
        if not isinstance(table, nn.Embedding):
            raise ConfigError(
                "this model takes no word vectors", got=type(model).__name__, cure="leave task.vectors out"
            )
        fill_table(table, self.start)

    def held_out(self, split: str) -> list[Ids]:
        """The ids of a split, encoded once: a training evaluates many times."""
        if split not in self._held_out:
            compact: list[Ids] = [
                tuple(array("i", text) for text in ids) for ids in self.encoded(self.splits[split].texts)
            ]
            self._held_out[split] = compact
        return self._held_out[split]

    def encoded(self, sides: Sequence[Sequence[str]]) -> Iterable[Ids]:
        """The ids of each example, shortened."""
        config = self.config
        ids = [units_of(self.codec, side, lower=config.lower) for side in sides]
        for example in zip(*ids, strict=True):
            yield tuple(shortened(text, config.max_units, config.kept) for text in example)

    def tokens(self, text: str) -> tuple[str, ...]:
        """The words or sub-words of a text as the model reads them, for labels."""
        cased = text.lower() if self.config.lower and isinstance(self.codec, SubwordCodec) else text
        tokens = self.codec.tokens(cased)
        places = shortened(range(len(tokens)), self.config.max_units, self.config.kept)
        return tuple(tokens[place] for place in places)
