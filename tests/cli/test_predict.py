"""`regard predict` does what translate, classify and caption do, for any task."""

import json
from pathlib import Path

import pytest

from regard import api
from regard.cli.main import main
from regard.explanation import Path as GlimpsePath
from regard.explanation import explanation_from_json


def test_text_and_pictures(trained: Path, gazing: Path, pictures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predict", str(trained), "the cat.", "--set", "min_steps=2"]) == 0
    assert capsys.readouterr().out == f"{api.load(trained).predict('the cat.', min_steps=2).text}\n"
    names = sorted(str(path) for path in pictures.glob("*.png"))[:2]
    assert main(["predict", str(gazing), *names]) == 0
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert lines == [[name, api.load(gazing).predict(name).described] for name in names]


def test_explanations_as_json(gazing: Path, pictures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = str(next(pictures.glob("*.png")))
    assert main(["predict", str(gazing), picture, "--json"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    (explanation,) = json.loads(line)["explanations"]
    path = explanation_from_json(explanation)
    assert isinstance(path, GlimpsePath)
    assert path.where.shape == (3, 2)


def test_drawings(trained: Path, gazing: Path, pictures: Path, tmp_path: Path) -> None:
    out = tmp_path / "drawn.png"
    assert main(["predict", str(trained), "the cat.", "--set", "min_steps=2", "--draw", str(out)]) == 0
    assert out.read_bytes().startswith(b"\x89PNG")
    names = sorted(str(path) for path in pictures.glob("*.png"))[:2]
    assert main(["predict", str(gazing), *names, "--draw", str(tmp_path / "path.svg")]) == 0
    assert (tmp_path / "path_1.svg").exists()
    assert (tmp_path / "path_2.svg").exists()


def test_mistakes(trained: Path, gazing: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predict", str(gazing), "nowhere.png"]) == 2
    assert "nowhere.png" in capsys.readouterr().err
    assert main(["predict", str(trained), "hello", "--draw", "a.bmp"]) == 2
    assert capsys.readouterr().err.startswith("regard: --draw: unknown picture format")
