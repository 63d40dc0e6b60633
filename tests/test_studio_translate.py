"""The page for translations in a real browser: typed, clicked, and its numbers are those of Python."""

import re
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from browser import needs_browser, open_browser, open_page
from page_state import until

import regard
from regard.studio.app import Studio
from regard.studio.serve import Server
from regard.studio.traces import Traces

pytestmark = [needs_browser, pytest.mark.bare]
SENTENCE = "I lost my keys."
DEADLINE = 60_000  # milliseconds; busy machines are slow


@pytest.fixture(scope="module")
def model() -> Any:
    return regard.load("tatoeba-en-fr", device="cpu")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    running = Server(Studio.of(traces=Traces()), port=0)
    running.start()
    yield running
    running.stop()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with open_browser() as opened:
        yield opened


def address(server: Server, state: str) -> str:
    return f"{server.address.url}#/translate{state}"


def weights_on(page: Any) -> np.ndarray:
    cells = page.eval_on_selector_all(
        "rect[data-weight]", "cells => cells.map(c => [c.dataset.row, c.dataset.column, c.dataset.weight].map(Number))"
    )
    rows, columns = (int(max(cell[place] for cell in cells)) + 1 for place in (0, 1))
    matrix = np.zeros((rows, columns))
    for row, column, weight in cells:
        matrix[int(row), int(column)] = weight
    return matrix


def test_a_sentence_is_typed_and_its_weights_are_those_of_python(server: Server, browser: Any, model: Any) -> None:
    with open_page(browser) as page:
        page.goto(address(server, "?pieces=1&specials=1"))
        page.wait_for_selector(".chips button", timeout=DEADLINE)
        page.fill("#source", SENTENCE)
        page.click("button.primary")
        page.wait_for_selector("rect[data-weight]", timeout=DEADLINE)
        page.wait_for_selector("[data-head]", timeout=DEADLINE)
        expected = model.translate(SENTENCE)
        words = page.eval_on_selector_all(".target button", "words => words.map(w => w.textContent)")
        assert words == [token.replace("▁", "") for token in expected.tokens]
        np.testing.assert_allclose(weights_on(page), expected.weights, atol=1e-5)
        assert "text=I+lost+my+keys." in page.url  # the whole state is in the address
        assert "token" not in page.url

        page.select_option("select >> nth=-1", "decoder.2.cross/5")
        layers = {matrix.layer: matrix.weights for matrix in model.layers(expected)}
        until(page, "location.hash.includes('head=decoder.2.cross')")
        page.wait_for_selector("[data-head='decoder.2.cross/5'][aria-pressed=true]")
        np.testing.assert_allclose(weights_on(page), layers["decoder.2.cross"][5], atol=1e-5)
        page.select_option("select >> nth=-1", "mean")
        until(page, "location.hash.includes('head=mean')")
        every = np.concatenate(list(layers.values()))
        np.testing.assert_allclose(weights_on(page), every.mean(0), atol=1e-5)

        page.click("text=Whole words")
        page.click("text=Special tokens")
        until(page, "!location.hash.includes('pieces')")
        assert (
            page.eval_on_selector_all(".target button", "words => words.map(w => w.textContent)")
            == expected.text.split()
        )
        page.click("[data-picture=ribbons]")
        page.wait_for_selector("path.ribbon")


def test_another_word_is_put_in_place_and_the_translation_goes_on(server: Server, browser: Any, model: Any) -> None:
    with open_page(browser) as page:
        page.goto(address(server, "?text=I+lost+my+keys.&pieces=1&beams=1"))
        page.wait_for_selector("[data-head]", timeout=DEADLINE)
        before = page.inner_text(".target")
        page.click(".target button >> nth=3")
        shares = page.eval_on_selector_all("[data-alternative]", "all => all.map(b => b.textContent)")
        assert len(shares) == 8
        assert all(re.search(r"\d %$", share) for share in shares)
        page.click("[data-alternative][aria-pressed=false] >> nth=0")
        until(page, "location.hash.includes('prefix=')")
        page.wait_for_selector(".target .given >> nth=3", timeout=DEADLINE)
        page.wait_for_selector("[data-head]", timeout=DEADLINE)
        assert page.inner_text(".target") != before
        ids = [int(each) for each in re.search(r"prefix=([\d%C,]+)", page.url)[1].replace("%2C", ",").split(",")]  # type: ignore[index]
        tokens = model.task.codecs[1].decode_tokens(ids)
        given = page.eval_on_selector_all(".target .given", "words => words.map(w => w.textContent)")
        assert given == [token.replace("▁", "") for token in tokens]
        np.testing.assert_allclose(weights_on(page).shape[1], len(model.task.codecs[0].tokens(SENTENCE)))


def test_the_beam_tree_has_the_scores_of_python(server: Server, browser: Any, model: Any) -> None:
    with open_page(browser, viewport={"width": 390, "height": 800}, color_scheme="dark") as page:
        page.goto(address(server, "?text=I+lost+my+keys.&picture=tree&beams=3"))
        page.wait_for_selector("td[data-score]", timeout=DEADLINE)
        scores = page.eval_on_selector_all("td[data-score]", "cells => cells.map(c => Number(c.dataset.score))")
        [expected] = model.predictions([SENTENCE], beam=3, nbest=3)
        np.testing.assert_allclose(scores, [each.score for each in expected], atol=1e-4)
        assert page.locator(".node.best").count() == len(expected[0].tokens)


def test_help_theme_and_menu_by_keyboard(server: Server, browser: Any) -> None:
    with open_page(browser) as page:
        page.goto(server.address.url)
        page.wait_for_selector(".views a", timeout=DEADLINE)
        page.keyboard.press("?")
        assert page.is_visible("#keys")
        page.keyboard.press("Escape")
        page.keyboard.press("t")
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"
        page.keyboard.press("2")
        page.wait_for_selector("#source", timeout=DEADLINE)
        page.keyboard.press("/")
        assert page.evaluate("document.activeElement.id") == "source"
        page.goto(server.address.url + "#/nothing")
        page.wait_for_selector(".error")
        assert "this page has no view" in page.inner_text(".error").lower()
    assert threading.active_count() < 60
