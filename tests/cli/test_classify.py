from pathlib import Path

import pytest
from tiny import BAD, ODD, odd_pictures

from regard import api
from regard.cli.main import main


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return odd_pictures(tmp_path_factory.mktemp("odd") / "pictures")


def test_one_picture_and_several(gazing: Path, odd: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [str(odd / name) for name in ODD]
    assert main(["classify", str(gazing), paths[0]]) == 0
    one = capsys.readouterr().out
    assert main(["classify", str(gazing), *paths]) == 0
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [name for name, _ in lines] == paths
    model = api.load(gazing)
    assert [said for _, said in lines] == [answer.described for answer in model.classify(paths)]
    assert one == f"{lines[0][1]}\n"
    assert one.endswith(" %, 3 glimpses)\n")


@pytest.mark.parametrize("name", BAD)
def test_bad_pictures(name: str, gazing: Path, odd: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = odd / name
    assert main(["classify", str(gazing), str(path)]) == 2
    said = capsys.readouterr()
    assert said.err.startswith("regard: " + BAD[name].format(path=path))
    assert said.err.count("\n") == 1
    assert said.out == ""


@pytest.mark.parametrize(("name", "start"), [("deep/a.png", b"\x89PNG"), ("A.SVG", b"<?xml"), ("a.gif", b"GIF8")])
def test_the_path_is_drawn(
    name: str, start: bytes, gazing: Path, odd: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    assert main(["classify", str(gazing), str(odd / "grey.png"), "--path", str(path)]) == 0
    assert path.read_bytes().startswith(start)
    assert capsys.readouterr().err == f"{path}\n"


def test_paths_of_several_are_numbered(gazing: Path, odd: Path, tmp_path: Path) -> None:
    pictures = [str(odd / "grey.png"), str(odd / "dot.png")]
    assert main(["classify", str(gazing), *pictures, "--path", str(tmp_path / "a.png")]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a_1.png", "a_2.png"]


def test_a_model_that_sees_all_at_once_has_no_path(
    gazing: Path, odd: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = ["--out", str(tmp_path / "run"), "--set", "task.dataset=digits", "task.canvas.clutter=0"]
    small = [
        "task.canvas.size=none",
        "model.hidden_dim=4",
        "task.batch_size=8",
        "train.steps=1",
        "train.evaluate_every=1",
        "train.warmup=0",
    ]
    assert main(["train", "ram/fully_connected", *run, *small]) == 0
    said = capsys.readouterr()
    assert "Pictures:" not in said.out  # nothing to draw
    assert main(["classify", str(tmp_path / "run"), str(odd / "grey.png"), "--path", str(tmp_path / "a.png")]) == 2
    said = capsys.readouterr()
    assert said.err == (
        "regard: run takes no glimpses: got paper=fully_connected. Try: draw a model that does: ram, dram, dt_ram.\n"
    )
    assert not (tmp_path / "a.png").exists()


def test_wrong_formats_and_wrong_runs(
    gazing: Path, captioning: Path, odd: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = str(odd / "grey.png")
    assert main(["classify", str(gazing), picture, "--path", "a.bmp"]) == 2
    text = "regard: --path: unknown picture format: got '.bmp'; expected one of .png, .pdf, .svg, .gif\n"
    assert capsys.readouterr().err == text
    assert main(["classify", str(captioning), picture]) == 2
    text = (
        "captioning cannot classify pictures: got a captioning run. "
        "Try: caption pictures with it, or load a model that can classify.\n"
    )
    assert capsys.readouterr().err == f"regard: {text}"
    assert main(["translate", str(gazing), "hello"]) == 2
    text = (
        "gazing cannot translate text: got a classification run. "
        "Try: classify pictures with it, or load a model that can translate.\n"
    )
    assert capsys.readouterr().err == f"regard: {text}"
    assert main(["evaluate", str(gazing), "--beam", "2"]) == 2
    assert capsys.readouterr().err.startswith("regard: unknown setting 'beam' of a prediction: expected one of draws")
