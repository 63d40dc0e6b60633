"""A real Chromium for tests of pages, where one is installed; without one those tests are skipped, with the reason."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed (Debian: apt install chromium)")
FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip


@contextmanager
def open_browser() -> Iterator[Any]:
    """A headless browser of playwright, which is closed at the end."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def open_page(browser: Any, **settings: Any) -> Iterator[Any]:
    """A page in a context of its own; an error of its scripts, or on its console, fails the test."""
    context = browser.new_context(**settings)
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    try:
        yield page
        assert not errors, f"errors on the page: {errors}"
    finally:
        context.close()


def steady_box(locator: Any) -> dict[str, float]:
    """Where a part of the page lies once it has stopped moving: as long as parts of a page load, others are shifted."""
    before: dict[str, float] = {}
    for _ in range(600):
        box: dict[str, float] = locator.bounding_box()
        if box == before:
            return box
        before = box
        locator.page.wait_for_timeout(100)
    raise AssertionError("a part of the page never came to rest")
