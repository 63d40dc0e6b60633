"""Parallel text: the splits of a corpus or of a user's files, and the units that both of its sides consist of."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from regard.base import ConfigError, followed, read_stored, write_atomically
from regard.data import (
    Codec,
    ParallelText,
    SubwordCodec,
    WordCodec,
    codec_from_json,
    read_parallel,
    split_by_source,
)
from regard.datasets import DATASETS, Dataset, choose

Splits = dict[str, ParallelText]
SOURCE, TARGET = "source.json", "target.json"  # the units of both sides, in a run folder
FILES = "files"  # the corpus that consists of the user's files


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


def read_files(source: str | None, target: str | None, on_bad: Literal["error", "drop"]) -> Splits:
    """The splits of a user's files: a hash of the source sentence says which sentence belongs to which."""
    if source is None:
        raise ConfigError("corpus='files' needs files", got="none", cure="pass --source and --target")
    cure = "name them again by --source, and by --target where there are two"
    first = followed(source, cure=cure)
    second = None if target is None else followed(target, cure=cure)
    pairs = read_parallel(first, second, on_bad=on_bad)
    held_out = min(2000, max(1, pairs.size // 20))
    return {str(name): text for name, text in split_by_source(pairs, valid=held_out, test=held_out).items()}


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
