"""The way back along a trellis: `search_cases.py`, by Triton's interpreter here, and on a GPU where there is one."""

import child
import pytest


def test_way_back() -> None:
    child.run("search_cases.py", "-k", "way_back", interpret=True)


@pytest.mark.gpu
def test_on_a_gpu() -> None:
    child.run("search_cases.py", "-k", "way_back", interpret=False)
