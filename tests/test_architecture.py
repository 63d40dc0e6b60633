"""The rules of ARCHITECTURE.md as tests: imports point down, tests mirror the package, files are small, menus whole."""

import ast
import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import pytest
from table import cases

import regard
from regard.align import ALIGNS, Align
from regard.cli import VERBS
from regard.cli.main import parser
from regard.datasets import DATASETS
from regard.explanation import EXPLANATIONS
from regard.models import MODELS
from regard.recipes import RECIPES
from regard.score import SCORES, Score
from regard.tasks import TASKS
from regard.viz import DRAWINGS

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "regard"
TESTS = ROOT / "tests"
FILES = sorted(SOURCE.rglob("*.py"))
RANK = {
    "base": 0,
    "kernels": 0.5, "score": 1, "align": 1, "data": 1, "metrics": 1, "explanation": 1,
    "viz": 1.5,
    "attention": 2, "datasets": 2,
    "nn": 3, "decode": 3, "integrations": 3,
    "models": 4, "tasks": 4,
    "train": 5,
    "recipes": 6,
    "api": 7,
    "export": 7.5,
    "studio": 7.8,
    "cli": 8,
}  # fmt: skip
MENUS = [
    "regard",
    *(f"regard.{path.parent.name}" for path in sorted(SOURCE.glob("*/__init__.py")) if path.parent.name != "cli"),
]
MAX_LINES = {"models": 600, "kernels": 600}
BANNED = {
    r"\bplt\.|matplotlib\.pyplot|rcParams\[": "plots take and return Axes; no global state",
    r"from __future__ import annotations": "jaxtyping reads annotations at run time",
    r"np\.random\.seed": "seeds belong to the caller",
    r"#\s*(TODO|FIXME|XXX)": "finish it, or open an issue",
}


def homes(entry: Any) -> set[str]:
    """The modules of an entry of a menu: its own, or those of the classes and functions that it holds."""
    if isinstance(entry, str):  # VERBS, which imports no command
        return {f"regard.cli.{entry}"}
    own = getattr(entry, "__module__", "") if callable(entry) else ""
    if own:
        return {own}
    values = entry if isinstance(entry, tuple) else vars(entry).values()
    return {getattr(value, "__module__", "") for value in values}


ENTRIES = {  # the modules that are entries of the menus of an area
    place: {module for entry in menu.values() for module in homes(entry)}
    for place, menu in {
        "score": SCORES, "align": ALIGNS, "datasets": DATASETS, "explanation": EXPLANATIONS, "viz": DRAWINGS,
        "models": MODELS, "tasks": TASKS, "recipes": RECIPES, "cli": VERBS,
    }.items()
}  # fmt: skip


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def area(path: Path) -> str:
    parts = path.relative_to(SOURCE).parts
    return parts[0] if len(parts) > 1 else parts[0].removesuffix(".py")


def imported(path: Path) -> set[str]:
    """Areas of regard that a file imports, at the top or inside functions."""
    modules: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module == "regard":
            modules |= {f"regard.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules.add(node.module)
    return {module.split(".")[1] for module in modules if module.startswith("regard.")} - {"__version__"}


@cases("path", FILES, ids=name)
def test_imports_point_down(path: Path) -> None:
    if area(path) in ("__init__", "__main__"):
        return  # the facade and the door see everything
    for used in imported(path):
        assert used in RANK, f"{name(path)} imports {used}, which has no rank"
        assert used == area(path) or RANK[used] < RANK[area(path)], f"{name(path)}: {area(path)} must not import {used}"


@cases("path", FILES, ids=name)
def test_two_levels_and_readable_size(path: Path) -> None:
    assert len(path.relative_to(SOURCE).parts) <= 2, f"{name(path)}: area/file.py, never deeper"
    assert path.name != "utils.py", "a helper lives in the area that owns the idea"
    assert path.read_text().count("\n") <= MAX_LINES.get(area(path), 400), f"{name(path)} is too long to read"


@cases("path", FILES, ids=name)
def test_nothing_banned(path: Path) -> None:
    for pattern, reason in BANNED.items():
        assert not re.search(pattern, path.read_text()), f"{name(path)}: {reason}"


def test_tests_mirror_the_package() -> None:
    have = {path.relative_to(SOURCE) for path in FILES if path.name not in ("__init__.py", "__main__.py")}
    mirror = {path.relative_to(TESTS) for path in TESTS.glob("*/test_*.py")}
    across = {path.relative_to(TESTS) for path in TESTS.glob("test_*.py")}  # and the mirror of files without an area
    expected = {path.parent / f"test_{path.name}" for path in have}
    assert expected - mirror - across == set(), "files without a test of the same name"
    assert mirror - expected == set(), "tests without a file of the same name"


def test_every_area_has_a_rank_and_a_menu() -> None:
    for folder in (path for path in SOURCE.iterdir() if path.is_dir() and path.name != "__pycache__"):
        assert folder.name in RANK
        menu = ast.parse((folder / "__init__.py").read_text())
        assert ast.get_docstring(menu), f"{folder.name}: the menu says what the area is"
        kinds = {type(node) for node in menu.body}
        assert kinds <= {ast.Expr, ast.ImportFrom, ast.Assign, ast.AnnAssign}, f"{folder.name}: a menu holds no code"


@cases("module", MENUS)
def test_menus_keep_their_word(module: str) -> None:
    menu = importlib.import_module(module)
    assert len(set(menu.__all__)) == len(menu.__all__)
    for entry in menu.__all__:
        assert getattr(menu, entry) is not None


@cases(("menu", "base", "package"), [(SCORES, Score, "score"), (ALIGNS, Align, "align")])
def test_every_class_is_on_the_menu(menu: dict[str, type], base: type, package: str) -> None:
    classes = set()
    for path in (SOURCE / package).glob("*.py"):
        module = importlib.import_module(f"regard.{package}.{path.stem}")
        classes |= {kind for _, kind in inspect.getmembers(module, inspect.isclass) if issubclass(kind, base)} - {base}
    assert set(menu.values()) == classes
    for key, kind in menu.items():
        assert key == re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind.__name__).lower()


def test_one_public_name_has_one_meaning() -> None:
    """A name that two menus have is the same thing in both."""
    homes: dict[str, tuple[str, object]] = {}
    for module in MENUS:
        menu = importlib.import_module(module)
        for entry in menu.__all__:
            thing = getattr(menu, entry)
            other, known = homes.setdefault(entry, (module, thing))
            assert known is thing, f"{entry} is one thing in {other} and another in {module}"


@cases("path", FILES, ids=name)
def test_every_file_is_on_the_map(path: Path) -> None:
    if path.name in ("__init__.py", "__main__.py"):
        return
    text = (ROOT / "ARCHITECTURE.md").read_text().partition("## The import rule")[0]
    area_text = re.search(rf"^  {area(path)}/ .*?(?=^  \w+/ |^tests/)", text, re.MULTILINE | re.DOTALL)
    assert area_text is not None, f"{area(path)} is not on the map"
    if f"regard.{area(path)}.{path.stem}" in ENTRIES.get(area(path), ()):
        assert re.search(r"<\w+>\.py", area_text[0]), f"no line <…>.py stands for the entries of {area(path)}"
    else:
        assert path.name in area_text[0], f"{name(path)} is not on the map in ARCHITECTURE.md"


def test_facade_is_whole() -> None:
    facade = ast.parse((SOURCE / "__init__.py").read_text())
    typed = next(node for node in facade.body if isinstance(node, ast.If))
    for_checkers = {
        alias.name: node.module for node in typed.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    assert for_checkers == regard._HOME
    assert set(regard.__all__) == {*regard._HOME, "__version__"}
    assert dir(regard) == sorted(regard.__all__)
    with pytest.raises(AttributeError, match="no attribute 'atend'"):
        regard.atend  # noqa: B018


def test_command_line_is_frozen() -> None:
    """A new command or flag is a decision: change this list with it."""
    commands = next(action for action in parser()._actions if action.dest == "command").choices
    flags = {
        command: sorted(flag for action in sub._actions for flag in action.option_strings if flag.startswith("--"))
        for command, sub in commands.items()
    }
    search = ["--beam", "--device", "--file", "--heads", "--heatmap", "--help", "--nbest", "--set"]
    assert flags == {
        "demo": ["--help", "--out", "--seconds"],
        "train": ["--device", "--help", "--out", "--resume", "--set", "--source", "--target"],
        "evaluate": ["--beam", "--device", "--help", "--json", "--set", "--source", "--split", "--target"],
        "translate": sorted([*search, "--head", "--html", "--layer", "--self"]),
        "caption": ["--beam", "--beside", "--device", "--help", "--nbest", "--overlay", "--set"],
        "classify": ["--device", "--draw", "--file", "--help", "--path", "--set"],
        "generate": [
            "--device", "--draw", "--file", "--help", "--seed", "--set",
            "--temperature", "--tokens", "--top-k", "--top-p",
        ],
        "answer": ["--device", "--draw", "--file", "--help", "--json", "--nbest", "--set"],
        "read": ["--beam", "--device", "--draw", "--finder", "--help", "--json", "--nbest", "--set"],
        "report": ["--help", "--out", "--samples", "--source", "--split", "--target"],
        "export": ["--help", "--out", "--to"],
        "studio": ["--export", "--help", "--host", "--no-open", "--open", "--port"],
        "list": ["--help", "--json", "--models"],
        "show": ["--help", "--json"],
        "predict": ["--concepts", "--device", "--draw", "--help", "--json", "--set"],
        "info": ["--help"],
        "tour": ["--help", "--out"],
    }  # fmt: skip


def test_public_things_are_documented() -> None:
    for module in ("regard.score", "regard.align", "regard.attention"):
        menu = importlib.import_module(module)
        for entry in menu.__all__:
            thing = getattr(menu, entry)
            if inspect.isclass(thing) or inspect.isfunction(thing):
                assert inspect.getdoc(thing), f"{module}.{entry} has no docstring"
