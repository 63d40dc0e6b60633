"""`regard export`: folders for other libraries, and errors of one line."""

import shutil
from pathlib import Path

import pytest

from regard.cli.main import main


def test_a_run_and_the_sizes_of_its_files(
    transformer: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [path.parent for path in transformer.rglob("recipe.json")]
    assert len(runs) == 1
    shutil.copytree(runs[0], tmp_path / "mine")
    monkeypatch.chdir(tmp_path)
    assert main(["export", "mine", "--to", "ctranslate2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    folder = tmp_path / "mine_ctranslate2"
    assert [line.split()[1] for line in lines] == [f"mine_ctranslate2/{path.name}" for path in sorted(folder.iterdir())]
    assert f"{(folder / 'model.bin').stat().st_size:>12,}  mine_ctranslate2/model.bin" in lines
    assert main(["export", "mine", "--to", "transformers", "--out", "deep/er"]) == 0
    assert (tmp_path / "deep" / "er" / "config.json").exists()


def test_errors_are_one_line_with_a_cure(
    run: Path, gazing: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    before = sorted(tmp_path.rglob("*"))
    for arguments, error in (
        (["nosuch", "--to", "onnx"], "there is no run nosuch: got no such folder. Try: "),
        (["full", "--to", "onnx"], "full is no run: got no recipe.json in it"),
        ([str(run), "--to", "onxx"], "there is no such format: got 'onxx'; expected one of onnx, ctranslate2, transf"),
        ([str(run), "--to", "onnx", "--out", "full"], "full exists and is not empty. Try: name another folder: --out"),
        ([str(run), "--to", "ctranslate2"], "run cannot be exported to ctranslate2: got bahdanau; expected a Transfor"),
        ([str(gazing), "--to", "onnx"], "gazing cannot be exported to onnx: got ram; expected cho, sutskever, bahdana"),
    ):
        assert main(["export", *arguments]) == 2
        told = capsys.readouterr().err
        assert told.startswith("regard: ")
        assert error in told
        assert told.count("\n") == 1
    assert sorted(tmp_path.rglob("*")) == before
