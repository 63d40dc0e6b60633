"""The task of CONTRIBUTING, put into a copy of the project by the files that it names, can do all that others can.

In this process it stands on the menus by one entry each, and does all that a user can ask of a task.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from page_blocks import add, as_module, copy_of_the_project, files_of, files_to_touch, run_tests

from regard import api
from regard.cli.main import main
from regard.explanation import Matrix
from regard.models import MODELS, Paper
from regard.recipes import RECIPES, ledger, overview, table
from regard.tasks import TASKS

pytestmark = pytest.mark.bare  # the tests of the copy run in a process of their own

NAME = "counter/small"
FILES = files_of("Adding a task")
SHARED = [
    "tests/test_architecture.py",
    "tests/test_docs.py",
    "tests/test_settings.py",
    "tests/cli/test_list_recipes.py",
    "tests/cli/test_show.py",
    "tests/models/test_translator.py",
    "tests/recipes/test_ledger.py",
    "tests/recipes/test_recipe.py",
    "tests/recipes/test_signing.py",
    "tests/tasks/test_display.py",
]
MODULES = ("regard.tasks.counting", "regard.models.counter", "regard.recipes.counter")


# ── a copy of the project, with what the page adds ──────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = copy_of_the_project(tmp_path_factory.mktemp("project"))
    for path, (language, text) in FILES.items():
        add(root, path, language, text)
    return root


def test_the_page_names_every_file_that_is_touched() -> None:
    of_the_task = {path.replace("<name>", "counting") for path in files_to_touch("a task")}
    of_its_model = {path.replace("<paper>", "counter") for path in files_to_touch("a model for a task that is there")}
    assert of_the_task | of_its_model == set(FILES)
    assert len(FILES) == 11


@pytest.mark.slow
def test_the_tests_of_all_tasks_take_it_in(project: Path) -> None:
    """Those of the command line on the page that concern it: those of the other recipes would take minutes."""
    own = [path for path in FILES if path.startswith("tests/")]
    chosen = (
        "count or architecture or papers or recipe_is_on or up_to_date or readme or every_number or by_chance "
        "or is_walked or belongs or same_figures or every_setting_of_every or no_path_is "
        "or display or line_below_its_task"
    )
    outcome = run_tests(project, *own, *SHARED, "-k", f"({chosen}) and not code_runs")
    assert outcome.returncode == 0, outcome.stdout[-3000:]
    for test in (
        "test_every_file_is_on_the_map",
        "test_settings_survive_a_folder[counter]",
        "test_every_field_is_taken_or_refused[CounterConfig]",
        "test_every_paper_page_says_what_differs[counter]",
    ):
        assert f"{test} PASSED" in outcome.stdout, test


@pytest.mark.slow
def test_its_types_and_its_style_are_those_of_the_library(project: Path) -> None:
    for command in (["mypy"], ["ruff", "check", "."], ["ruff", "format", "--check", "."]):
        outcome = subprocess.run([sys.executable, "-m", *command], cwd=project, capture_output=True, text=True)
        assert outcome.returncode == 0, outcome.stdout + outcome.stderr


# ── the task itself, in this process ────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, ModuleType]]:
    root = tmp_path_factory.mktemp("toy")
    paths = {name: f"src/{name.replace('.', '/')}.py" for name in MODULES}
    yield {name: as_module(name, FILES[path][1], root / path) for name, path in paths.items()}
    for name in MODULES:
        del sys.modules[name]


@pytest.fixture(autouse=True)
def _menus(modules: dict[str, ModuleType], monkeypatch: pytest.MonkeyPatch) -> None:
    """One entry in each menu."""
    task, model, recipe = (modules[name] for name in MODULES)
    paper = eval(
        FILES["src/regard/models/__init__.py"][1].partition('"counter": ')[2].partition(",\n")[0],
        {"Paper": Paper, **vars(model)},
    )
    monkeypatch.setitem(TASKS, "counting", task.TASK)
    monkeypatch.setitem(MODELS, "counter", paper)
    monkeypatch.setitem(RECIPES, NAME, recipe.small)


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
    use = r"Try: give rows of bits to `regard predict \S+/count`, or to `model\.predict`, or load a model that can"
    with pytest.raises(ValueError, match=rf"cannot translate text: got a counting run\. {use} translate"):
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
    assert "Counting by one learnt query" in page
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
    assert "`model.predict(…, NAME=VALUE)`" in shown
    assert "\nCounting by one learnt query (2026)\n" in shown
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
