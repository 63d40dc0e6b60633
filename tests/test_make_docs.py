"""tools/make_docs.py: every public name has an entry, every page is listed, links are true, and nothing is fetched."""

import importlib
import importlib.util
import os
import re
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]


def tool(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    return tool("reference")


@pytest.fixture
def docs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The tool, with a stage of its own."""
    made = tool("make_docs")
    monkeypatch.setattr(made, "STAGE", tmp_path / "stage")
    monkeypatch.setattr(made, "SITE", tmp_path / "site")
    return made


def test_every_public_name_of_every_menu_has_an_entry(reference: ModuleType) -> None:
    menus = ["regard", *(f"regard.{path.parent.name}" for path in (ROOT / "src" / "regard").glob("*/__init__.py"))]
    wanted = {name for name in menus if getattr(importlib.import_module(name), "__all__", None)}
    assert set(reference.areas()) == wanted
    assert len(wanted) > 15
    for area in wanted:
        entries = re.findall(r"^## `(\w+)`$", reference.page(area), re.MULTILINE)
        assert sorted(entries) == sorted(importlib.import_module(area).__all__)


def test_an_entry_has_the_signature_the_words_and_the_methods(reference: ModuleType) -> None:
    page = reference.page("regard.attention")
    entry = page[page.index("## `MultiHead`") :].split("\n## ")[0]
    assert "class MultiHead(" in entry
    assert "num_heads: int" in entry
    assert "MultiHead.prepare(" in entry
    assert "self" not in re.findall(r"class MultiHead\((.*?)\)", entry, re.DOTALL)[0]
    assert "beartype" not in page
    assert "0x" not in page


def test_words_become_markdown_that_says_the_same(reference: ModuleType) -> None:
    told = reference.described("Adds *one* to `x_y`, [a b].\n\n>>> 1 + 1\n2\n\n    a  table")
    assert told.startswith("Adds \\*one\\* to `x_y`, \\[a b\\].")
    assert "```pycon\n>>> 1 + 1\n2\n```" in told
    assert "```text\n    a  table\n```" in told


def test_numbers_stay_with_their_units_in_rows_of_tables_alone(docs: ModuleType) -> None:
    text = "| 3 ms, ≈ 2.5 min | 4 more (5 GB) |\n3 ms\n|\n"
    assert docs.together(text) == "| 3\u00a0ms, ≈\u00a02.5\u00a0min | 4 more (5\u00a0GB) |\n3 ms\n|\n"


def test_what_commands_do_stands_above_them_where_lines_are_long(docs: ModuleType) -> None:
    short = "```sh\nmake demo    # trains\n```"
    assert docs.above(short) == short
    far = f"make test{' ' * 90}# runs the tests"
    assert docs.above(f"```sh\nregard list\n{far}\n```") == "```sh\nregard list\n# runs the tests\nmake test\n```"
    assert docs.above(f"```python\n{far}\n```") == f"```python\n{far}\n```"


def test_everything_is_staged_and_listed(docs: ModuleType) -> None:
    docs.stage(notebooks=False)
    front = (docs.STAGE / "index.md").read_text()
    listed = re.findall(r"^((?:docs|notebooks|reference)/\S+|[A-Z]+)$", front, re.MULTILINE)
    assert all((docs.STAGE / f"{name}.md").exists() for name in listed)
    pages = {path.stem for path in (ROOT / "docs").rglob("*.md")}
    assert pages <= {Path(name).name for name in listed}
    assert len([name for name in listed if name.startswith("notebooks/")]) == 6
    shown = list((docs.STAGE / "code").glob("*.md"))
    assert len(shown) > 30
    assert "class Trainer" in (docs.STAGE / "code" / "src_regard_train_trainer_py.md").read_text()
    gallery = (docs.STAGE / "docs" / "gallery.md").read_text()
    assert gallery.count("![") > 10
    assert "([RNNsearch](papers/bahdanau.md))" in gallery
    assert all((docs.STAGE / "docs" / name).exists() for name in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", gallery))


def test_a_dead_link_and_a_forgotten_page_are_errors(
    docs: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(docs, "ROOT", tmp_path)
    (tmp_path / "page.md").write_text("[there](nowhere.py)")
    with pytest.raises(SystemExit, match=r"page.md links to nowhere.py, which is not there"):
        docs.linked(tmp_path / "page.md", set())
    (tmp_path / "docs" / "papers").mkdir(parents=True)
    (tmp_path / "docs" / "lost.md").write_text("# Lost")
    docs.STAGE.mkdir(parents=True)
    (docs.STAGE / "README.md").write_text("# regard\n")
    with pytest.raises(SystemExit, match=r"docs/lost.md is on no list of tools/make_docs.py"):
        docs.front([], [])


def test_what_would_be_fetched_is_found(docs: ModuleType) -> None:
    docs.SITE.mkdir()
    (docs.SITE / "a.html").write_text(
        '<script src="https://cdn.example/x.js"></script><a href="https://b.example">b</a>'
    )
    assert docs.elsewhere() == ["a.html: https://cdn.example/x.js"]


def test_the_first_page_leads_to_the_studio(docs: ModuleType) -> None:
    docs.STAGE.mkdir()
    (docs.STAGE / "README.md").write_text("# regard\n")
    assert '<a href="studio/index.html">' in docs.front(["regard"], [])


def test_the_studio_is_exported_without_runs(docs: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[Any] = []

    def run(command: list[str], cwd: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
        called.append((command[-3:], list(Path(cwd).iterdir()), env["PYTHONPATH"].split(os.pathsep)[0]))
        return subprocess.CompletedProcess(command, 3)

    monkeypatch.setattr(docs.subprocess, "run", run)
    assert docs.export_studio() == 3
    assert called == [(["studio", "--export", str(docs.SITE / "studio")], [], str(ROOT / "src"))]


def test_a_notebook_becomes_a_page(tmp_path: Path) -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# Title"]},
        {"cell_type": "code", "source": ["1 + 1"], "outputs": [
            {"output_type": "stream", "text": ["\x1b[31mred\x1b[0m\n"]},
            {"output_type": "execute_result", "data": {"text/html": ["<b>\n\nx</b>"], "text/plain": ["x"]}},
            {"output_type": "display_data", "data": {"image/png": "aGVsbG8="}},
            {"output_type": "execute_result", "data": {"text/plain": ["2"]}},
        ]},
    ]  # fmt: skip
    page = tool("notebook_pages").as_page({"cells": cells}, "book", tmp_path)
    assert page.startswith("# Title\n\n```python\n1 + 1\n```")
    assert "```text\nred\n```" in page
    assert "```{raw} html\n<b>\nx</b>\n```" in page
    assert "```text\n2\n```" in page
    assert (tmp_path / "book_1_2.png").read_bytes() == b"hello"


def pinned(path: Path) -> set[str]:
    return {line.partition("==")[0].lower() for line in path.read_text().splitlines() if re.match(r"[\w.-]+==", line)}


def test_pins_are_of_one_closure() -> None:
    pins = pinned(ROOT / "docs" / "requirements.txt")
    assert {"sphinx", "furo", "myst-parser", "nbclient", "ipykernel"} <= pins
    twice = pins & pinned(ROOT / "requirements.txt")
    assert not twice, "these are pinned in requirements.txt already"


@pytest.mark.slow
def test_the_site_is_built_without_a_warning(docs: ModuleType) -> None:
    pytest.importorskip("sphinx", reason="pip install -r docs/requirements.txt")
    docs.stage(notebooks=False)
    assert docs.build() == 0
    assert docs.elsewhere() == []
    assert (docs.SITE / "searchindex.js").exists()
