"""What a search does on a GPU: few queries and keys, the next words, the step of a beam, the way back.

`few_cases.py`, `word_cases.py` and `search_cases.py`, by Triton's interpreter here, and on a GPU where there is one.
"""

import child
import pytest

CASES = "few_cases.py", "tests/kernels/word_cases.py", "tests/kernels/search_cases.py"


def test_by_interpreter() -> None:
    child.run(*CASES, interpret=True, slow=False)


@pytest.mark.slow
def test_what_takes_long() -> None:
    child.run(*CASES, interpret=True, slow=True)


@pytest.mark.gpu
def test_on_a_gpu() -> None:
    child.run(*CASES, interpret=False)
