"""The static pages of the studio from a server of the test's own, without the studio: one view on an empty page."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

STATIC = Path(__file__).parents[1] / "src" / "regard" / "studio" / "static"
POLICY = "default-src 'self'; img-src 'self' data: blob:; style-src 'self'; script-src 'self'"
PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>A view</title><link rel="icon" href="data:,"><link rel="stylesheet" href="/harness.css"><main id="root"></main>
<script type="module" src="/harness.js"></script></html>"""
DARK = """@media (prefers-color-scheme: dark) { :root { --paper: #14171b; --panel: #1e2329; --ink: #e8eaed;
--muted: #9aa4af; --line: #39424c; --accent: #6cb1f5; --second: #f0a063; --focus: #9ccbff; color-scheme: dark } }
body { background: var(--paper, #fff); font-family: system-ui, sans-serif; margin: 1rem }"""
SCRIPT = """// A small shell: the address after # is VIEW?key=value&…, as in the studio.
const read = () => {
  const [name, query = ""] = location.hash.slice(1).split("?");
  return [name, Object.fromEntries(new URLSearchParams(query))];
};
const write = (name, state) => "#" + name + "?" + new URLSearchParams(state);
const [name, state] = read();
const view = await import(`/views/${name}.js`);
const context = {
  state,
  setState(patch, { replace } = {}) {
    const next = { ...read()[1], ...patch };
    for (const key of Object.keys(next)) if (next[key] === undefined || next[key] === "") delete next[key];
    history[replace ? "replaceState" : "pushState"](null, "", write(name, next));
    mounted.update(next);
  },
  theme: () => (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"),
  announce(text) { document.title = text; },
  saveButtons: SAVE,
};
const mounted = view.mount(document.getElementById("root"), context);
addEventListener("popstate", () => mounted.update(read()[1]));
document.body.dataset.ready = "yes";
"""
STAND_IN = """// Stands in for the drawings of the studio where they are not installed.
export async function drawExplanation(root, explanation) {
  const text = document.createElement("p");
  text.textContent = `${explanation.kind}: ${explanation.title}`;
  text.className = "stand-in";
  root.replaceChildren(text);
  return { update() {}, destroy() {} };
}
"""


class _Handler(SimpleHTTPRequestHandler):
    extensions_map = {**SimpleHTTPRequestHandler.extensions_map, ".js": "text/javascript"}  # noqa: RUF012
    own = {  # noqa: RUF012
        "/": ("text/html", PAGE), "/harness.css": ("text/css", DARK),
    }  # fmt: skip

    def do_GET(self) -> None:
        own = dict(self.own)
        save = "(await import('/save.js')).saveButtons" if (STATIC / "save.js").exists() else "undefined"
        own["/harness.js"] = ("text/javascript", SCRIPT.replace("SAVE", save))
        if not (STATIC / "explanations" / "index.js").exists():
            own["/explanations/index.js"] = ("text/javascript", STAND_IN)
        kind, content = own.get(self.path, ("", ""))
        if not kind:
            return super().do_GET()
        body = content.encode()
        self.send_response(200)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        return None

    def end_headers(self) -> None:
        self.send_header("Content-Security-Policy", POLICY)
        super().end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is printed."""


def until(page: Any, condition: str) -> None:
    """Wait for a condition. Playwright's own way evaluates it inside of the page, which the policy forbids."""
    for _ in range(400):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(25)
    raise AssertionError(f"the page never came to {condition}")


@contextmanager
def static_pages() -> Iterator[str]:
    """The address of the server, which ends with the test."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, directory=str(STATIC)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
