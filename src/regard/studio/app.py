"""The web application of the studio: its pages, its models, traces and runs behind a few addresses.

Nothing that a client sends becomes a path: pages, models, runs and traces are looked up by their names.
"""

import asyncio
import json
import logging
import mimetypes
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

from regard import __version__
from regard.base import ConfigError, RegardError, first_line, is_out_of_memory, parse_json, require, shown
from regard.studio import answers, runs
from regard.studio.library import Library
from regard.studio.limits import Deadline, Limits, TooMuch, WorkQueue
from regard.studio.runs import Runs
from regard.studio.safety import Guard, TooLarge
from regard.studio.traces import Traces

LOG = logging.getLogger("regard.studio")
STATIC = Path(str(files("regard") / "studio" / "static"))
VIEWS = ("home", "translate", "look", "read", "playground", "lecture", "model", "runs")
KINDS = {".js": "text/javascript", ".css": "text/css", ".html": "text/html", ".svg": "image/svg+xml",
         ".json": "application/json", ".png": "image/png", ".txt": "text/plain"}  # fmt: skip


@dataclass
class Studio:
    """What a studio shows, and what it allows."""

    library: Library
    runs: Runs
    traces: Traces
    limits: Limits
    queue: WorkQueue
    pages: dict[str, Path] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        models: Iterable[str] = (),
        *,
        run_folders: Iterable[Path] = (),
        below: Path | None = None,
        traces: Traces | None = None,
        limits: Limits | None = None,
        device: str = "auto",
    ) -> "Studio":
        """A studio of these models and runs."""
        limits, deadline = limits or Limits(), Deadline()
        library = Library(models, deadline, device=device)
        queue = WorkQueue(limits, deadline)
        return cls(library, Runs(run_folders, below), traces or Traces(), limits, queue, static_files())


def static_files() -> dict[str, Path]:
    """The files of the page by their addresses."""
    return {path.relative_to(STATIC).as_posix(): path for path in sorted(STATIC.rglob("*")) if path.suffix in KINDS}


def views(pages: Iterable[str]) -> list[str]:
    """The views whose files are there, in the order of the menu."""
    there = set(pages)
    return [name for name in VIEWS if f"views/{name}.js" in there]


def create_app(studio: Studio, *, token: str, port: int, names: Iterable[str], any_address: bool = False) -> Any:
    """The application behind its guard: what uvicorn runs."""
    starlette = require("starlette.applications", extra="studio")
    routing = require("starlette.routing", extra="studio")
    routes = [
        routing.Route(path, _endpoint(studio, handler), methods=[method])
        for path, method, handler in (
            ("/api/studio", "GET", _about),
            ("/api/models", "GET", _models),
            ("/api/examples", "GET", _examples),
            ("/api/predict", "POST", _predict),
            ("/api/predict-picture", "POST", _predict_picture),
            ("/api/layers", "POST", _layers),
            ("/api/translate", "POST", _translate),
            ("/api/runs", "GET", _runs),
            ("/api/runs/{name}", "GET", _run),
            ("/api/ledger", "GET", _ledger),
            ("/api/traces", "GET", _traces),
            ("/api/traces/example", "POST", _trace_example),
            ("/api/traces/{name}", "GET", _trace),
            ("/api/traces/{name}/rows", "POST", _trace_rows),
        )
    ]
    routes.append(routing.Route("/{path:path}", _endpoint(studio, _page), methods=["GET"]))
    logging.getLogger("python_multipart").setLevel(logging.CRITICAL)  # broken forms are an answer, not a line here
    http = require("starlette.exceptions", extra="studio").HTTPException
    app = starlette.Starlette(routes=routes, exception_handlers={http: _http_error})
    return Guard(app, token=token, port=port, names=names, any_address=any_address, limits=studio.limits)


def _endpoint(studio: Studio, handler: Callable[..., Any]) -> Callable[[Any], Any]:
    """A handler whose mistakes become errors in JSON, without anything of the inside of the studio."""
    from starlette.exceptions import HTTPException
    from starlette.requests import ClientDisconnect

    async def endpoint(request: Any) -> Any:
        try:
            return await handler(studio, request)
        except HTTPException:
            raise
        except ClientDisconnect:
            return _json({}, 400)  # which nobody reads
        except TooLarge as error:
            return _json({"error": error.error}, error.status)
        except Exception as error:
            status, content = error_json(error)
            return _json(content, status)

    return endpoint


async def _http_error(request: Any, error: Any) -> Any:
    """An error of the framework: a form that is broken, or a page that takes no posts."""
    what = "the studio cannot read this form" if error.status_code == 400 else "the studio has no such page"
    return _json({"error": {"what": what, "got": None, "expected": None, "cure": None}}, error.status_code)


def error_json(error: BaseException) -> tuple[int, dict[str, Any]]:
    """The status and the JSON of an error. Of one that is not ours only the terminal learns more."""
    if isinstance(error, RegardError):
        values = (error.what, error.got, error.expected, error.cure)
        names = ("what", "got", "expected", "cure")
        texts = {name: None if value is None else str(value)[:600] for name, value in zip(names, values, strict=True)}
        status = 503 if isinstance(error, TooMuch) else 404 if "has no such" in error.what else 400
        return status, {"error": texts}
    LOG.error("a request failed: %s: %s", type(error).__name__, first_line(error), exc_info=error)
    full = isinstance(error, MemoryError | RuntimeError) and is_out_of_memory(error)
    what = "the memory is full" if full else "the studio could not do this"
    cure = "try something smaller" if full else "look at the terminal where the studio runs: it says what happened"
    return 500, {"error": {"what": what, "got": None, "expected": None, "cure": cure}}


def _json(content: Any, status: int = 200) -> Any:
    from starlette.responses import Response

    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Response(text.encode("utf-8", "replace"), status_code=status, media_type="application/json")


async def _body(request: Any) -> dict[str, Any]:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise ConfigError("the kind of the request", got=shown(kind), expected="application/json")
    content = parse_json(await request.body())
    if not isinstance(content, dict):
        raise ConfigError("the request", got=type(content).__name__, expected="values by name")
    try:
        json.dumps(content, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ConfigError("the request is no Unicode", got="half of a character", cure="give it in UTF-8") from None
    return content


async def _in_thread(work: Callable[[], Any]) -> Any:
    """Light work beside that of the models."""
    return await asyncio.get_running_loop().run_in_executor(None, work)


# ── pages ───────────────────────────────────────────────────────────────────────────────────────────────────────────


async def _page(studio: Studio, request: Any) -> Any:
    from starlette.responses import Response

    name = request.path_params["path"] or "index.html"
    path = studio.pages.get(name)
    if path is None:
        raise RegardError("the studio has no such page", got=shown(name), cure="open its first page")
    content = await _in_thread(path.read_bytes)
    kind = KINDS.get(path.suffix) or mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    return Response(content, media_type=kind)


async def _about(studio: Studio, request: Any) -> Any:
    return _json(
        {
            "version": __version__,
            "views": views(studio.pages),
            "limits": asdict(studio.limits),
            "queue": studio.queue.length,
            "files": list(studio.pages),
            "static": False,
        }
    )


# ── models ──────────────────────────────────────────────────────────────────────────────────────────────────────────


async def _models(studio: Studio, request: Any) -> Any:
    return _json({"models": await _in_thread(studio.library.lines)})


async def _examples(studio: Studio, request: Any) -> Any:
    name = request.query_params.get("model")
    made, _ = await studio.queue.run(lambda: answers.examples(studio.library.get(name)))
    return _json({"examples": made})


async def _predict(studio: Studio, request: Any) -> Any:
    body = await _body(request)
    settings = answers.settings_of(body, studio.limits)

    def work() -> Any:
        model = studio.library.get(body.get("model"))
        if "example" in body:
            return answers.predict_example(model, body["example"])
        return answers.predict(model, answers.input_of(model, body, studio.limits), settings)

    return await _timed(studio, work)


async def _predict_picture(studio: Studio, request: Any) -> Any:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "multipart/form-data":
        raise ConfigError("the kind of the request", got=shown(kind), expected="multipart/form-data")
    async with request.form(max_files=1, max_fields=4, max_part_size=100_000) as form:
        file, text = form.get("file"), form.get("settings") or "{}"
        if not hasattr(file, "read") or not isinstance(text, str):
            raise ConfigError("the picture of a request", got="no file", expected="a file with the name `file`")
        content, name = await file.read(), form.get("model")
    settings = answers.settings_of({"settings": parse_json(text)}, studio.limits)

    def work() -> Any:
        model = studio.library.get(name)
        if model.entry.name not in answers.PICTURES:
            raise RegardError(f"{model.name} takes no pictures", got="a picture", expected=model.entry.inputs)
        return answers.predict(model, answers.picture_of(content, studio.limits), settings)

    return await _timed(studio, work)


async def _timed(studio: Studio, work: Callable[[], Any]) -> Any:
    seconds = 0.0

    def timed() -> Any:
        nonlocal seconds
        start = time.perf_counter()
        made = work()
        seconds = time.perf_counter() - start
        return made

    predictions, before = await studio.queue.run(timed)
    return _json({"predictions": predictions, "seconds": round(seconds, 4), "queue": before})


async def _layers(studio: Studio, request: Any) -> Any:
    body = await _body(request)
    settings = answers.settings_of(body, studio.limits)

    def work() -> Any:
        from regard.studio import translating

        model = studio.library.get(body.get("model"))
        if model.entry.name == "translation" and "ids" in body:
            text = answers.text_of(body, studio.limits)
            ids = translating.prefix_of({"prefix": body["ids"]}, model, studio.limits.tokens)
            known = translating.forced(model, text, ids)
            return [explanation.to_json() for explanation in model.layers(known)]
        return answers.layers(model, answers.input_of(model, body, studio.limits), settings)

    made, before = await studio.queue.run(work)
    return _json({"explanations": made, "queue": before})


async def _translate(studio: Studio, request: Any) -> Any:
    """A stream of events, one JSON object a line, while the words are decoded."""
    from starlette.responses import StreamingResponse

    body = await _body(request)
    settings, text = answers.settings_of(body, studio.limits), answers.text_of(body, studio.limits)
    loop, events, gone = asyncio.get_running_loop(), asyncio.Queue[Mapping[str, Any] | None](), threading.Event()

    def send(event: Mapping[str, Any]) -> None:
        loop.call_soon_threadsafe(events.put_nowait, event)

    def work() -> float:
        from regard.studio import translating  # which needs torch

        start = time.perf_counter()
        model = studio.library.get(body.get("model"))
        if model.entry.name != "translation":
            raise RegardError(f"{model.name} does not translate", got=f"a {model.entry.name} model")
        how = model.task.settings(**settings)
        prefix = translating.prefix_of(body, model, studio.limits.tokens)
        translating.translate(model, translating.Wanted(text, how, prefix), send)
        return time.perf_counter() - start

    async def finish() -> None:
        try:
            seconds, before = await studio.queue.run(work, stopped=gone.is_set)
            events.put_nowait({"kind": "end", "seconds": round(seconds, 4), "queue": before})
        except Exception as error:
            events.put_nowait({"kind": "error", **error_json(error)[1]})
        events.put_nowait(None)

    async def lines() -> AsyncIterator[bytes]:
        yield _line({"kind": "queue", "queue": studio.queue.length})
        task = asyncio.create_task(finish())
        try:
            while (event := await events.get()) is not None:
                yield _line(event)
        finally:
            gone.set()
            await asyncio.shield(task)

    return StreamingResponse(lines(), media_type="application/x-ndjson")


def _line(event: Mapping[str, Any]) -> bytes:
    return json.dumps(event, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace") + b"\n"


# ── runs and traces ─────────────────────────────────────────────────────────────────────────────────────────────────


async def _runs(studio: Studio, request: Any) -> Any:
    return _json({"runs": await _in_thread(studio.runs.lines)})


async def _run(studio: Studio, request: Any) -> Any:
    after = request.query_params.get("after", "0")
    if not after.isdecimal() or len(after) > 12:
        raise ConfigError("the step after which curves are asked for", got=shown(after), expected="a number of a step")
    return _json(await _in_thread(lambda: studio.runs.get(request.path_params["name"], after=int(after))))


async def _ledger(studio: Studio, request: Any) -> Any:
    return _json({"lines": await _in_thread(runs.ledger)})


async def _traces(studio: Studio, request: Any) -> Any:
    return _json({"traces": await _in_thread(studio.traces.lines)})


async def _trace_example(studio: Studio, request: Any) -> Any:
    await _body(request)
    name, _ = await studio.queue.run(lambda: add_example(studio))
    return _json({"name": name})


def add_example(studio: Studio) -> str:
    """Put the layers of a translation on the page, for those who have no trace yet; its name."""
    model = studio.library.first("translate")
    if model is None:
        raise RegardError("there is no translator to look into", cure="start the studio with one: tatoeba-en-fr")
    name = f"{model}, an example"
    if name not in [line["name"] for line in studio.traces.lines()]:
        studio.traces.add_matrices(name, answers.all_layers(studio.library.get(model)))
    return name


async def _trace(studio: Studio, request: Any) -> Any:
    return _json(await _in_thread(lambda: studio.traces.get(request.path_params["name"]).overview()))


async def _trace_rows(studio: Studio, request: Any) -> Any:
    body = await _body(request)
    return _json(await _in_thread(lambda: studio.traces.get(request.path_params["name"]).rows(body)))
