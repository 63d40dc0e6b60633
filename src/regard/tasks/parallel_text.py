"""Parallel text: its settings, the splits of a corpus or of a user's files, and the units of both of its sides."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from regard.base import ConfigError, check_settings, followed, read_stored, shown, write_atomically
from regard.base.ranges import Alpha, BatchSize, Count, Few, Share, UserFiles, VocabularySize
from regard.data import (
    Codec,
    ParallelText,
    SubwordCodec,
    WordCodec,
    codec_from_json,
    files_of,
    paired_files,
    read_parallel,
    split_by_source,
)
from regard.data.shard_batches import WINDOW
from regard.datasets import DATASETS, Dataset, choose
from regard.tasks.search import Search, check_search

Splits = Mapping[str, ParallelText]
Reading = Literal["auto", "memory", "shards"]
SOURCE, TARGET = "source.json", "target.json"  # the units of both sides, in a run folder
FILES = "files"  # the corpus that consists of the user's files
LARGE = 100 * 2**20  # bytes of files from which on they are not read into memory
MOST_HELD_OUT = 2000  # pairs of a user's corpus in each held-out split


@dataclass(frozen=True)
class TranslationConfig:
    """Which text, in which units, in which batches; how to search and to judge."""

    corpus: str = "tatoeba_plain"  # of DATASETS, or "files"
    source: str = "en"  # language that is translated
    target: str = "fr"  # language into which it is translated
    source_file: UserFiles | None = None  # corpus="files": two files line by line, or one with tabs; or several
    target_file: UserFiles | None = None  # the second of two files, or those that go with several
    reading: Reading = "auto"  # of files: into memory; or from shards on disk; auto: shards if they have 100 MiB
    sample: Count = 200_000  # shards: training pairs from which the units are learnt
    window: Count = WINDOW  # shards: pairs that are shuffled together
    on_bad: Literal["error", "drop"] = "error"  # lines that are broken
    max_words: Count | None = None  # longer training sentences are left out
    units: Literal["words", "bpe", "unigram"] = "words"  # what the text is cut into
    vocabulary: VocabularySize | None = None  # words: the most frequent of each side, None: all; sub-words: None: 8000
    min_count: Count = 1  # words that are rarer are unknown
    joint: bool = False  # sub-words: one model for both languages
    lower: bool = False  # whether the text is lower-cased
    batch_size: BatchSize | None = None  # pairs
    batch_tokens: Count | None = 4096  # places on one side, padding included
    fit: Few | None = None  # pad lengths to multiples of this, batches to their full size: few shapes for train.capture
    smoothing: Share = 0.0  # of labels
    consistency: Alpha = 0.0  # α of R-Drop (Liang et al. 2021): two passes with different dropout shall agree; 0: one
    search: Search = field(default_factory=Search)
    edges: tuple[Count, ...] = (5, 10, 15, 20, 25, 30, 35, 40)  # buckets of BLEU by length

    def __post_init__(self) -> None:
        check_settings(self, "task")
        if list(self.edges) != sorted(set(self.edges)):
            raise ConfigError("task.edges", got=shown(self.edges), expected="rising lengths, such as 10,20,30")
        if self.units == "words" and self.joint:
            cure = "set task.joint=false or task.units=bpe"
            raise ConfigError("task.joint is for sub-words", got="units='words'", cure=cure)
        check_search(self.search)

    def describe_data(self) -> str:
        """The corpus and the languages in a few words: "multi30k de→en"."""
        return f"{self.corpus} {self.source}→{self.target}"

    def data_set(self) -> str:
        """The name of the corpus on the menu of data sets."""
        return self.corpus


def check_corpus(corpus: str) -> None:
    """An error for a name that is not on the menu of corpora."""
    if corpus != FILES:
        choose(DATASETS, "parallel text", corpus, setting="task.corpus", besides=(FILES,))


def read_corpus(corpus: str, source: str, target: str) -> Splits:
    """The splits of a corpus between two languages."""
    dataset = choose(DATASETS, "parallel text", corpus, setting="task.corpus", besides=(FILES,))
    splits: Splits = dataset.read(source=source, target=target)
    return splits


def test_set(split: str) -> Dataset | None:
    """The parallel text that is there to evaluate on and has a split of this name, such as "newstest2014"."""
    return next((each for each in DATASETS.values()
                 if each.kind == "parallel text" and not each.can_train and split in each.splits), None)  # fmt: skip


def own_files(source: UserFiles | None, target: UserFiles | None) -> tuple[list[str], list[str] | None]:
    """The files of a user, with patterns spelt out: those of the source, and those of the target if it has its own."""
    if source is None:
        raise ConfigError("corpus='files' needs files", got="none", cure="pass --source and --target")
    first, second = _followed(source), None if target is None else _followed(target)
    return (files_of(first), None) if second is None else paired_files(first, second)


def is_large(files: tuple[list[str], list[str] | None], reading: Reading) -> bool:
    """Whether a corpus is read from shards: as the user says, or because its files are large."""
    if reading != "auto":
        return reading == "shards"
    paths = [*files[0], *(files[1] or [])]
    return all(os.path.isfile(path) for path in paths) and sum(map(os.path.getsize, paths)) >= LARGE


def held_out_pairs(pairs: int) -> int:
    """How many pairs of a user's corpus are for validation, and as many for the test."""
    return min(MOST_HELD_OUT, max(1, pairs // 20))


def read_files(files: tuple[list[str], list[str] | None], on_bad: Literal["error", "drop"]) -> Splits:
    """The splits of a user's files: a hash of the source sentence says which sentence belongs to which."""
    pairs = read_parallel(*files, on_bad=on_bad)
    held_out = held_out_pairs(pairs.size)
    return {str(name): text for name, text in split_by_source(pairs, valid=held_out, test=held_out).items()}


def _followed(named: UserFiles) -> str | list[str]:
    cure = "name them again by --source, and by --target where there are two"
    return followed(named, cure=cure) if isinstance(named, str) else [followed(path, cure=cure) for path in named]


def learn_words(
    text: ParallelText, *, vocabulary: int | None, min_count: int, lower: bool
) -> tuple[WordCodec, WordCodec]:
    """The words of both sides."""
    options: dict[str, Any] = {"max_size": vocabulary, "min_count": min_count, "lower": lower}
    return WordCodec.train(text.source, **options), WordCodec.train(text.target, **options)


def learn_subwords(
    text: ParallelText, *, units: Literal["bpe", "unigram"], vocabulary: int | None, joint: bool, lower: bool
) -> tuple[Codec, Codec]:
    """Sub-words of both sides: one model for each, or one for both."""
    size = vocabulary or 8000
    source, target = cased(text.source, lower), cased(text.target, lower)
    if joint:
        shared = _subwords([*source, *target], units, size)
        return shared, shared
    return _subwords(source, units, size), _subwords(target, units, size)


def cased(lines: Sequence[str], lower: bool) -> Sequence[str]:
    """The lines as they are, or in small letters."""
    return [line.lower() for line in lines] if lower else lines


def save_units(folder: Path, codecs: tuple[Codec, Codec]) -> None:
    """Writes the units of both sides; those that both share are written once."""
    source, target = codecs
    write_atomically(folder / SOURCE, source.to_json())
    if target is not source:
        write_atomically(folder / TARGET, target.to_json())


def load_units(folder: Path, *, shared: bool) -> tuple[Codec, Codec]:
    """The units that `save_units` wrote."""
    source = _load(folder / SOURCE)
    return source, source if shared else _load(folder / TARGET)


def token_ids(codec: Codec, tokens: list[str]) -> list[int]:
    """The numbers of tokens; a token that is unknown has that of <unk>."""
    if isinstance(codec, WordCodec):
        return codec.vocabulary.encode(tokens)
    assert isinstance(codec, SubwordCodec)
    return [codec._processor.piece_to_id(token) for token in tokens]


def _subwords(lines: Sequence[str], units: Literal["bpe", "unigram"], size: int) -> SubwordCodec:
    try:
        return SubwordCodec.train(lines, size=size, kind=units, max_lines=400_000)
    except ConfigError as error:
        nearer = (error.cure or "").removeprefix("choose size=")
        cure = f"set task.vocabulary={nearer}, or task.units=words task.joint=false" if nearer.isdigit() else error.cure
        raise ConfigError(error.what, got=error.got, expected=error.expected, cure=cure) from error


def _load(path: Path) -> Codec:
    return read_stored(path, codec_from_json, expected="the units of the run")
