"""A recipe: which model, on which task, trained how. Written into every run folder, so that it explains itself."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from regard.base import (
    RESTORE,
    ConfigError,
    RegardError,
    check_settings,
    did_you_mean,
    first_line,
    free_memory,
    from_json,
    override,
    read_json,
    shown,
    to_json,
    write_atomically,
)
from regard.base.ranges import UserPath
from regard.models import MODELS, Paper
from regard.recipes.signing import signature, trusted
from regard.tasks import TASKS, StoredTask, TaskEntry
from regard.train import Train

RECIPE = "recipe.json"
FORMAT = 1
RENAMED = {"walks": "rollouts"}  # settings of tasks in the recipes of earlier versions, and their names now
_OF_TORCH = (ValueError, TypeError, ArithmeticError, RuntimeError, AssertionError, MemoryError)  # on sizes


@dataclass(frozen=True)
class Recipe:
    """One run: the settings of a model, of a task and of the training. What the data decide is filled in later."""

    paper: str  # of MODELS
    model: Any  # the config of the paper
    task: Any  # the config of a task on the menu TASKS, which it names
    train: Train
    note: str = ""  # what it reproduces, in a line
    published: str = ""  # the number to compare with, and whose it is
    start: UserPath | None = None  # a run whose weights, and words, this one begins with
    name: str = ""  # by which it was found

    def __post_init__(self) -> None:
        check_settings(self)
        wanted = _paper(self.paper).config
        if not isinstance(self.model, wanted):
            got = f"paper={self.paper} and {type(self.model).__name__}"
            cure = "take a recipe of that paper: `regard list`"
            raise ConfigError("model and paper differ", got=got, expected=wanted.__name__, cure=cure)
        task_of(self.task)

    @property
    def entry(self) -> TaskEntry:
        """Gives the entry of its task on the menu TASKS."""
        return task_of(self.task)


def find_recipe(name: str, menu: dict[str, Callable[[], Recipe]], *, besides: Iterable[str] = ()) -> Recipe:
    """The recipe of this name, or an error that says which name was meant; `besides` are names that would do too."""
    if name not in menu:
        near = did_you_mean(name, [*menu, *besides]) or "run `regard list` to see them all"
        raise ConfigError(f"there is no recipe {name!r}", cure=near)
    return replace(menu[name](), name=name)


def change(recipe: Recipe, settings: Sequence[str]) -> Recipe:
    """The recipe with settings such as train.steps=500 or model.align=entmax."""
    return override(recipe, settings)


def with_files(recipe: Recipe, source: str | Sequence[str], target: str | Sequence[str] | None) -> Recipe:
    """The recipe on the user's own data; its task says what the two paths are, and whether each may be several."""
    entry, given = recipe.entry, [_absolute(source), None if target is None else _absolute(target)]
    if not entry.takes_files:
        cure = "leave --source and --target out"
        raise ConfigError(f"{entry.name} cannot be trained on files of your own", got=listed(source), cure=cure)
    if not entry.task.several_files and any(isinstance(each, tuple) for each in given):
        got = " and ".join(str(len(each)) for each in given if isinstance(each, tuple))
        cure = "name one path, or a folder where the task takes one"
        raise ConfigError(f"{entry.name} takes one --source and one --target", got=got, cure=cure)
    return replace(recipe, task=entry.task.from_files(recipe.task, *given))


def listed(named: str | Sequence[str] | None) -> str | None:
    """One path, or several, as an error says them.

    >>> listed("a.en"), listed(["a.en", "b.en"])
    ('a.en', 'a.en, b.en')
    """
    return named if named is None or isinstance(named, str) else ", ".join(named)


def _absolute(named: str | Sequence[str]) -> str | tuple[str, ...]:
    """One path, or a pattern, as it is seen from anywhere; several as a tuple."""
    paths = (named,) if isinstance(named, str) else tuple(named)
    absolute = tuple(str(Path(path).absolute()) for path in paths)
    return absolute[0] if len(absolute) == 1 else absolute


def task_of(config: Any) -> TaskEntry:
    """The task on the menu that these settings belong to."""
    for entry in TASKS.values():
        if type(config) is entry.config:
            return entry
    expected = f"one of {', '.join(entry.config.__name__ for entry in TASKS.values())}"
    cure = "add the task to the menu in regard/tasks/__init__.py"
    raise ConfigError("these settings are of no task", got=type(config).__name__, expected=expected, cure=cure)


def build_task(recipe: Recipe) -> Any:
    """The task of a recipe, with its data still to be read."""
    return recipe.entry.task(recipe.task)


def build_model(recipe: Recipe, task: StoredTask) -> nn.Module:
    """The model of a recipe, for the data of its task."""
    paper = _paper(recipe.paper)
    try:
        config = task.complete(recipe.model)
    except TypeError as error:
        got, cure = f"settings of {recipe.entry.name}", "take a recipe of that paper: `regard list`"
        raise ConfigError(f"{recipe.paper} cannot learn this task", got=got, cure=cure) from error
    try:
        with _Budget():
            return paper.model(config)
    except RegardError:
        raise
    except _OF_TORCH as error:
        cure = "change the settings model.…"
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


def save_recipe(folder: Path, recipe: Recipe, task: StoredTask) -> None:
    """recipe.json, and what the task keeps beside it; paths of the user's files are signed."""
    task.save(folder)
    content, signed = {"format": FORMAT, "task_name": recipe.entry.name, **to_json(recipe)}, signature(recipe)
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
    signed, task_name = content.pop("signed", None), content.pop("task_name", None)
    if content.pop("format", FORMAT) != FORMAT:
        raise RegardError(f"{path} is of another version of regard", expected=f"format {FORMAT}", cure="upgrade regard")
    try:
        paper = _paper(str(content.get("paper", "")))
        content["model"] = from_json(paper.config, content.get("model"), where="model.")
        settings = _renamed(content.get("task"))
        entry = _stored_task(task_name, settings)
        content["task"] = from_json(entry.config, settings, where="task.")
        return trusted(from_json(Recipe, content), signed)  # type: ignore[no-any-return]
    except RegardError as error:
        raise RegardError(f"{path} is no recipe: {error}") from error


def load_task(folder: Path, recipe: Recipe) -> Any:
    """The task of a run folder; its data is read only when asked for."""
    return recipe.entry.task.load(folder, recipe.task)


def _renamed(settings: Any) -> Any:
    """The settings of a task under the names that they have now."""
    if not isinstance(settings, dict):
        return settings
    return {RENAMED.get(name, name): value for name, value in settings.items()}


def _stored_task(name: object, settings: Any) -> TaskEntry:
    """The task of a recipe.json; older versions did not name it, but the names of its settings tell which one it is."""
    if name is not None:
        if not isinstance(name, str) or name not in TASKS:
            cure = did_you_mean(str(name), TASKS)
            raise ConfigError("unknown task", got=shown(name), expected=f"one of {', '.join(TASKS)}", cure=cure)
        return TASKS[name]
    names = set(settings) if isinstance(settings, dict) else set()
    for entry in TASKS.values():
        if names <= {each.name for each in fields(entry.config)}:
            return entry
    raise ConfigError("these settings are of no task", got=shown(sorted(names)), expected=f"one of {', '.join(TASKS)}")


def _paper(name: str) -> Paper:
    if name not in MODELS:
        raise ConfigError(
            "unknown model", got=repr(name), expected=f"one of {', '.join(MODELS)}", cure=did_you_mean(name, MODELS)
        )
    return MODELS[name]
