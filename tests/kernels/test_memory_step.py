"""A step of a Turing machine as one kernel: `memory_step_cases.py`, by Triton's interpreter, and on a GPU."""

import child
import pytest


def test_memory_step() -> None:
    child.run("memory_step_cases.py", interpret=True, slow=False)


@pytest.mark.slow
def test_what_takes_long() -> None:
    child.run("memory_step_cases.py", interpret=True, slow=True)


@pytest.mark.gpu
def test_on_a_gpu() -> None:
    child.run("memory_step_cases.py", interpret=False)
