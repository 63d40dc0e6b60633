"""Lets the tests of kernels import `child`; in a child that interprets kernels, the interpreter is made quicker."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
if os.environ.get("TRITON_INTERPRET") == "1":
    sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
    import quick_interpreter

    quick_interpreter.install()
