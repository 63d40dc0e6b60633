from typing import Any

import pytest
from starlette.testclient import TestClient

from regard.studio.app import Studio, create_app
from regard.studio.safety import HEADERS, new_token

TOKEN, PORT = "a-token-of-the-tests", 8123


@pytest.fixture
def stranger(studio: Studio) -> Any:
    """A client without the token."""
    app = create_app(studio, token=TOKEN, port=PORT, names=["127.0.0.1", "localhost"])
    return TestClient(app, base_url=f"http://127.0.0.1:{PORT}")


def test_a_stranger_sees_nothing(stranger: Any) -> None:
    for path in ("/", "/studio.js", "/api/models", "/?token=wrong", f"/api/models?token={TOKEN}"):
        answer = stranger.get(path)
        assert answer.status_code == 403
        assert answer.json()["error"]["what"] == "the studio does not know you"
    assert stranger.get("/", headers={"accept": "text/html"}).text.startswith("<!doctype html>")


def test_the_address_gives_a_cookie_and_the_cookie_opens_the_rest(stranger: Any) -> None:
    answer = stranger.get(f"/?token={TOKEN}")
    assert answer.status_code == 200
    cookie = answer.headers["set-cookie"]
    assert cookie == f"regard_studio_{PORT}={TOKEN}; Path=/; HttpOnly; SameSite=Strict"
    assert stranger.get("/api/studio").status_code == 200  # the client keeps the cookie
    for name, value in HEADERS.items():
        assert answer.headers[name] == value
    assert "unsafe" not in answer.headers["content-security-policy"]


@pytest.mark.parametrize("host", ["evil.example:8123", "127.0.0.1", "127.0.0.1:9", "localhost.evil.example:8123", ""])
def test_another_name_of_the_host_is_refused(client: Any, host: str) -> None:
    assert client.get("/api/studio", headers={"host": host}).status_code == 421


def test_posts_of_other_pages_are_refused(stranger: Any) -> None:
    stranger.get(f"/?token={TOKEN}")
    body = {"model": "none", "text": "x"}
    for origin in ("http://evil.example", "null", "http://127.0.0.1:9", None):
        headers = {} if origin is None else {"origin": origin}
        assert stranger.post("/api/predict", json=body, headers=headers).status_code == 403
    own = stranger.post("/api/predict", json=body, headers={"origin": f"http://127.0.0.1:{PORT}"})
    assert own.json()["error"]["what"] == "the studio has no such model"


def test_what_is_too_large_is_refused_before_it_is_read(client: Any) -> None:
    answer = client.post("/api/predict", content=b"x" * 300_000, headers={"content-type": "application/json"})
    assert answer.status_code == 413

    def parts() -> Any:
        for _ in range(100):
            yield b"x" * 10_000

    answer = client.post("/api/predict", content=parts(), headers={"content-type": "application/json"})
    assert answer.status_code == 413
    assert answer.json()["error"]["expected"] == "at most 0.2 MB"


def test_other_methods_are_refused(client: Any) -> None:
    assert client.put("/api/models").status_code == 405
    assert client.delete("/").status_code == 405


def test_with_host_numbers_are_known_and_names_are_not(studio: Studio) -> None:
    app = create_app(studio, token=TOKEN, port=PORT, names=["0.0.0.0"], any_address=True)
    open_client = TestClient(app, headers={"X-Regard-Token": TOKEN}, base_url=f"http://10.1.2.3:{PORT}")
    assert open_client.get("/api/studio").status_code == 200
    assert open_client.get("/api/studio", headers={"host": f"evil.example:{PORT}"}).status_code == 421


def test_tokens_differ() -> None:
    assert len({new_token() for _ in range(50)}) == 50
    assert len(new_token()) == 32
