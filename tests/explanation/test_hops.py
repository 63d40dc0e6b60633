import pytest

from regard.base import ConfigError, ShapeError
from regard.explanation import Hops


def test_an_empty_memory():
    assert Hops([], []).weights.shape == (0, 0)
    assert Hops([[], []], []).weights.shape == (2, 0)


@pytest.mark.parametrize(("given", "error", "message"), [
    (([[0.5]], ["a", "b"]), ShapeError, "slots do not fit the weights: got 2 labels; expected 1"),
    (([[0.5]], ["a"], [1]), ConfigError, "marked slots: got 1 to 1; expected whole numbers from 0 to 0"),
    (([0.5], ["a"]), ShapeError, r"weights of hops have the wrong number of axes: got shape \[1\]; expected \[hops"),
])  # fmt: skip
def test_wrong_hops(given, error, message):
    with pytest.raises(error, match=message):
        Hops(*given)
