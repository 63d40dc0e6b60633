"""Concepts: weights of all pairs of words, neighbours, and what words are made of, layer by layer."""

import numpy as np
import pytest

from regard.base import ConfigError, ShapeError
from regard.explanation import Concepts

EXAMPLE = Concepts(
    [[[0.2, 0.8], [0.5, 0.5]], [[0.0, 1.0], [0.3, 0.7]]],
    ["▁black", "▁cat"],
    ["lower", "upper"],
    residual=0.25,
    heads="mean of 2 heads",
    title="t",
)


def random_example(rng):
    words = rng.choice(["", "a", "▁cat", "мир", "<b>"], rng.integers(0, 15)).tolist()
    layers = int(rng.integers(0, 4))
    weights = rng.normal(size=(layers, len(words), len(words))) * (rng.random() < 0.9)
    return Concepts(weights, words, residual=rng.random(), heads=rng.choice(["", "head 1 of 2"]).item())


def random_weights(layers, size, seed=0):
    return np.random.default_rng(seed).dirichlet(np.ones(size), (layers, size))


def test_neighbours_are_those_of_one_layer_largest_first():
    assert [tuple(each) for each in EXAMPLE.neighbours(0, 0)] == [("▁cat", 1, 0.8), ("▁black", 0, 0.2)]
    assert [each.place for each in EXAMPLE.neighbours(1, 1, 1)] == [1]
    assert EXAMPLE.neighbours(-1, -1, 0) == []


@pytest.mark.parametrize("residual", [0.0, 0.5, 0.9])
def test_shares_are_sums_over_all_ways_through_the_layers(residual):
    """Independently: a way goes from a word to a word in each layer, and has the product of its weights."""
    weights, size = random_weights(3, 4), 4
    kept = residual * np.eye(size) + (1 - residual) * weights
    expected = np.zeros((size, size))
    for way in np.ndindex(size, size, size, size):  # the word after layer 3, 2, 1, and the word of the text
        third, second, first, start = way
        expected[third, start] += kept[2, third, second] * kept[1, second, first] * kept[0, first, start]
    concepts = Concepts(weights, list("abcd"), residual=residual)
    assert np.allclose(concepts.through_layers()[2], expected)
    assert np.allclose(concepts.through_layers()[0], kept[0])
    assert np.allclose(Concepts(weights, list("abcd")).through_layers(residual), concepts.through_layers())


def test_rows_are_shares_whatever_the_weights_are():
    weights = np.random.default_rng(1).normal(size=(3, 5, 5))
    weights[1, 2] = 0  # a word that takes in nothing
    shares = Concepts(weights, list("abcde"), residual=0.0).through_layers()
    assert shares.min() >= 0
    assert np.allclose(shares.sum(-1), 1)
    assert np.allclose(shares[1, 2], shares[0, 2])


def test_lower_triangles_stay_lower_triangles():
    weights = np.tril(random_weights(2, 6), -1)  # no word takes in itself, nor a later one; the first takes in nothing
    shares = Concepts(weights, list("abcdef")).through_layers()
    assert np.allclose(shares, np.tril(shares))
    assert shares[:, 0, 0].tolist() == [1, 1]


def test_made_of_and_its_sum():
    assert EXAMPLE.as_sum(0, 0) == "black = 0.60 cat + 0.40 black"
    shares = [each.weight for each in EXAMPLE.made_of(1, 0)]
    assert shares == pytest.approx([0.25 * 0.6 + 0.75 * 0.625, 0.25 * 0.4 + 0.75 * 0.375])
    many = Concepts(np.full((1, 5, 5), 0.2), list("abcde"), residual=0.5)
    assert many.as_sum(0, 1) == "b = 0.60 b + 0.10 a + 0.10 c + …"
    assert EXAMPLE.made_of(1, 0, residual=0)[0].weight == pytest.approx(0.5)


def test_empty_ones():
    assert Concepts([], []).weights.shape == (0, 0, 0)
    assert Concepts([[], []], []).through_layers().shape == (2, 0, 0)
    assert Concepts(np.zeros((0, 2, 2)), ["a", "b"]).html() == ""


def test_names_of_layers():
    assert Concepts(np.zeros((2, 1, 1)), ["a"]).layers == ("layer 1", "layer 2")
    page = Concepts(np.zeros((2, 1, 1)), ["a"], ["x", "x"]).html()
    assert page.count("<option") == 2


def test_what_a_notebook_shows():
    page = EXAMPLE.html()
    assert "black = 0.60 cat + 0.40 black" in page
    assert '<figure class="map"' in page
    assert page.count("<details>") == 1  # the lower layer; the upper one is open
    assert 'd="M0.00 0h60.00v1h-60.00z"' in page


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"weights": np.zeros((2, 3, 2)), "words": ["a", "b"]}, ShapeError, "words do not fit the weights"),
        ({"weights": np.zeros((2, 2)), "words": ["a", "b"]}, ShapeError, "wrong number of axes"),
        ({"weights": np.zeros((2, 1, 1)), "words": ["a"], "layers": ["x"]}, ShapeError, "layers do not fit"),
        ({"weights": np.zeros((1, 1, 1)), "words": ["a"], "residual": 1.0}, ConfigError, "from 0 to below 1"),
    ],
)
def test_what_does_not_fit(change, error, words):
    with pytest.raises(error, match=words):
        Concepts(**change)


@pytest.mark.parametrize(("layer", "word", "what"), [(2, 0, "layer: got 2"), (0, -3, "word: got -3")])
def test_numbers_that_are_not_there(layer, word, what):
    for ask in (EXAMPLE.neighbours, EXAMPLE.made_of):
        with pytest.raises(ConfigError, match=f"number of a {what}; expected from 0 to 1"):
            ask(layer, word)
