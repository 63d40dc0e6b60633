"""Runs: train a recipe in a folder, load what was trained, keep the figures of an evaluation beside it."""

import json
import math
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import torch

from regard.api.alignment import find_head, use_head
from regard.api.model import Model
from regard.base import ConfigError, RegardError, did_you_mean, environment, followed, read_json, write_atomically
from regard.recipes import Recipe, build_model, build_task, load_recipe, load_task, save_recipe, with_files
from regard.recipes.recipe import listed
from regard.recipes.signing import paths
from regard.recipes.zoo import card_of, shipped
from regard.tasks import Display, Evaluation, Point, Progress
from regard.train import (
    Trainer,
    World,
    checkpoints,
    choose_device,
    load_checkpoint,
    load_tensors,
    load_weights,
    start_from,
)
from regard.train.checkpoint import checksum
from regard.train.lock import check_free
from regard.train.shared_folder import check_shared
from regard.train.trainer import CHECKPOINTS, FINAL, Watch

ENVIRONMENT = "environment.json"  # in a run folder


def load(
    run: str | Path,
    *,
    device: str = "auto",
    source: str | Sequence[str] | None = None,
    target: str | Sequence[str] | None = None,
) -> Model:
    """The model of a run folder, or one that ships with the package, such as "tatoeba-en-fr"; see `zoo`.

    A run that has not ended gives its last checkpoint. `source` and `target` name the files that a run was trained on,
    where they are to be read: paths in a recipe.json that was not written on this machine are not followed.
    """
    folder = _find(run)
    recipe = load_recipe(folder)
    if source is not None or target is not None:
        if not paths(recipe.task):
            cure = "leave --source and --target out"
            raise ConfigError(f"{folder} was not trained on files", got=listed(source or target), cure=cure)
        if source is None:
            raise ConfigError("--target needs --source", cure="give both, as in the training")
        recipe = with_files(recipe, source, target)
    task = load_task(folder, recipe)
    module = build_model(recipe, task)
    load_weights(module, _weights(folder))
    model = Model(folder.resolve().name, recipe, task, module.to(choose_device(device)).eval(), folder)
    use_head(model)
    return model


def train(
    recipe: Recipe, folder: str | Path, *, world: World | None = None, resume: bool = False, watch: Watch | None = None
) -> Model:
    """Train a recipe in a run folder, which then explains itself; see `load`.

    With `recipe.start` it begins with the weights of another run, and with its words.
    """
    world, folder = world or World(), Path(folder)
    check_shared(folder, world)
    resume = world.same(resume and (folder / "recipe.json").exists())
    _check_place(folder, resume, world)
    torch.manual_seed(recipe.train.seed)
    saved = bool(resume and checkpoints(folder / CHECKPOINTS))  # else a run that was killed early begins anew
    first = (
        None if saved or recipe.start is None else _find(followed(recipe.start, cure="name it again: --set start=RUN"))
    )
    task = load_task(folder, recipe) if resume else _new_task(recipe, first)
    told = watch if world.is_first else None
    with world.one_by_machine():  # what is fetched or computed once is then in the cache
        task.prepare(world.device, None if told is None else lambda what, done, total: told(
            "prepare", {"what": what, "done": done, "of": total}))  # fmt: skip
    module = build_model(recipe, task)
    if not saved:
        task.begin(module)
    if first is not None:
        began = start_from(module, _weights(first))
        if watch is not None and world.is_first:
            watch("start", {"run": str(recipe.start), "part": began.part, "new": list(began.new)})
    trainer = Trainer(module, task, recipe.train, folder, world, resume, watch)
    try:
        if world.is_first:
            if not resume or not (folder / ENVIRONMENT).exists():
                write_atomically(folder / ENVIRONMENT, json.dumps(environment(), indent=1))
            save_recipe(folder, recipe, task)  # now that all settings fit the model, and what was saved
        world.wait()
    except BaseException:
        trainer.release()
        raise
    trainer.run()
    model = Model(folder.resolve().name, recipe, task, module, folder)
    if world.is_first and (folder / "recipe.json").exists():
        find_head(model)
    return model


def write_result(model: Model, evaluation: Evaluation, *, name: str | None = None) -> Path:
    """The figures of an evaluation, in the run folder: result_SPLIT.json, and the outputs beside it as text."""
    split = evaluation.details["split"]
    check_there(model.folder)
    find_head(model)
    write_atomically(model.folder / f"output_{split}.txt", "\n".join(evaluation.details["outputs"]) + "\n")
    content = json.dumps(_content(model, evaluation), indent=1)
    return write_atomically(model.folder / (name or f"result_{split}.json"), content)


def result(model: Model, split: str, *, progress: Progress | None = None) -> dict[str, Any]:
    """The figures of a split: those in the run folder, or new ones where there are none, or those of other weights."""
    path, cure = model.folder / f"result_{split}.json", "delete it: the run is then evaluated again"
    if path.exists():
        stored = read_json(path, cure=cure)
        if stored.get("weights") == checksum(model.module):
            if not _is_result(stored, model.entry.display):
                raise RegardError(f"{path} is not a result", got="figures that are not numbers, or none", cure=cure)
            return stored
    evaluation = model.evaluate(split, progress=progress)
    if is_writable(model.folder):
        write_result(model, evaluation)
    return _content(model, evaluation)


def check_there(folder: Path) -> None:
    """An error when a run folder was deleted after its training: nothing of it is announced then."""
    if not (folder / "recipe.json").exists():
        cure = "train it anew, and leave the folder where it is until the end"
        raise RegardError(f"{folder} is gone: it was deleted or moved", got="no recipe.json in it", cure=cure)


def chart_points(model: Model, details: Mapping[str, Any]) -> dict[str, list[Point]]:
    """The charts that an evaluation has, by key: their points, ready to be drawn or printed."""
    return {chart.key: list(chart.points(details)) for chart in model.entry.display.charts if chart.key in details}


def first_test(model: Model) -> str:
    """The usual test set of a run's data: "test", "test2016", …; of a model that ships one that the package holds."""
    name: str = card_of(model.folder).get("split") or next(iter(model.task.tests))
    return name


def is_writable(folder: Path) -> bool:
    """Whether results may be written there; models inside the package are left as they are."""
    return folder.resolve() not in {path.resolve() for path in shipped().values()}


def fit_device(recipe: Recipe, world: World) -> Recipe:
    """The recipe for this machine: graphs are captured on one GPU only, and pure bfloat16 needs one too."""
    train, task = recipe.train, recipe.task
    if world.device.type != "cuda" or world.size > 1:
        precision = "bfloat16" if train.precision == "pure_bfloat16" else train.precision
        train = replace(train, capture=False, precision=precision if world.device.type == "cuda" else "float32")
        task = replace(task, fit=None) if "fit" in {each.name for each in fields(task)} else task
    return replace(recipe, train=train, task=task)


def _find(run: str | Path) -> Path:
    """The folder of a run, or of a model inside the package."""
    folder = Path(run)
    if not folder.exists() and str(run) in shipped():
        folder = shipped()[str(run)]
    if not folder.is_dir():
        names = [*shipped(), *(str(path) for path in Path("runs").glob("*"))]
        cure = did_you_mean(str(run), names) or "train one, or load one of `regard list --models`"
        raise RegardError(f"there is no run {run}", got="no such folder", cure=cure)
    return folder


def _new_task(recipe: Recipe, first: Path | None) -> Any:
    """The task of a recipe; its words are those of the run that it starts from, if there is one."""
    if first is None:
        return build_task(recipe)
    here, there = recipe.entry, load_recipe(first).entry
    if here.name != there.name:
        cure = "start from a run of the same task"
        raise ConfigError(f"{first} does something else", got=there.name, expected=here.name, cure=cure)
    if not here.inherits:
        return build_task(recipe)
    task = load_task(first, recipe)
    task.forget_data()
    return task


def _content(model: Model, evaluation: Evaluation) -> dict[str, Any]:
    return {
        "run": model.name,
        "paper": model.recipe.paper,
        "parameters": model.num_parameters,
        "weights": checksum(model.module),
        "task": model.entry.name,
        **{key: value for key, value in evaluation.details.items() if key != "outputs"},
        "figures": evaluation.figures,
        "environment": environment(),
        "date": time.strftime("%Y-%m-%d"),
    }


def _is_result(stored: Mapping[str, Any], display: Display) -> bool:
    """Whether a result file holds what a report shows, each of its type."""

    def is_number(value: object) -> bool:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)

    def is_chart(points: Sequence[Point]) -> bool:
        return all(
            isinstance(point.label, str)
            and (point.value is None or is_number(point.value))
            and (point.size is None or is_number(point.size))
            for point in points
        )

    figures, words = stored.get("figures"), [stored.get("signatures"), stored.get("missing", {})]
    try:
        charts = [chart.points(stored) for chart in display.charts if chart.key in stored]
    except (KeyError, TypeError, ValueError, AttributeError):
        return False
    return (
        isinstance(figures, dict)
        and all(map(is_number, figures.values()))
        and all(isinstance(each, dict) and all(isinstance(text, str) for text in each.values()) for each in words)
        and all(map(is_chart, charts))
        and is_number(count_of(stored))
        and isinstance(stored.get("how", ""), str)
    )


def count_of(details: Mapping[str, Any]) -> Any:
    """How many elements an evaluation was made on; older results of translations call them sentences."""
    return details.get("count", details.get("sentences"))


def _weights(folder: Path) -> dict[str, torch.Tensor]:
    final, saved = folder / FINAL, checkpoints(folder / CHECKPOINTS)
    if final.exists():
        cure = f"delete it: {saved[-1].name} is loaded then" if saved else "train it anew"
        return load_tensors(final, cure=cure)
    if not saved:
        raise RegardError(f"{folder} has no weights yet", cure="wait for its first checkpoint")
    tensors, _ = load_checkpoint(saved[-1])
    return {**tensors["model"], **tensors.get("mean", {})}


def _check_place(folder: Path, resume: bool, world: World) -> None:
    """Before any work: nobody trains there, nothing that was trained is written over, and the folder takes files."""
    if world.is_first:
        check_free(folder)
    saved = checkpoints(folder / CHECKPOINTS)
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
