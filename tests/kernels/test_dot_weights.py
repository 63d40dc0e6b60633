"""Weights of the dot family in one pass: `rows.py`, by Triton's interpreter here, and on a GPU where there is one."""

import child
import pytest


def test_weights() -> None:
    child.run("rows.py", interpret=True)


@pytest.mark.gpu
def test_on_a_gpu() -> None:
    child.run("rows.py", interpret=False)
