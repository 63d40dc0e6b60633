"""A thousand held-out sentences of Tatoeba, English and French, inside the package: what its translators are judged by.

They are of the test split of `tatoeba`, evenly from the shortest to the longest, with every translation that it has.
"""

from functools import cache
from importlib.resources import as_file, files

from regard.data.parallel import ParallelText, read_parallel
from regard.datasets.dataset import Dataset
from regard.datasets.tatoeba import LICENCE, check_languages, first_translations, translations

FILE = "tatoeba_small.tsv.xz"
NAME = "tatoeba_small"


def tatoeba_small() -> ParallelText:
    """1,000 English sentences, each with its first French translation; no download.

    >>> tatoeba_small().size, sum(map(len, tatoeba_small_references()))
    (1000, 1405)
    """
    return first_translations(_pairs())


def tatoeba_small_references(split: str = NAME) -> list[list[str]]:
    """Every French translation of every sentence, in the same order."""
    return list(translations(_pairs()).values())


@cache
def _pairs() -> ParallelText:
    """Reads all pairs, the first time that it is called."""
    with as_file(files("regard") / "datasets" / "corpora" / FILE) as path:
        return read_parallel(path)


def _read(split: str = NAME, source: str = "en", target: str = "fr") -> ParallelText:
    check_languages(NAME, source, target, (("en", "fr"),))
    return tatoeba_small()


DATASET = Dataset(
    NAME,
    kind="parallel text",
    read=_read,
    splits=(NAME,),
    licence=LICENCE,
    embedded=True,
    references=tatoeba_small_references,
    note="1,000 held-out sentences of Tatoeba, English to French, to evaluate on",
)
