"""Attention over short texts: `small_cases.py`, by Triton's interpreter here, and on a GPU where there is one."""

import child
import pytest

CASES = "short"


def test_by_interpreter() -> None:
    child.run("small_cases.py", "-k", CASES, interpret=True, slow=False)


@pytest.mark.slow
def test_what_takes_long() -> None:
    child.run("small_cases.py", "-k", CASES, interpret=True, slow=True)


@pytest.mark.gpu
def test_on_a_gpu() -> None:
    child.run("small_cases.py", "-k", CASES, interpret=False)
