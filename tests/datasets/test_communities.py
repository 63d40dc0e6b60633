"""Communities: graphs of their own in each split, labels that neighbours with a badge know, and nothing else."""

import numpy as np

from regard.datasets.communities import CLASSES, communities, community_graph


def test_splits_have_graphs_of_their_own_and_the_same_ones_every_time() -> None:
    splits = communities((3, 2, 1), nodes=24, seed=5)
    names = [name for split in splits.values() for name in split.names]
    assert len(set(names)) == len(names) == 6 * 24
    again = communities((3, 2, 1), nodes=24, seed=5)
    for name, split in splits.items():
        for first, second in zip(split.graphs, again[name].graphs, strict=True):
            assert np.array_equal(first.features, second.features)
            assert np.array_equal(first.pairs, second.pairs)
    other = communities((3, 2, 1), nodes=24, seed=6)["train"].graphs[0]
    assert not np.array_equal(other.features, splits["train"].graphs[0].features)
    for split in splits.values():
        badges = np.concatenate([graph.features[:, 0] for graph in split.graphs])
        assert split.rows.tolist() == np.flatnonzero(badges == 0).tolist()  # who has a badge does not count


def test_badges_tell_the_label_and_other_colours_do_not() -> None:
    graph = community_graph(4000, seed=[1])
    badge, colour = graph.features[:, 0] == 1, graph.features[:, 1:].argmax(1)
    assert (colour[badge] == graph.labels[badge]).all()
    assert 0.2 < (colour[~badge] == graph.labels[~badge]).mean() < 0.3  # one of four
    alike = (graph.labels[graph.pairs[0]] == graph.labels[graph.pairs[1]]).mean()
    assert alike > 0.8
    assert set(graph.labels.tolist()) == set(range(len(CLASSES)))
