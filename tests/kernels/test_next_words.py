"""One pass over logits: `word_cases.py`, by Triton's interpreter here, and on a GPU where there is one."""

import child
import pytest


def test_next_words() -> None:
    child.run("word_cases.py", interpret=True)


@pytest.mark.gpu
def test_on_a_gpu() -> None:
    child.run("word_cases.py", interpret=False)
