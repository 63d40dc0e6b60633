"""Weights from scores and sums: that they are right is in `cases.py`, which `test_additive.py` runs; here, one by one."""

import child
import pytest


def test_in_the_interpreter() -> None:
    child.run("tiles.py", interpret=True)


@pytest.mark.gpu
def test_on_a_gpu() -> None:
    child.run("tiles.py", interpret=False)
