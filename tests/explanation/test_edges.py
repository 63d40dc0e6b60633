import numpy as np
import pytest

from regard.base import ConfigError, ShapeError
from regard.explanation import EdgeWeights


def test_a_circle_begins_on_top_and_goes_round_like_a_clock():
    places = EdgeWeights([1.0, 1.0], [0, 1], [1, 0], list("abcd")).layout()
    assert np.allclose(places, [[0, 1], [1, 0], [0, -1], [-1, 0]])
    assert np.allclose(np.hypot(*EdgeWeights([0.5], [0], [0], list("abcdefg")[:1]).layout().T), 1)


def test_the_only_target_is_in_the_middle():
    places = EdgeWeights([0.5, 0.5], [0, 2], [1, 1], list("abc")).layout()
    assert places[1].tolist() == [0, 0]
    assert np.allclose(np.hypot(*places[[0, 2]].T), 1)


def test_sources_stand_beside_targets():
    places = EdgeWeights([0.5, 0.5, 0.5], [0, 1, 0], [2, 3, 3], list("abcd")).layout()
    assert places[:, 0].tolist() == [-1, -1, 1, 1]
    assert places[0, 1] > places[1, 1]


def test_a_graph_without_edges_or_nodes():
    assert EdgeWeights([], [], [], ["a", "b"]).layout().shape == (2, 2)
    assert EdgeWeights([], [], [], []).layout().shape == (0, 2)


@pytest.mark.parametrize(("given", "error", "message"), [
    (([0.5], [0], [2], ["a", "b"]), ConfigError, "targets of edges: got 2 to 2; expected whole numbers from 0 to 1"),
    (([0.5], [0], [], ["a", "b"]), ShapeError, "each edge needs a source and a target: got 0 targets for 1 weights"),
    (([[[0.5]]], [0], [0], ["a"]), ShapeError, "weights of edges have the wrong number of axes"),
    (([0.5], [0], [0], []), ConfigError, "sources of edges: got 0 to 0; expected nothing, since there is nothing"),
])  # fmt: skip
def test_wrong_edges(given, error, message):
    with pytest.raises(error, match=message):
        EdgeWeights(*given)
