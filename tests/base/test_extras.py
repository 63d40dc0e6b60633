"""Optional dependencies: imported, or named in an error with the extra that brings them."""

import json
from pathlib import Path

import pytest

from regard.base import MissingExtra, require


def test_a_module_that_is_there() -> None:
    assert require("json", extra="viz") is json
    assert require("json.decoder", extra="viz") is json.decoder


@pytest.mark.parametrize("module", ["no_such_package", "no_such_package.part"])
def test_a_package_that_is_not_there(module: str) -> None:
    with pytest.raises(MissingExtra) as caught:
        require(module, extra="viz")
    assert str(caught.value) == "this needs no_such_package, which is not installed. Cure: pip install 'regard[viz]'."
    assert isinstance(caught.value.__cause__, ModuleNotFoundError)


def test_a_broken_package_keeps_its_own_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_package.py").write_text("import its_missing_dependency")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="its_missing_dependency") as caught:
        require("broken_package", extra="viz")
    assert not isinstance(caught.value, MissingExtra)
