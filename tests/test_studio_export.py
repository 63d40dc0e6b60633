"""The exported page in a real browser, from a plain server of files: examples work, and it says so of others."""

import functools
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from browser import needs_browser, open_browser, open_page
from page_state import until

import regard
from regard.studio import answers
from regard.studio.app import Studio
from regard.studio.export import export
from regard.studio.traces import Traces

pytestmark = [needs_browser, pytest.mark.bare]
DEADLINE = 60_000  # milliseconds; busy machines are slow


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *text: Any) -> None:
        pass


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    layer = torch.nn.TransformerEncoderLayer(16, 2, 16, batch_first=True).eval()
    with torch.no_grad(), regard.trace(layer) as seen:
        layer(torch.randn(1, 6, 16))
    traces = Traces()
    traces.add("small", seen)
    monkeypatch.setattr(answers, "SENTENCES", ("I lost my keys.", "Come in!"))
    studio = Studio.of(traces=traces)
    export(studio, tmp_path / "web" / "space")
    studio.queue.close()
    handler = functools.partial(Quiet, directory=str(tmp_path / "web"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/space/"
        server.shutdown()


def test_examples_work_without_a_server_of_ours(site: str) -> None:
    with open_browser() as browser, open_page(browser, reduced_motion="reduce") as page:
        page.goto(f"{site}#/translate")
        page.click(".chips button >> nth=0", timeout=DEADLINE)
        page.wait_for_selector("[data-head]", timeout=DEADLINE)
        assert page.inner_text(".target").split() == ["J'ai", "perdu", "mes", "clés."]
        page.select_option("select >> nth=2", "1")
        until(page, "location.hash.includes('beams=1')")
        page.wait_for_selector("[data-head]", timeout=DEADLINE)
        page.fill("#source", "Another sentence.")
        page.click("button.primary")
        page.wait_for_selector(".error", timeout=DEADLINE)
        assert "This page has prepared examples only" in page.inner_text(".error")
        page.goto(f"{site}#/model?row=3")
        page.wait_for_selector("td[data-weight]", timeout=DEADLINE)
        page.goto(f"{site}#/runs?filter=ram")
        page.wait_for_selector("[data-line='ram/mnist28']", timeout=DEADLINE)
