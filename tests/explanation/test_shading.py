import numpy as np
import pytest

from regard.base import ShapeError
from regard.explanation import Shading


def test_together_is_the_mean_of_all_hops():
    weights = np.random.default_rng(0).dirichlet(np.ones(7), 4)
    shading = Shading(weights, [f"w{n}" for n in range(7)])
    assert np.allclose(shading.together(), weights.mean(0))
    assert np.isclose(shading.together().sum(), 1.0)


def test_the_sharpest_hops_look_at_the_fewest_words():
    rows = [[0.25, 0.25, 0.25, 0.25], [0.0, 1.0, 0.0, 0.0], [0.5, 0.5, 0.0, 0.0]]
    shading = Shading(rows, list("abcd"))
    assert [shading.sharpest(count) for count in (0, 1, 2, 9)] == [[], [1], [1, 2], [0, 1, 2]]


def test_no_words_and_no_hops():
    assert Shading([], []).weights.shape == (0, 0)
    assert Shading([[], []], []).weights.shape == (2, 0)
    assert Shading(np.zeros((0, 2)), ["a", "b"]).together().tolist() == [0.0, 0.0]


def test_words_that_do_not_fit():
    with pytest.raises(ShapeError, match="words do not fit the weights: got 2 labels; expected 1"):
        Shading([[0.5]], ["a", "b"])
    with pytest.raises(ShapeError, match="weights of shaded text have the wrong number of axes"):
        Shading([0.5], ["a"])
