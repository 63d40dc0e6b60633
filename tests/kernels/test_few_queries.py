"""Few queries and keys in one kernel: `few_cases.py`, by Triton's interpreter here, and on a GPU where there is one."""

import child
import pytest


def test_few_queries() -> None:
    child.run("few_cases.py", interpret=True, slow=False)


@pytest.mark.slow
def test_more_shapes() -> None:
    child.run("few_cases.py", interpret=True, slow=True)


@pytest.mark.gpu
def test_on_a_gpu() -> None:
    child.run("few_cases.py", interpret=False)
