"""How far back heads look: groups of distances that lose nothing, and the mean distance in the labels."""

import itertools

import numpy as np
import pytest

from regard.tasks.distances import distance_matrix, group_edges


@pytest.mark.parametrize("count", [1, 2, 3, 5, 6, 9, 17, 100])
def test_groups_hold_every_distance_once(count: int) -> None:
    edges = group_edges(count)
    assert (edges[0], edges[-1]) == (0, count)
    assert all(first < second for first, second in itertools.pairwise(edges))


def test_the_rows_of_all_heads() -> None:
    near, far = np.eye(12), np.eye(12, k=-6)
    matrix = distance_matrix({"a": np.stack([near, far]), "b": near[None]})
    assert matrix is not None
    assert matrix.columns == ("0", "1", "2", "3–4", "5–8", "9–11")
    assert matrix.rows == ("layer 0 head 0: 0.0", "layer 0 head 1: 6.0", "layer 1 head 0: 0.0")
    assert matrix.weights.tolist() == [[1, 0, 0, 0, 0, 0], [0, 0, 0, 0, 1, 0], [1, 0, 0, 0, 0, 0]]


def test_layers_of_other_sizes_stand_below_each_other() -> None:
    chance = np.random.default_rng(0)
    weights = {"short": chance.random((2, 3, 3)) * np.tri(3), "long": chance.random((1, 3, 9)) * np.tri(3, 9, 6)}
    for each in weights.values():
        each /= each.sum(-1, keepdims=True)
    matrix = distance_matrix(weights)
    assert matrix is not None
    assert matrix.weights.shape == (3, len(group_edges(9)) - 1)
    np.testing.assert_allclose(matrix.weights.sum(1), 1)


def test_without_heads_there_is_no_picture() -> None:
    assert distance_matrix({}) is None
    assert distance_matrix({"layer": np.eye(3)}) is None
    assert distance_matrix({"layer": np.zeros((2, 0, 0))}) is None
