import re
import shutil
from pathlib import Path

import pytest

from regard.cli.main import main


def test_one_run_that_was_not_evaluated_yet(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "pages" / "report.html"
    assert main(["report", str(run), "--out", str(page)]) == 0
    assert capsys.readouterr().out == f"{page}\n"
    assert (run / "result_test.json").exists()
    text = page.read_text()
    assert text.startswith("<!doctype html>")
    assert not re.search(r"<(script|link|img|iframe)[^>]*\s(src|href)=", text)  # self-contained
    assert "@import" not in text
    assert text.count("<article") == 6  # all sentences of the test set, though 8 were asked for
    for part in ("Loss", "BLEU by length", "3,005", "beam 2", "arxiv.org/abs/1409.0473"):
        assert part in text
    assert "data-weights" in text


def test_two_runs_side_by_side(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(run, tmp_path / "other" / "run")
    monkeypatch.chdir(tmp_path)
    assert main(["report", "run", "other/run", "--samples", "2", "--split", "valid"]) == 0
    text = (tmp_path / "report.html").read_text()
    assert "run (1)" in text
    assert "run (2)" in text
    assert text.count("<article") == 2  # each has both translations
    assert text.count('class="output"') == 4
    assert (run / "result_valid.json").exists()


def test_runs_of_different_tasks_are_refused(
    run: Path, gazing: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "report.html"
    assert main(["report", str(run), str(gazing), "--out", str(page)]) == 2
    text = (
        "these runs are of different tasks: got run (translation), gazing (classification). Cure: make one report for"
    )
    assert capsys.readouterr().err.startswith(f"regard: {text}")
    assert not page.exists()
