"""The step of a greedy search: `word_cases.py`, which `test_few_queries.py` runs with others; here its part alone."""

import child
import pytest


@pytest.mark.slow
def test_by_interpreter() -> None:
    child.run("word_cases.py", "-k", "path or number", interpret=True)
