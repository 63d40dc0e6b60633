"""Attention over a band of keys: `banded_cases.py`, by Triton's interpreter here, and on a GPU where there is one."""

import child
import pytest


def test_bands() -> None:
    child.run("banded_cases.py", interpret=True, slow=False)


@pytest.mark.slow
def test_more_bands() -> None:
    child.run("banded_cases.py", interpret=True, slow=True)


@pytest.mark.slow
def test_every_kernel_compiles_for_more_machines() -> None:
    child.run("compiled.py", interpret=False, slow=True)


@pytest.mark.gpu
def test_on_a_gpu() -> None:
    child.run("banded_cases.py", interpret=False)
