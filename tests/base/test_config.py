"""Settings: changed by name, written and read, with every mistake named."""

import dataclasses
import json
from dataclasses import dataclass, field
from typing import Any, Literal, Optional

import pytest

from regard.base import ConfigError, did_you_mean, fill, from_json, override, to_json


@dataclass(frozen=True)
class Search:
    beams: int = 5
    penalty: float = 1.0
    temperature: float | None = None


@dataclass(frozen=True)
class Task:
    name: str = "plain"
    file: str | None = None
    old: Optional[str] = None  # noqa: UP045
    units: Literal["words", "bpe"] = "words"
    lower: bool = False
    edges: tuple[int, ...] = (5, 10)
    fit: tuple[int, int] | None = None
    search: Search = field(default_factory=Search)


@dataclass(frozen=True)
class Run:
    title: str
    steps: int = 100
    betas: tuple[float, float] = (0.9, 0.999)
    task: Task = field(default_factory=Task)
    model: Any = None


RUN = Run("toy")


@pytest.mark.parametrize(
    ("setting", "path", "value"),
    [
        ("steps=7", "steps", 7),
        ("steps=10_000", "steps", 10_000),
        (" steps = -3 ", "steps", -3),
        ("betas=0.9,0.98", "betas", (0.9, 0.98)),
        ("betas=(0.9, 1)", "betas", (0.9, 1.0)),
        ("title=a=b c", "title", "a=b c"),
        ("title=none", "title", "none"),
        ("title=", "title", ""),
        ("task.lower=True", "task.lower", True),
        ("task.lower=on", "task.lower", True),
        ("task.lower=0", "task.lower", False),
        ("task.units=bpe", "task.units", "bpe"),
        ("task.file=data/x.tsv", "task.file", "data/x.tsv"),
        ("task.edges=3", "task.edges", (3,)),
        ("task.edges=", "task.edges", ()),
        ("task.edges=[1,2,3]", "task.edges", (1, 2, 3)),
        ("task.fit=8,4", "task.fit", (8, 4)),
        ("task.search.penalty=2", "task.search.penalty", 2.0),
        ("task.search.penalty=1e-3", "task.search.penalty", 1e-3),
        ("task.search.temperature=0.5", "task.search.temperature", 0.5),
    ],
)
def test_override(setting: str, path: str, value: Any) -> None:
    found: Any = override(RUN, [setting])
    for name in path.split("."):
        found = getattr(found, name)
    assert found == value
    assert type(found) is type(value)
    assert Run("toy") == RUN  # the given one stays as it is


@pytest.mark.parametrize("text", ["none", "None", "null", ""])
@pytest.mark.parametrize("path", ["task.file", "task.old", "task.fit", "task.search.temperature"])
def test_none_from_the_command_line(path: str, text: str) -> None:
    filled = override(RUN, ["task.file=x", "task.old=y", "task.fit=1,2", "task.search.temperature=1"])
    found: Any = override(filled, [f"{path}={text}"])
    for name in path.split("."):
        found = getattr(found, name)
    assert found is None


def test_later_settings_win_and_others_stay() -> None:
    found = override(RUN, ["task.search.beams=2", "task.search.beams=3", "task.units=bpe"])
    assert found == Run("toy", task=Task(units="bpe", search=Search(beams=3)))
    assert override(RUN, []) == RUN


def test_inside_a_part_of_any_kind() -> None:
    assert override(Run("toy", model=Search()), ["model.beams=9"]).model == Search(beams=9)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("steps", "a setting: got 'steps'; expected name=value, such as train.steps=500"),
        ("=3", "a setting: got '=3'"),
        ("stepps=3", "unknown setting 'stepps'; known: title, steps, betas, task, model. Did you mean 'steps'?"),
        ("task.unit=bpe", "unknown setting 'task.unit'; known: name, file, .*Did you mean 'units'?"),
        ("task.search.beam=3", "unknown setting 'task.search.beam'; known: beams, .*Did you mean 'beams'?"),
        ("units=bpe", "unknown setting 'units'; known: title, .*Did you mean 'task.units'?"),
        ("task.beams=3", "unknown setting 'task.beams'; known: name, .*Did you mean 'task.search.beams'?"),
        ("qqq=3", "unknown setting 'qqq'; known: title, steps, betas, task, model$"),
        ("steps.x=3", "unknown setting 'steps.x'. Try: leave 'x' out: what is before it has no settings"),
        ("task=3", "task has several settings: got '3'; expected one of task.name, task.file, "),
        ("task.search=3", "task.search has several settings: got '3'; expected one of task.search.beams"),
        ("steps=many", "steps: got 'many'; expected a whole number$"),
        ("steps=1.5", "steps: got '1.5'; expected a whole number$"),
        ("task.search.penalty=high", "task.search.penalty: got 'high'; expected a number$"),
        ("task.search.temperature=hot", "task.search.temperature: got 'hot'; expected a number or none$"),
        ("task.lower=maybe", "task.lower: got 'maybe'; expected true or false$"),
        ("task.units=letters", "task.units: got 'letters'; expected 'words' or 'bpe'$"),
        ("betas=0.9", "betas: got '0.9'; expected numbers with commas between$"),
        ("betas=0.9,x", "betas: got 'x'; expected a number$"),
        ("task.edges=1,b", "task.edges: got 'b'; expected a whole number$"),
        ("task.fit=1,2,3", "task.fit: got '1,2,3'; expected numbers with commas between or none$"),
    ],
)
def test_mistakes_are_named(setting: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message.replace("?", r"\?")):
        override(RUN, [setting])


def test_a_config_without_settings() -> None:
    @dataclass(frozen=True)
    class Bare:
        pass

    with pytest.raises(ConfigError, match=r"^unknown setting 'foo': there are no settings$"):
        override(Bare(), ["foo=1"])


def test_checks_of_the_config_itself_are_heard() -> None:
    @dataclass(frozen=True)
    class Positive:
        number: int = 1

        def __post_init__(self) -> None:
            if self.number < 1:
                raise ConfigError("number", got=self.number, expected="1 or more")

    with pytest.raises(ConfigError, match="number: got 0; expected 1 or more"):
        override(Positive(), ["number=0"])
    with pytest.raises(ConfigError, match="number: got 0; expected 1 or more"):
        from_json(Positive, {"number": 0})


def test_json_there_and_back() -> None:
    run = Run(
        "toy", 3, (0.1, 1.0), Task("x", None, "y", "bpe", True, (), (1, 2), Search(1, 0.1 + 0.2, 0.5)), {"free": [1]}
    )
    content = json.loads(json.dumps(to_json(run)))
    assert content["task"]["search"] == {"beams": 1, "penalty": 0.1 + 0.2, "temperature": 0.5}
    assert content["betas"] == [0.1, 1.0]
    assert from_json(Run, content) == run
    assert from_json(Run, {"title": "toy"}) == RUN  # defaults
    assert from_json(Run, {"title": "toy", "task": Task("given")}).task == Task("given")
    found = from_json(Run, {"title": "toy", "betas": [0, 1]})
    assert found.betas == (0.0, 1.0)
    assert all(type(beta) is float for beta in found.betas)
    assert dataclasses.is_dataclass(found.task)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([], "Run: got list; expected settings by name"),
        ({"title": "toy", "task": 3}, "task: got 3; expected"),
        ({"title": "toy", "task": None}, "task: got None; expected"),
        ({}, "Run lacks a setting: got none; expected title"),
        ({"steps": 3}, "Run lacks a setting: got steps; expected title"),
        ({"title": "toy", "step": 3}, "unknown setting 'step'; .*Did you mean 'steps'"),
        (
            {"title": "toy", "task": {"search": {"beam": 3}}},
            "unknown setting 'task.search.beam'; .*Did you mean 'beams'",
        ),
        ({"title": "toy", "steps": True}, "steps: got True; expected a whole number"),
        ({"title": "toy", "steps": 3.0}, "steps: got 3.0; expected a whole number"),
        ({"title": "toy", "steps": "3"}, "steps: got '3'; expected a whole number"),
        ({"title": "toy", "steps": None}, "steps: got None; expected a whole number"),
        ({"title": 3}, "title: got 3; expected text"),
        ({"title": "toy", "betas": [0.9]}, r"betas: got \[0.9\]; expected numbers with commas between"),
        ({"title": "toy", "betas": [0.9, True]}, "betas: got True; expected a number"),
        ({"title": "toy", "task": {"lower": 1}}, "task.lower: got 1; expected true or false"),
        ({"title": "toy", "task": {"units": "letters"}}, "task.units: got 'letters'; expected 'words' or 'bpe'"),
        ({"title": "toy", "task": {"file": 3}}, "task.file: got 3; expected text or none"),
    ],
)
def test_json_that_does_not_fit(content: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        from_json(Run, content)


def test_where_a_part_is_missing() -> None:
    with pytest.raises(ConfigError, match=r"^model: got NoneType; expected settings by name"):
        from_json(Search, None, where="model.")
    with pytest.raises(ConfigError, match=r"^recipe lacks a setting: got steps; expected title"):
        from_json(Run, {"steps": 1}, where="recipe.")


def test_did_you_mean() -> None:
    assert did_you_mean("trasnformer", {"transformer": 1, "luong": 2}) == "did you mean 'transformer'?"
    assert did_you_mean("xyz", ["transformer"]) is None
    assert did_you_mean("anything", []) is None


def test_settings_that_depend_on_each_other_come_in_any_order() -> None:
    @dataclasses.dataclass(frozen=True)
    class Window:
        low: int = 1
        high: int = 3

        def __post_init__(self) -> None:
            if self.low > self.high:
                raise ConfigError("low", got=self.low, expected="at most high")

    assert override(Window(), ["low=5", "high=7"]) == override(Window(), ["high=7", "low=5"]) == Window(5, 7)
    with pytest.raises(ConfigError, match="at most high"):
        override(Window(), ["low=5"])


def test_filled_at_every_depth() -> None:
    filled = fill(RUN, {"beams": 3, "steps": 7, "name": "other", "classes": 10})
    assert (filled.steps, filled.task.name, filled.task.search.beams) == (7, "other", 3)
    assert filled == dataclasses.replace(
        RUN, steps=7, task=dataclasses.replace(RUN.task, name="other", search=dataclasses.replace(Search(), beams=3))
    )
    assert fill(RUN, {}) == RUN
    assert fill(RUN, {"task": None}).task is None  # a whole part too
