import json
from typing import Any

import numpy as np
import pytest

from regard.base import RegardError
from regard.studio.answers import all_layers
from regard.studio.app import KINDS, Studio, error_json, static_files, views
from regard.studio.limits import TooMuch


def test_every_page_is_served_with_its_kind(client: Any) -> None:
    assert client.get("/").headers["content-type"].startswith("text/html")
    for name, path in static_files().items():
        answer = client.get(f"/{name}")
        assert answer.content == path.read_bytes()
        assert answer.headers["content-type"].partition(";")[0] == KINDS[path.suffix]
    about = client.get("/api/studio").json()
    assert {"home", "translate", "model", "runs"} <= set(about["views"])
    assert views(["views/runs.js", "views/home.js"]) == ["home", "runs"]


@pytest.mark.parametrize(
    "path", ["/../app.py", "/%2e%2e/app.py", "/views/../../app.py", "//etc/passwd", "/nothing", "/views/"]
)
def test_other_paths_are_errors_without_internals(client: Any, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 404
    assert answer.json()["error"]["what"] == "the studio has no such page"


def test_models_examples_and_answers(client: Any) -> None:
    [line] = [line for line in client.get("/api/models").json()["models"] if line["name"] == "tatoeba-en-fr"]
    assert line["verb"] == "translate"
    assert client.get("/api/examples?model=tatoeba-en-fr").json()["examples"][0]["text"]
    body = {"model": "tatoeba-en-fr", "text": "I lost my keys.", "settings": {"beam": 2}}
    answer = client.post("/api/predict", json=body).json()
    assert answer["predictions"][0]["text"] == "J'ai perdu mes clés."
    assert answer["predictions"][0]["explanations"][0]["kind"] == "matrix"
    assert answer["queue"] == 0
    assert answer["seconds"] > 0
    layers = client.post("/api/layers", json=body).json()["explanations"]
    assert [layer["layer"] for layer in layers] == [f"decoder.{number}.cross" for number in range(4)]


def test_a_translation_is_a_stream_of_lines(client: Any) -> None:
    body = {"model": "tatoeba-en-fr", "text": "I lost my keys.", "settings": {"beams": 1}}
    answer = client.post("/api/translate", json=body)
    events = [json.loads(line) for line in answer.text.splitlines()]
    assert [event["kind"] for event in events if event["kind"] != "token"] == ["queue", "start", "done", "end"]
    assert events[-2]["prediction"]["text"] == "J'ai perdu mes clés."
    wrong = client.post("/api/translate", json={**body, "settings": {"beams": 2, "nbest": 5}})
    last = json.loads(wrong.text.splitlines()[-1])
    assert last["kind"] == "error"
    assert last["error"]["what"] == "nbest"


@pytest.mark.parametrize(
    ("path", "body", "status", "what"),
    [
        ("/api/predict", {"model": "x", "text": "a"}, 404, "the studio has no such model"),
        ("/api/predict", {"model": "tatoeba-en-fr", "text": "a" * 2001}, 400, "the text is too long"),
        (
            "/api/predict",
            {"model": "tatoeba-en-fr", "text": "a", "settings": {"beams": 99}},
            400,
            "the setting 'beams'",
        ),
        (
            "/api/predict",
            {"model": "tatoeba-en-fr", "text": "a", "settings": {"x": 1}},
            400,
            "unknown setting 'x' of a prediction",
        ),
        ("/api/predict", [], 400, "the request"),
        ("/api/traces/small/rows", {"layer": "x"}, 404, "the trace has no such layer"),
        ("/api/traces/none/rows", {}, 404, "the studio has no such trace"),
    ],
)
def test_mistakes_are_errors_in_json(client: Any, path: str, body: Any, status: int, what: str) -> None:
    answer = client.post(path, json=body)
    assert (answer.status_code, answer.json()["error"]["what"]) == (status, what)


def test_bodies_that_are_no_json(client: Any) -> None:
    assert client.post("/api/predict", content=b"{", headers={"content-type": "application/json"}).status_code == 400
    half = client.post("/api/predict", content=b'{"text": "\\ud800"}', headers={"content-type": "application/json"})
    assert half.json()["error"]["what"] == "the request is no Unicode"
    assert client.post("/api/predict", content=b"{}", headers={"content-type": "text/plain"}).status_code == 400
    assert (
        client.post("/api/predict-picture", content=b"x", headers={"content-type": "multipart/form-data"}).status_code
        == 400
    )


def test_a_picture_for_a_translator_is_refused(client: Any) -> None:
    answer = client.post("/api/predict-picture", data={"model": "tatoeba-en-fr"}, files={"file": ("a.png", b"x")})
    assert answer.json()["error"]["what"] == "tatoeba-en-fr takes no pictures"
    answer = client.post("/api/predict-picture", data={"model": "x"}, files={"other": ("a.png", b"x")})
    assert answer.json()["error"]["what"] == "the picture of a request"


def test_runs_and_traces(client: Any) -> None:
    assert client.get("/api/runs").json()["runs"][0]["name"] == "going"
    assert client.get("/api/runs/going?after=20").json()["curves"]["train/loss"][0][0] == 30
    assert client.get("/api/runs/going?after=x").status_code == 400
    assert client.get("/api/runs/other").status_code == 404
    assert client.get("/api/traces").json() == {"traces": [{"name": "small", "layers": 2}]}
    overview = client.get("/api/traces/small").json()
    block = client.post("/api/traces/small/rows", json={"layer": overview["layers"][0]["name"], "head": 1}).json()
    assert block["shape"] == [7, 7]
    assert client.get("/api/ledger").json()["lines"]


def test_a_shipped_translator_can_be_looked_into(client: Any, studio: Studio) -> None:
    """Its trace has all layers, and says of each head how clean it is."""
    name = client.post("/api/traces/example", json={}).json()["name"]
    try:
        assert client.post("/api/traces/example", json={}).json() == {"name": "tatoeba-en-fr, an example"}
        layers = {layer["name"]: layer for layer in client.get(f"/api/traces/{name}").json()["layers"]}
        known = {matrix.layer: np.asarray(matrix.weights) for matrix in all_layers(studio.library.get("tatoeba-en-fr"))}
        assert list(layers) == list(known)
        assert {"encoder.0.inner", "decoder.3.inner", "decoder.1.cross"} < set(layers)
        for layer, weights in known.items():
            np.testing.assert_allclose(layers[layer]["clean"], weights.max(-1).mean(-1), atol=1e-6)
    finally:
        studio.traces._shown.pop(name)  # the studio is that of other tests, too


def test_errors_of_others_say_nothing_of_the_inside(caplog: pytest.LogCaptureFixture) -> None:
    status, content = error_json(KeyError("/home/somebody/secret.py"))
    assert status == 500
    assert "secret" not in json.dumps(content)
    assert "secret.py" in caplog.text  # the terminal learns it
    assert error_json(MemoryError())[1]["error"]["what"] == "the memory is full"
    assert error_json(TooMuch("busy"))[0] == 503
    assert error_json(RegardError("a", got=1, expected=2, cure="b"))[1] == {
        "error": {"what": "a", "got": "1", "expected": "2", "cure": "b"}
    }
