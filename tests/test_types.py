"""Types hold everywhere, by mypy's strictest rules: here, so that it runs beside other tests."""

import subprocess
import sys
from pathlib import Path


def test_types() -> None:
    root = Path(__file__).parents[1]
    done = subprocess.run([sys.executable, "-m", "mypy"], cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
