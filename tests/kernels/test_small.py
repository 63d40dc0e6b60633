"""Kernels for small models, and layers and models made of them: `small_cases.py`, interpreted here, and on a GPU."""

import child
import pytest


def test_by_interpreter() -> None:
    child.run("small_cases.py", interpret=True, slow=False)


@pytest.mark.slow
def test_what_takes_long() -> None:
    child.run("small_cases.py", interpret=True, slow=True)


@pytest.mark.gpu
def test_on_a_gpu() -> None:
    child.run("small_cases.py", interpret=False)
