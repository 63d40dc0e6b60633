"""The page of a trace in a real browser: overview, matrix, rows, and the numbers of Python."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from browser import needs_browser, open_browser, open_page
from page_state import until

import regard
from regard.studio import record
from regard.studio.app import Studio
from regard.studio.serve import Server
from regard.studio.traces import Traces

pytestmark = [needs_browser, pytest.mark.bare]
DEADLINE = 60_000  # milliseconds; busy machines are slow
WORDS = ["the", "cat", "sat", "on", "the", "old", "mat", "and", "slept"]


@pytest.fixture(scope="module")
def encoder() -> Any:
    torch.manual_seed(2)
    return torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(32, 4, 32, batch_first=True), 3).eval()


@pytest.fixture(scope="module")
def seen(encoder: Any) -> Any:
    with torch.no_grad(), regard.trace(encoder, rows=WORDS, columns=WORDS) as made:
        encoder(torch.randn(1, len(WORDS), 32))
    return made


@pytest.fixture(scope="module")
def server(seen: Any, encoder: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with torch.no_grad(), record(encoder) as calls:
        encoder(torch.randn(1, 1500, 32))
    traces = Traces()
    traces.add("small", seen)
    traces.add_file(calls.save(tmp_path_factory.mktemp("calls") / "long.safetensors"))
    running = Server(Studio.of(traces=traces), port=0)
    running.start()
    yield running
    running.stop()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with open_browser() as opened:
        yield opened


def test_a_head_is_chosen_and_a_row_has_its_weights(server: Server, browser: Any, seen: Any) -> None:
    with open_page(browser) as page:
        page.goto(f"{server.address.url}#/model?trace=small")
        page.wait_for_selector("canvas[data-ready]", timeout=DEADLINE)
        canvas = page.locator("canvas[data-layers]")
        assert (canvas.get_attribute("data-layers"), canvas.get_attribute("data-heads")) == ("3", "4")
        canvas.focus()
        for key in ("ArrowDown", "ArrowRight", "ArrowRight"):
            page.keyboard.press(key)
        until(page, "location.hash.includes('head=2')")
        page.wait_for_selector("canvas[data-ready]", timeout=DEADLINE)
        name = list(seen)[1]
        assert f"layer={name}" in page.url
        matrix = page.locator(".matrix canvas")
        box = matrix.bounding_box()
        matrix.click(position={"x": box["width"] * 0.5, "y": box["height"] * 5.5 / len(WORDS)})  # the sixth row
        page.wait_for_selector("td[data-weight]", timeout=DEADLINE)
        assert page.inner_text(".words h3") == "Row old (5) looks at"
        weights = page.eval_on_selector_all("td[data-weight]", "cells => cells.map(c => Number(c.dataset.weight))")
        np.testing.assert_allclose(weights, np.sort(seen[name].weights[0, 2, 5])[::-1], atol=1e-6)
        matrix.hover(position={"x": box["width"] * 3.5 / len(WORDS), "y": box["height"] * 5.5 / len(WORDS)})
        until(page, "document.querySelector('.framed + .readout').textContent.includes('column')")
        weight = seen[name].weights[0, 2, 5, 3]
        assert page.inner_text(".framed + .readout") == f"row old (5) → column on (3): {weight:.4f}"


def test_a_long_text_comes_sharper_where_it_is_zoomed_into(server: Server, browser: Any) -> None:
    with open_page(browser, viewport={"width": 390, "height": 800}, color_scheme="dark") as page:
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.post_data or "") if "rows" in request.url else None)
        page.goto(f"{server.address.url}#/model?trace=long&head=mean")
        page.wait_for_selector("canvas[data-ready]", timeout=DEADLINE)
        assert any('"rows":[0,1500]' in each for each in asked)
        asked.clear()
        with page.expect_response(lambda answer: answer.url.endswith("/rows"), timeout=DEADLINE):
            page.click("[aria-label='Zoom in']")
        assert '"rows":[375,1125]' in asked[0]  # the middle half: rows on demand
        assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_panning_draws_from_what_is_here(server: Server, browser: Any) -> None:
    with open_page(browser) as page:
        page.goto(f"{server.address.url}#/model?trace=small")
        page.wait_for_selector("canvas[data-ready]", timeout=DEADLINE)
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.click("[aria-label='Zoom in']")
        page.locator(".matrix canvas").scroll_into_view_if_needed()
        box = page.locator(".matrix canvas").bounding_box()
        page.mouse.move(box["x"] + 200, box["y"] + 200)
        page.mouse.down()
        for step in range(20):
            page.mouse.move(box["x"] + 200 - 4 * step, box["y"] + 200 + 3 * step)
        page.mouse.up()
        assert asked == []


def test_without_a_trace_the_page_says_how_to_make_one(browser: Any) -> None:
    running = Server(Studio.of(traces=Traces()), port=0)
    running.start()
    try:
        with open_page(browser) as page:
            page.goto(f"{running.address.url}#/model")
            page.wait_for_selector("pre", timeout=DEADLINE)
            assert "studio.show(seen)" in page.inner_text("pre")
    finally:
        running.stop()


@pytest.mark.slow
def test_4096_tokens_in_32_layers_of_32_heads_open(browser: Any, tmp_path: Path) -> None:
    from regard.studio.calls import CalledLayer, Calls

    calls = Calls()
    query, keys = torch.randn(32, 4096, 64).half(), torch.randn(8, 4096, 64).half()
    calls.layers = [CalledLayer(f"layer {number}", query.clone(), keys.clone(), 0, 0.125, None) for number in range(32)]
    traces = Traces()
    traces.add_file(calls.save(tmp_path / "large.safetensors"))
    running = Server(Studio.of(traces=traces), port=0)
    running.start()
    try:
        with open_page(browser) as page:
            page.goto(f"{running.address.url}#/model?trace=large&row=4000")
            page.wait_for_selector("canvas[data-layers='32'][data-heads='32']", timeout=DEADLINE)
            page.wait_for_selector("td[data-weight]", timeout=DEADLINE)
            row = calls.layers[0].block(0, slice(4000, 4001), slice(0, 4096))[0]
            weight = page.get_attribute("td[data-weight] >> nth=0", "data-weight")
            assert float(weight) == pytest.approx(row.max(), abs=1e-6)
    finally:
        running.stop()
