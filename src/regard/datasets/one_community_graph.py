"""One graph of `communities`, larger: its splits are nodes of one graph, as those of Cora."""

import numpy as np

from regard.data.graphs import GraphSplit
from regard.datasets.communities import CLASSES, LICENCE, community_graph
from regard.datasets.dataset import Dataset


def one_community_graph(nodes: int = 600, *, seed: int = 0) -> dict[str, GraphSplit]:
    """Of the nodes without a badge, half are to train on, a quarter to choose by, and a quarter to test on.

    >>> {name: len(split.graphs) for name, split in one_community_graph(40).items()}
    {'train': 1, 'valid': 1, 'test': 1}
    """
    graph = community_graph(nodes, seed=[seed])
    rows = np.flatnonzero(graph.features[:, 0] == 0)
    place = np.arange(len(rows)) % 4
    parts = {"train": rows[place < 2], "valid": rows[place == 2], "test": rows[place == 3]}
    return {name: GraphSplit((graph,), own, CLASSES) for name, own in parts.items()}


DATASET = Dataset(
    "one_community_graph",
    kind="graphs",
    read=one_community_graph,
    splits=("train", "valid", "test"),
    licence=LICENCE,
    embedded=True,
    note="a generated graph of 600 nodes that learn their community from neighbours with a badge",
)
