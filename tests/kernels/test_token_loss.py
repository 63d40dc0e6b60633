"""Cross entropy in one pass: `small_cases.py`, by Triton's interpreter here, and on a GPU where there is one."""

import child
import pytest

CASES = "token_loss"


def test_by_interpreter() -> None:
    child.run("small_cases.py", "-k", CASES, interpret=True)


@pytest.mark.gpu
def test_on_a_gpu() -> None:
    child.run("small_cases.py", "-k", CASES, interpret=False)
