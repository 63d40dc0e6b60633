r"""Yelp: 10,000 reviews with 1 to 5 stars, split 8,000 / 1,000 / 1,000 by a seed.

The paper on structured self-attention trains on 500,000; this is the sample that Kaggle has as yelp.csv.
"""

import re
from pathlib import Path

from regard.data.download import find
from regard.data.labelled import LabelledTexts, hold_out
from regard.data.parallel import DataError, read_lines
from regard.data.sources import listed_sources
from regard.datasets.dataset import Dataset

CLASSES = ("1 star", "2 stars", "3 stars", "4 stars", "5 stars")
HELD_OUT = {"valid": 1000, "test": 1000}
LICENCE = "terms of the Yelp dataset: academic use only, not to be passed on"
SOURCES = listed_sources(
    "cf949b86860832f3f16166c6c380f7c4a4c41dd77dcb9aa69eeaef82a8134c6a  2261140 yelp/yelp_reviews_10k.tsv.xz",
    licence=LICENCE,
)
_ESCAPED = re.compile(r"\\([nt\\])")
_MEANING = {"n": " ", "t": " ", "\\": "\\"}


def yelp(*, seed: int = 0) -> dict[str, LabelledTexts]:
    """Train, valid and test, drawn by `seed`."""
    return hold_out(_read(find(SOURCES["yelp/yelp_reviews_10k.tsv.xz"])), HELD_OUT, seed=seed)


def _read(path: Path) -> LabelledTexts:
    r"""The columns stars and text of a file with stars, review_id and text; \n, \t and \\ stand for what they say."""
    texts, labels = [], []
    for number, line in enumerate(read_lines(path), 1):
        cells = line.split("\t")
        if number == 1:
            continue  # the names of the columns
        if len(cells) != 3 or cells[0] not in set("12345"):
            got, expected = f"{len(cells)} columns", "stars (1 to 5), review_id and text"
            raise DataError(f"{path}, line {number}: this is not a review", got=got, expected=expected)
        texts.append(_ESCAPED.sub(lambda match: _MEANING[match[1]], cells[2]))
        labels.append(int(cells[0]) - 1)
    return LabelledTexts((texts,), labels, CLASSES)


DATASET = Dataset(
    "yelp",
    kind="labelled text",
    read=yelp,
    splits=("train", "valid", "test"),
    licence=LICENCE,
    sources=SOURCES,
    note="10,000 reviews with one to five stars",
)
