import numpy as np
import pytest

from regard.base import ConfigError, ShapeError
from regard.explanation import Gates


def test_names_of_the_classes_that_there_are():
    gates = Gates({"a": np.full((3, 2), 0.5)}, np.array([2, 0, 2]), ["cat", "dog", "eel"])
    assert gates.names() == {0: "cat", 2: "eel"}
    assert Gates({"a": np.full((3, 2), 0.5)}, [2, 0, 2]).names() == {0: "0", 2: "2"}
    assert Gates({}, []).values == {}


@pytest.mark.parametrize(("given", "error", "message"), [
    (({"a": [[1.5]]}, [0], ["x"]), ConfigError, "gates of 'a': got 1.5 to 1.5; expected 0 to 1, what a sigmoid gives"),
    (({"a": [[0.5]]}, [1], ["x"]), ConfigError, "classes of pictures: got 1 to 1; expected whole numbers from 0 to 0"),
    (({"a": [[0.5]]}, [0, 0], ["x"]), ShapeError, "each picture needs the number of its class: got 2 labels for 1"),
    (({"a": [0.5]}, [0], ["x"]), ShapeError, "gates have the wrong number of axes"),
])  # fmt: skip
def test_wrong_gates(given, error, message):
    with pytest.raises(error, match=message):
        Gates(*given)
