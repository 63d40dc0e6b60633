"""IMDB: long film reviews, positive or negative (Maas et al. 2011), 25,000 to train on and 25,000 to judge by.

Reviews with 7 to 10 stars are positive, those with 1 to 4 negative. 2,500 of the training reviews, drawn by a seed, are
held out for validation. Reviews of one film stand together in the file, up to 30 of them, and no film of the training
reviews is among the test reviews: so runs of 125 reviews are held out. Single ones would be judged by their films'
names, and too well.
"""

from pathlib import Path

from regard.data.download import find
from regard.data.labelled import LabelledTexts, hold_out
from regard.data.parallel import DataError, read_lines
from regard.data.sources import listed_sources
from regard.datasets.dataset import Dataset

CLASSES = ("negative", "positive")
VALID = 2500
RUN = 125
LICENCE = "none stated; the authors ask to cite ACL 2011. For research; the reviews belong to users of imdb.com"
SOURCES = listed_sources(
    """
1f398ac6c3504f47fc9759c05b75568246d4af550b4d6ec61847367d2ad1c0a4  8825992 imdb/test.tsv.xz
77176814b83a6bc9370d361270bda9710118eb5dabfd5622e95fc67d45293889  9059212 imdb/train.tsv.xz
""",
    licence=LICENCE,
)


def imdb(*, seed: int = 0) -> dict[str, LabelledTexts]:
    """Train, valid and test; `seed` draws the 2,500 reviews for validation, in runs."""
    splits = hold_out(_read(find(SOURCES["imdb/train.tsv.xz"])), {"valid": VALID}, seed=seed, run=RUN)
    return {**splits, "test": _read(find(SOURCES["imdb/test.tsv.xz"]))}


def _read(path: Path) -> LabelledTexts:
    """The columns label and text of a file with the columns label, rating, id and text."""
    texts, labels = [], []
    for number, line in enumerate(read_lines(path), 1):
        cells = line.split("\t")
        if number == 1:
            continue  # the names of the columns
        if len(cells) != 4 or cells[0] not in ("0", "1"):
            expected = "label (0 or 1), rating, id and text"
            raise DataError(
                f"{path}, line {number}: this is not a review", got=f"{len(cells)} columns", expected=expected
            )
        texts.append(cells[3].replace("<br />", " "))
        labels.append(int(cells[0]))
    return LabelledTexts((texts,), labels, CLASSES)


DATASET = Dataset(
    "imdb",
    kind="labelled text",
    read=imdb,
    splits=("train", "valid", "test"),
    licence=LICENCE,
    sources=SOURCES,
    note="50,000 film reviews, positive or negative",
)
