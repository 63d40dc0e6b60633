"""Tatoeba in plain words: English and French, inside the package.

It has the pairs of Tatoeba that need the 1,000 most frequent words of either language only; the file
`corpora/README.md` says how they were chosen and who wrote them. They are split as in `tatoeba`.
"""

from functools import cache
from importlib.resources import as_file, files

from regard.base import ConfigError
from regard.data.parallel import ParallelText, read_parallel
from regard.datasets.dataset import Dataset
from regard.datasets.tatoeba import LICENCE, check_languages, first_translations, split_by_words, translations

FILE = "tatoeba_en_fr_plain.tsv.xz"


def tatoeba_plain() -> dict[str, ParallelText]:
    """English and French in the 1,000 most frequent words of either: train, valid and test; no download.

    In valid and test every English sentence stands once, with its first translation; the others are in
    `tatoeba_plain_references`. The shortest sentences come first: shuffle before training.

    >>> pairs = tatoeba_plain()["test"]
    >>> pairs.source[0], pairs.target[0]
    ('Can we go?', 'Pouvons-nous nous en aller ?')
    """
    splits = split_by_words(_plain())
    return {name: text if name == "train" else first_translations(text) for name, text in splits.items()}


def tatoeba_plain_references(split: str = "test") -> list[list[str]]:
    """Every French translation of every sentence of a split of `tatoeba_plain`, in the same order."""
    if split not in ("valid", "test"):
        raise ConfigError(
            "tatoeba_plain_references split",
            got=repr(split),
            expected="'valid' or 'test'",
            cure="use train, which has one line for each translation",
        )
    return list(translations(split_by_words(_plain())[split]).values())


@cache
def _plain() -> ParallelText:
    """All pairs, read once; callers get lists of their own from `split_by_words`."""
    with as_file(files("regard") / "datasets" / "corpora" / FILE) as path:
        return read_parallel(path)


def _read(source: str = "en", target: str = "fr") -> dict[str, ParallelText]:
    check_languages("tatoeba_plain", source, target, (("en", "fr"),))
    return tatoeba_plain()


DATASET = Dataset(
    "tatoeba_plain",
    kind="parallel text",
    read=_read,
    splits=("train", "valid", "test"),
    licence=LICENCE,
    embedded=True,
    references=tatoeba_plain_references,
    note="everyday sentences in plain words, English to French: 41,016 pairs to train on",
)
