"""Residual sum, dropout and layer norm as one kernel: `small_cases.py`, interpreted here, and on a GPU."""

import child
import pytest

CASES = "residual"


def test_by_interpreter() -> None:
    child.run("small_cases.py", "-k", CASES, interpret=True)


@pytest.mark.gpu
def test_on_a_gpu() -> None:
    child.run("small_cases.py", "-k", CASES, interpret=False)
