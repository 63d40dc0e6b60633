import socket

import pytest

from regard.base import RegardError
from regard.studio.app import Studio
from regard.studio.serve import OPEN_TO_OTHERS, Address, Server, announce, listen


def test_addresses() -> None:
    assert Address("127.0.0.1", 8123, "abc").url == "http://127.0.0.1:8123/?token=abc"
    assert Address("0.0.0.0", 1, "abc").url == "http://127.0.0.1:1/?token=abc"
    assert Address("::1", 1, "abc").url == "http://[::1]:1/?token=abc"


def test_a_port_that_is_taken_says_so_and_the_default_goes_on_to_the_next() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(RegardError, match=f"cannot listen at 127.0.0.1, port {port}: got address already in use"):
            listen("127.0.0.1", port)
    with pytest.raises(RegardError, match=r"cannot listen at 127\.0\.0\.1, port 99999"):
        listen("127.0.0.1", 99999)
    with listen("127.0.0.1", None) as first, listen("127.0.0.1", None) as second:
        assert first.getsockname() != second.getsockname()


def test_an_open_host_is_told_what_it_means(capsys: pytest.CaptureFixture[str]) -> None:
    server = Server(Studio.of(), host="0.0.0.0", port=0)
    try:
        announce(server, open_page=False)
    finally:
        server.close()
    out = capsys.readouterr().out
    assert OPEN_TO_OTHERS.format(host="0.0.0.0") in out
    assert "every machine that reaches this one" in out
    assert server.address.url in out


def test_the_first_translator_is_loaded_before_it_is_asked_for() -> None:
    server = Server(Studio.of(device="cpu"), port=0)
    server.warm_up()
    server.studio.queue._thread.shutdown(wait=True)
    assert list(server.studio.library._loaded) == ["tatoeba-en-fr"]
    server.close()
