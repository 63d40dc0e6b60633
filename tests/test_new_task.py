"""The task of CONTRIBUTING, put on the menus by one entry each, can do all that a user can ask of a task."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from page_blocks import as_module, python_block

from regard import api
from regard.cli.main import main
from regard.explanation import Matrix
from regard.models import MODELS, Paper
from regard.recipes import RECIPES, Recipe, ledger, overview, table
from regard.tasks import TASKS
from regard.train import Train

pytestmark = pytest.mark.bare  # its functions have no types, so that the page stays short

NAME = "counting/small"


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, ModuleType]]:
    folder = tmp_path_factory.mktemp("toy")
    names = {"toy_task": '"""Counting', "toy_model": "class CounterConfig"}
    yield {name: as_module(name, python_block(words), folder / f"{name}.py") for name, words in names.items()}
    for name in names:
        del sys.modules[name]


@pytest.fixture(autouse=True)
def _menus(parts: dict[str, ModuleType], monkeypatch: pytest.MonkeyPatch) -> None:
    """One entry in each menu."""
    task, model = parts["toy_task"], parts["toy_model"]
    paper = Paper(model.Counter, model.CounterConfig, 2026, "Counting by attention", "https://example.org")

    def small() -> Recipe:
        settings = Train(steps=60, lr=0.02, log_every=20, evaluate_every=30, save_every=20)
        return Recipe("counter", model.CounterConfig(), task.CountingConfig(), settings, note="bits on a CPU")

    monkeypatch.setitem(TASKS, "counting", task.TASK)
    monkeypatch.setitem(MODELS, "counter", paper)
    monkeypatch.setitem(RECIPES, NAME, small)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs") / "count"


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(list(arguments)) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def test_train_and_resume(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = said(capsys, "train", NAME, "--out", str(run), "--set", "train.steps=40")
    assert "error, %" in out  # it is evaluated, and
    assert "regard predict" in out  # what to do next is said
    assert "from step_00000040 on" in said(
        capsys, "train", NAME, "--out", str(run), "--resume", "--set", "train.steps=60"
    )
    content = json.loads((run / "recipe.json").read_text())
    assert content["task_name"] == "counting"
    assert sorted(path.suffix for path in (run / "pictures").iterdir())[0] == ".png"


def test_load_and_predict(run: Path) -> None:
    model = api.load(run)
    answer = model.predict("011010")
    assert answer.text in map(str, range(7))
    (alignment,) = answer.explanations
    assert isinstance(alignment, Matrix)
    assert alignment.columns == tuple("011010")
    assert [one.text for one in model.predict(["000000", "111111"])] != [answer.text] * 2
    assert int(model.predict("000000", at_least=5).text) >= 5
    with pytest.raises(ValueError, match=r"cannot translate text: got a counting run"):
        model.translate("hello")
    with pytest.raises(ValueError, match=r"unknown setting 'at_last'.*Did you mean 'at_least'"):
        model.predict("000000", at_last=5)
    with pytest.raises(ValueError, match="this is not a row of bits"):
        model.predict("01")


def test_evaluate_examples_draw_report(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = api.load(run)
    evaluation = model.evaluate("test")
    assert 0 <= evaluation.figures["error"] <= 100
    numbers = api.chosen(model, "test", 3)
    assert [example.output for example in api.examples(model, "test", numbers)]
    assert [path.name for path in api.draw_examples(model, "test", tmp_path)] == [
        f"matrix_{number}.png" for number in range(4)
    ]
    page = api.report([model], samples=2)
    assert "Counting by attention" in page
    assert "error, %" in page
    out = said(capsys, "evaluate", str(run), "--set", "at_least=1")
    assert "error in % of" in out
    figures: Any = json.loads(said(capsys, "evaluate", str(run), "--json"))
    assert figures["task"] == "counting"
    assert said(capsys, "predict", str(run), "011010").strip() in map(str, range(7))
    line = json.loads(said(capsys, "predict", str(run), "011010", "--json"))
    assert line["explanations"][0]["kind"] == "matrix"
    assert said(capsys, "report", str(run), "--out", str(tmp_path / "page.html")).strip().endswith("page.html")


def test_list_show_ledger(run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    out = said(capsys, "list")
    assert "\ncounting\n" in out
    assert "bits of length 6" in next(line for line in out.splitlines() if line.startswith(NAME))
    (line,) = json.loads(said(capsys, "list", "counting", "--json"))
    assert (line["name"], line["task"]) == (NAME, "counting")
    shown = said(capsys, "show", NAME)
    assert "bits in a row" in shown
    assert "at_least=0" in shown
    recipes = {NAME: RECIPES[NAME]()}
    assert f"`{NAME}`" in overview(recipes)
    assert "No results yet" in table(recipes)
    content = {
        "summary": {"test": {"error": {"mean": 1.5, "spread": None}}}, "seeds": 1, "command": "python x",
        "runs": [{"settings": [], "parameters": 900, "steps": 60, "minutes_of_training": 0.1, "date": "2026-01-01",
                  "environment": {"processor": "a CPU", "torch": "2"},
                  "splits": {"test": {"signatures": {"error": "error in % of 32 rows"}}}}],
    }  # fmt: skip
    monkeypatch.setattr(ledger, "entry", {NAME: content}.get)
    assert f"| `{NAME}` | bits of length 6 test | 1.50 |" in table(recipes)


def test_files_of_the_user(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = tmp_path / "rows.txt"
    rows.write_text("\n".join(f"{number:06b}" for number in range(64)))
    said(capsys, "train", NAME, "--source", str(rows), "--out", str(tmp_path / "own"), "--set", "train.steps=4")
    assert json.loads((tmp_path / "own" / "recipe.json").read_text())["task"]["bits_file"] == str(rows)
    assert "7 rows" in said(capsys, "evaluate", str(tmp_path / "own"))
