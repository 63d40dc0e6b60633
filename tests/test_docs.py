"""Every Python block of the pages runs, in order, in one namespace for each page; links and file names are true."""

import doctest
import re
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")


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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}, which is not there"


def test_every_file_that_a_page_names_exists() -> None:
    for page in PAGES:
        for name in re.findall(r"`((?:src|tests|docs|benchmarks)/[\w./]+\.\w+)`", page.read_text()):
            assert (ROOT / name).exists(), f"{page.name} names {name}, which is not there"
