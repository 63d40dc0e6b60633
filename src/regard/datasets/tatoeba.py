"""Tatoeba: short everyday sentences in English with French or German translations.

A hash of the English words decides the split, so no English sentence is in two splits, with whatever punctuation, and
what is held out of one corpus is held out of all: the French one, the German one, and `tatoeba_plain`.
"""

import re

from regard.base import ConfigError
from regard.data.download import find
from regard.data.parallel import ParallelText, read_parallel, split_by_source
from regard.data.sources import listed_sources
from regard.datasets.dataset import Dataset

FILES = {"fr": "tatoeba/fra.txt.xz", "de": "tatoeba/deu.txt.xz"}  # of 2020-08-23, and of 2018-05-13
VALID, TEST = 1 / 32, 1 / 16  # shares of the English sentences
LICENCE = "CC BY 2.0 FR; attribution: tatoeba.org and www.manythings.org/anki"
SOURCES = listed_sources(
    """
aa6815002b155d14315ac44d6fdc90a8741e31f57a683febb6e718e0d840b10e  2561576 tatoeba/deu.txt.xz
481a36b37d8621f90f5b5bf8101d43a247ac71b933c3cf8d8da832f19ddd5971  3711932 tatoeba/fra.txt.xz
""",
    licence=LICENCE,
)


def tatoeba(language: str = "fr") -> dict[str, ParallelText]:
    """All pairs of English and French ("fr", 178,009) or German ("de", 169,813), split like `tatoeba_plain`."""
    if language not in FILES:
        raise ConfigError("tatoeba language", got=repr(language), expected=" or ".join(map(repr, FILES)))
    pairs = split_by_words(read_parallel(find(SOURCES[FILES[language]])))
    return {name: text if name == "train" else first_translations(text) for name, text in pairs.items()}


def split_by_words(pairs: ParallelText) -> dict[str, ParallelText]:
    """Three splits by the words of the source alone: "Sit down, Tom!" goes where "Sit down Tom." goes."""
    words = [" ".join(re.findall(r"\w+", sentence)) for sentence in pairs.source]
    rows = ParallelText(words, [str(row) for row in range(pairs.size)], {})
    splits = {}
    for name, split in split_by_source(rows, valid=VALID, test=TEST).items():
        chosen = [int(row) for row in split.target]
        splits[str(name)] = ParallelText([pairs.source[i] for i in chosen], [pairs.target[i] for i in chosen], {})
    return splits


def translations(pairs: ParallelText) -> dict[str, list[str]]:
    """Every translation of every source, in the order of the text."""
    by_source: dict[str, list[str]] = {}
    for source, target in zip(pairs.source, pairs.target, strict=True):
        by_source.setdefault(source, []).append(target)
    return by_source


def first_translations(pairs: ParallelText) -> ParallelText:
    """Each source with its first translation."""
    by_source = translations(pairs)
    firsts = [targets[0] for targets in by_source.values()]
    return ParallelText(list(by_source), firsts, {"further translations": pairs.size - len(by_source)})


def check_languages(name: str, source: str, target: str, known: tuple[tuple[str, str], ...]) -> None:
    """Refuse a direction that a corpus does not have."""
    if (source, target) not in known:
        expected = " or ".join(f"{first} → {second}" for first, second in known)
        raise ConfigError(f"languages of {name}", got=f"{source} → {target}", expected=expected)


def _read(source: str = "en", target: str = "fr") -> dict[str, ParallelText]:
    check_languages("tatoeba", source, target, tuple(("en", language) for language in FILES))
    return tatoeba(target)


DATASET = Dataset(
    "tatoeba",
    kind="parallel text",
    read=_read,
    splits=("train", "valid", "test"),
    licence=LICENCE,
    sources=SOURCES,
    note="everyday sentences, English to French or German",
)
