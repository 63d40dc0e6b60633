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


def test_concepts(gazing: Path, pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = ["I lost my keys.", "Thank you."]
    assert main(["predict", "tatoeba-en-fr", *texts, "--concepts", str(tmp_path / "made_of.svg"), "--json"]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["made_of_1.svg", "made_of_2.svg"]
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    kinds = [[explanation["kind"] for explanation in each["explanations"]] for each in told]
    assert kinds == [["matrix", "concepts"]] * 2
    assert explanation_from_json(told[1]["explanations"][1]) == api.load("tatoeba-en-fr").concepts("Thank you.")
    picture = str(next(pictures.glob("*.png")))
    assert main(["predict", str(gazing), picture, "--concepts", str(tmp_path / "x.png")]) == 2
    assert "no words attend to each other" in capsys.readouterr().err
    assert main(["predict", "tatoeba-en-fr", "hello", "--concepts", "a.bmp"]) == 2
    assert capsys.readouterr().err.startswith("regard: --concepts: unknown picture format")
