import argparse
import sys
from pathlib import Path
from typing import Any

import pytest

from regard.cli.main import main
from regard.cli.studio import _studio, add


def test_what_is_named_is_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("one", "two"):
        (tmp_path / "trained" / name / "checkpoints" / "1").mkdir(parents=True)
        (tmp_path / "trained" / name / "recipe.json").write_text("{}")
    (tmp_path / "seen.json").write_text("{}")
    studio = _studio(["tatoeba-en-fr", "trained", "seen.json", "trained/one"])
    assert studio.library.runs == ["tatoeba-en-fr", "trained/one", "trained/two", "trained/one"]
    assert [line["name"] for line in studio.traces.lines()] == ["seen"]
    assert [path.name for path in studio.runs.folders] == ["one", "two", "one"]


@pytest.mark.parametrize(
    ("thing", "text"),
    [
        (
            "tatoeba-en-de",
            "there is no run tatoeba-en-de: got no such folder, file or model. Did you mean 'tatoeba-en-fr'",
        ),
        ("empty", "empty holds no runs: got no recipe.json. Try: name a run folder."),
    ],
)
def test_what_is_not_there_is_said_at_once(
    thing: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    assert main(["studio", thing]) == 2
    assert text in capsys.readouterr().err


def test_without_the_extra_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert main(["studio", "--no-open"]) == 2
    assert (
        "this needs uvicorn, which is not installed. Try: pip install uvicorn, or in a clone" in capsys.readouterr().err
    )


def test_it_serves_and_opens_the_page(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from regard.studio import serve

    opened: list[str] = []
    monkeypatch.setattr(serve.webbrowser, "open", opened.append)
    monkeypatch.setattr(serve.Server, "warm_up", lambda self: None)
    monkeypatch.setattr(serve.Server, "run", lambda self: self.close())
    assert main(["studio", "--port", "0"]) == 0
    assert main(["studio", "--port", "0", "--no-open"]) == 0
    assert len(opened) == 1
    assert f"regard studio: {opened[0]}\nCtrl-C ends it." in capsys.readouterr().out


def test_an_export_prints_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import regard.studio.export as exporting

    def export(studio: Any, folder: str, *, told: Any) -> Path:
        told("the model x")
        return Path(folder) / "index.html"

    monkeypatch.setattr(exporting, "export", export)
    assert main(["studio", "--export", "site"]) == 0
    out = capsys.readouterr()
    assert out.out == "site/index.html\n"
    assert "the model x" in out.err


def test_the_flags_have_defaults() -> None:
    parser = argparse.ArgumentParser()
    add(parser)
    asked = parser.parse_args([])
    assert (asked.things, asked.port, asked.host, asked.open, asked.export) == ([], None, "127.0.0.1", True, None)
