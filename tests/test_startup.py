"""The package starts fast, counted in modules (a clock would measure the machine); its tree installs as it is."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def imported(code: str, *, before: str = "") -> list[str]:
    """The modules that a new process has after `code` and had not after `before`."""
    lines = [before, "import sys; known = set(sys.modules)", code, "print(*sorted(set(sys.modules) - known))"]
    call = [sys.executable, "-c", "\n".join(lines)]
    return subprocess.run(call, check=True, capture_output=True, text=True).stdout.split()


def packages(modules: list[str]) -> set[str]:
    """The packages of these modules, without those of Python itself."""
    return {module.partition(".")[0] for module in modules} - set(sys.stdlib_module_names)


def test_import_adds_little_to_torch() -> None:
    names = "attend, Attention, MultiHead, Mask, trace, lookup, SCORES, ALIGNS"
    code = f"import regard; from regard import {names}; import regard.integrations.transformers"  # without transformers
    new = imported(code, before="import torch")
    assert packages(new) <= {"regard", "jaxtyping", "numpy", "wadler_lindig"}
    assert len(new) <= len(imported("import torch")) // 10  # 52 of 1123 when this was written


def test_help_does_not_wait_for_torch() -> None:
    new = imported("from regard.cli.main import parser; parser().format_help()")
    assert packages(new) == {"regard"}
    assert len(new) <= 150  # 98 when this was written, most of them argparse's and pathlib's


@pytest.mark.parametrize("module", ["regard", "regard.base", "regard.cli.main"])
def test_light_modules_are_light(module: str) -> None:
    code = f"import sys, {module}; assert not {{'torch', 'numpy', 'matplotlib'}} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_pins_cover_the_dependencies() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pins = {
        line.partition("==")[0].lower().replace("_", "-") for line in (ROOT / "requirements.txt").read_text().split()
    }
    extras = project["optional-dependencies"]
    site = (ROOT / "docs" / "requirements.txt").read_text().lower()  # a set-up for tests has nothing of the site's
    assert all(f"\n{re.split(r'[><=]', entry)[0]}==" in site for entry in extras.pop("docs"))
    wanted = project["dependencies"] + [entry for extra in extras.values() for entry in extra]
    unpinned = {"regard", "tensorboard", "pycocoevalcap"}  # the tests of the latter two have stand-ins
    names = {re.split(r"[\[<>=]", entry)[0].lower() for entry in wanted} - unpinned
    assert names <= pins
    assert "torch==2.13.0" in (ROOT / "requirements.txt").read_text().split()
