"""`regard read`: one word, several, whole signs, drawings, JSON and mistakes."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from regard import api
from regard.cli.main import main

TINY = ["model.channels=2", "model.hidden_dim=8", "model.layers=1", "model.blocks=1,1,1,1", "train.steps=2",
        "train.evaluate_every=2", "train.save_every=2", "train.log_every=2", "train.warmup=0", "task.held_out=4",
        "task.batch_size=8"]  # fmt: skip


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve pictures of noise with texts, in words.tsv."""
    folder = tmp_path_factory.mktemp("words")
    rng = np.random.default_rng(0)
    lines = []
    for number in range(12):
        Image.fromarray(rng.integers(0, 256, (16, 40, 3)).astype(np.uint8)).save(folder / f"{number}.png")
        lines.append(f"{number}.png\tA{number}\n")
    (folder / "words.tsv").write_text("".join(lines))
    return folder


@pytest.fixture(scope="module")
def reader(words: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two steps on one's own words; to be read, not to be changed."""
    out = tmp_path_factory.mktemp("runs") / "reader"
    files = ["--source", str(words / "words.tsv"), "--target", str(words)]
    letters = ["task.letters=0123456789abcdefghijklmnopqrstuvwxyz"]
    assert main(["train", "scene_text/smoke", *files, "--out", str(out), "--set", *TINY, *letters]) == 0
    return out


@pytest.fixture(scope="module")
def finder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A detector of two steps."""
    out = tmp_path_factory.mktemp("runs") / "finder"
    few = [setting for setting in TINY if not setting.startswith("model.")]
    assert main(["train", "scene_text/signs_smoke", "--out", str(out), "--set", "model.channels=4", *few]) == 0
    return out


def test_one_word_several_words_json_and_drawings(
    reader: Path, words: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [str(words / f"{number}.png") for number in range(2)]
    read = api.load(reader).read(paths)
    assert main(["read", str(reader), *paths]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == [f"{path}\t{word.text}" for path, word in zip(paths, read, strict=True)]
    assert main(["read", str(reader), paths[0], "--json", "--beam", "3", "--set", "min_steps=2"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["picture"] == paths[0]
    assert len(told["explanations"]) == 1
    drawing = tmp_path / "letters.png"
    assert main(["read", str(reader), paths[0], "--draw", str(drawing), "--set", "min_steps=2"]) == 0
    assert drawing.read_bytes().startswith(b"\x89PNG")
    capsys.readouterr()
    assert main(["read", str(reader), paths[0], "--nbest", "2", "--beam", "3"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_a_whole_sign(
    reader: Path, finder: Path, words: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    drawing = str(tmp_path / "sign.svg")
    picture = str(words / "3.png")
    assert main(["read", str(reader), picture, "--finder", str(finder), "--draw", drawing, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["explanations"][0]["kind"] == "boxes"
    assert main(["read", str(reader), picture, "--finder", str(finder), "--nbest", "2"]) == 0
    assert capsys.readouterr().out == "".join(f"{line}\n" for line in told["text"].splitlines() or [""])
    assert sorted(tmp_path.glob("sign*.svg"))


def test_mistakes(reader: Path, finder: Path, words: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = str(words / "0.png")
    assert main(["read", str(finder), picture]) == 2
    assert "cannot read pictures: got a word_finding run" in capsys.readouterr().err
    assert main(["read", str(reader), picture, "--finder", str(reader)]) == 2
    assert "cannot find pictures: got a word_reading run" in capsys.readouterr().err
    assert main(["read", str(reader), "gone.png"]) == 2
    assert "gone.png: cannot be read" in capsys.readouterr().err
