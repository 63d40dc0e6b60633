"""Layers and models made of kernels for small models: `small_cases.py`, interpreted here, and on a GPU."""

import child
import pytest

CASES = "transformer or hooks or trace or locked or serves or one_seed"


def test_by_interpreter() -> None:
    child.run("small_cases.py", "-k", CASES, interpret=True)


@pytest.mark.gpu
def test_on_a_gpu() -> None:
    child.run("small_cases.py", "-k", CASES, interpret=False)
