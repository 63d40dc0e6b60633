"""Rows of length one: `rows.py`, by Triton's interpreter; `test_dot_weights.py` runs these too, in one process."""

import child
import pytest


@pytest.mark.slow
def test_rows_of_length_one() -> None:
    child.run("rows.py", "-k", "unit", interpret=True)
