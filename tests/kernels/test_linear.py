"""Several linear layers as one product, and what belongs to it.

Its cases are in `small_cases.py`, which `test_small.py` runs as a whole; here its part alone, long cases too.
"""

import child
import pytest


@pytest.mark.slow
def test_by_interpreter() -> None:
    child.run("small_cases.py", "-k", "linear or column or embedding", interpret=True)
