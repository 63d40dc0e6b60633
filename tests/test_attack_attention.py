"""Two hundred random cases of `tools/attack_attention.py`, which has thousands: on the CPU and in Triton's interpreter."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[1] / "tools" / "attack_attention.py"


def attack(*options: str) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("TRITON")}
    env |= {"OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(TOOL), *options]
    return subprocess.run(command, capture_output=True, text=True, env=env, timeout=280)


@pytest.mark.parametrize(("where", "cases"), [("eager", 150), ("interpreter", 50)])
def test_random_cases(where: str, cases: int) -> None:
    done = attack("--where", where, "--cases", str(cases), "--seed", "18")
    assert done.returncode == 0, done.stdout[-5_000:] + done.stderr[-10_000:]
    assert f"{where}, seed 18: {cases} cases" in done.stdout
    assert " 0 failed" in done.stdout


def test_a_case_can_be_run_again_by_its_number() -> None:
    first, again = (attack("--case", "7", "--seed", "18").stdout for _ in range(2))
    assert first == again
    assert first.startswith("Case(")


@pytest.mark.gpu
def test_random_cases_on_a_gpu() -> None:
    done = attack("--where", "gpu", "--cases", "300", "--seed", "18", "--jobs", "4")
    assert done.returncode == 0, done.stdout[-5_000:] + done.stderr[-10_000:]
