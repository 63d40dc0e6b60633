"""A step of a beam, and a search whose steps run through kernels: `search_cases.py`, by Triton's interpreter here."""

import child
import pytest


def test_steps() -> None:
    child.run("search_cases.py", "-k", "not way_back", interpret=True, slow=False)


@pytest.mark.slow
def test_other_positions() -> None:
    child.run("search_cases.py", "-k", "not way_back", interpret=True, slow=True)


@pytest.mark.gpu
def test_on_a_gpu() -> None:
    child.run("search_cases.py", "-k", "not way_back", interpret=False)
