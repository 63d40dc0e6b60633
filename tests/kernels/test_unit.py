"""Rows of length one: `rows.py`, by Triton's interpreter."""

import child


def test_rows_of_length_one() -> None:
    child.run("rows.py", "-k", "unit", interpret=True)
