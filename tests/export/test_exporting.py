"""The door of exports: errors before anything is written, and nothing left behind after one."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest
from small_models import translator

from regard.base import ConfigError, MissingExtra, RegardError
from regard.export import FORMATS, check_format, ctranslate2, export_model


def test_the_folder_is_named_after_run_and_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert export_model(translator("transformer"), "ctranslate2") == Path("small_transformer_ctranslate2")
    assert [path.name for path in tmp_path.iterdir()] == ["small_transformer_ctranslate2"]


def test_an_empty_folder_is_taken_and_others_are_refused(tmp_path: Path) -> None:
    model, empty, full, file = translator("transformer"), tmp_path / "empty", tmp_path / "full", tmp_path / "file"
    empty.mkdir()
    assert (export_model(model, "ctranslate2", empty) / "model.bin").exists()
    full.mkdir()
    (full / "mine.txt").write_text("mine")
    file.write_text("mine")
    with pytest.raises(RegardError, match=r"full exists and is not empty. Try: name another folder: --out FOLDER."):
        export_model(model, "ctranslate2", full)
    with pytest.raises(RegardError, match=r"file is not a folder: got a file. Try: name another folder"):
        export_model(model, "ctranslate2", file)
    assert [path.name for path in full.iterdir()] == ["mine.txt"]


def test_nothing_stays_after_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(model: Any, folder: Path) -> None:
        (folder / "half").write_text("half")
        raise KeyboardInterrupt

    monkeypatch.setattr(ctranslate2, "write", fail)
    with pytest.raises(KeyboardInterrupt):
        export_model(translator("transformer"), "ctranslate2", tmp_path / "new" / "out")
    assert list((tmp_path / "new").iterdir()) == []


@pytest.mark.parametrize(
    ("to", "package"), [("onnx", "onnxscript"), ("ctranslate2", "ctranslate2"), ("transformers", "tokenizers")]
)
def test_a_missing_package_is_named_before_anything_is_written(
    to: str, package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name == package else find(name, *more))
    with pytest.raises(
        MissingExtra, match=rf"export to {to} needs {package}, which is not installed. Try: pip install {package}"
    ):
        export_model(translator("transformer"), to, tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_an_unknown_format_is_an_error_that_names_the_others() -> None:
    with pytest.raises(
        ConfigError, match=r"got 'onx'; expected one of onnx, ctranslate2, transformers. Did you mean 'onnx'"
    ):
        check_format("onx")
    assert all(FORMATS.values())
