import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny import BAD, ODD, odd_pictures

from regard import api, viz
from regard.cli.main import main
from regard.train import load_tensors, save_tensors


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return odd_pictures(tmp_path_factory.mktemp("odd") / "pictures")


def test_one_picture_and_several(captioning: Path, odd: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [str(odd / name) for name in ODD]
    assert main(["caption", str(captioning), paths[0]]) == 0
    one = capsys.readouterr().out
    assert main(["caption", str(captioning), *paths]) == 0
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert lines == [[path, found.text] for path, found in zip(paths, api.load(captioning).caption(paths), strict=True)]
    assert one == f"{lines[0][1]}\n"


def test_nbest_has_scores_best_first(captioning: Path, pictures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = str(next(pictures.glob("*.png")))
    assert main(["caption", str(captioning), picture, "--nbest", "3"]) == 0  # and as many beams
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    scores = [float(score) for score, _ in rows]
    assert scores == sorted(scores, reverse=True)
    assert len({text for _, text in rows}) == 3
    assert main(["caption", str(captioning), picture, "--nbest", "3", "--beam", "2"]) == 2
    assert capsys.readouterr().err == "regard: nbest: got 3; expected at most beams, which is 2. Try: add --beam 3.\n"


@pytest.mark.parametrize("name", BAD)
def test_bad_pictures(name: str, captioning: Path, odd: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = odd / name
    assert main(["caption", str(captioning), str(odd / "plain.jpg"), str(path)]) == 2
    said = capsys.readouterr()
    assert said.err.startswith("regard: " + BAD[name].format(path=path))
    assert said.err.count("\n") == 1


def test_overlays_of_several_are_numbered(
    captioning: Path, odd: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pictures = [str(odd / "plain.jpg"), str(odd / "dot.png")]
    one, both = str(tmp_path / "deep" / "one.svg"), str(tmp_path / "both.png")
    assert main(["caption", str(captioning), pictures[0], "--overlay", one]) == 0
    assert capsys.readouterr().err == f"{one}\n"
    assert Path(one).read_bytes().startswith(b"<?xml")
    assert main(["caption", str(captioning), *pictures, "--overlay", both]) == 0
    assert sorted(path.name for path in tmp_path.glob("*.png")) == ["both_1.png", "both_2.png"]


def test_overlays_show_all_of_the_best(
    captioning: Path, pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Any] = []
    draw_beside = viz.draw_beside
    monkeypatch.setattr("regard.viz.draw_beside", lambda places: drawn.append(places) or draw_beside(places))
    words = [str(next(pictures.glob("*.png"))), "--nbest", "2", "--overlay", str(tmp_path / "two.png")]
    assert main(["caption", str(captioning), *words]) == 0
    assert [*drawn[0]] == ["1", "2"]
    assert drawn[0]["1"].labels != drawn[0]["2"].labels
    assert main(["caption", str(captioning), *words, "--beside", str(captioning)]) == 0
    assert [name.split()[-1] for name in drawn[1]] == ["1", "2", "1", "2"]
    assert len(drawn[1]) == 4


def test_runs_beside_each_other(
    captioning: Path, gazing: Path, odd: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture, both = str(odd / "plain.jpg"), tmp_path / "both.png"
    other = shutil.copytree(captioning, tmp_path / "hard")
    recipe = (other / "recipe.json").read_text()
    assert recipe.count('"align": "softmax"') == 1
    (other / "recipe.json").write_text(recipe.replace('"align": "softmax"', '"align": "sample"'))
    weights = load_tensors(other / "model.safetensors")
    save_tensors(other / "model.safetensors", weights | {"baseline.value": torch.zeros(())})
    assert main(["caption", str(captioning), picture]) == 0
    text = capsys.readouterr().out.rstrip("\n")
    assert main(["caption", str(captioning), picture, "--overlay", str(both), "--beside", str(other)]) == 0
    said = capsys.readouterr()
    assert said.out == f"soft\t{text}\nhard\t{text}\n"  # the same weights, and at test what is expected
    assert said.err == f"{both}\n"
    assert both.read_bytes().startswith(b"\x89PNG")
    assert (
        main(["caption", str(captioning), picture, picture, "--beside", str(other), str(captioning), "--nbest", "2"])
        == 0
    )
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    runs = ["1 captioning", "2 hard", "3 captioning"]  # two look alike and have one name
    assert [line[:2] for line in lines] == [[picture, run] for _ in range(2) for run in runs for _ in range(2)]
    assert main(["caption", str(captioning), picture, "--beside", str(gazing)]) == 2
    assert capsys.readouterr().err.startswith("regard: gazing cannot caption pictures")


def test_a_model_without_attention_has_no_overlay(
    captioning: Path, pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = ["--source", str(pictures.parent / "captions.tsv"), "--target", str(pictures)]
    sizes = [f"model.{name}_dim=8" for name in ("embed", "hidden", "align", "project")]
    sizes += [
        "model.mean_pooled=true",
        "task.max_words=10",
        "train.steps=1",
        "train.evaluate_every=1",
        "train.warmup=0",
    ]
    out = ["--out", str(tmp_path / "run")]
    assert main(["train", "show_attend_tell/shapes", *files, *out, "--set", *sizes]) == 0
    capsys.readouterr()
    picture = str(next(pictures.glob("*.png")))
    assert main(["caption", str(tmp_path / "run"), picture, "--overlay", str(tmp_path / "a.png")]) == 2
    text = "run has no attention. Try: draw a model that has.\n"
    assert capsys.readouterr().err == f"regard: {text}"
    beside = ["--overlay", str(tmp_path / "b.png"), "--beside", str(tmp_path / "run")]
    assert main(["caption", str(captioning), picture, *beside]) == 2
    assert capsys.readouterr().err == f"regard: {text}"


def test_wrong_formats_and_wrong_runs(
    captioning: Path, gazing: Path, odd: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["caption", str(captioning), str(odd / "plain.jpg"), "--overlay", "a.gif"]) == 2
    text = "regard: --overlay: unknown picture format: got '.gif'; expected one of .png, .pdf, .svg\n"
    assert capsys.readouterr().err == text
    assert main(["caption", str(gazing), str(odd / "plain.jpg")]) == 2
    text = (
        "gazing cannot caption pictures: got a classification run. "
        "Try: classify pictures with it, or load a model that can caption.\n"
    )
    assert capsys.readouterr().err == f"regard: {text}"


@pytest.mark.parametrize(("line", "text"), [
    ("train00000.png", "{file}, line 31: no tab: got 'train00000.png'; expected picture<TAB>caption."),
    ("train00000.png\t ", "{file}, line 31: no caption: got 'train00000.png\\t '; expected picture<TAB>caption."),
    ("gone.png\ta cat", "{file}, line 31: a picture that is not there: got gone.png; expected a file in {folder}."),
    ("../x.png\ta cat", "{file}, line 31: a picture outside the folder: got ../x.png; expected a path below {folder}."),
])  # fmt: skip
def test_bad_captions(line: str, text: str, pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "captions.tsv"
    file.write_text((pictures.parent / "captions.tsv").read_text() + line + "\n")
    files = ["--source", str(file), "--target", str(pictures), "--out", str(tmp_path / "new")]
    assert main(["train", "show_attend_tell/shapes", *files]) == 2
    said = capsys.readouterr().err
    assert said.startswith("regard: " + text.format(file=file, folder=pictures))
    assert said.count("\n") == 1
    assert not (tmp_path / "new").exists()


def test_a_picture_without_a_caption(pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out = tmp_path / "captions.tsv", ["--out", str(tmp_path / "new")]
    lines = (pictures.parent / "captions.tsv").read_text().splitlines(keepends=True)
    file.write_text("".join(lines[1:]))
    assert main(["train", "show_attend_tell/shapes", "--source", str(file), "--target", str(pictures), *out]) == 2
    text = f"{pictures}: a picture without a caption in {file}: got {lines[0].split()[0]}. Try: write one, or leave"
    assert capsys.readouterr().err.startswith(f"regard: {text}")
    assert main(["train", "show_attend_tell/shapes", "--source", str(file), *out]) == 2
    assert (
        capsys.readouterr().err == "regard: captions need their pictures: got no --target. Try: add --target FOLDER.\n"
    )
    assert main(["train", "ram/mini", "--source", str(file), *out]) == 2
    assert capsys.readouterr().err.startswith("regard: classification cannot be trained on files of your own: got ")
