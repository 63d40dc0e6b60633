"""The kind of explanation of CONTRIBUTING, put on the menus by one entry each, can do what a user can ask of one."""

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from page_blocks import add, as_module, copy_of_the_project, files_of, files_to_touch, python_block, run_tests

from regard import api
from regard.cli.main import main
from regard.explanation import EXPLANATIONS, explanation_from_json
from regard.models import MODELS, Paper
from regard.recipes import RECIPES, Recipe
from regard.tasks import TASKS, TaskEntry
from regard.train import Train
from regard.viz import DRAWINGS, draw, save

pytestmark = pytest.mark.bare  # trainings, and a toy task without types

FILES = files_of("Adding a kind of explanation")
NAME = "counting/sure"
SOURCES = {  # names of modules, and what of the page they are
    "regard.explanation.dial": FILES["src/regard/explanation/dial.py"][1],
    "regard.viz.dial": FILES["src/regard/viz/dial.py"][1],
    "toy_task": python_block('"""Counting'),
    "toy_model": python_block("class CounterConfig"),
}


# ── a copy of the project, with what the page adds ──────────────────────────────────────────────────────────────────


def test_the_page_names_every_file_that_is_touched() -> None:
    assert {path.replace("<kind>", "dial") for path in files_to_touch("a kind of explanation")} == set(FILES)


@pytest.mark.slow
def test_the_tests_of_all_kinds_take_it_in(tmp_path: Path) -> None:
    root = copy_of_the_project(tmp_path)
    for path, (language, text) in FILES.items():
        add(root, path, language, text)
    own = [path for path in FILES if path.endswith("dial.py")]
    shared = ["tests/explanation/test_explanation.py", "tests/explanation/test_widget.py", "tests/viz/test_drawing.py",
              "tests/test_studio_explanations.py"]  # fmt: skip
    seeds = "every_kind and ([0] or [1] or 0-False or 1-True)"
    chosen = f"dial or one_of_each or mirror or menus or on_the_map or has_its_file or ({seeds})"
    outcome = run_tests(root, *own, *shared, "tests/test_architecture.py", "-k", chosen)
    assert outcome.returncode == 0, outcome.stdout[-3000:]
    for test in (
        "test_hostile_values_are_refused_or_harmless[dial]",
        "test_every_file_is_on_the_map",
        "test_every_kind_has_its_file_on_the_page",
    ):
        assert f"{test} PASSED" in outcome.stdout
    (root / "tests" / "explanation" / "test_dial.py").write_text("def test_nothing() -> None:\n    assert True\n")
    outcome = run_tests(root, "tests/viz/test_drawing.py", "-k", "any_size and 0-False")
    assert "test_dial.py has no EXAMPLE, which the tests of all kinds take from it" in outcome.stdout


# ── on the menus of this process ────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, ModuleType]]:
    folder = tmp_path_factory.mktemp("toy")
    yield {name: as_module(name, code, folder / f"{name}.py") for name, code in SOURCES.items()}
    for name in SOURCES:
        del sys.modules[name]


@pytest.fixture(autouse=True)
def _menus(parts: dict[str, ModuleType], monkeypatch: pytest.MonkeyPatch) -> None:
    """One entry in each of the two menus; and a task whose predictions carry a dial beside their matrix."""
    task, model, dial = parts["toy_task"], parts["toy_model"], parts["regard.explanation.dial"].Dial

    class Sure(task.Counting):  # type: ignore[misc, name-defined]
        def predict(self, model: Any, inputs: Any, settings: Any = None) -> Any:
            predictions = super().predict(model, inputs, settings)
            return [
                [replace(best, explanations=(*best.explanations, dial(len(best.text) / 8, f"sure of {best.text}")))]
                for [best] in predictions
            ]

    def sure() -> Recipe:
        settings = Train(steps=4, lr=0.02, log_every=2, evaluate_every=4, save_every=4)
        return Recipe("counter", model.CounterConfig(), task.CountingConfig(), settings, note="bits on a CPU")

    paper = Paper(model.Counter, model.CounterConfig, 2026, "Counting by attention", "https://example.org")
    entry = TaskEntry("counting", Sure, task.CountingConfig, verb="count", inputs="rows of bits", example="011010")
    monkeypatch.setitem(EXPLANATIONS, "dial", dial)
    monkeypatch.setitem(DRAWINGS, "dial", parts["regard.viz.dial"].draw)
    monkeypatch.setitem(TASKS, "counting", entry)
    monkeypatch.setitem(MODELS, "counter", paper)
    monkeypatch.setitem(RECIPES, NAME, sure)


@pytest.fixture
def dial(parts: dict[str, ModuleType]) -> Any:
    return parts["regard.explanation.dial"].Dial(1 / 3, "sure <b>", title="How sure?")


def test_json_and_back(dial: Any) -> None:
    again = explanation_from_json(json.dumps(dial.to_json()))
    assert type(again) is type(dial)
    assert again == dial
    with pytest.raises(ValueError, match=r"the share of a dial: got 2\.0; expected a number from 0 to 1"):
        explanation_from_json(dial.to_json() | {"share": 2})


@pytest.mark.parametrize(("suffix", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_it_is_drawn_into_every_format(dial: Any, suffix: str, start: bytes, tmp_path: Path) -> None:
    light, dark = (save(draw(dial, dark=is_dark), tmp_path / f"{is_dark}.{suffix}") for is_dark in (False, True))
    assert light.read_bytes().startswith(start)
    assert light.read_bytes() != dark.read_bytes()


def test_a_notebook_shows_it(dial: Any) -> None:
    shown = dial._repr_html_()
    assert "<b>How sure?</b>" in shown
    assert '<rect width="66.7"' in shown
    assert "33% sure &lt;b&gt;" in shown


def test_predictions_reports_and_commands_carry_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def said(*arguments: str) -> str:
        assert main(list(arguments)) == 0, capsys.readouterr().err
        return capsys.readouterr().out

    run = tmp_path / "run"
    said("train", NAME, "--out", str(run))
    assert list((run / "pictures").glob("dial_*.png"))  # beside those of the matrices
    model = api.load(run)
    prediction = model.predict("011010")
    matrix, dial = prediction.explanations
    assert (matrix.kind, dial.kind) == ("matrix", "dial")
    assert dial.label == f"sure of {prediction.text}"

    told = json.loads(said("predict", str(run), "011010", "--json"))
    assert explanation_from_json(told["explanations"][1]) == dial
    for suffix, start in ((".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")):
        said("predict", str(run), "011010", "--draw", str(tmp_path / f"drawn{suffix}"))
        assert len(drawings := sorted(tmp_path.glob(f"drawn*{suffix}"))) == 2
        assert all(path.read_bytes().startswith(start) for path in drawings)

    page = tmp_path / "page.html"
    said("report", str(run), "--out", str(page), "--samples", "2")
    text = page.read_text()
    assert text.count("<span>how sure it is</span>") == 2  # its caption, since it has no title
    assert text.count('alt="how sure it is"') == 2  # the drawing itself
