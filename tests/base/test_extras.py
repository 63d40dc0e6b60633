"""Packages that are imported late: there, or named in an error that says how to get them."""

import json
import sys
import tomllib
from pathlib import Path

import pytest

from regard.base import MissingExtra, check_installed, require


def test_a_module_that_is_there() -> None:
    assert require("json", extra="viz") is json
    assert require("json.decoder", extra="viz") is json.decoder


@pytest.mark.parametrize("module", ["no_such_package", "no_such_package.part"])
def test_a_package_that_is_not_there(module: str) -> None:
    with pytest.raises(MissingExtra) as caught:
        require(module, extra="viz")
    cure = "pip install no_such_package, or in a clone of regard pip install '.[viz]'"
    assert str(caught.value) == f"this needs no_such_package, which is not installed. Try: {cure}."
    assert isinstance(caught.value.__cause__, ModuleNotFoundError)


def test_a_broken_package_keeps_its_own_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_package.py").write_text("import its_missing_dependency")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="its_missing_dependency") as caught:
        require("broken_package", extra="viz")
    assert not isinstance(caught.value, MissingExtra)


def test_pip_calls_pillow_by_its_own_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(MissingExtra, match=r"this needs PIL, which is not installed\. Try: pip install pillow, or in"):
        require("PIL", extra="vision")


def test_what_is_missing_is_said_before_anything_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    for name in ("json", "no_such_package"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    check_installed("json", what="this")
    assert "json" not in sys.modules
    with pytest.raises(MissingExtra) as caught:
        check_installed("json", "PIL", "no_such_package", what="this")
    missing = "this needs pillow and no_such_package, which are not installed"
    cure = "pip install pillow no_such_package, or in a clone of regard pip install '.'"
    assert str(caught.value) == f"{missing}. Try: {cure}."


def test_a_plain_install_has_what_the_commands_need() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    names = {entry.partition(">")[0] for entry in project["dependencies"]}
    assert {"sentencepiece", "sacrebleu", "matplotlib", "pillow"} <= names
    assert "torch>=2.11" in project["dependencies"]
    extras = project["optional-dependencies"]
    assert [extras[name] for name in ("text", "viz", "vision")] == [[], [], []]  # old commands still work
