import json
import re
import sys
from dataclasses import replace
from multiprocessing import Pipe
from pathlib import Path

import pytest
import torch
from tiny import SIZES

from regard import api
from regard.base import RegardError
from regard.cli.main import main
from regard.cli.twins import SENTENCE, SHIPPED, _draw, _follow, _train_both
from regard.data import EOS
from regard.recipes import RECIPES, Recipe, change, with_files


def small(name: str, text: Path) -> Recipe:
    recipe = with_files(RECIPES[name](), str(text / "a.tsv"), None)
    names = [field.partition("=")[0].removeprefix("model.") for field in SIZES]
    known = [setting for setting, part in zip(SIZES, names, strict=True) if "." in part or hasattr(recipe.model, part)]
    return change(recipe, known)


@pytest.fixture
def _small(text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipes = {name: small(name, text) for name in ("bahdanau/plain_en_fr", "encoder_decoder/plain_en_fr")}
    monkeypatch.setattr("regard.cli.twins.RECIPES", {name: lambda r=recipe: r for name, recipe in recipes.items()})
    monkeypatch.setattr("regard.cli.twins.STEPS", 6)


@pytest.mark.usefixtures("_small")
def test_both_are_trained_compared_and_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "new" / "demo"
    (folder / "with_attention" / "checkpoints" / "step_00000001").mkdir(parents=True)  # of an earlier one
    (folder / "with_attention" / "recipe.json").touch()
    assert main(["demo", "--out", str(folder)]) == 0
    said = capsys.readouterr()
    lines = said.out.splitlines()
    assert lines[-1] == str(folder / "report.html")
    page = Path(lines[-1]).read_text()
    assert page.startswith("<!doctype html>")
    assert "with 6 updates each" in page
    assert "stopped" not in page + said.out
    assert SHIPPED not in page + said.out
    assert "with attention" in page
    assert "without attention" in page
    results = [
        json.loads((folder / name / "result_test.json").read_text()) for name in ("with_attention", "without_attention")
    ]
    row = next(line for line in reversed(lines) if line.startswith("  6–8 "))
    scores = [result["lengths"][1]["bleu"] for result in results]
    assert row.split() == ["6–8", "6", *(f"{score:.1f}" for score in scores), f"{scores[0] - scores[1]:.1f}"]
    sizes = next(line for line in reversed(lines) if line.startswith("  parameters")).split()[1:]
    assert sizes == [f"{result['parameters']:,}" for result in results]
    ends = [json.loads((folder / name / "metrics.jsonl").read_text().splitlines()[-1]) for name in
            ("with_attention", "without_attention")]  # fmt: skip
    updates = next(line for line in reversed(lines) if line.startswith("  updates")).split()[1:]
    assert updates == [f"{end['step']:,}" for end in ends] == ["6", "6"]
    assert any(re.fullmatch(r"  → \S.*  \(with attention\)", line) for line in lines)
    for name in ("alignment.png", "bleu_by_length.png"):
        assert f"  {folder / name}" in lines
        assert (folder / name).read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
@pytest.mark.usefixtures("_small")
def test_a_machine_that_is_too_slow_is_told_and_a_better_alignment_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("regard.cli.twins.STEPS", 1_000_000)
    assert main(["demo", "--seconds", "0.3", "--out", str(tmp_path)]) == 0
    said, page = capsys.readouterr(), (tmp_path / "report.html").read_text()
    lines = said.out.splitlines()
    begun = [line for line in lines if line.endswith(" updates")]
    updates = next(line for line in reversed(lines) if line.startswith("  updates")).split()[1:]
    assert begun == [
        "with attention: bahdanau/plain_en_fr, 1,000,000 updates",
        "without attention: encoder_decoder/plain_en_fr, 1,000,000 updates",
    ]
    told = (
        "Training was stopped after 0.3 seconds, because this machine is slow or was busy: there were "
        f"{updates[0]} with attention and {updates[1]} without attention, where 1,000,000 updates each were wanted."
    )
    assert told in said.out
    assert told in page
    assert f"the alignment shown is not theirs, but that of {SHIPPED}" in page
    translated = api.load(SHIPPED).translate(SENTENCE)
    assert f"  → {translated.text}  ({SHIPPED})" in lines  # the picture is of this
    assert (tmp_path / "alignment.png").read_bytes().startswith(b"\x89PNG")
    maps = page.split('<div class="maps">')[1:]
    assert len(maps) == 6  # sentences of the test set
    for drawn in (part.split("</details>")[0] for part in maps):
        assert SHIPPED in drawn
        assert "with attention" not in drawn  # no stripes


@pytest.mark.slow
@pytest.mark.usefixtures("_small")
def test_the_second_is_trained_as_by_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    models, updates = _train_both(tmp_path / "both", 1200.0)
    assert [*models] == [*updates] == ["with attention", "without attention"]
    assert [*updates.values()] == [6, 6]
    recipe = api.load(tmp_path / "both" / "without_attention").recipe
    alone = api.train(recipe, tmp_path / "alone").module.state_dict()
    beside = models["without attention"].module.state_dict()
    assert alone.keys() == beside.keys()
    assert all(torch.equal(weights, beside[name]) for name, weights in alone.items())
    assert capsys.readouterr().err.count("valid: loss") == 2  # what the other process told is shown too


@pytest.mark.usefixtures("_small")
def test_a_second_training_that_fails_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "without_attention").touch()  # no folder can be made here
    assert main(["demo", "--out", str(tmp_path)]) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith("regard: the training without attention failed: got ")
    assert said.endswith("Try: run `regard demo` again.")


def test_a_process_that_is_gone_is_an_error() -> None:
    heard, told = Pipe(duplex=False)
    told.close()
    with pytest.raises(RegardError, match="the training twin failed: got its process ended early"):
        _follow(heard, RECIPES["encoder_decoder/plain_en_fr"](), "twin")


@pytest.mark.usefixtures("_small")
def test_ctrl_c_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(*given: object, **more: object) -> None:
        raise KeyboardInterrupt

    for work in ("regard.api.train", "regard.api.report"):
        with monkeypatch.context() as patch:
            patch.setattr(work, stop)
            assert main(["demo", "--out", str(tmp_path / work)]) == 130
        told = capsys.readouterr().err.splitlines()[-1]
        assert told == "regard: the demo was stopped; it cannot go on, `regard demo` starts it anew"


@pytest.mark.parametrize("package", ["matplotlib", "sacrebleu", "sentencepiece"])
def test_what_is_missing_is_said_before_the_training(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    assert main(["demo", "--out", str(tmp_path / "demo")]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == (
        f"regard: regard demo needs {package}, which is not installed. "
        f"Try: pip install {package}, or in a clone of regard pip install '.'.\n"
    )
    assert not (tmp_path / "demo").exists()


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf"])
def test_seconds_are_more_than_none(seconds: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--seconds", seconds, "--out", str(tmp_path / "demo")]) == 2
    assert capsys.readouterr().err.startswith(f"regard: --seconds: got {float(seconds)}; expected more than 0")


@pytest.mark.usefixtures("_small")
def test_what_is_no_run_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = tmp_path / "with_attention" / "mine.txt"
    mine.parent.mkdir()
    mine.write_text("dear")

    def stop(recipe: Recipe, *others: object, **more: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("regard.api.train", stop)
    assert main(["demo", "--out", str(tmp_path)]) == 130
    assert mine.read_text() == "dear"


def test_a_model_that_says_nothing_is_drawn_too(trained: Path, tmp_path: Path) -> None:
    model = api.load(trained, device="cpu")
    size = len(model.task.codecs[1])
    biases = [parameter for parameter in model.module.parameters() if parameter.shape == (size,)]
    biases[0].data[EOS] = 1e4
    assert model.translate("the cat.").tokens == []
    assert _draw(model, tmp_path).read_bytes().startswith(b"\x89PNG")


def test_the_true_recipes_are_twins_on_the_embedded_corpus() -> None:
    first, second = (RECIPES[name]() for name in ("bahdanau/plain_en_fr", "encoder_decoder/plain_en_fr"))
    assert first.task == second.task
    assert replace(first.train, seed=0) == replace(second.train, seed=0)
    assert first.task.corpus == "tatoeba_plain"


@pytest.mark.slow
@pytest.mark.bare
@pytest.mark.timeout(1800)
def test_the_story_holds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The demo as it stands: both end, attention is ahead by 8 BLEU at least, and by more the longer a sentence is."""
    assert main(["demo", "--out", str(tmp_path), "--seconds", "1500"]) == 0
    assert "stopped" not in capsys.readouterr().out
    first, second = (
        json.loads((tmp_path / name / "result_test.json").read_text())
        for name in ("with_attention", "without_attention")
    )
    assert first["figures"]["tokenized_bleu"] - second["figures"]["tokenized_bleu"] >= 8
    gaps = [one["bleu"] - two["bleu"] for one, two in zip(first["lengths"], second["lengths"], strict=True)]
    assert gaps == sorted(gaps)
