"""A recipe: which model, on which task, trained how. Written into every run folder, so that it explains itself."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from regard.base import (
    ConfigError,
    RegardError,
    check_settings,
    did_you_mean,
    first_line,
    free_memory,
    from_json,
    override,
    read_json,
    to_json,
    write_atomically,
)
from regard.models import MODELS, Paper
from regard.recipes.signing import signature, trusted
from regard.tasks import TASKS, CaptioningConfig, Kept, Kind, TranslationConfig
from regard.train import Train

RECIPE = "recipe.json"
FORMAT = 1
RESTORE = "restore it, or train anew"
_OF_TORCH = (ValueError, TypeError, ArithmeticError, RuntimeError, AssertionError, MemoryError)  # on sizes


@dataclass(frozen=True)
class Recipe:
    """One run. `model` is the config of `paper`, and what the data decides is filled in; `task` is that of its task."""

    paper: str  # of MODELS
    model: Any
    task: Any
    train: Train
    note: str = ""  # what it reproduces, in a line
    published: str = ""  # the number to compare with, and whose it is
    start: str | None = None  # a run whose weights, and words, this one begins with
    name: str = ""  # by which it was found

    def __post_init__(self) -> None:
        check_settings(self)
        paper = _paper(self.paper)
        for role, config, wanted in (
            ("model", self.model, paper.config),
            ("task", self.task, TASKS[paper.task].config),
        ):
            if not isinstance(config, wanted):
                got = f"paper={self.paper} and {type(config).__name__}"
                cure = "take a recipe of that paper: `regard list`"
                raise ConfigError(f"{role} and paper differ", got=got, expected=wanted.__name__, cure=cure)


def find_recipe(name: str, menu: dict[str, Callable[[], Recipe]]) -> Recipe:
    """The recipe of this name, or an error that says which name was meant."""
    if name not in menu:
        near = did_you_mean(name, menu) or "`regard list` names them all"
        raise ConfigError(f"there is no recipe {name!r}", cure=near)
    return replace(menu[name](), name=name)


def change(recipe: Recipe, settings: Sequence[str]) -> Recipe:
    """The recipe with settings such as train.steps=500 or model.align=entmax."""
    return override(recipe, settings)


def with_files(recipe: Recipe, source: str, target: str | None) -> Recipe:
    """The recipe on the user's own data.

    Text: two files line by line, or one with a tab between the sides. Pictures: a file of captions, and their folder.
    """
    first, second = str(Path(source).absolute()), None if target is None else str(Path(target).absolute())
    if isinstance(recipe.task, TranslationConfig):
        return replace(recipe, task=replace(recipe.task, corpus="files", source_file=first, target_file=second))
    if isinstance(recipe.task, CaptioningConfig):
        task = replace(recipe.task, dataset="files", caption_file=first, folder=second)
        return replace(recipe, task=task)
    raise ConfigError(f"{recipe.paper} takes no files of your own", got=source, cure="leave --source out")


def build_task(recipe: Recipe) -> Any:
    """The task of a recipe, with its data still to be read."""
    return _kind(recipe).task(recipe.task)


def build_model(recipe: Recipe, task: Kept) -> nn.Module:
    """The model of a recipe, for the data of its task."""
    paper, config = _paper(recipe.paper), task.fill(recipe.model)
    try:
        with _Budget():
            return paper.model(config)
    except RegardError:
        raise
    except _OF_TORCH as error:
        cure = "look at the settings model.…"
        raise ConfigError("there is no model of these sizes", got=first_line(error), cure=cure) from error


class _Budget(TorchFunctionMode):
    """Refuses tensors, before they are filled, of which there are more than fit into memory.

    Linux promises more memory than there is, and ends who uses it, without a word.
    """

    def __init__(self) -> None:
        super().__init__()
        self.limit, self.used = free_memory(), 0

    def __torch_function__(self, func: Any, kinds: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        if func is torch.empty and made.device.type == "cpu":
            self.used += made.nbytes
            if self.used > self.limit:
                got = f"more than {self.used / 1e9:,.1f} GB of weights"
                expected = f"at most {self.limit / 1e9:,.1f} GB, the memory that is free"
                raise ConfigError("the model is too large", got=got, expected=expected, cure="lower the sizes model.…")
        return made


def save_recipe(folder: Path, recipe: Recipe, task: Kept) -> None:
    """recipe.json, and what the task keeps beside it; paths of the user's files are signed."""
    task.save(folder)
    content, signed = {"format": FORMAT, **to_json(recipe)}, signature(recipe)
    content |= {} if signed is None else {"signed": signed}
    write_atomically(folder / RECIPE, json.dumps(content, indent=1, ensure_ascii=False))


def load_recipe(folder: Path) -> Recipe:
    """The recipe of a run folder; paths in it that were not given on this machine are `Unfollowed`."""
    path = folder / RECIPE
    try:
        content = read_json(path, cure=RESTORE, expected="settings by name")
    except OSError as error:
        raise RegardError(
            f"{folder} is no run", got=f"no {RECIPE} in it", expected="a folder that `regard train` has made"
        ) from error
    signed = content.pop("signed", None)
    if content.pop("format", FORMAT) != FORMAT:
        raise RegardError(f"{path} is of another version of regard", expected=f"format {FORMAT}", cure="upgrade regard")
    try:
        paper = _paper(str(content.get("paper", "")))
        content["model"] = from_json(paper.config, content.get("model"), where="model.")
        content["task"] = from_json(TASKS[paper.task].config, content.get("task"), where="task.")
        return trusted(from_json(Recipe, content), signed)  # type: ignore[no-any-return]
    except RegardError as error:
        raise RegardError(f"{path} is no recipe: {error}") from error


def load_task(folder: Path, recipe: Recipe) -> Any:
    """The task of a run folder; its data is read only when asked for."""
    return _kind(recipe).task.load(folder, recipe.task)


def _kind(recipe: Recipe) -> Kind:
    return TASKS[_paper(recipe.paper).task]


def _paper(name: str) -> Paper:
    if name not in MODELS:
        raise ConfigError(
            "unknown model", got=repr(name), expected=f"one of {', '.join(MODELS)}", cure=did_you_mean(name, MODELS)
        )
    return MODELS[name]
