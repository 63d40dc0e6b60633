"""Tatoeba: short everyday sentences. A part in plain words is inside the package; the whole files come by `find`.

A hash of the English words decides the split, so no English sentence is in two splits, with whatever punctuation, and
what is held out of one corpus is held out of all: the plain one, the French one and the German one.
"""

import re
from functools import cache
from importlib.resources import as_file, files

from regard.base import ConfigError
from regard.data.download import find
from regard.data.parallel import ParallelText, read_parallel, split_by_source

PLAIN = "tatoeba_en_fr_plain.tsv.xz"
FILES = {"fr": "tatoeba/fra.txt.xz", "de": "tatoeba/deu.txt.xz"}
VALID, TEST = 1 / 32, 1 / 16  # shares of the English sentences


def tatoeba_plain() -> dict[str, ParallelText]:
    """English and French in the 1,000 most frequent words of either: train, valid and test; no download.

    In valid and test every English sentence stands once, with its first translation; the others are in
    `tatoeba_plain_references`. The shortest sentences come first: shuffle before training.

    >>> pairs = tatoeba_plain()["test"]
    >>> pairs.source[0], pairs.target[0]
    ('Can we go?', 'Pouvons-nous nous en aller ?')
    """
    return {name: text if name == "train" else _once(text) for name, text in _split(_plain()).items()}


def tatoeba_plain_references(split: str = "test") -> list[list[str]]:
    """Every French translation of every sentence of a split of `tatoeba_plain`, in the same order."""
    if split not in ("valid", "test"):
        raise ConfigError(
            "tatoeba_plain_references split",
            got=repr(split),
            expected="'valid' or 'test'",
            cure="train has one line for each translation",
        )
    return list(_translations(_split(_plain())[split]).values())


def tatoeba(language: str = "fr") -> dict[str, ParallelText]:
    """All pairs of English and French ("fr", 178,009) or German ("de", 169,813), split like `tatoeba_plain`."""
    if language not in FILES:
        raise ConfigError("tatoeba language", got=repr(language), expected=" or ".join(map(repr, FILES)))
    pairs = _split(read_parallel(find(FILES[language])))
    return {name: text if name == "train" else _once(text) for name, text in pairs.items()}


@cache
def _plain() -> ParallelText:
    """All pairs, read once; callers get lists of their own from `_split`."""
    with as_file(files("regard") / "data" / "corpora" / PLAIN) as path:
        return read_parallel(path)


def _split(pairs: ParallelText) -> dict[str, ParallelText]:
    """Three splits by the words of the source alone: "Sit down, Tom!" goes where "Sit down Tom." goes."""
    words = [" ".join(re.findall(r"\w+", sentence)) for sentence in pairs.source]
    rows = ParallelText(words, [str(row) for row in range(pairs.size)], {})
    splits = {}
    for name, split in split_by_source(rows, valid=VALID, test=TEST).items():
        chosen = [int(row) for row in split.target]
        splits[str(name)] = ParallelText([pairs.source[i] for i in chosen], [pairs.target[i] for i in chosen], {})
    return splits


def _translations(pairs: ParallelText) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for source, target in zip(pairs.source, pairs.target, strict=True):
        found.setdefault(source, []).append(target)
    return found


def _once(pairs: ParallelText) -> ParallelText:
    """Each source with its first translation."""
    found = _translations(pairs)
    firsts = [targets[0] for targets in found.values()]
    return ParallelText(list(found), firsts, {"further translations": pairs.size - len(found)})
