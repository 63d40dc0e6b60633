"""notebooks/: every one runs from the first cell to the last, without a network, and is committed without outputs."""

import ast
import importlib.util
import json
import re
import socket
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
BOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
CHEAP = {"1_mechanism", "2_translation", "5_look_into_your_model", "6_write_your_own_score"}
HTML_LINK = re.compile(r"\]\(([^)#\s]+)\)")


def content(path: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return loaded


def test_there_are_six_and_the_page_names_them() -> None:
    told = (ROOT / "notebooks" / "README.md").read_text()
    assert len(BOOKS) == 6
    assert all(f"({path.name})" in told for path in BOOKS)


@pytest.mark.parametrize("path", BOOKS, ids=lambda path: path.stem)
def test_it_has_no_outputs(path: Path) -> None:
    for cell in content(path)["cells"]:
        assert cell["id"]
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []
            assert cell["execution_count"] is None


@pytest.mark.parametrize("path", BOOKS, ids=lambda path: path.stem)
def test_its_links_lead_somewhere(path: Path) -> None:
    for cell in content(path)["cells"]:
        for target in HTML_LINK.findall("".join(cell["source"])) if cell["cell_type"] == "markdown" else ():
            assert "://" in target or (path.parent / target).exists(), f"{path.name} links to {target}"


@pytest.mark.parametrize("path", [path for path in BOOKS if path.stem in CHEAP], ids=lambda path: path.stem)
def test_it_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process, as a notebook does: what a cell ends with is displayed. No socket is opened."""

    def refuse(*given: object, **named: object) -> None:
        raise AssertionError("a notebook opened a connection")

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("REGARD_DATA", raising=False)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    names: dict[str, Any] = {"__name__": "__main__"}
    displayed = []
    for number, cell in enumerate(content(path)["cells"]):
        if cell["cell_type"] != "code":
            continue
        tree, where = ast.parse("".join(cell["source"])), f"{path.name}, cell {number}"
        last = ast.Expression(tree.body.pop().value) if isinstance(tree.body[-1], ast.Expr) else None  # type: ignore[attr-defined]
        exec(compile(tree, where, "exec"), names)
        if last is not None and hasattr(shown := eval(compile(last, where, "eval"), names), "_repr_html_"):
            displayed.append(shown._repr_html_())
    assert displayed
    assert all(page.startswith("<") for page in displayed)


@pytest.mark.slow
@pytest.mark.parametrize("path", BOOKS, ids=lambda path: path.stem)
def test_it_runs_in_a_kernel_within_a_minute(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Processor time of the kernel: a busy machine takes longer."""
    pytest.importorskip("nbclient", reason="pip install -r docs/requirements.txt")
    pytest.importorskip("ipykernel", reason="pip install -r docs/requirements.txt")
    spec = importlib.util.spec_from_file_location("notebook_pages", ROOT / "tools" / "notebook_pages.py")
    assert spec is not None
    assert spec.loader is not None
    pages = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(pages)
    monkeypatch.delenv("REGARD_DATA", raising=False)
    notebook = pages.run(path)
    assert sum(bool(cell.get("outputs")) for cell in notebook.cells) >= 2


def test_time_is_measured_by_the_page_and_not_here() -> None:
    """The table of notebooks/README.md has a figure for each; all together are a minute of processor time."""
    rows = re.findall(r"\.ipynb\) \|.*\| (\d+) \|", (ROOT / "notebooks" / "README.md").read_text())
    assert len(rows) == len(BOOKS)
    assert sum(map(int, rows)) <= 60
