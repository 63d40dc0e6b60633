"""Sums of columns; `test_linear.py` runs these too, in one process."""

import child
import pytest


@pytest.mark.slow
def test_by_interpreter() -> None:
    child.run("small_cases.py", "-k", "column", interpret=True)
