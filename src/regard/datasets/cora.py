"""Cora: 2,708 papers on machine learning, the words in them, who cites whom, and seven subjects.

The public split of Planetoid (Yang et al. 2016): 20 papers of each subject to train on, 500 to choose by, 1,000 to test
on. The file holds the arrays of that release without pickles, its rows in the order of `test.index`; a citation counts
in both directions. Names of subjects are not in the release: they are told apart by their numbers of papers.
"""

import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from regard.data.download import find
from regard.data.graphs import Graph, GraphSplit, undirected
from regard.data.parallel import DataError
from regard.data.pictures import IGNORE
from regard.data.sources import listed_sources
from regard.datasets.dataset import Dataset

LICENCE = "MIT (Planetoid, Yang et al. 2016); the citations of LINQS state no licence"
SOURCES = listed_sources(
    """
81379594ecbf01904e82686d1b6102264f8b878f3e9e6d23ad04829fb927e64d   101620 planetoid/cora.npz
""",
    licence=LICENCE,
)
CLASSES = (
    "theory", "reinforcement learning", "genetic algorithms", "neural networks", "probabilistic methods", "case based",
    "rule learning",
)  # fmt: skip
_ARRAYS = (
    "features_indptr", "features_indices", "features_shape", "labels", "edges", "idx_train", "idx_val", "idx_test",
)  # fmt: skip


def cora() -> dict[str, GraphSplit]:
    """The splits train (140 nodes), valid (500) and test (1,000) of one graph."""
    return read_planetoid(find(SOURCES["planetoid/cora.npz"]), CLASSES)


def read_planetoid(path: Path, classes: Sequence[str]) -> dict[str, GraphSplit]:
    """The splits of a file of arrays: the words of each node (CSR), labels, undirected edges, the rows of splits."""
    try:
        with np.load(path, allow_pickle=False) as arrays:
            indptr, indices, shape, labels, edges, *rows = (arrays[name] for name in _ARRAYS)
        features = np.zeros(tuple(shape), dtype=np.float32)
        features[np.repeat(np.arange(len(features)), np.diff(indptr)), indices] = 1.0
        known = np.where(labels < 0, IGNORE, labels).astype(np.int64)
        graph = Graph(features, undirected(edges), known, tuple(map(str, range(len(features)))))
    except (OSError, ValueError, KeyError, IndexError, zipfile.BadZipFile) as error:
        expected = f"arrays {', '.join(_ARRAYS)}"
        raise DataError(f"{path} cannot be read", got=str(error), expected=expected) from error
    splits = zip(("train", "valid", "test"), rows, strict=True)
    return {split: GraphSplit((graph,), own.astype(np.int64), tuple(classes)) for split, own in splits}


DATASET = Dataset(
    "cora",
    kind="graphs",
    read=cora,
    splits=("train", "valid", "test"),
    licence=LICENCE,
    sources=SOURCES,
    note="2,708 papers that cite each other, of seven subjects; 140 labels to train on",
)
