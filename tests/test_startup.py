"""The package starts fast, and its tree can be installed as it is."""

import re
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def seconds(code: str) -> float:
    """The best of several runs, so that a busy machine does not decide."""
    times = []
    for _ in range(3):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        times.append(time.perf_counter() - start)
    return min(times)


def test_import_adds_little_to_torch() -> None:
    names = "attend, Attention, MultiHead, Mask, trace, lookup, SCORES, ALIGNS"
    clock = "time.perf_counter()"
    code = f"import time, torch; t = {clock}; import regard; from regard import {names}; print({clock} - t)"
    call = [sys.executable, "-c", code]
    times = (float(subprocess.run(call, check=True, capture_output=True, text=True).stdout) for _ in range(3))
    assert any(time <= 0.3 for time in times)  # the machine may be busy with something else


def test_help_does_not_wait_for_torch() -> None:
    code = "import sys; from regard.cli.main import parser; parser().format_help(); assert 'torch' not in sys.modules"
    assert seconds(code) < 0.5


@pytest.mark.parametrize("module", ["regard", "regard.base", "regard.cli.main"])
def test_light_modules_are_light(module: str) -> None:
    code = f"import sys, {module}; assert not {{'torch', 'numpy', 'matplotlib'}} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_pins_cover_the_dependencies() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pins = {
        line.partition("==")[0].lower().replace("_", "-") for line in (ROOT / "requirements.txt").read_text().split()
    }
    wanted = project["dependencies"] + [entry for extra in project["optional-dependencies"].values() for entry in extra]
    unpinned = {"regard", "tensorboard", "pycocoevalcap"}  # the tests of the latter two have stand-ins
    names = {re.split(r"[\[<>=]", entry)[0].lower() for entry in wanted} - unpinned
    assert names <= pins
    assert "torch==2.13.0" in (ROOT / "requirements.txt").read_text().split()
