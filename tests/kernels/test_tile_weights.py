"""Weights from scores and sums: `tiles.py`, by Triton's interpreter here, and on a GPU where there is one."""

import child
import pytest


def test_in_the_interpreter() -> None:
    child.run("tiles.py", interpret=True)


@pytest.mark.gpu
def test_on_a_gpu() -> None:
    child.run("tiles.py", interpret=False)
