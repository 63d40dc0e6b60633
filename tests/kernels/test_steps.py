"""Step after step over one memory: `cases.py` by Triton's interpreter; on a GPU, `test_additive.py` runs all cases."""

import child


def test_steps() -> None:
    child.run("cases.py", "-k", "steps", interpret=True, slow=False)
