"""Every Python block of the pages runs, in order, in one namespace for each page; links, names and tables are true.

Blocks that bear the name of a file are what a contributor adds: `tests/test_new_score.py` and others run those.
"""

import doctest
import importlib.util
import re
from dataclasses import fields, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from page_blocks import files_to_touch, section

from regard.recipes import RECIPES, ledger, table
from regard.train import Train

ROOT = Path(__file__).parents[1]
CARDS = sorted((ROOT / "src" / "regard" / "recipes" / "shipped").glob("*/card.md"))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs").rglob("*.md")),
         *CARDS]  # fmt: skip
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")
FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_code_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = page.read_text()
    monkeypatch.chdir(tmp_path)  # pictures that a page saves land here
    names: dict[str, object] = {"__name__": "page"}
    torch.manual_seed(0)
    for match in BLOCK.finditer(text):
        line = text[: match.start()].count("\n") + 2
        where = f"{page.relative_to(ROOT)}:{line}"
        if match[1].startswith(">>>"):
            example = doctest.DocTestParser().get_doctest(match[1], names, where, str(page), line)
            report: list[str] = []
            runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
            result = runner.run(example, out=report.append, clear_globs=False)
            names.update(example.globs)
            assert result.failed == 0, "".join(report)
        else:
            exec(compile(match[1], where, "exec"), names)


@pytest.mark.parametrize(("what", "most"), [
    ("a score", 5), ("an alignment", 5), ("a model for a task that is there", 8), ("a task", 4), ("a data set", 4),
    ("a command", 5), ("a kind of explanation", 8),
])  # fmt: skip
def test_few_files_are_touched(what: str, most: int) -> None:
    """As many as the table of CONTRIBUTING says, and every one that is there already exists."""
    [row] = [line for line in section("Files to touch").splitlines() if line.startswith(f"| {what} |")]
    paths = files_to_touch(what)
    assert int(row.split("|")[2]) == len(paths) <= most
    assert all((ROOT / path).exists() for path in paths if "<" not in path)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(FENCED.sub("", page.read_text())):  # a page inside of a page has links of its own
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}, which is not there"


def test_every_file_that_a_page_names_exists() -> None:
    for page in PAGES:
        for name in re.findall(r"`((?:src|tests|docs|benchmarks|tools)/[\w./]+\.\w+)`", page.read_text()):
            assert (ROOT / name).exists(), f"{page.name} names {name}, which is not there"


# ── tables of results ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def maker() -> ModuleType:
    """tools/make_ledger.py."""
    spec = importlib.util.spec_from_file_location("make_ledger", ROOT / "tools" / "make_ledger.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_tables_of_results_are_up_to_date(maker: ModuleType) -> None:
    for page in maker.pages():
        text = page.read_text()
        assert maker.BLOCK.search(text), f"{page.name} has no table of results"
        assert maker.rewritten(text) == text, f"{page.name} is stale: run python tools/make_ledger.py"


def test_the_page_of_results_shows_the_lines_of_the_list(maker: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    """Word for word: a figure that only one of them has, or another one, is an error in one of them."""
    from regard.cli.main import main

    blocks = list(maker.BLOCK.finditer((ROOT / "docs" / "results.md").read_text()))
    assert {block["kind"] for block in blocks} == {"lines"}
    assert main(["list"]) == 0
    listed = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if "/" in line.split(" ")[0]}
    rows = [row.strip("|").split(" | ") for block in blocks for row in block[0].splitlines() if row.startswith("| `")]
    named = {name.strip("` ").partition("@")[0] for name, *_ in rows}
    others = {name for name, build in RECIPES.items() if build().entry.name != "translation"}
    missing = sorted(name for name in others if ledger.variants(name) and name not in named)
    assert not missing, f"{missing} have results: add them to docs/results.md, then run tools/make_ledger.py"
    unknown = sorted(name for name in named if name not in others or not ledger.variants(name))
    assert not unknown, f"{unknown} have no results, or translate: take them out of docs/results.md"
    for name, _, *cells in rows:
        line = listed[name.strip("` ")]
        for cell in cells[:-2]:  # figures, and what is published; parameters and updates are not in the list
            assert cell.strip() in ("–", "") or cell.strip() in line, f"{name}: {cell} is not in {line}"
        counted = line.count(" ± ") + line.count(" / ")
        assert sum(cell.count(" ± ") + cell.count(" / ") for cell in cells) == counted, line


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "papers").glob("*.md")), ids=lambda page: page.stem)
def test_every_paper_page_says_what_differs(page: Path) -> None:
    """Between its equations and its numbers: in the model, and in what is trained."""
    parts = re.split(r"^## ", page.read_text(), flags=re.MULTILINE)
    by_title = {part.partition("\n")[0]: part for part in parts}
    titles = list(by_title)
    assert "What differs" in by_title, f"{page.name} has no section “What differs”"
    assert titles.index("Equations and code") < titles.index("What differs") < titles.index("Ours")
    words = by_title["What differs"]
    assert "**In the model.**" in words, f"{page.name} does not say what differs in the model"
    assert "**In the recipes.**" in words, f"{page.name} does not say what differs in the recipes"


def test_every_recipe_is_on_the_page_of_its_paper(maker: ModuleType) -> None:
    for name in RECIPES:
        page = ROOT / "docs" / "papers" / f"{name.partition('/')[0]}.md"
        cure = "write it as “Adding a task” of CONTRIBUTING.md shows"
        assert page.exists(), f"{name} has no page docs/papers/{page.name}: {cure}"
        blocks = [match["names"] for match in maker.BLOCK.finditer(page.read_text())]
        assert len(blocks) == 1, f"{page.name} has {len(blocks)} tables <!-- ledger: … -->, and needs one: {cure}"
        assert name in blocks[0].split(", "), f"{page.name} has no row for {name}: add it to <!-- ledger: … -->"


def test_a_stale_table_is_seen(
    maker: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- ledger: luong/dot -->\n| 99.9 |\n<!-- end -->\nafter\n")
    monkeypatch.setattr(maker, "pages", lambda: [page])
    monkeypatch.setattr(maker, "ROOT", tmp_path)
    monkeypatch.setattr("sys.argv", ["make_ledger.py", "--check"])
    assert maker.main() == 1
    assert "99.9" in page.read_text()
    monkeypatch.setattr("sys.argv", ["make_ledger.py"])
    assert maker.main() == 0
    assert "99.9" not in page.read_text()
    assert "| `luong/dot` | multi30k de→en" in page.read_text()
    assert page.read_text().startswith("before\n")
    assert page.read_text().endswith("<!-- end -->\nafter\n")
    monkeypatch.setattr("sys.argv", ["make_ledger.py", "--check"])
    assert maker.main() == 0
    assert capsys.readouterr().out.count("page.md") == 2


def test_a_table_says_how_it_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    def summary(mean: float, spread: float | None) -> dict[str, Any]:
        return {key: {"mean": mean, "spread": spread} for key in ("tokenized_bleu", "greedy_tokenized_bleu", "bleu")}

    def run(minutes: float, *settings: str) -> dict[str, Any]:
        signatures = {"tokenized_bleu": "tok:ours", "bleu": "tok:13a"}
        return {
            "settings": list(settings),
            "parameters": 1_260_000,
            "steps": 4000,
            "minutes_of_training": minutes,
            "splits": {"test": {"signatures": signatures}},
            "environment": {"gpu": "a GPU", "torch": "2.0"},
            "date": "2026-01-02",
        }

    both = {"summary": {"test": summary(30.04, 0.26)}, "seeds": 2, "runs": [run(1.0, "a=1"), run(2.0, "a=1")]}
    entries = {
        "x/two": {**both, "command": "python x/two --set a=1"},
        "x/one": {"summary": {"test": summary(9.0, None)}, "seeds": 1, "command": "python x/one", "runs": [run(3.0)]},
    }
    monkeypatch.setattr(ledger, "entry", entries.get)
    plain = replace(RECIPES["luong/dot"](), published="")
    text = table({"x/two": plain, "x/one": replace(plain, published="8.1 (them)"), "x/none": plain})
    assert (
        "| `x/two` | multi30k de→en test | 30.0 ± 0.3 | 30.0 ± 0.3 | – | 30.0 ± 0.3 | 2 | 1.3 M | 4,000 | 1.5 |" in text
    )
    assert "| `x/one` | multi30k de→en test | 9.0 | 9.0 | 8.1 (them) | 9.0 | 1 | 1.3 M | 4,000 | 3.0 |" in text
    assert "over seeds" in text
    assert "without ± is of one seed" in text
    assert text.count("tok:ours") == text.count("tok:13a") == text.count("a GPU, torch 2.0; 2026-01-02") == 1
    assert "```sh\npython x/two --set a=1\npython x/one\n```" in text
    assert text.endswith("No results yet: `x/none`.")


def test_every_setting_of_training_is_explained() -> None:
    text = (ROOT / "docs" / "training.md").read_text()
    named = set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`.*?) \|", text, re.MULTILINE))))
    assert {field.name for field in fields(Train)} <= named
