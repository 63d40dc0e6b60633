"""Attention over edges in one pass: `edge_cases.py`, by Triton's interpreter here, and on a GPU where there is one."""

import child
import pytest


def test_edges() -> None:
    child.run("edge_cases.py", interpret=True, slow=False)


@pytest.mark.slow
def test_what_takes_long() -> None:
    child.run("edge_cases.py", interpret=True, slow=True)


@pytest.mark.gpu
def test_on_a_gpu() -> None:
    child.run("edge_cases.py", interpret=False)
