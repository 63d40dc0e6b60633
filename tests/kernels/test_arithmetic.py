"""Arithmetic inside kernels: `inside.py` by Triton's interpreter; on a GPU, `test_additive.py` runs all cases."""

import child


def test_arithmetic() -> None:
    child.run("inside.py", interpret=True)
