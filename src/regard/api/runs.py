"""Runs: train a recipe in a folder, load what was trained, keep the figures of an evaluation beside it."""

import json
import os
import time
from collections.abc import Mapping
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch

from regard.api.model import Model
from regard.base import ConfigError, RegardError, did_you_mean, environment, write_atomically
from regard.models import MODELS
from regard.recipes import Recipe, build_model, build_task, load_recipe, load_task, save_recipe
from regard.tasks import TASKS, Progress, Score
from regard.train import (
    CheckpointError,
    Trainer,
    World,
    checkpoints,
    choose_device,
    load_checkpoint,
    load_tensors,
    load_weights,
    start_from,
)
from regard.train.trainer import FINAL, Watch


def shipped() -> dict[str, Path]:
    """Models inside the package, by name."""
    folder = Path(str(files("regard") / "recipes" / "shipped"))
    return {path.name: path for path in sorted(folder.glob("*")) if (path / "recipe.json").exists()}


def load(run: str | Path, *, device: str = "auto") -> Model:
    """The model of a run folder, or one that ships with the package ("tatoeba-en-fr").

    A run that has not ended gives its last checkpoint.
    """
    folder = _find(run)
    recipe = load_recipe(folder)
    task = load_task(folder, recipe)
    module = build_model(recipe, task)
    load_weights(module, _weights(folder))
    return Model(folder.resolve().name, recipe, task, module.to(choose_device(device)).eval(), folder)


def train(
    recipe: Recipe, folder: str | Path, *, world: World | None = None, resume: bool = False, watch: Watch | None = None
) -> Model:
    """Train a recipe in a run folder, which then explains itself; see `load`.

    With `recipe.start` it begins with the weights of another run, and with its words.
    """
    world, folder = world or World(), Path(folder)
    resume = world.same(resume and (folder / "recipe.json").exists())
    _check_place(folder, resume)
    torch.manual_seed(recipe.train.seed)
    first = None if resume or recipe.start is None else _find(recipe.start)
    task = load_task(folder, recipe) if resume else _new_task(recipe, first)
    if hasattr(task, "prepare"):  # what is computed once, such as features of pictures
        if watch is not None and world.is_first and hasattr(task, "viewer"):
            task.viewer.progress = lambda what, done, total: watch("prepare", {"what": what, "done": done, "of": total})
        task.prepare(world.device)
    module = build_model(recipe, task)
    if hasattr(task, "begin") and not resume:
        task.begin(module)  # what was learnt before, such as an encoder
    if first is not None:
        began = start_from(module, _weights(first))
        if watch is not None and world.is_first:
            watch("start", {"run": str(recipe.start), "part": began.part, "new": list(began.new)})
    trainer = Trainer(module, task, recipe.train, folder, world, resume, watch)
    if world.is_first:
        save_recipe(folder, recipe, task)  # now that all settings fit the model, and what was saved
        if not resume:
            write_atomically(folder / "environment.json", json.dumps(environment(), indent=1))
    world.wait()
    trainer.run()
    return Model(folder.resolve().name, recipe, task, module, folder)


def write_result(model: Model, score: Score, *, name: str | None = None) -> Path:
    """The figures of an evaluation, in the run folder: result_SPLIT.json, and the outputs beside it as text."""
    split = score.details["split"]
    write_atomically(model.folder / f"output_{split}.txt", "\n".join(score.details["outputs"]) + "\n")
    content = json.dumps(_content(model, score), indent=1)
    return write_atomically(model.folder / (name or f"result_{split}.json"), content)


def result(model: Model, split: str, *, progress: Progress | None = None) -> dict[str, Any]:
    """The figures of a split: those in the run folder, or new ones where there are none, or older ones than weights."""
    path, final = model.folder / f"result_{split}.json", model.folder / FINAL
    if path.exists() and not (final.exists() and final.stat().st_mtime_ns > path.stat().st_mtime_ns):
        return read_json(path, cure="delete it: the run is then evaluated again")
    score = model.evaluate(split, progress=progress)
    if is_writable(model.folder):
        write_result(model, score)
    return _content(model, score)


def length_curve(result: Mapping[str, Any]) -> list[tuple[str, float | None, int]]:
    """BLEU by length of the source, as pictures take it: label, BLEU, sentences."""
    return [
        (f"{each['low']}–{each['high']}" if each["high"] else f"{each['low']}+", each["bleu"], each["count"])
        for each in result["lengths"]
    ]


def first_test(model: Model) -> str:
    """The first test set of a run's text: "test", "test2016", …"""
    name: str = model.task.tests[0]
    return name


def is_writable(folder: Path) -> bool:
    """Whether results may be written there; models inside the package are left as they are."""
    return folder.resolve() not in {path.resolve() for path in shipped().values()}


def fit_device(recipe: Recipe, world: World) -> Recipe:
    """The recipe for this machine: graphs are captured on one GPU only, and pure bfloat16 needs one too."""
    train, task = recipe.train, recipe.task
    if world.device.type != "cuda" or world.size > 1:
        several = "bfloat16" if train.precision == "pure_bfloat16" else train.precision
        train = replace(train, capture=False, precision=several if world.device.type == "cuda" else "float32")
        task = replace(task, fit=None) if hasattr(task, "fit") else task
    return replace(recipe, train=train, task=task)


def _find(run: str | Path) -> Path:
    """The folder of a run, or of a model inside the package."""
    folder = Path(run)
    if not folder.exists() and str(run) in shipped():
        folder = shipped()[str(run)]
    if not folder.is_dir():
        names = [*shipped(), *(str(path) for path in Path("runs").glob("*"))]
        cure = did_you_mean(str(run), names) or f"train one, or load {' or '.join(shipped()) or 'another'}"
        raise RegardError(f"there is no run {run}", got="no such folder", cure=cure)
    return folder


def _new_task(recipe: Recipe, first: Path | None) -> Any:
    """The task of a recipe; its words are those of the run that it starts from, if there is one."""
    if first is None:
        return build_task(recipe)
    here, there = MODELS[recipe.paper].task, MODELS[load_recipe(first).paper].task
    if here != there:
        cure = "start from a run of the same task"
        raise ConfigError(f"{first} does something else", got=there, expected=here, cure=cure)
    return load_task(first, recipe) if TASKS[here].inherits else build_task(recipe)


def _content(model: Model, score: Score) -> dict[str, Any]:
    return {
        "run": model.name,
        "paper": model.recipe.paper,
        "parameters": model.num_parameters,
        **{key: value for key, value in score.details.items() if key != "outputs"},
        "figures": score.figures,
        "environment": environment(),
        "date": time.strftime("%Y-%m-%d"),
    }


def read_json(path: Path, *, cure: str) -> dict[str, Any]:
    """The content of a file that a run has written."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(content, dict):
            raise ValueError(type(content).__name__)
    except (OSError, ValueError) as error:
        raise RegardError(f"{path} cannot be read", got=str(error), cure=cure) from error
    return content


def _weights(folder: Path) -> dict[str, torch.Tensor]:
    final, saved = folder / FINAL, checkpoints(folder / "checkpoints")
    if final.exists():
        try:
            return load_tensors(final)
        except CheckpointError as error:
            cure = f"delete it: {saved[-1].name} is loaded then" if saved else "the run has to start anew"
            raise CheckpointError(error.what, got=error.got, expected=error.expected, cure=cure) from error
    if not saved:
        raise RegardError(f"{folder} has no weights yet", cure="wait for its first checkpoint")
    found, _ = load_checkpoint(saved[-1])
    return {**found["model"], **found.get("mean", {})}


def _check_place(folder: Path, resume: bool) -> None:
    """Before any work: nothing that was trained is written over, and the folder takes files."""
    saved = checkpoints(folder / "checkpoints")
    if not resume and (saved or (folder / FINAL).exists()):
        raise ConfigError(
            f"{folder} holds a run already",
            got=saved[-1].name if saved else FINAL,
            cure="go on with it by --resume, or choose another folder by --out",
        )
    if resume and not saved and (folder / FINAL).exists():
        got = f"{FINAL}, but no checkpoints"
        raise ConfigError(f"{folder} cannot go on", got=got, cure="choose another folder by --out")
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        got = f"{there}, " + ("which is read-only" if there.is_dir() else "which is a file")
        raise RegardError(f"{folder} cannot be written", got=got, cure="choose another folder by --out")
