"""Citeseer: 3,327 papers on computer science, the words in them, who cites whom, and six subjects.

The public split of Planetoid, as for Cora: 120 papers to train on, 500 to choose by, 1,000 to test on. Fifteen papers
have neither words nor a label nor citations; they stay nodes without edges, and count in no split.
"""

from regard.data.download import find
from regard.data.graphs import GraphSplit
from regard.data.sources import listed_sources
from regard.datasets.cora import LICENCE, read_planetoid
from regard.datasets.dataset import Dataset

SOURCES = listed_sources(
    """
1f88472a4c488d16b6ad81cc4c149663cd39587a95067e9856c3103aceae7ca1   202805 planetoid/citeseer.npz
""",
    licence=LICENCE,
)
CLASSES = (
    "artificial intelligence", "machine learning", "information retrieval", "databases", "agents",
    "human-computer interaction",
)  # fmt: skip


def citeseer() -> dict[str, GraphSplit]:
    """The splits train (120 nodes), valid (500) and test (1,000) of one graph."""
    return read_planetoid(find(SOURCES["planetoid/citeseer.npz"]), CLASSES)


DATASET = Dataset(
    "citeseer",
    kind="graphs",
    read=citeseer,
    splits=("train", "valid", "test"),
    licence=LICENCE,
    sources=SOURCES,
    note="3,327 papers that cite each other, of six subjects; 120 labels to train on",
)
