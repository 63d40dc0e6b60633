"""Random cases of `tools/attack_attention.py`: on the CPU, and by Triton's interpreter."""

import importlib.util
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


@pytest.mark.parametrize(
    ("where", "cases"),
    [
        ("eager", 60),
        ("interpreter", 10),
        pytest.param("eager", 160, marks=pytest.mark.slow),
        pytest.param("interpreter", 40, marks=pytest.mark.slow),
    ],
)
def test_random_cases(where: str, cases: int) -> None:
    done = attack("--where", where, "--cases", str(cases), "--seed", "18")
    assert done.returncode == 0, done.stdout[-5_000:] + done.stderr[-10_000:]
    assert f"{where}, seed 18: {cases} cases" in done.stdout
    assert " 0 failed" in done.stdout


def test_random_gradients_through_weights() -> None:
    done = attack("--where", "eager", "--cases", "40", "--seed", "18", "--weights")
    assert done.returncode == 0, done.stdout[-5_000:] + done.stderr[-10_000:]


def test_a_number_stands_for_one_case() -> None:
    spec = importlib.util.spec_from_file_location("attack_attention", TOOL)
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = tool  # where its dataclasses look for themselves
    spec.loader.exec_module(tool)
    cases = [[tool.draw(number, 18, "eager") for number in range(300)] for _ in range(2)]
    assert cases[0] == cases[1]
    for field, wanted in (("transform", tool.TRANSFORMS), ("align", tool.ALIGNS), ("mask", tool.MASKS)):
        assert {getattr(case, field) for case in cases[0]} == set(wanted)


@pytest.mark.gpu
def test_random_cases_on_a_gpu() -> None:
    done = attack("--where", "gpu", "--cases", "300", "--seed", "18", "--jobs", "4")
    assert done.returncode == 0, done.stdout[-5_000:] + done.stderr[-10_000:]


@pytest.mark.gpu
def test_random_gradients_through_weights_on_a_gpu() -> None:
    done = attack("--where", "gpu", "--cases", "300", "--seed", "18", "--jobs", "4", "--weights")
    assert done.returncode == 0, done.stdout[-5_000:] + done.stderr[-10_000:]
