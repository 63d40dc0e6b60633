import numpy as np
import pytest

from regard.base import ShapeError
from regard.explanation import Tape


def test_heads_may_have_memories_of_their_own():
    tape = Tape({"read 0": np.ones((3, 2)), "write 0": np.ones((3, 5))}, steps=["a", "b", "c"])
    assert tape.length == 3
    assert list(tape.weights) == ["read 0", "write 0"]
    assert Tape({}).length == 0


def test_all_heads_have_the_same_steps():
    with pytest.raises(ShapeError, match="weights of a tape differ in length: got 3 for 'read 0', 2 for 'write 0'"):
        Tape({"read 0": np.ones((3, 2)), "write 0": np.ones((2, 2))})
    with pytest.raises(ShapeError, match="steps do not fit the weights: got 1 labels; expected 3"):
        Tape({"read 0": np.ones((3, 2))}, steps=["a"])
