"""The table of the 20 bAbI tasks: published means, our columns only where there are results, and a page that is new."""

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_babi_table", ROOT / "tools" / "make_babi_table.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_up_to_date(tool: ModuleType) -> None:
    text = tool.PAGE.read_text(encoding="utf-8")
    assert tool.rewritten(text) == text, "run python tools/make_babi_table.py"


def test_means_are_those_that_the_paper_reports(tool: ModuleType) -> None:
    reported = {"BoW": 25.1, "PE": 20.3, "PE LS RN": 13.9, "joint, 1 hop": 25.8, "joint, 2 hops": 15.6,
                "joint, 3 hops": 12.4, "10k joint": 7.5}  # fmt: skip
    assert {label: round(sum(errors) / 20, 1) for label, errors in tool.PUBLISHED.items()} == pytest.approx(
        reported, abs=0.06
    )


def test_only_what_was_measured_is_shown(tool: ModuleType) -> None:
    assert "ours" not in tool.table(lambda name: None)

    def find(name: str) -> dict[str, Any] | None:
        if name == "memn2n/babi":
            return {"summary": {"test": {"error_7": {"mean": 30.0, "spread": 2.0, "chosen": 17.25}}}}
        if name == "memn2n/babi_10k":
            errors = {f"error_{task}": {"mean": 2.0, "spread": None} for task in range(1, 21) if task != 3}
            return {"summary": {"test": errors}}
        return None

    lines = tool.table(find).splitlines()
    heads = [cell.strip() for cell in lines[0].split("|")]
    alone, larger = heads.index("**ours, PE LS RN**"), heads.index("**ours, 10k joint**")
    assert "**ours, joint, 3 hops**" not in heads
    rows = {cells[1].strip(): cells for cells in (line.split("|") for line in lines[2:])}
    assert rows["7"][alone].strip() == "17.2"  # the chosen restart, not the mean
    assert rows["8"][alone].strip() == rows["mean"][alone].strip() == "–"
    assert (rows["2"][larger].strip(), rows["3"][larger].strip()) == ("2.0", "–")
    assert rows["mean"][larger].strip() == "2.0 of 19"
