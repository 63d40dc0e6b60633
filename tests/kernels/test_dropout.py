"""Dropout inside kernels: `inside.py` by Triton's interpreter; on a GPU, `test_additive.py` runs all cases.

Locked dropout, in the kernels for small models, has cases of its own.
"""

import child
import pytest


@pytest.mark.slow  # `test_arithmetic.py` runs these too, in one process
def test_dropout() -> None:
    child.run("inside.py", "-k", "dropout", interpret=True)


def test_locked_by_interpreter() -> None:
    child.run("locked_cases.py", interpret=True, slow=False)


@pytest.mark.slow
def test_locked_that_takes_long() -> None:
    child.run("locked_cases.py", interpret=True, slow=True)


@pytest.mark.gpu
def test_locked_on_a_gpu() -> None:
    child.run("locked_cases.py", interpret=False)
