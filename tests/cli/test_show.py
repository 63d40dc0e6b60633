"""`regard show` prints every setting of every recipe with its meaning."""

import json
from dataclasses import dataclass, fields
from pathlib import Path

import pytest

from regard.base.meanings import described
from regard.cli.main import main
from regard.models import MODELS
from regard.recipes import RECIPES
from regard.tasks import Algorithmic
from regard.train import Train


def test_a_recipe(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "luong/general"]) == 0
    text = capsys.readouterr().out
    assert "Effective Approaches to Attention-based Neural Machine Translation (2015)" in text
    assert "task translation, data multi30k de→en" in text
    for field in fields(Train):
        assert f"  train.{field.name}=" in text
    line = next(line for line in text.splitlines() if line.startswith("  task.smoothing="))
    assert "of labels" in line
    assert "places=" not in text.partition("predictions:")[2]  # it means nothing here


def test_settings_that_differ_from_the_default_say_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "luong/general", "--json"]) == 0
    settings = json.loads(capsys.readouterr().out)
    assert settings["task.corpus"]["value"] == "multi30k"
    assert settings["task.corpus"]["default"] == "tatoeba_plain"
    assert settings["task.search.beams"]["meaning"] == "prefixes that are followed; one is greedy"


def test_every_setting_of_every_recipe_has_a_meaning() -> None:
    for name, build in RECIPES.items():
        recipe = build()
        for config in (recipe.model, recipe.task, recipe.train, recipe.entry.task.settings_type()):
            for setting in described(config):
                assert setting.meaning, f"{name}: write a comment beside {type(config).__name__}.{setting.name}"


def test_predictions_are_made_by_a_method_that_exists(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "luong/general"]) == 0
    assert "`model.translate(…, NAME=VALUE)`" in capsys.readouterr().out
    assert main(["show", "ntm/smoke"]) == 0
    assert "`model.predict(…, NAME=VALUE)`" in capsys.readouterr().out


def test_a_task_whose_predictions_have_no_settings(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Algorithmic, "settings_type", dataclass(type("Nothing", (), {})))
    assert main(["show", "ntm/smoke"]) == 0
    assert "predictions:" not in capsys.readouterr().out


def test_a_model_that_no_paper_describes(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MODELS, "ntm", MODELS["ntm"]._replace(title="A toy", link=""))
    assert main(["show", "ntm/smoke"]) == 0
    assert "\nA toy (2014)\n" in capsys.readouterr().out


def test_a_run_and_the_model_that_ships(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(trained)]) == 0
    assert "task.corpus=files" in capsys.readouterr().out
    assert main(["show", "tatoeba-en-fr"]) == 0
    assert "task translation, data tatoeba en→fr" in capsys.readouterr().out
    assert main(["show", "babi-stories"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("babi-stories answers questions")
    assert "error, mean over tasks, % 0.00 on test: regard evaluate babi-stories" in text
    assert "licence  Apache-2.0; learnt from bAbI" in text


def test_a_name_that_is_almost_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "babi-storys"]) == 2
    assert "there is no recipe 'babi-storys'. Did you mean 'babi-stories'?" in capsys.readouterr().err


def test_what_a_recipe_costs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "ram/mini"]) == 0
    assert "cost of its training: ≈ " in capsys.readouterr().out
