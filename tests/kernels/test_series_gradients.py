"""Gradients of additive attention whose scores are sums of sines: their part of `cases.py`."""

import child
import pytest


@pytest.mark.slow
def test_by_interpreter() -> None:
    child.run("cases.py", "-k", "series_gradients or series_rules", interpret=True)
