"""Runs tests of this folder in a process of their own: Triton interprets kernels, or compiles them, but not both."""

import os
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent


def run(file: str, *options: str, interpret: bool, slow: bool | None = None) -> None:
    """`pytest file`, with its words if it fails; only those tests that are `slow`, or are not, or all of them."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("TRITON", "PYTEST"))}
    env |= {"OMP_NUM_THREADS": "1", "CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
    env |= {"TRITON_INTERPRET": "1"} if interpret else {}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(FOLDER / file), *options]
    command += [] if slow is None else ["-m", "slow" if slow else "not slow"]
    done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=FOLDER.parents[1], timeout=1500)
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-5_000:]
