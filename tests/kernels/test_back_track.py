"""The way back along a trellis.

Its cases are in `search_cases.py`, which `test_few_queries.py` runs with others; here its part alone.
"""

import child
import pytest


@pytest.mark.slow
def test_by_interpreter() -> None:
    child.run("search_cases.py", "-k", "way_back", interpret=True)
