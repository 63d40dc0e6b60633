"""The middle of a feed-forward layer as one kernel: `small_cases.py`, by Triton's interpreter."""

import child


def test_by_interpreter() -> None:
    child.run("small_cases.py", "-k", "hidden", interpret=True)
