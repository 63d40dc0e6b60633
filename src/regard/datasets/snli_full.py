"""SNLI 1.0 as published (Bowman et al. 2015): 549,367 labelled pairs to train on, 9,842 and 9,824 to judge by."""

import io
import zipfile
from pathlib import Path

from regard.base import RegardError, parse_json
from regard.data.download import find
from regard.data.labelled import LabelledTexts
from regard.data.parallel import DataError
from regard.data.sources import listed_sources
from regard.datasets.dataset import Dataset
from regard.datasets.snli import CLASSES, LICENCE, UNDECIDED

FILE = "snli/snli_1.0.zip"
SOURCES = listed_sources(
    f"afb3d70a5af5d8de0d9d81e2637e0fb8c22d1235c2749d83125ca43dab0dbd3e 94550081 {FILE}",
    licence=LICENCE,
    addresses=("https://nlp.stanford.edu/projects/snli/",),
)
MEMBERS = {"train": "train", "valid": "dev", "test": "test"}


def snli_full(*, seed: int = 0) -> dict[str, LabelledTexts]:
    """Train, valid and test: premise and hypothesis, all raw. `seed` changes nothing."""
    path = find(SOURCES[FILE])
    return {split: _read(path, f"snli_1.0/snli_1.0_{name}.jsonl") for split, name in MEMBERS.items()}


def _read(path: Path, member: str) -> LabelledTexts:
    premises, hypotheses, labels = [], [], []
    with zipfile.ZipFile(path) as archive, archive.open(member) as raw:
        for number, line in enumerate(io.TextIOWrapper(raw, encoding="utf-8"), 1):
            try:
                pair = parse_json(line)
                label, premise, hypothesis = (str(pair[name]) for name in ("gold_label", "sentence1", "sentence2"))
                if label != UNDECIDED:
                    labels.append(CLASSES.index(label))
                    premises.append(premise)
                    hypotheses.append(hypothesis)
            except (RegardError, KeyError, TypeError, ValueError) as error:
                what, expected = f"{path}, {member}, line {number}: this is not a pair", "gold_label and two sentences"
                raise DataError(what, got=str(error), expected=expected) from None
    return LabelledTexts((premises, hypotheses), labels, CLASSES)


DATASET = Dataset(
    "snli_full",
    kind="labelled text",
    read=snli_full,
    splits=("train", "valid", "test"),
    licence=LICENCE,
    sources=SOURCES,
    note="549,367 pairs of sentences: entailment, neutral or contradiction",
)
