"""The files of the studio without its server, under the same rules.

One small page draws an explanation or a view, and what is asked of `api/…` is answered by the test. The other is a
shell for views that ask nothing: the address after # is VIEW?key=value&…, as in the studio.
"""

import json
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

STATIC = Path(__file__).parents[1] / "src" / "regard" / "studio" / "static"
POLICY = "default-src 'self'; img-src 'self' data: blob:; style-src 'self'; script-src 'self'"
PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>harness</title>
<meta name="viewport" content="width=device-width"><link rel="icon" href="data:,">
<link rel="stylesheet" href="/own/page.css">
<script type="module" src="/own/page.js"></script></head><body><main id="root"></main></body></html>"""
STYLE = """:root { --paper: #fcfcfa; --panel: #fff; --ink: #1d1f23; --muted: #5c6168; --line: #d9dbd6;
--accent: #005a9c; --second: #b34a00; --good: #00704f; --bad: #b3261e; --focus: #b34a00; }
:root[data-theme="dark"] { --paper: #131518; --panel: #1a1d21; --ink: #e7e8e6; --muted: #a3a9b0; --line: #363a41;
--accent: #7fbcf0; --second: #ff9d5c; --good: #52c79b; --bad: #ff8a80; --focus: #ff9d5c; }
body { margin: 0 auto; padding: 1rem; max-width: 60rem; background: var(--paper);
  color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }"""
SCRIPT = """
import { drawExplanation } from "/explanations/index.js";
const asked = new URLSearchParams(location.search), root = document.querySelector("#root");
document.documentElement.dataset.theme = asked.get("theme") ?? "light";
const told = [], context = {
  state: Object.fromEntries(new URLSearchParams(location.hash.slice(1))),
  theme: () => document.documentElement.dataset.theme,
  announce: (text) => told.push(text),
  setState(patch) {
    const next = { ...context.state, ...patch };
    Object.keys(next).forEach((key) => next[key] === undefined && delete next[key]);
    context.state = next;
    history.replaceState(null, "", "#" + new URLSearchParams(next));
    window.drawn?.update(next);
  },
};
const answer = async (reply) => {
  const content = await reply.json();
  if (content.error) throw Object.assign(new Error(content.error?.what), content.error);
  return content;
};
context.api = {
  get: async (path) => answer(await fetch("/" + path)),
  post: async (path, content) => answer(await fetch("/" + path, { method: "POST", body: JSON.stringify(content) })),
  upload: async (path, blob, fields) => {
    const form = new FormData();
    Object.entries(fields).forEach(([key, value]) => form.append(key, value));
    form.append("file", blob);
    return answer(await fetch("/" + path, { method: "POST", body: form }));
  },
};
window.told = told;
if (asked.get("view")) {
  const view = await import(`/views/${asked.get("view")}.js`);
  window.drawn = view.mount(root, context);
} else {
  const explanation = await (await fetch(`/own/${asked.get("name")}.json`)).json();
  window.drawn = await drawExplanation(root, explanation, context);
}
window.modules = { colours: await import("/colours.js"), parts: await import("/explanations/parts.js") };
document.body.dataset.ready = "yes";
"""
SHELL_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>A view</title><link rel="icon" href="data:,"><link rel="stylesheet" href="/own/shell.css"><main id="root"></main>
<script type="module" src="/own/shell.js"></script></html>"""
SHELL_STYLE = """@media (prefers-color-scheme: dark) { :root { --paper: #14171b; --panel: #1e2329; --ink: #e8eaed;
--muted: #9aa4af; --line: #39424c; --accent: #6cb1f5; --second: #f0a063; --focus: #9ccbff; color-scheme: dark } }
body { background: var(--paper, #fff); font-family: system-ui, sans-serif; margin: 1rem }"""
SHELL_SCRIPT = """// A small shell: the address after # is VIEW?key=value&…, as in the studio.
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
  saveButtons: (await import("/save.js")).saveButtons,
};
const mounted = view.mount(document.getElementById("root"), context);
addEventListener("popstate", () => mounted.update(read()[1]));
document.body.dataset.ready = "yes";
"""


class _Handler(SimpleHTTPRequestHandler):
    """Files of the studio and of the test; what else is asked for, `answers` have."""

    def __init__(
        self, *arguments: Any, own: Path, answers: Mapping[str, Any], asked: list[Any], **settings: Any
    ) -> None:
        self.own, self.answers, self.asked = own, answers, asked
        super().__init__(*arguments, directory=str(STATIC), **settings)

    def translate_path(self, path: str) -> str:
        path = path.split("?")[0]
        return str(self.own / path.removeprefix("/own/")) if path.startswith("/own/") else super().translate_path(path)

    def do_GET(self) -> None:
        if self.path.startswith("/api/"):
            return self._answer(b"")
        return super().do_GET()

    def do_POST(self) -> None:
        self._answer(self.rfile.read(int(self.headers["Content-Length"])))

    def end_headers(self) -> None:
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("Cache-Control", "no-store")
        super().end_headers()

    def log_message(self, *arguments: Any) -> None:
        """Says nothing."""

    def _answer(self, content: bytes) -> None:
        self.asked.append((self.path, content))
        body = json.dumps(self.answers[self.path.removeprefix("/")](content)).encode()
        self.send_response(200)  # errors too: a browser writes any other status on its console
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Site:
    """Where the files are served, and what was asked of `api/…`."""

    def __init__(self, folder: Path, address: str, answers: dict[str, Any], asked: list[Any]) -> None:
        self.folder, self.address, self.answers, self.asked = folder, address, answers, asked

    def open(
        self, page: Any, explanation: Any = None, *, view: str = "", theme: str = "light", state: str = ""
    ) -> None:
        """Draws an explanation, or a view, on a page of the browser."""
        what = f"view={view}"
        if explanation is not None:
            content = explanation if isinstance(explanation, dict) else explanation.to_json()
            (self.folder / "shown.json").write_text(json.dumps(content))
            what = "name=shown"
        page.goto("about:blank")
        page.goto(f"{self.address}/own/page.html?{what}&theme={theme}#{state}")
        page.wait_for_selector("body[data-ready]")


@contextmanager
def serve(folder: Path) -> Iterator[Site]:
    """Serves the studio's files on a free port of this machine, with the page above, until the end."""
    (folder / "page.html").write_text(PAGE)
    (folder / "page.css").write_text(STYLE)
    (folder / "page.js").write_text(SCRIPT)
    (folder / "shell.html").write_text(SHELL_PAGE)
    (folder / "shell.css").write_text(SHELL_STYLE)
    (folder / "shell.js").write_text(SHELL_SCRIPT)
    answers: dict[str, Any] = {}
    asked: list[Any] = []
    handler = partial(_Handler, own=folder, answers=answers, asked=asked)
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield Site(folder, f"http://127.0.0.1:{server.server_address[1]}", answers, asked)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def shell() -> Iterator[str]:
    """The address of the shell on a server that ends with the test."""
    with tempfile.TemporaryDirectory() as folder, serve(Path(folder)) as site:
        yield f"{site.address}/own/shell.html"
