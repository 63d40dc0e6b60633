"""Found or fetched: a file at its final path is always the right one. The server is on this machine."""

import errno
import hashlib
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from regard.base import ConfigError, RegardError
from regard.data import download
from regard.data.download import DownloadError, cache_folder, find
from regard.data.sources import Source

CONTENT = bytes(range(256)) * 1200  # 307,200 bytes: several chunks
NAME = "set/file.gz"


class Server(ThreadingHTTPServer):
    """Serves `CONTENT` under several habits; remembers what was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[tuple[str, str | None]] = []
        self.go = threading.Event()
        self.go.set()

    def handle_error(self, *_: object) -> None:
        """A client that hangs up is what some tests want."""

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Server
    BODIES: ClassVar[dict[str, bytes]] = {
        "/wrong": CONTENT[::-1],
        "/short": CONTENT[:-1],
        "/endless": CONTENT + b"more",
    }

    def do_GET(self) -> None:
        self.server.go.wait(10)
        wish = self.headers["Range"]
        self.server.asked.append((self.path, wish))
        body = self.BODIES.get(self.path, CONTENT)
        if self.path == "/missing":
            self.send_error(404)
        elif self.path == "/stubborn" and wish:
            self.send_error(416)
        elif wish and self.path not in ("/norange", "/endless"):
            start = int(wish.removeprefix("bytes=").removesuffix("-"))
            self.send_response(206)
            claimed = start + 1 if self.path == "/elsewhere" else start
            self.send_header("Content-Range", f"bytes {claimed}-{len(body) - 1}/{len(body)}")
            self.answer(body[start:])
        else:
            self.send_response(200)
            self.answer(body)

    def answer(self, body: bytes) -> None:
        if self.path != "/endless":
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.path == "/breaking":  # 100,000 bytes at a time, then the line is cut
            body = body[:100_000]
        elif self.path == "/mute":
            body = b""
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.delenv("REGARD_DATA", raising=False)
    monkeypatch.delenv("REGARD_OFFLINE", raising=False)
    return tmp_path / "cache"


@pytest.fixture
def listed() -> Callable[..., Source]:
    def listed(url: str | None, *mirrors: str) -> Source:
        return Source(NAME, url, hashlib.sha256(CONTENT).hexdigest(), len(CONTENT), "free", mirrors)

    return listed


Listed = Callable[..., Source]


def files(folder: Path) -> set[str]:
    """Names beside the wanted file, locks left out."""
    return {path.name for path in (folder / "set").iterdir()} - {"file.gz.lock"}


def test_fetches_once_and_reports_progress(server: Server, listed: Listed, cache: Path) -> None:
    source = listed(server.address + "/file")
    steps: list[tuple[int, int]] = []
    path = find(source, progress=lambda done, total: steps.append((done, total)))
    assert path == cache / NAME
    assert path.read_bytes() == CONTENT
    assert files(cache) == {"file.gz"}
    assert len(steps) > 2
    assert steps == sorted(steps)
    assert steps[-1] == (len(CONTENT), len(CONTENT))
    assert find(source) == path
    assert server.asked == [("/file", None)]


def test_goes_on_where_it_stopped(server: Server, listed: Listed, cache: Path) -> None:
    source = listed(server.address + "/file")

    def stop(done: int, _total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        find(source, progress=stop)
    assert files(cache) == {"file.gz.part"}
    kept = (cache / "set/file.gz.part").stat().st_size
    assert 0 < kept < len(CONTENT)
    assert find(source).read_bytes() == CONTENT
    assert server.asked == [("/file", None), ("/file", f"bytes={kept}-")]


@pytest.mark.parametrize("habit", ["/norange", "/stubborn", "/file"])
@pytest.mark.parametrize("part", [CONTENT[:1000], CONTENT, CONTENT + b"too long", b""])
def test_any_part_leads_to_the_file(server: Server, listed: Listed, cache: Path, habit: str, part: bytes) -> None:
    source = listed(server.address + habit)
    (cache / "set").mkdir(parents=True)
    (cache / "set/file.gz.part").write_bytes(part)
    assert find(source).read_bytes() == CONTENT
    assert (not server.asked) == (part == CONTENT)  # a part that is whole needs no server


@pytest.mark.parametrize("part", [b"x" * 1000, b"x" * len(CONTENT)])
def test_a_spoilt_part_is_fetched_anew(server: Server, listed: Listed, cache: Path, part: bytes) -> None:
    source = listed(server.address + "/file")
    (cache / "set").mkdir(parents=True)
    (cache / "set/file.gz.part").write_bytes(part)
    assert find(source).read_bytes() == CONTENT
    assert server.asked[-1] == ("/file", None)


def test_a_breaking_line_is_taken_up_again(server: Server, listed: Listed) -> None:
    source = listed(server.address + "/breaking")
    assert find(source).read_bytes() == CONTENT
    assert [wish for _, wish in server.asked] == [None, "bytes=100000-", "bytes=200000-", "bytes=300000-"]


def test_a_line_that_breaks_too_often_leaves_the_part(
    server: Server, listed: Listed, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "ATTEMPTS", 2)
    source = listed(server.address + "/breaking")
    with pytest.raises(DownloadError, match="the connection ended after 100,000 of 307,200 bytes"):
        find(source)
    assert files(cache) == {"file.gz.part"}
    assert (cache / "set/file.gz.part").read_bytes() == CONTENT[:200_000]


@pytest.mark.parametrize(
    ("habit", "reason", "left"),
    [
        ("/missing", "HTTP 404 Not Found", set()),
        ("/short", "wrong size, 307,199 bytes", set()),
        ("/endless", "wrong size, more than 307,200 bytes", set()),
        ("/mute", "the connection ended after 0 of 307,200 bytes", {"file.gz.part"}),
        ("/wrong", "wrong sha256 " + hashlib.sha256(CONTENT[::-1]).hexdigest(), {"file.gz.bad"}),
    ],
)
def test_bad_answers(server: Server, listed: Listed, cache: Path, habit: str, reason: str, left: set[str]) -> None:
    source = listed(server.address + habit)
    with pytest.raises(DownloadError, match=re.escape(f"{server.address}{habit}: {reason}")) as caught:
        find(source)
    assert isinstance(caught.value, RegardError)
    assert "set/file.gz could not be fetched" in str(caught.value)
    assert f"expected 307,200 bytes with sha256 {source.sha256}" in str(caught.value)
    assert "REGARD_DATA" in str(caught.value.cure)
    assert files(cache) == left
    assert len(server.asked) == 1  # no second attempt that cannot help


def test_another_range_is_refused(server: Server, listed: Listed, cache: Path) -> None:
    source = listed(server.address + "/elsewhere")
    (cache / "set").mkdir(parents=True)
    (cache / "set/file.gz.part").write_bytes(CONTENT[:1000])
    with pytest.raises(DownloadError, match="another range than the one asked for, bytes 1001-"):
        find(source)
    assert (cache / "set/file.gz.part").read_bytes() == CONTENT[:1000]


@pytest.mark.parametrize("first", ["/missing", "/short", "/wrong", "/endless", "/mute"])
def test_mirrors_are_tried_in_turn(server: Server, listed: Listed, first: str) -> None:
    source = listed(server.address + first, server.address + "/missing", server.address + "/file")
    assert find(source).read_bytes() == CONTENT
    assert [path for path, _ in server.asked] == [first, "/missing", "/file"]


def test_every_address_is_in_the_error(server: Server, listed: Listed) -> None:
    dead = "http://127.0.0.1:9/file"  # nobody listens there
    source = listed(dead, server.address + "/missing")
    with pytest.raises(DownloadError, match=r"127\.0\.0\.1:9/file: .*refused.*; http.*/missing: HTTP 404"):
        find(source)


def test_a_silent_server_is_given_up(server: Server, listed: Listed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "TIMEOUT", 0.1)
    source = listed(server.address + "/file")
    server.go.clear()
    with pytest.raises(DownloadError, match="timed out"):
        find(source)
    server.go.set()


def test_a_full_disk_says_so_and_keeps_the_part(
    server: Server, listed: Listed, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = listed(server.address + "/file")
    write, room = download._write, 100_000

    def full(write_part: Callable[[memoryview], int | None], chunk: bytes, *rest: object) -> None:
        def limited(data: memoryview) -> int | None:
            nonlocal room
            if room == 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            written = write_part(data[:room])  # a short write comes before the error
            room -= written or 0
            return written

        write(limited, chunk, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(download, "_write", full)
    with pytest.raises(OSError, match=r"No space left.* of 307,200 bytes; make room and call again.*part") as caught:
        find(source)
    assert caught.value.errno == errno.ENOSPC
    assert not isinstance(caught.value, RegardError)
    assert (cache / "set/file.gz.part").read_bytes() == CONTENT[:100_000]
    monkeypatch.undo()
    monkeypatch.setenv("REGARD_CACHE", str(cache))
    monkeypatch.setenv("no_proxy", "*")
    source = listed(server.address + "/file")
    assert find(source).read_bytes() == CONTENT


def test_no_address(listed: Listed, cache: Path) -> None:
    source = listed(None)
    with pytest.raises(DownloadError) as caught:
        find(source)
    assert str(caught.value) == (
        "set/file.gz cannot be downloaded automatically. Try: put the file (307,200 bytes, sha256 "
        f"{source.sha256}) at set/file.gz below a folder, and let REGARD_DATA name that folder."
    )
    assert not cache.exists()


def test_offline(server: Server, listed: Listed, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = listed(server.address + "/file")
    monkeypatch.setenv("REGARD_OFFLINE", "1")
    with pytest.raises(DownloadError, match=r"REGARD_OFFLINE forbids the network.*unset REGARD_OFFLINE.*REGARD_DATA"):
        find(source)
    assert server.asked == []
    monkeypatch.setenv("REGARD_OFFLINE", "0")
    path = find(source)
    monkeypatch.setenv("REGARD_OFFLINE", "1")
    assert find(source) == path  # what is here needs no network


def give(folder: Path, content: bytes) -> Path:
    path = folder / NAME
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def test_the_given_folder_comes_first(listed: Listed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = listed(None)
    monkeypatch.setenv("REGARD_DATA", str(tmp_path / "given"))
    give(tmp_path / "cache", CONTENT)
    path = give(tmp_path / "given", CONTENT)
    assert find(source) == path
    path.unlink()
    assert find(source) == tmp_path / "cache" / NAME


@pytest.mark.parametrize("folder", ["given", "cache"])
def test_a_file_that_is_there_must_be_right(
    listed: Listed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    source = listed(None)
    (tmp_path / "given").mkdir()
    monkeypatch.setenv("REGARD_DATA", str(tmp_path / "given"))
    path = give(tmp_path / folder, CONTENT[:-7])
    with pytest.raises(
        DownloadError, match=rf"{path} has the wrong size: got 307,193; expected 307,200 bytes. Try: del"
    ):
        find(source)
    path.write_bytes(CONTENT[::-1])
    with pytest.raises(DownloadError, match=rf"{path} has the wrong sha256: got \w+; expected {source.sha256}"):
        find(source)
    path.write_bytes(CONTENT)
    assert find(source) == path


def test_the_checksum_is_computed_once(
    listed: Listed, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = listed(None)
    monkeypatch.setenv("REGARD_DATA", str(tmp_path / "given"))
    path = give(tmp_path / "given", CONTENT)
    counted: list[Path] = []
    real = download.file_sha256
    monkeypatch.setattr(download, "file_sha256", lambda path: counted.append(path) or real(path))  # type: ignore[func-returns-value]
    find(source)
    find(source)
    assert counted == [path]
    assert [entry.name for entry in (tmp_path / "given").rglob("*")] == ["set", "file.gz"]  # stamps are in the cache
    os.utime(path, ns=(1, 1))  # touched: look again
    find(source)
    assert counted == [path, path]
    for stamp in (cache / "checked").iterdir():
        stamp.write_bytes(b"\xff\x00")
    find(source)
    assert counted == [path, path, path]


def test_a_cache_that_cannot_be_written(
    server: Server, listed: Listed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = listed(server.address + "/file")
    (tmp_path / "blocked").write_text("a file, not a folder")
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "blocked"))
    with pytest.raises(DownloadError, match=r"the cache cannot be written \(.*set REGARD_CACHE"):
        find(source)
    monkeypatch.setenv("REGARD_DATA", str(tmp_path / "given"))
    path = give(tmp_path / "given", CONTENT)
    assert find(source) == path  # no stamp, no harm


def test_a_given_folder_must_exist(listed: Listed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = listed(None)
    monkeypatch.setenv("REGARD_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(ConfigError, match=r"REGARD_DATA names no folder: got .*nowhere"):
        find(source)


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_CACHE", "~/mine")
    assert cache_folder() == Path.home() / "mine"
    monkeypatch.delenv("REGARD_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert cache_folder() == Path("/caches/regard")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "regard"


PROGRAM = """
import sys
from regard.data.download import find
from regard.data.sources import Source

name, url, sha256, num_bytes = sys.argv[1:]
source = Source(name, url, sha256, int(num_bytes), "free")
sys.stdout.write("ready\\n")
sys.stdout.flush()
find(source)
"""


def test_two_processes_fetch_once(server: Server, listed: Listed, cache: Path) -> None:
    source = listed(server.address + "/file")
    command = [sys.executable, "-c", PROGRAM, source.name, str(source.url), source.sha256, str(source.num_bytes)]
    server.go.clear()  # both are under way before a byte is served
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    time.sleep(0.2)
    server.go.set()
    for process in processes:
        process.communicate(timeout=1500)
        assert process.returncode == 0
    assert server.asked == [("/file", None)]
    assert files(cache) == {"file.gz"}
    assert (cache / NAME).read_bytes() == CONTENT


def test_threads_fetch_once(server: Server, listed: Listed) -> None:
    source = listed(server.address + "/file")
    server.go.clear()
    threads = [threading.Thread(target=find, args=(source,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    server.go.set()
    for thread in threads:
        thread.join(20)
    assert server.asked == [("/file", None)]
