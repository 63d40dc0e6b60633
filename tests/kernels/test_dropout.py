"""Dropout inside kernels: `inside.py` by Triton's interpreter; on a GPU, `test_additive.py` runs all cases."""

import child
import pytest


@pytest.mark.slow  # `test_arithmetic.py` runs these too, in one process
def test_dropout() -> None:
    child.run("inside.py", "-k", "dropout", interpret=True)
