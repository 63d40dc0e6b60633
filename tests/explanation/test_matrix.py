import numpy as np
import pytest

from regard.base import ConfigError, ShapeError
from regard.explanation import Matrix


def test_heads_are_panels():
    matrix = Matrix(np.arange(12).reshape(2, 2, 3), ["a", "b"], ["x", "y", "z"], layer="cross")
    assert list(matrix.panels()) == ["cross · head 0", "cross · head 1"]
    assert matrix.panels()["cross · head 1"].tolist() == [[6, 7, 8], [9, 10, 11]]
    assert list(Matrix([[1.0]], ["a"], ["b"]).panels()) == ["weights"]
    assert list(Matrix([[1.0]], ["a"], ["b"], layer="cross", title="t").panels()) == ["cross"]


def test_no_rows_and_no_columns():
    assert Matrix([], [], ["x", "y"]).weights.shape == (0, 2)
    assert Matrix([[], []], ["a", "b"], []).weights.shape == (2, 0)
    assert Matrix(np.zeros((3, 0, 2)), [], ["x", "y"]).weights.shape == (3, 0, 2)


@pytest.mark.parametrize(("given", "error", "message"), [
    (([[1.0]], ["a", "b"], ["x"]), ShapeError, "rows do not fit the weights: got 2 labels; expected 1"),
    (([[1.0]], ["a"], []), ShapeError, "columns do not fit the weights: got 0 labels; expected 1"),
    (([1.0], ["a"], ["x"]), ShapeError, r"weights of a matrix have the wrong number of axes: got shape \[1\]; expected "
     r"\[rows columns\] or \[heads rows columns\]"),
    ((np.zeros((1, 1, 1, 1)), ["a"], ["x"]), ShapeError, "wrong number of axes"),
    (([[np.inf]], ["a"], ["x"]), ConfigError, "weights of a matrix are not finite"),
    (([], [], ["x"] * 3 + ["y"]), None, ""),
])  # fmt: skip
def test_weights_fit_their_labels(given, error, message):
    if error is None:
        assert Matrix(*given).weights.shape == (0, 4)
        return
    with pytest.raises(error, match=message):
        Matrix(*given)
