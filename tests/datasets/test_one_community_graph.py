"""One graph of communities: its splits are nodes of it, without a badge, each in one split."""

import numpy as np

from regard.datasets.one_community_graph import one_community_graph


def test_the_splits_share_the_graph_and_no_node() -> None:
    splits = one_community_graph(80)
    [graph] = splits["train"].graphs
    assert all(split.graphs[0] is graph for split in splits.values())
    rows = np.concatenate([split.rows for split in splits.values()])
    assert sorted(rows.tolist()) == np.flatnonzero(graph.features[:, 0] == 0).tolist()
    assert splits["train"].size > splits["valid"].size
