"""Measures of weights."""

import math

import numpy as np
import pytest

from regard.base import ConfigError, ShapeError
from regard.metrics import (
    alignment_error_rate,
    entropy,
    hard_links,
    mean_distance,
    support_size,
    weight_by_distance,
)


def test_entropy() -> None:
    weights = np.array([[[1.0, 0, 0, 0], [0.25, 0.25, 0.25, 0.25]], [[0.5, 0.5, 0, 0], [0.0, 0, 0, 0]]])
    expected = [[0, math.log(4)], [math.log(2), 0]]
    np.testing.assert_allclose(entropy(weights), expected, atol=1e-15)
    assert entropy(weights.astype(np.float16)).dtype == np.float64
    assert entropy(np.array([0.5, 0.5])).shape == ()


def test_support_size() -> None:
    weights = np.array([[0.7, 0.3, 0.0], [0.5, 0.25, 0.25]])
    assert support_size(weights).tolist() == [2, 3]
    assert support_size(weights, 0.25).tolist() == [2, 1]
    assert support_size(weights[0]).item() == 2


def test_hard_links() -> None:
    weights = np.array([[0.1, 0.9, 0.0], [0.4, 0.2, 0.4], [0.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    assert hard_links(weights) == {(0, 1), (1, 0), (3, 2)}
    assert all(type(position) is int for link in hard_links(weights) for position in link)
    assert hard_links(np.zeros((2, 0))) == hard_links(np.zeros((0, 2))) == set()


def test_alignment_error_rate() -> None:
    sure, possible = {(0, 0), (1, 1)}, {(0, 0), (1, 1), (1, 2), (2, 2)}
    assert alignment_error_rate(sure, sure, possible) == 0
    assert alignment_error_rate(possible, sure, possible) == 0
    assert alignment_error_rate({(0, 0), (1, 2)}, sure, possible) == pytest.approx(1 - (1 + 2) / 4)
    assert alignment_error_rate({(5, 5)}, sure, possible) == 1
    assert alignment_error_rate(set(), sure, possible) == 1
    assert alignment_error_rate(set(), set(), set()) == 0


def test_sure_links_are_possible_and_lists_count_once() -> None:
    links, sure = [(0, 0), (1, 2), (0, 0)], [(0, 0)]
    assert alignment_error_rate(links, sure, []) == alignment_error_rate(set(links), sure, sure)
    assert alignment_error_rate(links, sure, []) == pytest.approx(1 - 2 / 3)


def test_a_corpus_by_the_number_of_the_sentence() -> None:
    sure = {(0, 0, 0), (1, 0, 1)}
    assert alignment_error_rate({(0, 0, 0), (1, 0, 0)}, sure, sure) == pytest.approx(0.5)


def test_distances_by_a_loop() -> None:
    rng = np.random.default_rng(0)
    weights = rng.random((2, 3, 4, 6)) * np.tri(4, 6, 2)
    weights /= weights.sum(-1, keepdims=True)
    expected = np.zeros((2, 3, 6))
    for query in range(4):
        for key in range(6):
            if key <= query + 2:
                expected[..., query + 2 - key] += weights[..., query, key] / 4
    np.testing.assert_allclose(weight_by_distance(weights), expected, atol=1e-12)
    np.testing.assert_allclose(expected.sum(-1), 1)
    np.testing.assert_allclose(mean_distance(weights), (expected * np.arange(6)).sum(-1))


def test_a_head_that_looks_one_back() -> None:
    weights = np.eye(5, k=-1)  # the first token has nothing to look at
    assert weight_by_distance(weights).tolist() == [0, 1, 0, 0, 0]
    assert mean_distance(weights) == 1


def test_mistakes_are_named() -> None:
    with pytest.raises(ShapeError, match=r"distances need the queries among the keys: got \[4, 3\]"):
        weight_by_distance(np.zeros((4, 3)))
    with pytest.raises(ShapeError, match=r"links come from one matrix: got \[2, 3, 4\]"):
        hard_links(np.zeros((2, 3, 4)))
    with pytest.raises(ShapeError, match="weights need an axis of keys"):
        entropy(np.array(1.0))
    with pytest.raises(ConfigError, match=r"weights: got a smallest of -1\.0; expected 0 or more\. Try: pass weights"):
        support_size(np.array([-1.0, 2.0]))
    with pytest.raises((ConfigError, TypeError)):  # the import hook may be faster
        alignment_error_rate({0}, {(0, 0)}, set())
