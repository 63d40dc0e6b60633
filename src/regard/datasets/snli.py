"""SNLI (Bowman et al. 2015): does a sentence follow from another one? 100,000 pairs of it to train on.

Pairs on which the annotators did not agree are left out. The validation pairs come tokenised and the others raw; the
tokeniser of the task (`regard.data.english_tokens`) makes the same words of both. `snli_full` has all 549,367 pairs.
"""

from pathlib import Path

from regard.data.download import find
from regard.data.labelled import LabelledTexts
from regard.data.parallel import DataError, read_lines
from regard.data.sources import listed_sources
from regard.datasets.dataset import Dataset

CLASSES = ("entailment", "neutral", "contradiction")
UNDECIDED = "-"  # the label of pairs on which annotators did not agree
LICENCE = "CC BY-SA 4.0; attribution: Bowman, Angeli, Potts and Manning, EMNLP 2015; premises from Flickr30k"
SOURCES = listed_sources(
    """
57f560250b3f4b77ae76e9f2fb3f8d234c78cf66c2cdc93b4a2aa37e3a12e1d6   179908 snli/dev_tokenised.tsv.xz
bd76338d63c63391d1573026d987ed413d8a51f726095be71f8c5da769924d89   213476 snli/test.tsv.xz
6f86fdc5c45b32c1105dfa039f0a31876a5f21d606ddb57fda1b0450f4ed2a77  1630888 snli/train_first100k.tsv.xz
""",
    licence=LICENCE,
)
FILES = {"train": "train_first100k", "valid": "dev_tokenised", "test": "test"}


def snli(*, seed: int = 0) -> dict[str, LabelledTexts]:
    """Train (99,890 pairs), valid (9,842) and test (9,824): premise and hypothesis. `seed` changes nothing."""
    return {split: _read(find(SOURCES[f"snli/{name}.tsv.xz"])) for split, name in FILES.items()}


def _read(path: Path) -> LabelledTexts:
    """The pairs of a file with the columns gold_label, pairID, premise and hypothesis."""
    premises, hypotheses, labels = [], [], []
    for number, line in enumerate(read_lines(path), 1):
        cells = line.split("\t")
        if number == 1 or cells[0] == UNDECIDED:
            continue
        if len(cells) != 4 or cells[0] not in CLASSES:
            got, expected = f"{len(cells)} columns", "gold_label, pairID, premise and hypothesis"
            raise DataError(f"{path}, line {number}: this is not a pair", got=got, expected=expected)
        premises.append(cells[2])
        hypotheses.append(cells[3])
        labels.append(CLASSES.index(cells[0]))
    return LabelledTexts((premises, hypotheses), labels, CLASSES)


DATASET = Dataset(
    "snli",
    kind="labelled text",
    read=snli,
    splits=("train", "valid", "test"),
    licence=LICENCE,
    sources=SOURCES,
    note="100,000 pairs of sentences: entailment, neutral or contradiction",
)
