"""The Stanford Sentiment Treebank (Socher et al. 2013): sentences of film reviews, very negative to very positive.

Every phrase of a sentence has a label too. SST-5 has all five classes; SST-2 (`binary`) leaves neutral sentences out
and tells negative from positive. With `phrases` all phrases inside the training sentences are trained on, each once.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from regard.data.download import find
from regard.data.labelled import LabelledTexts
from regard.data.parallel import DataError, read_lines
from regard.data.sources import listed_sources
from regard.datasets.dataset import Dataset

CLASSES = ("very negative", "negative", "neutral", "positive", "very positive")
BINARY = ("negative", "positive")
LICENCE = "none stated; for research. Sentences of Rotten Tomatoes, by way of Pang and Lee 2005"
SOURCES = listed_sources(
    """
d91a06e201e0795985c86831959b00d6472a53b47eadba8db1acaf14459a5213    74655 sst/dev.trees.txt.gz
a0d7f91687d4b6361bf61409c7bd46d2999cae86272cdd4277b54186e1277232   148158 sst/test.trees.txt.gz
d4f1b1dc5fbfb97bb32762256b7c83ad878696450640cb40333a52a3330d559a   567835 sst/train.trees.txt.gz
""",
    licence=LICENCE,
)
_TOKEN = re.compile(r"\(\s*([0-4])\s+|\)|[^\s()]+")


def sst(*, seed: int = 0, binary: bool = False, phrases: bool = False) -> dict[str, LabelledTexts]:
    """Train, valid and test as published; `seed` changes nothing."""
    names = {"train": "train", "valid": "dev", "test": "test"}
    return {
        split: _split(find(SOURCES[f"sst/{name}.trees.txt.gz"]), binary, phrases and split == "train")
        for split, name in names.items()
    }


def read_tree(line: str) -> Iterator[tuple[int, str]]:
    """The label and the words of every node of a tree, the whole sentence last.

    >>> list(read_tree("(3 (2 Not) (1 (2 at) (1 all)))"))
    [(2, 'Not'), (2, 'at'), (1, 'all'), (1, 'at all'), (3, 'Not at all')]
    """
    open_nodes: list[tuple[int, int]] = []  # label, and where its words begin
    words: list[str] = []
    end = 0
    for token in _TOKEN.finditer(line):
        if line[end : token.start()].strip() or (end and not open_nodes):
            raise ValueError("something beside the tree")
        end = token.end()
        if token[1] is not None:
            open_nodes.append((int(token[1]), len(words)))
        elif token[0] != ")" and open_nodes:
            words.append(token[0])
        else:
            label, start = open_nodes.pop()
            yield label, " ".join(words[start:])
    if open_nodes or not words or line[end:].strip():
        raise ValueError("brackets that do not match")


def _split(path: Path, binary: bool, phrases: bool) -> LabelledTexts:
    labels: dict[str, int] = {}
    texts: list[tuple[str, int]] = []
    for number, line in enumerate(read_lines(path), 1):
        try:
            nodes = list(read_tree(line))
        except (ValueError, IndexError) as error:
            expected = "(3 (2 …) (2 …))"
            raise DataError(f"{path}, line {number}: this is not a tree", got=str(error), expected=expected) from None
        if phrases:
            labels |= {text: label for label, text in nodes}
        else:
            texts.append((nodes[-1][1], nodes[-1][0]))
    texts = list(labels.items()) if phrases else texts
    if binary:
        texts = [(text, int(label > 2)) for text, label in texts if label != 2]
    return LabelledTexts(([text for text, _ in texts],), [label for _, label in texts], BINARY if binary else CLASSES)


DATASET = Dataset(
    "sst",
    kind="labelled text",
    read=sst,
    splits=("train", "valid", "test"),
    licence=LICENCE,
    sources=SOURCES,
    note="sentences of film reviews, five classes or two, with labelled phrases",
)
