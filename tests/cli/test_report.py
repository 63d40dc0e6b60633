import re
import shutil
import sys
from pathlib import Path

import pytest
from tiny import Terminal

from regard.cli.main import main
from regard.tasks import translation


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
    for part in ("Loss", "BLEU by source length", "3,005", "beam 2", "arxiv.org/abs/1409.0473"):
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
    text = "these runs are of different tasks: got run (translation), gazing (classification). Try: make one report for"
    assert capsys.readouterr().err.startswith(f"regard: {text}")
    assert not page.exists()


def test_what_was_evaluated_is_not_decoded_again(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    counts: list[int] = []
    translate = translation.translate_texts

    def count(model: object, texts: list[str], *given: object, **more: object) -> object:
        counts.append(len(texts))
        return translate(model, texts, *given, **more)

    monkeypatch.setattr("regard.tasks.translation.translate_texts", count)
    command = ["report", str(run), "--samples", "2", "--out", str(tmp_path / "report.html")]
    assert main(command) == 0
    assert counts == [6, 2]  # the test set, as there were no figures; the examples
    assert main(command) == 0
    assert counts == [6, 2, 2]
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    (run / "result_test.json").unlink()
    assert main(command) == 0
    assert "report, run: sentences 100% |" in terminal.getvalue()
    assert "report, run: examples 100% |" in terminal.getvalue()


@pytest.mark.parametrize(("fixture", "package"), [("run", "matplotlib"), ("gazing", "PIL"), ("run", "sacrebleu")])
def test_what_is_missing_is_said_before_anything_is_decoded(
    fixture: str,
    package: str,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = shutil.copytree(request.getfixturevalue(fixture), tmp_path / "copy")
    (folder / "result_test.json").unlink(missing_ok=True)
    monkeypatch.setitem(sys.modules, package, None)
    assert main(["report", str(folder), "--out", str(tmp_path / "report.html")]) == 2
    name = "pillow" if package == "PIL" else package
    assert f" needs {name}, which is not installed. Try: pip install {name}, or in a clone" in capsys.readouterr().err
    assert not (folder / "result_test.json").exists()
