"""Labelled text for a classifier: the splits of a data set or of a user's files, their units, and word vectors."""

import inspect
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from regard.base import ConfigError, RegardError, followed, inside, read_json, shown, write_atomically
from regard.data import (
    PAD,
    SPECIALS,
    Codec,
    Coverage,
    EnglishWords,
    LabelledTexts,
    SubwordCodec,
    WordCodec,
    WordVectors,
    codec_from_json,
    english_tokens,
    read_labelled,
    read_word_vectors,
    split_labelled,
    vectors_of_pieces,
    vectors_of_words,
)
from regard.data.word_vectors import words_of
from regard.datasets import DATASETS, choose

Splits = dict[str, LabelledTexts]
KIND, VECTORS = "labelled text", "word vectors"  # of data sets
FILES = "files"  # the data set that consists of the user's files
UNITS, FACTS = "units.json", "texts.json"  # in a run folder
CURE = "restore it, or train anew"


def check_dataset(name: str) -> None:
    """An error for a name that is not a data set of labelled text."""
    if name != FILES:
        choose(DATASETS, KIND, name, setting="task.dataset", besides=(FILES,))


def check_vectors(name: str) -> None:
    """An error for a name that is not a set of word vectors."""
    known = [each for each, dataset in DATASETS.items() if dataset.kind == VECTORS]
    if name not in known:
        cure = "name a file by task.vectors_file=PATH"
        raise ConfigError("task.vectors", got=shown(name), expected=f"one of {', '.join(known)}", cure=cure)


def read_dataset(name: str, *, seed: int, options: dict[str, bool]) -> Splits:
    """The splits of a data set; `options`, such as phrases, are for sets that have them."""
    dataset = choose(DATASETS, KIND, name, setting="task.dataset", besides=(FILES,))
    known = inspect.signature(dataset.read).parameters
    for option, wanted in options.items():
        if wanted and option not in known:
            raise ConfigError(
                f"task.{option} is not for {name}", got="true", expected="false", cure="task.dataset=sst has it"
            )
    splits: Splits = dataset.read(seed=seed, **{option: True for option, wanted in options.items() if wanted})
    return splits


def read_files(train: str | None, test: str | None) -> Splits:
    """The splits of a user's files: a twentieth, by a hash of the text, is for validation, and as much for the test.

    A second file is the test set as a whole.
    """
    if train is None:
        raise ConfigError("dataset='files' needs a file", got="none", cure="pass --source")
    cure = "name it again by --source, and the test set by --target"
    whole = read_labelled(followed(train, cure=cure))
    held_out = min(2000, max(1, whole.size // 20))
    if test is None:
        return split_labelled(whole, valid=held_out, test=held_out)
    judged = read_labelled(followed(test, cure=cure), classes=whole.classes)
    if judged.sides != whole.sides:
        got, expected = f"{judged.sides} texts in each line", f"{whole.sides}, as in the training file"
        raise ConfigError(f"{test} does not fit", got=got, expected=expected)
    splits = split_labelled(whole, valid=held_out, test=0)
    return {**splits, "test": judged}


def learn_units(
    texts: LabelledTexts,
    *,
    units: Literal["words", "bpe", "unigram"],
    vocabulary: int | None,
    min_count: int,
    lower: bool,
) -> Codec:
    """The words of the training texts, or sub-words; both sides of pairs share them."""
    lines: Iterable[str] = (text for side in texts.texts for text in side)
    if units == "words":
        return EnglishWords.train(lines, max_size=vocabulary, min_count=min_count, lower=lower)
    cased = (line.lower() for line in lines) if lower else lines
    return SubwordCodec.train(cased, size=vocabulary or 8000, kind=units, max_lines=400_000)


def load_units(path: Path) -> Codec:
    """The units that a run folder has."""
    inside(path)
    try:
        codec = codec_from_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        got = (error.strerror or str(error)).lower()
        raise RegardError(f"{path} cannot be read", got=got, expected="the units of the run", cure=CURE) from error
    except (ValueError, TypeError, AttributeError) as error:
        raise RegardError(f"{path} cannot be read", got=str(error), cure=CURE) from error
    return EnglishWords(codec.vocabulary, codec.lower) if isinstance(codec, WordCodec) else codec


class TextFacts(NamedTuple):
    """What a model depends on besides its units: classes, texts of an example, and the word vectors it began with."""

    classes: tuple[str, ...]
    sides: int
    width: int | None = None  # of word vectors; None: there were none
    vectors: str = ""  # where they came from
    coverage: Coverage | None = None

    def save(self, path: Path) -> None:
        """Writes the facts as JSON."""
        content: dict[str, Any] = {"classes": list(self.classes), "texts": self.sides}
        if self.width is not None and self.coverage is not None:
            content["vectors"] = {"from": self.vectors, "width": self.width, **self.coverage._asdict()}
        write_atomically(path, json.dumps(content, indent=1, ensure_ascii=False))

    @classmethod
    def load(cls, path: Path) -> "TextFacts":
        """The facts that `save` wrote."""
        try:
            content = read_json(path, cure=CURE)
            classes, sides, vectors = tuple(map(str, content["classes"])), int(content["texts"]), content.get("vectors")
            if not 1 <= sides <= 2 or len(classes) < 2:
                raise ValueError(f"{sides} texts and {len(classes)} classes")
            if vectors is None:
                return cls(classes, sides)
            coverage = Coverage(int(vectors["words"]), int(vectors["covered"]))
            return cls(classes, sides, int(vectors["width"]), str(vectors["from"]), coverage)
        except OSError as error:
            got = (error.strerror or str(error)).lower()
            raise RegardError(
                f"{path} cannot be read", got=got, expected="the classes of the run", cure=CURE
            ) from error
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise RegardError(f"{path} is damaged", got=f"{type(error).__name__}, {error}", cure=CURE) from error


class StartVectors(NamedTuple):
    """Vectors for the units of a run, and which units have one."""

    matrix: Tensor  # [v d]
    known: Tensor  # [v]
    coverage: Coverage


def start_vectors(codec: Codec, texts: LabelledTexts, *, name: str | None, file: str | None) -> StartVectors:
    """The word vectors of a named set, or of a user's file, for the units of a codec.

    A sub-word that is a whole word has its vector, any other the mean vector of the training words that it is part of.
    """
    words = isinstance(codec, WordCodec)
    if words:
        assert isinstance(codec, WordCodec)
        tokens: Sequence[str] = codec.vocabulary.tokens
        vectors = _read_vectors(name, file, set(tokens))
        matrix, known, coverage = vectors_of_words(tokens, vectors)
    else:
        assert isinstance(codec, SubwordCodec)
        tokens = [*SPECIALS, *(codec.decode_tokens([number])[0] for number in range(len(SPECIALS), len(codec)))]
        counts = words_of(english_tokens(text) for side in texts.texts for text in side)
        vectors = _read_vectors(name, file, {*counts, *(token.removeprefix("▁") for token in tokens)})
        matrix, known, coverage = vectors_of_pieces(tokens, vectors, counts, codec.tokens)
    return StartVectors(torch.from_numpy(matrix), torch.from_numpy(known), coverage)


def _read_vectors(name: str | None, file: str | None, words: set[str]) -> WordVectors:
    if file is not None:
        return read_word_vectors(followed(file, cure="name it again: --set task.vectors_file=PATH"), words)
    assert name is not None
    vectors: WordVectors = DATASETS[name].read(words)
    return vectors


def fill_table(table: nn.Embedding, start: StartVectors) -> None:
    """Writes the vectors into a model's table of words; the others are drawn at random, as large as the known ones."""
    if table.weight.shape != start.matrix.shape:
        got, expected = (" × ".join(map(str, shape)) for shape in (table.weight.shape, start.matrix.shape))
        raise ConfigError(
            "word vectors do not fit the model", got=got, expected=expected, cure="look at model.embed_dim"
        )
    spread = float(start.matrix[start.known].std()) if int(start.known.sum()) > 1 else 0.1
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randn(start.matrix.shape, generator=generator) * spread
    values = torch.where(start.known.unsqueeze(1), start.matrix, drawn)
    values[PAD] = 0.0
    with torch.no_grad():
        table.weight.copy_(values)


def shortened(ids: Sequence[int], limit: int | None, kept: Literal["start", "end", "ends"]) -> list[int]:
    """At most `limit` units of a text: its start, its end, or half of both.

    >>> shortened([1, 2, 3, 4, 5], 3, "start"), shortened([1, 2, 3, 4, 5], 3, "ends")
    ([1, 2, 3], [1, 4, 5])
    """
    if limit is None or len(ids) <= limit:
        return list(ids)
    first = {"start": limit, "end": 0, "ends": limit // 2}[kept]
    return [*ids[:first], *ids[len(ids) - (limit - first) :]]


def units_of(codec: Codec, texts: Iterable[str], *, lower: bool) -> Iterator[list[int]]:
    """The ids of each text; words are lower-cased by their codec, for sub-words it is done here."""
    cased = lower and not isinstance(codec, WordCodec)
    for text in texts:
        yield codec.encode_text(text.lower() if cased else text)
