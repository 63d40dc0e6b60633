"""--set, where a command searches: what reaches the search, and what is refused."""

import json
import shutil
from pathlib import Path

import pytest
from tiny import TRAIN

from regard import api
from regard.base import ConfigError
from regard.cli.flags import prediction_settings
from regard.cli.main import main


def test_settings_become_options(trained: Path) -> None:
    model = api.load(trained)
    assert prediction_settings(model.task, []) == {}
    assert prediction_settings(model.task, ["beams=4"]) == {"beams": 4}  # where there is no flag for it
    settings = prediction_settings(model.task, ["consensus=0.5", "length_penalty=0"], beam=3, nbest=None)
    assert settings == {"consensus": 0.5, "length_penalty": 0.0, "beam": 3}
    with pytest.raises(ConfigError, match=r"beams is a flag of its own. Try: write --beam 4"):
        prediction_settings(model.task, ["beams=4"], beam=None)
    with pytest.raises(ConfigError, match="consensus"):
        prediction_settings(model.task, ["concensus=1"])  # a cure is named


def test_captions_by_consensus(captioning: Path, pictures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = str(next(pictures.glob("*.png")))
    flags = ["--beam", "4", "--nbest", "4"]
    assert main(["caption", str(captioning), picture, *flags, "--set", "consensus=1"]) == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    scores = [float(score) for score, _ in rows]
    assert scores == sorted(scores, reverse=True)
    assert all(0 < score <= 1 for score in scores)
    assert main(["caption", str(captioning), picture, *flags]) == 0
    assert {line.split("\t")[1] for line in capsys.readouterr().out.splitlines()} == {text for _, text in rows}


def test_evaluation_says_how_it_searched(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", str(run), "--beam", "3", "--set", "consensus=2"]) == 0
    found = json.loads((run / "result_test.json").read_text())
    assert (found["settings"]["beams"], found["settings"]["consensus"]) == (3, 2.0)
    capsys.readouterr()
    assert main(["evaluate", str(run), "--set", "beams=3"]) == 2
    assert capsys.readouterr().err.startswith("regard: beams is a flag of its own")


def test_hard_attention_is_judged_in_both_ways(
    pictures: Path, captioning: Path, trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = ["--source", str(pictures.parent / "captions.tsv"), "--target", str(pictures)]
    sizes = [f"model.{name}_dim=8" for name in ("embed", "hidden", "align", "project")]
    sizes += ["model.align=sample", "task.batch_size=8", "task.max_words=10", "train.warmup=0", *TRAIN]
    run = tmp_path / "hard"
    assert main(["train", "show_attend_tell/shapes", *files, "--out", str(run), "--set", *sizes]) == 0
    losses = {}
    for settings, places in (([], "expected"), (["--set", "places=argmax"], "argmax")):
        assert main(["evaluate", str(run), "--beam", "3", *settings]) == 0
        found = json.loads((run / "result_test.json").read_text())
        for signature in found["signatures"].values():
            assert signature.endswith(f"|search:beams=3,length_penalty=0|places:{places}"), signature
        losses[places] = found["figures"]["loss"]
    assert losses["expected"] != losses["argmax"]
    picture = str(next(pictures.glob("*.png")))
    assert main(["caption", str(run), picture, "--set", "places=argmax"]) == 0
    capsys.readouterr()
    assert main(["caption", str(captioning), picture, "--set", "places=argmax"]) == 2  # soft
    assert capsys.readouterr().err.startswith("regard: only hard attention chooses where to look")
    assert main(["evaluate", str(run), "--set", "places=best"]) == 2
    assert "places" in capsys.readouterr().err
    with pytest.raises(ConfigError, match="unknown setting 'places' of a prediction"):
        api.load(trained).evaluate(places="argmax")


def test_evaluation_says_how_it_looked(gazing: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert prediction_settings(api.load(gazing).task, ["draws=3"]) == {"draws": 3}
    own = shutil.copytree(gazing, tmp_path / "own")
    assert main(["evaluate", str(own), "--set", "draws=3"]) == 0
    assert "locations: mean of 3 draws" in capsys.readouterr().out
    assert main(["evaluate", str(own)]) == 0
    lines = capsys.readouterr().out.splitlines()
    table = lines[next(n for n, line in enumerate(lines) if line.split() == ["glimpse", "error,", "%"]) + 1 :][:3]
    assert [line.split()[0] for line in table] == ["1", "2", "3"]
    assert table[-1].split()[1] == next(line.split()[2] for line in lines if line.startswith("  error, %"))
    for wrong, said in {
        "certainty=0.9": "regard: a RAM does not decide when to stop: got certainty=0.9\n",
        "drawz=3": "regard: unknown setting 'drawz'",
        "draws=some": "regard: draws: got",
    }.items():
        assert main(["evaluate", str(own), "--set", wrong]) == 2
        assert capsys.readouterr().err.startswith(said)
    with pytest.raises(ConfigError, match=r"unknown setting 'consensus' of a prediction"):
        api.load(gazing).evaluate(consensus=1.0)
