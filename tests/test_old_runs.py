"""Run folders of the version before tasks had names load, predict what they predicted, and show the same figures."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from regard import api
from regard.recipes import load_recipe

RUNS = Path(__file__).parent / "old_runs"


@pytest.mark.parametrize("name", ["translation", "classification", "captioning"])
def test_the_task_is_known_by_its_settings(name: str) -> None:
    assert "task_name" not in json.loads((RUNS / name / "recipe.json").read_text())
    assert load_recipe(RUNS / name).entry.name == name
    assert api.load(RUNS / name, device="cpu").entry.name == name


def test_a_renamed_setting_keeps_its_value(tmp_path: Path) -> None:
    recipe = json.loads((RUNS / "classification" / "recipe.json").read_text())
    recipe["task"]["walks"] = 3
    (tmp_path / "recipe.json").write_text(json.dumps(recipe))
    assert load_recipe(tmp_path).task.rollouts == 3


def test_predictions_are_what_they_were() -> None:
    translated = api.load(RUNS / "translation", device="cpu").translate("one and two three", min_steps=3)
    assert translated.text == "<unk> <unk>"
    black = np.zeros((28, 28), np.uint8)
    recognised = api.load(RUNS / "classification", device="cpu").classify(black)
    assert recognised.text == "6"
    expected = [0.12144110351800919, 0.09023665636777878, 0.11820793151855469]
    assert recognised.probabilities[0, :3].tolist() == pytest.approx(expected, abs=1e-6)
    caption = api.load(RUNS / "captioning", device="cpu").caption(np.full((56, 56, 3), 90, np.uint8), min_steps=3)
    assert caption.text == " ".join(["red"] * 10)


@pytest.mark.parametrize("name", ["translation", "classification", "captioning"])
def test_figures_are_read_not_made_anew(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = shutil.copytree(RUNS / name, tmp_path / name)
    stored = json.loads((folder / "result_test.json").read_text())
    model = api.load(folder, device="cpu")

    def evaluate(*_: object, **__: object) -> None:
        raise AssertionError("evaluated again")

    monkeypatch.setattr(api.Model, "evaluate", evaluate)
    assert api.result(model, "test") == stored
    assert api.count_of(stored) > 0
    if name == "classification":
        page = api.report([model], samples=1)
        assert f"{stored['figures']['error']:.2f}" in page


def test_a_run_that_is_saved_anew_names_its_task(tmp_path: Path) -> None:
    from regard.recipes import load_task, save_recipe

    recipe = load_recipe(RUNS / "classification")
    save_recipe(tmp_path, recipe, load_task(RUNS / "classification", recipe))
    assert json.loads((tmp_path / "recipe.json").read_text())["task_name"] == "classification"
    assert load_recipe(tmp_path) == recipe
