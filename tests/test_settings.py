"""Every setting of every config: what makes sense is taken, all else is refused in one line that names it."""

import dataclasses
import json
import math
import random
import sys
import types
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import pytest
import torch
from table import all_hold, cases

sys.path.insert(0, str(Path(__file__).parent / "recipes"))

from sizes import WORDS, few_pictures, few_texts, tiny

from regard.base import RegardError, from_json, override, to_json
from regard.base.ranges import Range
from regard.data import Canvas, Lettering, Signs, Vocabulary, Weather, WordCodec
from regard.datasets.shapes import shapes
from regard.models import MODELS
from regard.recipes import RECIPES, Recipe, build_model, build_task, change
from regard.tasks import (
    TASKS,
    Captioning,
    EncoderConfig,
    Generation,
    GlimpseSettings,
    LanguageModelling,
    QuestionAnswering,
    Search,
    Translation,
    translate_texts,
)
from regard.train import Train
from regard.train.optim import build_optimiser
from regard.train.schedule import learning_rate

pytestmark = pytest.mark.bare  # else beartype refuses a wrong type before we do

CONFIGS: list[type] = [
    Train, Search, GlimpseSettings, Canvas, EncoderConfig, Generation, Lettering, Signs, Weather,
    *(kind.config for kind in TASKS.values()),
    *(paper.config for paper in MODELS.values()),
]  # fmt: skip
REQUIRED = {"source_vocabulary": 11, "target_vocabulary": 11, "vocabulary": 11}
SENSELESS = {  # of no use to any setting that is a number
    "nan": math.nan,
    "inf": math.inf,
    "minus inf": -math.inf,
    "huge float": 1e300,
    "minus huge float": -1e300,
    "huge int": 10**20,
    "minus huge int": -(10**20),
    "no float holds it": 10**400,
    "no text holds it": 10**5000,
    "text": "7",
    "list of text": ["7"],
    "true": True,
    "object": object(),
    "tensor": torch.ones(2, 2),
}
OTHERS = {"minus one": -1, "zero": 0, "minus half": -0.5, "one": 1, "none": None, "empty": [], "list": [2, 1], "": ""}


def hints_of(kind: type) -> dict[str, Any]:
    """The types of all settings, with what is noted beside each."""
    hints = get_type_hints(kind, include_extras=True)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}


def made(kind: type, /, **settings: Any) -> Any:
    needed = {field.name for field in dataclasses.fields(kind) if field.default is field.default_factory}
    return kind(**{name: REQUIRED[name] for name in needed} | settings)


def choices(hint: Any) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """The types inside a hint, with what is noted beside each."""
    if get_origin(hint) in (Union, types.UnionType) or get_origin(hint) is tuple:
        for part in get_args(hint):
            yield from choices(part)
    else:
        yield (get_args(hint)[0], get_args(hint)[1:]) if get_origin(hint) is Annotated else (hint, ())


def refusal(make: Callable[[], Any]) -> tuple[Any, str]:
    """What was made and no words; or None, and the words of the error."""
    try:
        return make(), ""
    except RegardError as error:
        return None, str(error)


def is_one_line(said: str, name: str) -> bool:
    return "\n" not in said and len(said) < 400 and name in said


@pytest.mark.parametrize("kind", CONFIGS, ids=lambda kind: kind.__name__)
def test_every_field_is_taken_or_refused(kind: type) -> None:
    all_hold((name, partial(check_values, kind, name, hint)) for name, hint in hints_of(kind).items())


def check_values(kind: type, name: str, hint: Any) -> None:
    is_number = {kind for kind, _ in choices(hint)} <= {int, float, types.NoneType, Ellipsis}
    for label, value in (SENSELESS | OTHERS).items():
        config, said = refusal(partial(made, kind, **{name: value}))
        if said:
            assert is_one_line(said, name), f"{label}: {said}"
        else:
            assert not (is_number and label in SENSELESS), f"{name} takes {label}"
            again = json.loads(json.dumps(to_json(config), allow_nan=False))
            assert from_json(kind, again) == config, label


@pytest.mark.parametrize("kind", CONFIGS, ids=lambda kind: kind.__name__)
def test_the_same_from_the_command_line_and_from_json(kind: type) -> None:
    all_hold((name, partial(check_texts, kind, name, hint)) for name, hint in hints_of(kind).items())


def check_texts(kind: type, name: str, hint: Any) -> None:
    is_number = {kind for kind, _ in choices(hint)} <= {int, float, types.NoneType, Ellipsis}
    for value in (math.nan, math.inf, -math.inf, -1, 0, 1e300, 10**20, "9" * 5000, "x", "1,x", "\udcff", "true", ""):
        for said in (
            refusal(partial(override, made(kind), [f"{name}={value}"]))[1],
            refusal(partial(from_json, kind, to_json(made(kind)) | {name: value}))[1],
        ):
            assert not said or is_one_line(said, name), f"{value!r:.20}: {said}"
            assert said or not is_number or value in (-1, 0, ""), f"{name} takes {value!r:.20}"


def test_every_number_has_a_range() -> None:
    """A bare `int` or `float` is held to what torch takes, but has no meaning: those are few, and named here."""
    bare = {
        f"{kind.__name__}.{name}"
        for kind in CONFIGS
        for name, hint in hints_of(kind).items()
        for inner, notes in choices(hint)
        if inner in (int, float) and not any(isinstance(note, Range) for note in notes)
    }
    signed = {"DTRAMConfig.patience", "SENetConfig.bias", "ClassificationConfig.mean"}  # any number makes sense
    assert bare == signed | {"NonLocalConfig.stages"}  # which the model checks against its stages


def test_every_config_is_walked() -> None:
    """A new config, or one inside another, is checked like the others."""
    inside = {
        hint for kind in [*CONFIGS, Recipe] for hint in get_type_hints(kind).values() if dataclasses.is_dataclass(hint)
    }
    assert inside <= set(CONFIGS)


def test_what_is_like_its_type_takes_it() -> None:
    import numpy as np

    settings = Train(steps=np.int64(7), lr=1, betas=[np.float32(0.5), 0], undecayed=["gate"])  # type: ignore[arg-type]
    assert [type(value) for value in (settings.steps, settings.lr, *settings.betas)] == [int, float, float, float]
    assert settings == Train(steps=7, lr=1.0, betas=(0.5, 0.0), undecayed=("gate",))
    hash(settings)


@cases("name", RECIPES)
def test_every_recipe_is_within_its_ranges(name: str) -> None:
    recipe = RECIPES[name]()
    assert from_json(type(recipe.model), json.loads(json.dumps(to_json(recipe.model)))) == recipe.model
    assert from_json(type(recipe.task), json.loads(json.dumps(to_json(recipe.task)))) == recipe.task
    assert from_json(Train, json.loads(json.dumps(to_json(recipe.train)))) == recipe.train


# ── many settings at once, by chance ────────────────────────────────────────────────────────────────────────────────

TEXTS = (
    *("nan", "inf", "-inf", "-1", "0", "1", "2", "3", "0.5", "1e300", "-1e300", "1e-300", "1e20", "1" + "0" * 20),
    *("9223372036854775808", "9223372036854775807", "2147483648", "1048577", "true", "none", "", "x", "1,2", "2,2"),
    *(
        "9,1,5",
        "0.9,0.98",
        "[]",
        "dot",
        "softmax",
        "monotonic",
        "location",
        "sgd",
        "cosine",
        "words",
        "bpe",
        "é",
        "a\nb",
    ),
)
LANGUAGE = WordCodec(Vocabulary(WORDS))


def paths(config: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    """The names of all settings, at every depth, with what they are."""
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if dataclasses.is_dataclass(value):
            yield from paths(value, f"{before}{field.name}.")
        else:
            yield before + field.name, value


def drawn(chance: random.Random, value: Any) -> str:
    """A text for a setting: half of them anything, half near what it is."""
    if chance.random() < 0.5 or isinstance(value, bool) or not isinstance(value, int | float):
        return chance.choice(TEXTS)
    return str(chance.choice([value + 1, value * 2, value // 2, value / 2, -value]))


def tried(recipe: Recipe, settings: list[str]) -> None:
    """All that a training does with its settings before the first step, and a search by those of the task."""
    recipe = change(recipe, settings)
    build_task(recipe)
    if recipe.entry.name == "captioning":
        encoder = dataclasses.replace(recipe.task.encoder, name="patches", keep=False)
        changes = {"finetune": False, "jitter": 0, "dataset": "shapes"}
        config = dataclasses.replace(recipe.task, encoder=encoder, **changes)
        task: Any = Captioning(config, splits=shapes((6, 2, 2)))
    elif recipe.entry.name == "language_modelling":
        task = LanguageModelling(recipe.task, splits={"train": " ".join(WORDS), "valid": "word1", "test": "word2"})
    elif recipe.entry.name == "translation":
        task = Translation(recipe.task, codecs=(LANGUAGE, LANGUAGE))
    elif recipe.entry.name == "text_classification":
        task = few_texts(recipe)
    elif recipe.entry.name == "question_answering":
        task = QuestionAnswering(recipe.task, Vocabulary(WORDS))
    elif recipe.entry.name == "classification":
        task = few_pictures(recipe)
    else:
        task = build_task(recipe)
    torch.manual_seed(recipe.train.seed)
    model = build_model(recipe, task)
    build_optimiser(list(model.parameters()), recipe.train)
    for step, progress in ((1, 0.0), (7, 0.6), (recipe.train.steps, 1.0)):
        assert math.isfinite(learning_rate(recipe.train, step, progress, reductions=2))
    if isinstance(task, Translation):
        how = dataclasses.replace(recipe.task.search, max_ratio=min(recipe.task.search.max_ratio, 1.0))
        translate_texts(model, ["word1 word2"], (LANGUAGE, LANGUAGE), how)


def attack(draws: int, seed: int) -> int:
    """So many recipes with one to three settings by chance; how many of them were taken."""
    chance, taken = random.Random(seed), 0
    small = [dataclasses.replace(build(), model=tiny(build().model)) for build in RECIPES.values()]
    for _ in range(draws):
        recipe = chance.choice(small)
        names = chance.sample(list(paths(recipe)), chance.choice([1, 1, 2, 3]))
        settings = [f"{name}={drawn(chance, value)}" for name, value in names]
        try:
            _, said = refusal(partial(tried, recipe, settings))
        except Exception as error:
            raise AssertionError(f"{recipe.paper} with {settings}: {error!r}") from error
        assert "\n" not in said, f"{recipe.paper} with {settings}"
        taken += not said
    return taken


def test_settings_by_chance() -> None:
    assert 20 < attack(200, seed=18) < 180
