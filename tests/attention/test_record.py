"""Records of a trace by themselves; test_tracing.py has them as traces make them."""

import numpy as np
import pytest
import torch

from regard.attention.record import EdgeList, GlimpsePath, Record
from regard.base import ShapeError


def test_steps_follow_each_other_and_missing_keys_have_no_weight() -> None:
    record = Record("layer", [np.ones((2, 1, 2)), np.full((2, 1, 3), 0.5)])
    assert record.axes == ("b", "q", "k")
    assert record.weights.tolist() == [[[1, 1, 0], [0.5, 0.5, 0.5]]] * 2
    with pytest.raises(ShapeError, match="layer was called with several batch shapes"):
        _ = Record("layer", [np.ones((2, 1, 2)), np.ones((1, 1, 2))]).weights


def test_keys_that_a_window_has_dropped_have_no_weight() -> None:
    record = Record("layer", [np.ones((1, 2, 2)), np.full((1, 1, 2), 0.5)], starts={1: 2})
    assert record.weights.tolist() == [[[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 0.5, 0.5]]]
    late = Record("layer", [np.ones((2, 1, 2))], starts={0: 1})
    assert late.weights.tolist() == [[[0, 1, 1]]] * 2
    assert late.item(1).weights.tolist() == [[0, 1, 1]]
    assert late.item(1).item().weights.tolist() == [[0, 1, 1]]


def test_hypotheses_are_followed_from_beam_to_beam() -> None:
    calls = [np.arange(3.0).reshape(3, 1, 1) + 10 * step for step in range(3)]
    indices = [[0, 2], [1, -1]]
    for form in (indices, np.array(indices), torch.tensor(indices)):
        followed = Record("layer", calls).follow(form)
        assert followed.weights.tolist() == [[[0], [12]], [[1], [0]]]  # two steps, though three were made
    for wrong in ([0, 1], [[3]], [[-2]]):
        with pytest.raises(ShapeError, match="layer cannot follow these beams"):
            Record("layer", calls).follow(np.array(wrong))


def test_one_sentence_is_cut_to_its_labels() -> None:
    record = Record("layer", [np.arange(24.0).reshape(2, 2, 2, 3)], True, [["a"], ["b", "c"]], [["x", "y"], ["z"]])
    assert record.axes == ("b", "h", "q", "k")
    first, second = record.item(0), record.item(1)
    assert first.weights.tolist() == [[[0, 1]], [[6, 7]]]
    assert second.weights.tolist() == [[[12], [15]], [[18], [21]]]
    assert (first.rows, second.columns) == (["a"], ["z"])


def test_edges_become_a_matrix() -> None:
    edges = EdgeList(np.array([[0, 1], [1, 0]]), (2, 3))
    record = Record("layer", [np.array([0.25, 0.75])], edges=[edges])
    assert record.axes == ("e",)
    assert record.dense().tolist() == [[0, 0.25, 0], [0.75, 0, 0]]


def test_places_of_a_path() -> None:
    path = GlimpsePath(np.zeros((1, 3, 2)), np.array([[True, True, False]]))
    record = Record("looker", [], paths=[path])
    assert record.axes == ("b", "t", "2")
    assert record.places.shape == (1, 3, 2)
    assert record.item(0).places.shape == (2, 2)
    with pytest.raises(ShapeError, match="layer looked at no places"):
        _ = Record("layer", [np.ones((1, 1))]).places


def test_joined_rows_keep_the_labels_of_their_places() -> None:
    """The last row of a prompt of three words, then two steps: rows 2, 3 and 4 of five words."""
    rng = np.random.default_rng(0)
    steps = [rng.dirichlet(np.ones(keys), (1, 2, 1)) for keys in (3, 4, 5)]
    words = ["a", "b", "c", "d", "e"]
    record = Record("layer", steps, heads=True, rows=words, columns=words, queries=[2])
    assert record.row_numbers == [2, 3, 4]
    one = record.item(0)
    assert one.rows == ["c", "d", "e"]
    assert one.weights.shape == (2, 3, 5)
    assert np.allclose(one.weights[:, 0, :3], steps[0][0, :, 0])
    assert np.allclose(one.weights[:, 2], steps[2][0, :, 0])
    of_the_rows = Record("layer", steps, heads=True, rows=["x", "y", "z"], queries=[2]).item(0)
    assert of_the_rows.rows == ["x", "y", "z"]
