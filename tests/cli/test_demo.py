import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from tiny import SIZES

from regard import api
from regard.cli.demo import _compare, _draw
from regard.cli.main import main
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
    monkeypatch.setattr("regard.cli.demo.RECIPES", {name: lambda r=recipe: r for name, recipe in recipes.items()})


@pytest.mark.usefixtures("_small")
def test_both_are_trained_compared_and_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "new" / "demo"
    (folder / "with_attention" / "checkpoints" / "step_00000001").mkdir(parents=True)  # of an earlier one
    (folder / "with_attention" / "recipe.json").touch()
    assert main(["demo", "--seconds", "0.2", "--out", str(folder)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == str(folder / "report.html")
    page = Path(lines[-1]).read_text()
    assert page.startswith("<!doctype html>")
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
    assert updates == [f"{end['step']:,}" for end in ends]
    assert any(re.fullmatch(r"  → \S.*", line) for line in lines)
    for name in ("alignment.png", "bleu_by_length.png"):
        assert f"  {folder / name}" in lines
        assert (folder / name).read_bytes().startswith(b"\x89PNG")


def test_a_busy_machine_is_no_comparison(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    twins = {name: api.load(run, device="cpu") for name in ("with attention", "without attention")}
    _compare(twins, {"with attention": 100, "without attention": 140})
    assert "busy" not in capsys.readouterr().out
    _compare(twins, {"with attention": 100, "without attention": 400})
    assert "the machine was busy" in capsys.readouterr().out


@pytest.mark.usefixtures("_small")
def test_what_is_no_run_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = tmp_path / "with_attention" / "mine.txt"
    mine.parent.mkdir()
    mine.write_text("dear")

    def stop(recipe: Recipe, *others: object, **more: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("regard.api.train", stop)
    assert main(["demo", "--seconds", "1", "--out", str(tmp_path)]) == 130
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
