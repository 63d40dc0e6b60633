"""The studio as files: the same page with answers that were prepared, for any web space, without a server of ours."""

import base64
import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from regard import __version__
from regard.base import RegardError, write_atomically
from regard.base.files import part_beside
from regard.studio import answers, runs
from regard.studio.app import Studio, add_example, views

BEAMS = (5, 1)  # of the translations that are prepared; the page begins with the first
MOST_MATRICES = 600  # of traces, in a file each
FROM_DISK = (  # it shows itself where no script has taken its place after some seconds
    '<p class="late">Browsers run no modules of a page that was opened from disk. In the folder of this page call '
    "<code>python -m http.server</code>, then open <code>http://localhost:8000</code>.</p>"
)
_MASK = 0xFFFFFFFF

Answers = dict[str, Any]  # by key


def export(studio: Studio, folder: str | Path, *, told: Callable[[str], None] = lambda text: None) -> Path:
    """Write the page and its answers to a new folder; `told` hears what is being prepared. The path of index.html."""
    folder = Path(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        cure = "name a new folder, or delete what is in it"
        raise RegardError(f"{folder} is not empty", got="files", expected="a new folder", cure=cure)
    made = prepared(studio, told)
    unfinished = part_beside(folder.absolute())
    try:
        for name, path in studio.pages.items():
            write_atomically(unfinished / name, _page(name, path))
        for key, answer in made.items():
            write_atomically(unfinished / "answers" / f"{key}.json", _text(answer))
        about = {
            "version": __version__,
            "views": views(studio.pages),
            "files": list(studio.pages),
            "limits": asdict(studio.limits),
            "queue": 0,
            "static": True,
            "answers": sorted(made),
        }
        write_atomically(unfinished / "answers" / "index.json", _text(about))
        if folder.exists():
            folder.rmdir()
        unfinished.rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return folder / "index.html"


def prepared(studio: Studio, told: Callable[[str], None]) -> Answers:
    """Every request that the exported page can make, by key, with its answer."""
    made: Answers = {key("api/models"): {"models": studio.library.lines()}, key("api/ledger"): {"lines": runs.ledger()}}
    lines = studio.runs.lines()
    made[key("api/runs")] = {"runs": lines}
    for line in lines:
        made[key(f"api/runs/{_quoted(line['name'])}")] = studio.runs.get(line["name"])
    traces = studio.traces.lines()
    if not traces and studio.library.first("translate") is not None:
        add_example(studio)
        traces = studio.traces.lines()
    made[key("api/traces")] = {"traces": traces}
    for line in traces:
        told(f"the trace {line['name']}")
        made.update(_of_trace(studio, line["name"]))
    for line in studio.library.lines():
        if line["error"] is None:
            told(f"the model {line['name']}")
            made.update(_of_model(studio, line["name"]))
    return made


def _of_model(studio: Studio, name: str) -> Iterator[tuple[str, Any]]:
    model = studio.library.get(name)
    inputs = answers.examples(model)
    yield key(f"api/examples?model={_quoted(name)}"), {"examples": inputs}
    for example in inputs:
        if model.entry.name == "translation":
            yield from _of_sentence(model, name, example["text"])
        elif "text" in example and model.entry.name not in (*answers.PICTURES, *answers.PATHS):
            body = {"model": name, "text": example["text"]}
            predictions = answers.predict(model, example["text"], {})
            yield key("api/predict", body), {"predictions": predictions, "seconds": 0, "queue": 0}
            yield key("api/layers", body), {"explanations": answers.layers(model, example["text"], {})}
        elif "picture" in example:
            content = base64.b64decode(example["picture"].partition(",")[2])
            predictions = answers.predict(model, answers.picture_of(content, studio.limits), {})
            body = {"model": name, "bytes": hashed(content)}
            yield key("api/predict-picture", body), {"predictions": predictions, "seconds": 0, "queue": 0}


def _of_sentence(model: Any, name: str, text: str) -> Iterator[tuple[str, Any]]:
    """The stream of a translation with each number of beams, and its layers."""
    from regard.studio import translating

    predictions = answers.predict(model, text, {})
    plain = {"model": name, "text": text}
    yield key("api/predict", plain), {"predictions": predictions, "seconds": 0, "queue": 0}
    for beams in BEAMS:
        events: list[Mapping[str, Any]] = []
        settings = {"beams": beams, "nbest": beams}
        wanted = translating.Wanted(text, model.task.settings(**settings))
        translating.translate(model, wanted, events.append)
        yield key("api/translate", {**plain, "prefix": [], "settings": settings}), events
        done = events[-1]["prediction"]
        if done is not None:
            layers = model.layers(translating.forced(model, text, done["ids"]))
            explanations = [explanation.to_json() for explanation in layers]
            yield key("api/layers", {**plain, "ids": done["ids"]}), {"explanations": explanations}


def _of_trace(studio: Studio, name: str) -> Iterator[tuple[str, Any]]:
    shown = studio.traces.get(name)
    yield key(f"api/traces/{_quoted(name)}"), shown.overview()
    count = 0
    for layer in shown.layers:
        for head in [None, *layer.heads]:
            count += 1
            if count > MOST_MATRICES:
                return
            whole = {"rows": [0, len(layer.rows)], "columns": [0, layer.num_columns]}
            body = {"layer": layer.name, "head": head, **whole}
            yield key(f"api/traces/{_quoted(name)}/rows", body), shown.rows(body)


def key(path: str, body: Mapping[str, Any] | None = None) -> str:
    """The name of the file with the answer to a request; `fileKey` in static/api.js gives the same.

    >>> key("api/models")
    '21c2846ef0e0210a'
    """
    text = json.dumps(body or {}, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashed(f"{path} {text}".encode())


def hashed(content: bytes) -> str:
    """64 bits of a content in hexadecimal digits, by two simple hashes that JavaScript has too."""
    first, second = 0x811C9DC5, 0x9E3779B9
    for byte in content:
        first = (first ^ byte) * 0x01000193 & _MASK
        second = (second ^ byte) * 0x85EBCA6B & _MASK
    return f"{first:08x}{second:08x}"


def _page(name: str, path: Path) -> bytes:
    content = path.read_bytes()
    if name != "index.html":
        return content
    content = content.replace(b'<html lang="en">', b'<html lang="en" data-export="1">')
    return content.replace(b"</p></main>", b"</p>" + FROM_DISK.encode() + b"</main>")


def _text(content: Any) -> str:
    return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _quoted(name: str) -> str:
    """A name in an address, as encodeURIComponent of JavaScript writes it."""
    from urllib.parse import quote

    return quote(name, safe="!'()*-._~")
