"""The page of runs in a real browser: a curve grows while a training goes on, and the ledger is filtered."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import needs_browser, open_browser, open_page
from page_state import until

from regard.studio.app import Studio
from regard.studio.runs import ledger
from regard.studio.serve import Server

pytestmark = [needs_browser, pytest.mark.bare]
DEADLINE = 60_000  # milliseconds; busy machines are slow


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with open_browser() as opened:
        yield opened


def log(folder: Path, step: int, loss: float) -> None:
    with open(folder / "metrics.jsonl", "a", encoding="utf-8") as file:
        file.write(json.dumps({"kind": "train", "step": step, "loss": loss}) + "\n")


def test_curves_grow_and_the_ledger_is_filtered(browser: Any, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    for name in ("first", "second"):
        (runs / name).mkdir(parents=True)
        (runs / name / "recipe.json").write_text(json.dumps({"paper": "luong", "train": {"steps": 50}}))
        for step in (10, 20):
            log(runs / name, step, 8 / step)
    (runs / "first" / "result_test.json").write_text(json.dumps({"figures": {"bleu": 31.25}}))
    running = Server(Studio.of(below=runs), port=0)
    running.start()
    try:
        with open_page(browser) as page:
            page.goto(f"{running.address.url}#/runs")
            page.wait_for_selector("path[data-last='0.4']", timeout=DEADLINE)
            assert page.locator("path[data-last]").count() == 2
            assert "31.25" in page.inner_text("main")
            assert "20 of 50" in page.inner_text("[data-run=first]")
            log(runs / "first", 30, 0.125)  # the training goes on
            page.wait_for_selector("path[data-last='0.125']", timeout=DEADLINE)
            page.click("[data-run=second] input")
            until(page, "document.querySelectorAll('path[data-last]').length === 1")
            assert "runs=first" in page.url
            page.wait_for_selector("details", timeout=DEADLINE)
            page.fill("input[type=search]", "ram mnist28")
            page.wait_for_selector("[data-line='ram/mnist28']")
            shown = page.eval_on_selector_all("[data-line]", "lines => lines.map(line => line.dataset.line)")
            assert set(shown) == {
                line["name"] for line in ledger() if "ram" in line["name"] and "mnist28" in line["name"]
            }
            assert "0.83" in page.inner_text("[data-line='ram/mnist28']")
    finally:
        running.stop()
