import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import regard
from regard import api
from regard.base import ConfigError, RegardError
from regard.data import Canvas, ParallelText
from regard.models import DTRAMConfig
from regard.recipes import RECIPES, Recipe, with_files
from regard.train import World

KEYS = "I lost my keys."


def test_the_facade_has_it(shipped: api.Model) -> None:
    assert regard.load is api.load
    assert set(api.shipped()) == {"tatoeba-en-fr"}
    assert (shipped.name, shipped.recipe.paper, shipped.num_parameters) == ("tatoeba-en-fr", "transformer", 7320576)
    assert not shipped.module.training


def test_what_is_loaded_is_what_was_trained(trained: api.Model) -> None:
    again = api.load(trained.folder, device="cpu")
    assert again.recipe == trained.recipe
    ours, theirs = again.module.state_dict(), trained.module.state_dict()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    assert again.translate("one and two three") == trained.translate("one and two three")


def test_a_run_has_a_name_wherever_one_stands(trained: api.Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(trained.folder)
    assert api.load(".").name == "trained"


def test_the_cure_names_runs_that_there_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "runs" / "bahdanau").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RegardError, match=r"there is no run runs/bahdanua: .* Cure: did you mean 'runs/bahdanau'"):
        api.load("runs/bahdanua")


def test_results_are_kept_until_the_weights_change(trained: api.Model, tmp_path: Path) -> None:
    model = api.load(shutil.copytree(trained.folder, tmp_path / "run"), device="cpu")
    first = api.result(model, "test")
    path = tmp_path / "run" / "result_test.json"
    assert json.loads(path.read_text()) == json.loads(json.dumps(first))
    path.write_text(json.dumps({**first, "date": "kept"}))
    assert api.result(model, "test")["date"] == "kept"
    os.utime(tmp_path / "run" / "model.safetensors", ns=(path.stat().st_mtime_ns + 1,) * 2)
    assert api.result(model, "test")["date"] != "kept"


def test_results_of_what_ships_are_not_written(shipped: api.Model) -> None:
    few = ParallelText([KEYS], ["J'ai perdu mes clés."], {})
    model = replace(
        shipped, task=type(shipped.task)(shipped.task.config, codecs=shipped.task.codecs, splits={"test": few})
    )
    found = api.result(model, "test")
    assert found["figures"]["tokenized_bleu"] == pytest.approx(100)
    assert not (shipped.folder / "result_test.json").exists()
    assert not api.is_writable(Path(os.path.relpath(shipped.folder)))
    assert api.first_test(model) == "test"


@pytest.mark.parametrize("kind", [str, Path])
def test_training_writes_over_nothing(trained: api.Model, recipe: Recipe, kind: type) -> None:
    folder = kind(trained.folder)
    before = {path: path.read_bytes() for path in trained.folder.rglob("*") if path.is_file()}
    with pytest.raises(ConfigError, match="holds a run already: got step_00000002"):
        api.train(recipe, folder)
    assert {path: path.read_bytes() for path in trained.folder.rglob("*") if path.is_file()} == before


def test_a_folder_that_cannot_be_written(recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: False)
    text = f"run cannot be written: got {tmp_path}, which is read-only. Cure: choose another folder by --out"
    with pytest.raises(RegardError, match=text):
        api.train(recipe, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_fault_in_the_data_leaves_no_folder(recipe: Recipe, tmp_path: Path) -> None:
    with pytest.raises(RegardError, match="no such file"):
        api.train(with_files(recipe, str(tmp_path / "no.tsv"), None), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_setting_that_does_not_fit_the_model_leaves_no_folder(recipe: Recipe, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"train\.undecayed: got gaet"):
        api.train(replace(recipe, train=replace(recipe.train, undecayed=("gaet",))), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_fits_a_cpu(name: str) -> None:
    recipe = RECIPES[name]()
    fitted = api.fit_device(recipe, World())
    assert (fitted.train.capture, fitted.train.precision, getattr(fitted.task, "fit", None)) == (False, "float32", None)
    assert replace(fitted, train=recipe.train, task=recipe.task) == recipe
    assert replace(fitted.train, capture=recipe.train.capture, precision=recipe.train.precision) == recipe.train


@pytest.mark.parametrize(("size", "capture", "precision"), [(1, True, "pure_bfloat16"), (2, False, "bfloat16")])
def test_graphs_are_captured_on_one_gpu(size: int, capture: bool, precision: str) -> None:
    recipe = RECIPES["transformer/multi30k_de_en"]()
    fitted = api.fit_device(recipe, World(0, size, torch.device("cuda")))
    assert (fitted.train.capture, fitted.train.precision) == (capture, precision)
    assert fitted.task.fit == (8 if capture else None)
    plain = api.fit_device(RECIPES["bahdanau/plain_en_fr"](), World(0, size, torch.device("cuda")))
    assert plain.train.precision == "float32"


def test_runs_of_pictures_come_back_as_they_were(gazing: api.Model, captioning: api.Model, digit: Path) -> None:
    again = api.load(gazing.folder, device="cpu")
    assert again.recipe == gazing.recipe
    torch.testing.assert_close(again.classify(digit).probabilities, gazing.classify(digit).probabilities)
    twin = api.load(captioning.folder, device="cpu")
    assert twin.caption(digit).tokens == captioning.caption(digit).tokens
    assert api.first_test(twin) == api.first_test(again) == "test"


def test_results_of_pictures_are_written(gazing: api.Model, tmp_path: Path) -> None:
    model = api.load(shutil.copytree(gazing.folder, tmp_path / "run"), device="cpu")
    found = api.result(model, "test")
    kept = json.loads((tmp_path / "run" / "result_test.json").read_text())
    assert kept["figures"] == found["figures"]
    assert kept["signatures"]["error"].startswith("error in % of 300 pictures")
    assert len((tmp_path / "run" / "output_test.txt").read_text().splitlines()) == 300


def test_a_fault_in_the_pictures_leaves_no_folder(captioning: api.Model, tmp_path: Path) -> None:
    (tmp_path / "captions.tsv").write_text("gone.png\ta red square\n")
    wrong = with_files(captioning.recipe, str(tmp_path / "captions.tsv"), str(tmp_path))
    with pytest.raises(RegardError, match=r"line 1: a picture that is not there: got gone\.png"):
        api.train(wrong, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def started(folder: Path, recipe: Recipe, run: api.Model | str) -> api.Model:
    """A training of one step without a rate: what it began with."""
    train = replace(recipe.train, steps=1, lr=1e-30, warmup=0, ema=None, capture=False, weight_decay=0.0)
    first = run if isinstance(run, str) else str(run.folder)
    return api.train(replace(recipe, train=train, start=first), folder)


def test_a_run_starts_from_another_one(gazing: api.Model, captioning: api.Model, tmp_path: Path) -> None:
    recipe = gazing.recipe
    again = started(tmp_path / "again", recipe, gazing)
    close = dict(gazing.module.state_dict())
    torch.testing.assert_close(again.module.state_dict(), close)
    assert api.load(again.folder).recipe.start == str(gazing.folder)

    dynamic = replace(recipe, paper="dt_ram", model=DTRAMConfig(recipe.model))  # a RAM is one of its parts
    inside = started(tmp_path / "dynamic", dynamic, gazing).module.state_dict()
    torch.testing.assert_close({name: inside[f"ram.{name}"] for name in close}, close)

    words = started(
        tmp_path / "words", replace(captioning.recipe, task=replace(captioning.recipe.task, min_count=9)), captioning
    )
    assert words.task.vocabulary.to_json() == captioning.task.vocabulary.to_json()


def test_a_run_starts_from_what_fits(gazing: api.Model, captioning: api.Model, tmp_path: Path) -> None:
    wider = replace(gazing.recipe, model=replace(gazing.recipe.model, hidden_dim=gazing.recipe.model.hidden_dim + 1))
    with pytest.raises(RegardError, match=r"nor a part of it: got action.weight \[10, 8\]; expected \[10, 9\]"):
        started(tmp_path / "wider", wider, gazing)
    with pytest.raises(ConfigError, match=r"does something else: got captioning; expected classification"):
        started(tmp_path / "other", gazing.recipe, captioning)
    with pytest.raises(RegardError, match=r"there is no run nowhere"):
        started(tmp_path / "none", gazing.recipe, "nowhere")
    assert not list(tmp_path.glob("*/checkpoints"))


def test_another_question_has_new_answers(gazing: api.Model, tmp_path: Path) -> None:
    """What was seen stays, what is said of it is new, and the user is told."""
    canvas = Canvas(56, digits=2, target="sum")
    sums = replace(gazing.recipe, task=replace(gazing.recipe.task, canvas=canvas))
    said: list[tuple[str, dict[str, Any]]] = []
    train = replace(sums.train, steps=1, lr=1e-30, warmup=0, ema=None, weight_decay=0.0)
    recipe = replace(sums, train=train, start=str(gazing.folder))
    found = api.train(recipe, tmp_path / "sums", watch=lambda kind, facts: said.append((kind, dict(facts))))
    before, after = gazing.module.state_dict(), found.module.state_dict()
    assert after["action.weight"].shape[0] == 19
    same = {name: tensor for name, tensor in before.items() if not name.startswith("action.")}
    torch.testing.assert_close({name: after[name] for name in same}, same)
    [facts] = [facts for kind, facts in said if kind == "start"]
    assert sorted(facts["new"]) == ["action.bias", "action.weight"]
    assert facts["run"] == str(gazing.folder)
