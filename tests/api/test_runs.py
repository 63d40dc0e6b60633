import json
import math
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from table import cases

import regard
from regard import api
from regard.base import ConfigError, RegardError
from regard.data import Canvas, ParallelText
from regard.models import DTRAMConfig
from regard.recipes import RECIPES, Recipe, load_recipe, with_files
from regard.train import World, load_tensors, save_tensors
from regard.train.lock import RunLock, check_free

KEYS = "I lost my keys."


def test_the_facade_has_it(shipped: api.Model) -> None:
    assert regard.load is api.load
    assert "tatoeba-en-fr" in api.shipped()
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
    with pytest.raises(RegardError, match=r"there is no run runs/bahdanua: .* Did you mean 'runs/bahdanau'"):
        api.load("runs/bahdanua")


def test_results_are_kept_until_the_weights_change(trained: api.Model, tmp_path: Path) -> None:
    model = api.load(shutil.copytree(trained.folder, tmp_path / "run"), device="cpu")
    first = api.result(model, "test")
    path = tmp_path / "run" / "result_test.json"
    assert json.loads(path.read_text()) == json.loads(json.dumps(first))
    path.write_text(json.dumps({**first, "date": "kept"}))
    weights = tmp_path / "run" / "model.safetensors"
    for later in (1, -1):  # when a file was written says nothing: it may be a copy
        os.utime(weights, ns=(path.stat().st_mtime_ns + later * 10**12,) * 2)
        assert api.result(model, "test")["date"] == "kept"
    with torch.no_grad():
        next(model.module.parameters()).add_(1e-6)
    assert api.result(model, "test")["date"] != "kept"
    assert json.loads(path.read_text())["weights"] != first["weights"]


def test_figures_of_other_weights_are_not_shown(trained: api.Model, tmp_path: Path) -> None:
    """Weights that are put there with an older time, and those of an earlier checkpoint."""
    folder = shutil.copytree(trained.folder, tmp_path / "run")
    api.result(api.load(folder, device="cpu"), "test")
    path = folder / "result_test.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "date": "kept"}))
    tensors = {name: tensor + 1 for name, tensor in load_tensors(folder / "model.safetensors").items()}
    save_tensors(folder / "model.safetensors", tensors)
    os.utime(folder / "model.safetensors", (1, 1))
    assert api.result(api.load(folder, device="cpu"), "test")["date"] != "kept"


@pytest.mark.parametrize(
    "change",
    [
        {"figures": None}, {"figures": {"bleu": "x"}}, {"figures": {"bleu": math.nan}}, {"signatures": []},
        {"lengths": [3]}, {"lengths": [{"low": 1}]}, {"count": None}, {"how": 3}, {"missing": {"a": 1}},
    ],
)  # fmt: skip
def test_a_result_without_figures_is_one_line(trained: api.Model, tmp_path: Path, change: dict[str, Any]) -> None:
    model = api.load(shutil.copytree(trained.folder, tmp_path / "run"), device="cpu")
    path, whole = tmp_path / "run" / "result_test.json", api.result(trained, "test")
    path.write_text(json.dumps({**whole, **change}))
    with pytest.raises(RegardError, match=r"result_test.json is not a result: .* Try: delete it: the run is then eval"):
        api.report([model])
    path.write_text(json.dumps({"run": "of an older version"}))
    assert api.result(model, "test")["figures"] == whole["figures"] | {
        "sentences_per_second": api.result(model, "test")["figures"]["sentences_per_second"]
    }


# ── folders of strangers ────────────────────────────────────────────────────────────────────────────────────────────


def rewrite(run: Path, **task: Any) -> None:
    content = json.loads((run / "recipe.json").read_text())
    content["task"] |= task
    (run / "recipe.json").write_text(json.dumps(content))


def test_a_path_in_a_recipe_is_not_followed(trained: api.Model, tmp_path: Path) -> None:
    """Its lines would stand in a report. What needs no data works; what does asks for the files by name."""
    secret = tmp_path / "secret.tsv"
    secret.write_text("".join(f"secret {n}\tgeheim {n}\n" for n in range(90)))
    folder = shutil.copytree(trained.folder, tmp_path / "run")
    rewrite(folder, source_file=str(secret))
    model = api.load(folder, device="cpu")
    assert model.translate("one and two three").text == trained.translate("one and two three").text
    text = (
        rf"paths are not followed: got '{secret}' in its recipe.json; expected paths that were given on this machine"
        r"\. Try: name them again by --source, and by --target where there are two"
    )
    for use in (
        lambda: api.report([model]),
        lambda: model.evaluate("test"),
        lambda: api.train(model.recipe, tmp_path / "new"),
    ):
        with pytest.raises(RegardError, match=text):
            use()
    with pytest.raises(RegardError, match=text):
        api.train(model.recipe, folder, resume=True)
    mine = trained.recipe.task.source_file
    assert api.load(folder, device="cpu", source=mine).evaluate("test", beam=1).details["count"] > 0


def test_pictures_of_a_recipe_are_not_followed(captioning: api.Model, tmp_path: Path) -> None:
    folder = shutil.copytree(captioning.folder, tmp_path / "run")
    task = captioning.recipe.task
    rewrite(folder, folder=str(tmp_path))
    with pytest.raises(RegardError, match=r"paths are not followed.* Try: name them again by --source and --target"):
        api.load(folder, device="cpu").evaluate("test")
    found = api.load(folder, device="cpu", source=task.caption_file, target=task.folder)
    assert found.task.splits["test"].names == captioning.task.splits["test"].names


def test_a_start_in_a_recipe_is_not_followed(gazing: api.Model, tmp_path: Path) -> None:
    """Not even where a run was killed before its first checkpoint, and so begins anew."""
    folder = started(tmp_path / "run", gazing.recipe, gazing).folder
    shutil.rmtree(folder / "checkpoints")
    (folder / "model.safetensors").unlink()
    content = json.loads((folder / "recipe.json").read_text())
    (folder / "recipe.json").write_text(json.dumps(content | {"start": str(tmp_path / "elsewhere")}))
    with pytest.raises(RegardError, match=r"paths are not followed: got .*elsewhere.* Try: name it again: --set start"):
        api.train(load_recipe(folder), folder, resume=True)


def test_files_are_named_for_runs_of_files_only(gazing: api.Model, trained: api.Model) -> None:
    with pytest.raises(ConfigError, match=r"was not trained on files: got a\.tsv"):
        api.load(gazing.folder, source="a.tsv")
    with pytest.raises(ConfigError, match=r"--target needs --source"):
        api.load(trained.folder, target="a.fr")


@pytest.mark.parametrize("name", ["source.json", "target.json", "recipe.json", "model.safetensors"])
def test_a_link_out_of_a_run_shows_nothing(trained: api.Model, tmp_path: Path, name: str) -> None:
    secret = tmp_path / "secret"
    secret.write_text("my password")
    folder = shutil.copytree(trained.folder, tmp_path / "run")
    (folder / name).unlink()
    (folder / name).symlink_to(secret)
    with pytest.raises(RegardError) as caught:
        api.load(folder, device="cpu")
    assert str(caught.value).startswith(f"{folder / name} cannot be read: got a link that leads out of its folder")
    assert "password" not in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "name"),
    [("captioning", "vocabulary.json"), ("captioning", "encoder.safetensors"), ("gazing", "pictures.json")],
)
def test_a_link_out_of_a_run_of_pictures(kind: str, name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    folder = shutil.copytree(request.getfixturevalue(kind).folder, tmp_path / "run")
    (tmp_path / "secret").write_text("my password")
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(tmp_path / "secret")
    with pytest.raises(RegardError, match=rf"{name} cannot be read: got a link that leads out of its folder"):
        api.load(folder, device="cpu")


@pytest.mark.parametrize("content", [b"[" * 100_000, b"\xff", b"3", b'{"kind": "vocabulary", "tokens": [1, []]}'])
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("trained", "recipe.json"),
        ("trained", "source.json"),
        ("captioning", "vocabulary.json"),
        ("gazing", "pictures.json"),
    ],
)
def test_files_that_hold_anything_are_one_line(
    kind: str, name: str, content: bytes, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    folder = shutil.copytree(request.getfixturevalue(kind).folder, tmp_path / "run")
    (folder / name).write_bytes(content)
    with pytest.raises(RegardError, match=rf"{name} (cannot be read: got|is no recipe)"):
        api.load(folder, device="cpu")


def test_a_run_that_was_killed_early_still_starts_from_another(gazing: api.Model, tmp_path: Path) -> None:
    """Its recipe is there, but no checkpoint: it begins anew, with the weights that it was to begin with."""
    whole = started(tmp_path / "whole", gazing.recipe, gazing)
    folder = shutil.copytree(whole.folder, tmp_path / "killed")
    shutil.rmtree(folder / "checkpoints")
    for name in ("best.safetensors", "model.safetensors"):
        (folder / name).unlink()
    again = api.train(load_recipe(folder), folder, resume=True)
    theirs = whole.module.state_dict()
    assert all(torch.equal(tensor, theirs[name]) for name, tensor in again.module.state_dict().items())


def test_a_folder_in_use_is_refused_before_any_work(trained: api.Model, tmp_path: Path) -> None:
    folder = shutil.copytree(trained.folder, tmp_path / "run")
    lock = RunLock(folder)
    with pytest.raises(RegardError, match=rf"run is being trained already: got process {os.getpid()} on "):
        api.train(with_files(trained.recipe, str(tmp_path / "no.tsv"), None), folder, resume=True)
    lock.release()


def test_a_fault_before_the_first_step_leaves_no_lock(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError("no space")

    monkeypatch.setattr("regard.api.runs.save_recipe", full)
    with pytest.raises(OSError, match="no space"):
        api.train(recipe, tmp_path / "run")
    check_free(tmp_path / "run")


def test_nothing_is_written_into_a_folder_that_is_gone(trained: api.Model, tmp_path: Path) -> None:
    score = trained.evaluate("test", beam=1)
    gone = replace(trained, folder=tmp_path / "gone")
    with pytest.raises(RegardError, match=r"gone is gone: it was deleted or moved"):
        api.write_result(gone, score)
    assert not (tmp_path / "gone").exists()


def test_results_of_what_ships_are_not_written(shipped: api.Model) -> None:
    few = ParallelText([KEYS], ["J'ai perdu mes clés."], {})
    model = replace(
        shipped, task=type(shipped.task)(shipped.task.config, codecs=shipped.task.codecs, splits={"test": few})
    )
    found = api.result(model, "test")
    assert found["figures"]["tokenized_bleu"] == pytest.approx(100)
    assert not (shipped.folder / "result_test.json").exists()
    assert not api.is_writable(Path(os.path.relpath(shipped.folder)))
    assert api.first_test(model) == "tatoeba_small"  # the package holds it; nobody must bring the whole test split


@pytest.mark.parametrize("kind", [str, Path])
def test_training_writes_over_nothing(trained: api.Model, recipe: Recipe, kind: type) -> None:
    folder = kind(trained.folder)
    before = {path: path.read_bytes() for path in trained.folder.rglob("*") if path.is_file()}
    with pytest.raises(ConfigError, match="holds a run already: got step_00000002"):
        api.train(recipe, folder)
    assert {path: path.read_bytes() for path in trained.folder.rglob("*") if path.is_file()} == before


def test_a_folder_that_cannot_be_written(recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: False)
    text = f"run cannot be written: got {tmp_path}, which is read-only. Try: choose another folder by --out"
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


@cases("name", RECIPES)
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
