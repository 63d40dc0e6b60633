"""The lecture of the studio in a real browser: every step opens and comes back by its address; its data are ours."""

import csv
import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from browser import needs_browser, open_browser, open_page
from page_state import until
from static_page import STATIC, shell

import regard
from regard.align.shift import interpolate, move_focus, sharpen
from regard.attention.position import sinusoid
from regard.explanation.reading import explanation_from_json as from_json

ROOT = Path(__file__).parents[1]
DATA = STATIC / "lecture" / "data"
STEPS = [
    "why", "bottleneck", "lookup", "mechanism", "scores", "scale", "strength", "sparse", "hard", "local", "rnnsearch",
    "luong", "captions", "glimpses", "reading", "self", "heads", "positions", "costs", "memory", "machine", "graphs",
    "seeing",
]  # fmt: skip
READY = "document.querySelector('.live')?.dataset.ready === 'yes'"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with shell() as base:
        yield base


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with open_browser() as browser:
        yield browser


@pytest.fixture(scope="module")
def maker() -> Any:
    spec = importlib.util.spec_from_file_location("make_lecture_data", ROOT / "tools" / "make_lecture_data.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def opened(page: Any, address: str, state: str = "") -> None:
    page.goto("about:blank")
    page.goto(f"{address}#lecture?{state}")
    page.wait_for_selector("body[data-ready]")
    until(page, READY)


def step_of(page: Any) -> str:
    name: str = page.evaluate("new URLSearchParams(location.hash.split('?')[1] ?? '').get('step') ?? ''")
    return name


# ── the data ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_data_are_explanations_that_say_what_made_them_and_are_small(maker: Any) -> None:
    files = sorted(DATA.glob("*.json"))
    tables = {"bleu_by_length", "costs"}
    assert {path.stem for path in files} == {*tables, "translation", "heads", "concepts", *maker.NUMBERS}
    assert sum(path.stat().st_size for path in files) <= 300_000
    for path in files:
        content = json.loads(path.read_text(encoding="utf-8"))
        assert content["made_by"] == maker.MADE_BY
        if path.stem in tables:
            assert content["command"]
            assert content["machine"]
            continue
        assert content["from"]
        for each in content["explanations"]:
            assert from_json(each).to_json() == each


def test_tables_are_those_of_the_pages(maker: Any) -> None:
    bleu, costs = (
        json.loads((DATA / f"{name}.json").read_text(encoding="utf-8")) for name in ("bleu_by_length", "costs")
    )
    assert bleu == {"made_by": maker.MADE_BY, **maker.demo_table()}, "run python tools/make_lecture_data.py"
    assert costs == {"made_by": maker.MADE_BY, **maker.costs()}, "run python tools/make_lecture_data.py"
    with (ROOT / "benchmarks" / "results" / "complexity.csv").open(newline="") as file:
        assert {row["layer"] for row in csv.DictReader(file)} == {row["layer"] for row in costs["rows"]}


def test_the_matrix_of_the_first_step_is_what_the_shipped_model_says(maker: Any) -> None:
    content = json.loads((DATA / "translation.json").read_text(encoding="utf-8"))
    ours = from_json(content["explanations"][0])
    theirs = regard.load("tatoeba-en-fr").translate(maker.SENTENCE).explanations[0]
    assert (list(ours.rows), list(ours.columns)) == (list(theirs.rows), list(theirs.columns))
    assert abs(ours.weights - theirs.weights).max() < 1e-3


# ── the page ────────────────────────────────────────────────────────────────────────────────────────────────────────


@needs_browser
def test_every_step_opens_with_an_equation_three_sentences_and_a_live_view(browser: Any, address: str) -> None:
    asked: list[str] = []
    with open_page(browser) as page:
        page.on("request", lambda request: asked.append(request.url))
        opened(page, address)
        for number, step in enumerate(STEPS):
            until(page, READY)
            assert step_of(page) == (step if number else "")
            assert page.text_content(".count") == f"{number + 1} of {len(STEPS)}"
            assert page.evaluate("document.querySelector('progress').value") == number + 1
            assert page.locator(".lecture .sentences p").count() == 3, step
            for sentence in page.eval_on_selector_all(".sentences p", "all => all.map((p) => p.textContent)"):
                assert sentence.endswith("."), sentence
            equations = page.eval_on_selector_all(".equations math", "all => all.map((math) => math.textContent)")
            assert equations, step
            assert not any("\\" in text or "{" in text for text in equations)
            assert page.locator(".failed").count() == 0, step
            assert page.eval_on_selector(".live", "live => live.getBoundingClientRect().height") > 20, step
            assert page.locator(".live").text_content().strip()
            if number + 1 < len(STEPS):
                page.get_by_role("button", name="Next", exact=True).click()
        assert page.get_by_role("button", name="Next", exact=True).is_disabled()
    assert all(url.startswith((address.partition("own/")[0], "data:", "blob:")) for url in asked)
    assert not any("/api" in url for url in asked)


@needs_browser
def test_buttons_keys_and_the_address_move_between_steps(browser: Any, address: str) -> None:
    with open_page(browser) as page:
        opened(page, address, "step=lookup")
        assert page.text_content("h1") == "A dictionary that always answers"
        page.keyboard.press("ArrowRight")
        assert step_of(page) == "mechanism"
        page.get_by_role("button", name="Previous", exact=True).click()
        page.keyboard.press("ArrowLeft")
        assert step_of(page) == "bottleneck"
        page.go_back()
        until(page, "document.querySelector('h1').textContent === 'A dictionary that always answers'")
        page.focus(".point[data-name=q]")  # inside of a live view the arrow keys belong to it
        before = json.loads(page.get_attribute(".bench", "data-result"))["context"]
        page.keyboard.press("ArrowRight")
        assert step_of(page) == "lookup"
        assert json.loads(page.get_attribute(".bench", "data-result"))["context"] > before
        page.get_by_text("All steps").click()
        page.get_by_role("link", name="Graphs").click()
        assert step_of(page) == "graphs"
        assert page.locator("[aria-current=step]").text_content() == "22. Graphs"
        until(page, READY)
        opened(page, address, "step=nosuch")
        assert page.text_content(".count") == f"1 of {len(STEPS)}"


@needs_browser
def test_the_address_restores_what_was_changed_in_a_step(browser: Any, address: str) -> None:
    with open_page(browser) as page:
        opened(page, address, "step=strength")
        page.get_by_label("key strength β", exact=True).fill("8")
        until(page, "location.hash.includes('strength=8')")
        weights, link = json.loads(page.get_attribute(".bench", "data-result"))["weights"], page.url
        page.goto("about:blank")
        page.goto(link)
        page.wait_for_selector("body[data-ready]")
        assert json.loads(page.get_attribute(".bench", "data-result"))["weights"] == pytest.approx(weights)
        assert max(weights) > 0.99
        page.hover("a[href*=playground]")
        assert "strength=8" in page.get_attribute("a[href*=playground]", "href")
        page.get_by_role("button", name="Next", exact=True).click()
        assert page.url.endswith("#lecture?step=sparse")


@needs_browser
def test_figures_of_the_charts_are_those_of_their_files(browser: Any, address: str) -> None:
    with open_page(browser) as page:
        opened(page, address, "step=bottleneck")
        bleu = json.loads((DATA / "bleu_by_length.json").read_text(encoding="utf-8"))
        cells = page.eval_on_selector_all(
            "table.figures tbody tr", "rows => rows.map((r) => [...r.cells].map((c) => c.textContent))"
        )
        assert cells == [
            [r["words"], str(r["sentences"]), *(f"{r[key]:.1f}" for key in ("with", "without", "gap"))]
            for r in bleu["rows"]
        ]
        assert page.locator("svg.chart rect.with").count() == len(bleu["rows"])  # four lengths and the legend
        assert bleu["machine"] in page.text_content(".made")
        opened(page, address, "step=costs&n=1024&d=64")
        work = page.eval_on_selector_all("table.costs .weightbar", "all => all.map((cell) => +cell.dataset.value)")
        assert work == [1024**2 * 64, 1024 * 64**2, 3 * 1024 * 64**2, 16 * 1024 * 64]
        assert "16.0 of the work" in page.text_content(".note")
        exponents = page.eval_on_selector_all(
            "table.figures tbody tr", "rows => rows.map((r) => r.cells[2].textContent)"
        )
        assert exponents == [f"{row['n']:.2f}" for row in json.loads((DATA / "costs.json").read_text())["rows"]]


@needs_browser
def test_positions_and_addressing_have_the_numbers_of_regard(browser: Any, address: str) -> None:
    with open_page(browser) as page:
        opened(page, address, "step=positions&first=7&apart=6")
        table = sinusoid(torch.arange(40, dtype=torch.float64), 32)
        assert float(page.get_attribute(".note", "data-value")) == pytest.approx(float(table[7] @ table[13]), abs=1e-6)
        page.get_by_label("first place", exact=True).fill("20")  # the product depends on the distance alone
        assert float(page.get_attribute(".note", "data-value")) == pytest.approx(float(table[7] @ table[13]), abs=1e-6)
        opened(page, address, "step=machine&gate=0.3&shift=0.75&sharpness=2.5")

        def strips() -> list[Any]:
            texts = page.eval_on_selector_all(".stripbox", "all => all.map((box) => box.dataset.values)")
            return [torch.tensor(json.loads(text), dtype=torch.float64) for text in texts]

        for _ in range(3):
            before, content, mixed, moved, sharp = strips()
            shift = torch.tensor([0.0, 0.25, 0.75], dtype=torch.float64)
            assert torch.allclose(mixed, interpolate(content, before, 0.3), atol=1e-6)
            assert torch.allclose(moved, move_focus(mixed, shift), atol=1e-6)
            assert torch.allclose(sharp, sharpen(moved, 2.5), atol=1e-6)
            page.get_by_role("button", name="Next time step").click()
            assert torch.allclose(strips()[0], sharp)
        weights, shares = [0.1, 0.2, 0.7], [0.1, 0.2, 0.3, 0.3, 0.1]
        found = page.evaluate(
            """([weights, shares]) => import("/mechanism/index.js").then((mechanism) =>
              [mechanism.moveFocus(weights, shares), mechanism.sharpen([0, 0], 2)])""",
            [weights, shares],
        )
        wide = move_focus(torch.tensor(weights, dtype=torch.float64), torch.tensor(shares, dtype=torch.float64))
        assert found[0] == pytest.approx(wide.tolist())
        assert found[1] == [0, 0]


@needs_browser
def test_a_head_that_is_chosen_is_drawn_and_stays_in_the_address(browser: Any, address: str) -> None:
    with open_page(browser) as page:
        opened(page, address, "step=heads")
        heads = json.loads((DATA / "heads.json").read_text(encoding="utf-8"))["explanations"]
        assert page.locator("button.head").count() == sum(len(each["weights"]["values"]) for each in heads)
        page.get_by_role("button", name="layer 2, head 5").click()
        until(page, "location.hash.includes('layer=2') && location.hash.includes('head=5')")
        until(page, "document.querySelector('.explanation').textContent.includes('decoder.2.cross, head 5')")
        assert page.locator("button.head[aria-pressed=true]").get_attribute("data-place") == "2.5"


@needs_browser
def test_phone_width_and_the_dark_theme(browser: Any, address: str) -> None:
    with open_page(browser, viewport={"width": 390, "height": 844}, color_scheme="dark") as page:
        for step in ("scores", "heads", "costs", "machine"):
            opened(page, address, f"step={step}")
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), step
