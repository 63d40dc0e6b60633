"""A recipe: which model, on which task, trained how. Written into every run folder, so that it explains itself."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import nn

from regard.base import ConfigError, RegardError, did_you_mean, from_json, override, to_json, write_atomically
from regard.data import Codec, codec_from_json
from regard.models import MODELS, Paper
from regard.tasks import Translation, TranslationConfig
from regard.train import Train

RECIPE, SOURCE, TARGET = "recipe.json", "source.json", "target.json"
FORMAT = 1
RESTORE = "restore it, or train anew"


@dataclass(frozen=True)
class Recipe:
    """One run. `model` is the config of `paper`; its vocabulary sizes are filled in from the data."""

    paper: str  # of MODELS
    model: Any
    task: TranslationConfig
    train: Train
    note: str = ""  # what it reproduces, in a line
    published: str = ""  # the number to compare with, and whose it is


def find_recipe(name: str, menu: dict[str, Callable[[], Recipe]]) -> Recipe:
    """The recipe of this name, or an error that says which name was meant."""
    if name not in menu:
        near = did_you_mean(name, menu) or "`regard list` names them all"
        raise ConfigError(f"there is no recipe {name!r}", cure=near)
    return menu[name]()


def change(recipe: Recipe, settings: Sequence[str]) -> Recipe:
    """The recipe with settings such as train.steps=500 or model.align=entmax."""
    return override(recipe, settings)


def with_files(recipe: Recipe, source: str, target: str | None) -> Recipe:
    """The recipe on the user's own text: two files line by line, or one with a tab between the sides."""
    first, second = str(Path(source).absolute()), None if target is None else str(Path(target).absolute())
    return replace(recipe, task=replace(recipe.task, corpus="files", source_file=first, target_file=second))


def build_model(recipe: Recipe, task: Translation) -> nn.Module:
    """The model of a recipe, for the vocabularies of its task."""
    source, target = task.vocabularies
    paper = _paper(recipe.paper)
    kind = type(recipe.model).__name__
    if kind != paper.config.__name__:
        got = f"paper={recipe.paper} and {kind}"
        cure = "take a recipe of that paper: `regard list`"
        raise ConfigError("model and paper differ", got=got, expected=paper.config.__name__, cure=cure)
    config = replace(recipe.model, source_vocabulary=source, target_vocabulary=target)
    try:
        return paper.model(config)
    except RegardError:
        raise
    except (ValueError, TypeError, ArithmeticError, RuntimeError, AssertionError) as error:  # of torch, on sizes
        cure = "look at the settings model.…"
        raise ConfigError("there is no model of these sizes", got=str(error), cure=cure) from error


def save_recipe(folder: Path, recipe: Recipe, task: Translation) -> None:
    """recipe.json and the units of both languages."""
    content = {"format": FORMAT, **to_json(recipe)}
    source, target = task.codecs
    write_atomically(folder / SOURCE, source.to_json())
    if target is not source:
        write_atomically(folder / TARGET, target.to_json())
    write_atomically(folder / RECIPE, json.dumps(content, indent=1, ensure_ascii=False))


def load_recipe(folder: Path) -> Recipe:
    """The recipe of a run folder."""
    path = folder / RECIPE
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RegardError(
            f"{folder} is no run", got=f"no {RECIPE} in it", expected="a folder that `regard train` has made"
        ) from error
    except ValueError as error:
        raise RegardError(f"{path} cannot be read", got=str(error), cure=RESTORE) from error
    if not isinstance(content, dict):
        raise RegardError(f"{path} cannot be read", got=type(content).__name__, expected="settings by name")
    if content.pop("format", FORMAT) != FORMAT:
        raise RegardError(f"{path} is of another version of regard", expected=f"format {FORMAT}", cure="upgrade regard")
    try:
        paper = _paper(str(content.get("paper", "")))
        content["model"] = from_json(paper.config, content.get("model"), where="model.")
        return from_json(Recipe, content)
    except RegardError as error:
        raise RegardError(f"{path} is no recipe: {error}") from error


def load_task(folder: Path, recipe: Recipe) -> Translation:
    """The task of a run folder, with its own units; its text is read only when asked for."""
    source = _codec(folder / SOURCE)
    shared = recipe.task.joint and recipe.task.units != "words"
    return Translation(recipe.task, codecs=(source, source if shared else _codec(folder / TARGET)))


def _codec(path: Path) -> Codec:
    try:
        return codec_from_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        got = (error.strerror or str(error)).lower()
        raise RegardError(f"{path} cannot be read", got=got, expected="the units of the run", cure=RESTORE) from error
    except (ValueError, TypeError, AttributeError) as error:
        raise RegardError(f"{path} cannot be read", got=str(error), cure=RESTORE) from error


def _paper(name: str) -> Paper:
    if name not in MODELS:
        raise ConfigError(
            "unknown model", got=repr(name), expected=f"one of {', '.join(MODELS)}", cure=did_you_mean(name, MODELS)
        )
    return MODELS[name]
