"""Several linear layers as one product, and what belongs to it: `small_cases.py`, interpreted and on a GPU."""

import child
import pytest

CASES = "linear or column or embedding"


def test_by_interpreter() -> None:
    child.run("small_cases.py", "-k", CASES, interpret=True)


@pytest.mark.gpu
def test_on_a_gpu() -> None:
    child.run("small_cases.py", "-k", CASES, interpret=False)
