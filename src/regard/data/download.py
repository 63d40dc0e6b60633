"""Files of data sets, found or fetched: whole, of the right size and the right checksum, or not at all.

`REGARD_DATA` names a folder with files that are already there, `REGARD_CACHE` where fetched ones go, and
`REGARD_OFFLINE=1` forbids the network.
"""

import hashlib
import os
from collections.abc import Callable
from contextlib import suppress
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from regard.base import ConfigError, RegardError, file_sha256, wait_for_lock, write_atomically
from regard.data.sources import Source

Progress = Callable[[int, int], None]
TIMEOUT = 30.0  # seconds without a byte before an address is given up
ATTEMPTS = 5  # at one address, each going on where the last one broke off; one that brings nothing is the last
CHUNK = 1 << 16


class DownloadError(RegardError):
    """A file of a data set cannot be had, or is not the file that it should be."""


def find(source: Source, *, progress: Progress | None = None) -> Path:
    """The path of a file of a data set: from `REGARD_DATA`, else from the cache, else fetched into the cache.

    While a file is fetched, `progress(done, total)` is called with bytes; an exception in it stops the download, and
    the next call goes on from there.
    """
    local = _given(source)
    if local is not None:
        return _checked(local, source)
    path = cache_folder() / source.name
    if path.exists():
        return _checked(path, source)
    _may_fetch(source)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = open(path.with_name(path.name + ".lock"), "ab")  # noqa: SIM115 - closed below
    except OSError as error:
        raise DownloadError(
            f"the cache cannot be written ({error.strerror})",
            got=path.parent,
            cure="set REGARD_CACHE to a folder that you may write to",
        ) from error
    with lock:
        wait_for_lock(lock.fileno())  # without locks two processes may fetch it; the checksum still guards the result
        if not path.exists():  # another process may have fetched it while this one waited
            _fetch(source, path, progress)
    return _checked(path, source)


def is_here(source: Source) -> bool:
    """Whether the file is below `REGARD_DATA` or in the cache already; `find` then checks it and fetches nothing."""
    return _given(source) is not None or (cache_folder() / source.name).exists()


def cache_folder() -> Path:
    """Where fetched files are kept: `REGARD_CACHE`, else `regard` in the user's cache folder."""
    if chosen := os.environ.get("REGARD_CACHE"):
        return Path(chosen).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "regard"


def _given(source: Source) -> Path | None:
    """The file below `REGARD_DATA`, if it is there."""
    chosen = os.environ.get("REGARD_DATA")
    if not chosen:
        return None
    folder = Path(chosen).expanduser()
    if not folder.is_dir():
        raise ConfigError(
            "REGARD_DATA names no folder", got=folder, cure="let it name a folder with data sets, or unset it"
        )
    path = folder / source.name
    return path if path.exists() else None


def _checked(path: Path, source: Source) -> Path:
    """The path, when the file is the one that its source describes; its checksum is computed once and remembered."""
    facts = path.stat()
    cure = f"delete or replace {path}"
    wanted = next((sha256 for sha256, size in source.others if size == facts.st_size), source.sha256)
    if facts.st_size != source.num_bytes and wanted == source.sha256:
        raise DownloadError(
            f"{path} has the wrong size", got=f"{facts.st_size:,}", expected=f"{source.num_bytes:,} bytes", cure=cure
        )
    key = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:32]
    stamp = cache_folder() / "checked" / key
    seen = f"{wanted} {facts.st_size} {facts.st_mtime_ns} {facts.st_ctime_ns} {facts.st_ino}\n".encode()
    with suppress(OSError):  # no stamp
        if stamp.read_bytes() == seen:
            return path
    if (digest := file_sha256(path)) != wanted:
        raise DownloadError(f"{path} has the wrong sha256", got=digest, expected=wanted, cure=cure)
    with suppress(OSError):  # a cache that cannot be written costs time, nothing else
        write_atomically(stamp, seen)
    return path


def _may_fetch(source: Source) -> None:
    """Refuse where there is no address, or no network is wanted."""
    bring = (
        f"put the file ({source.num_bytes:,} bytes, sha256 {source.sha256}) at {source.name} below a folder, "
        "and let REGARD_DATA name that folder"
    )
    if source.url is None:
        raise DownloadError(f"{source.name} cannot be downloaded automatically", cure=bring)
    if os.environ.get("REGARD_OFFLINE", "") not in ("", "0"):
        raise DownloadError(
            f"{source.name} is not here, and REGARD_OFFLINE forbids the network",
            cure=f"unset REGARD_OFFLINE to fetch {source.url}, or {bring}",
        )


def _fetch(source: Source, path: Path, progress: Progress | None) -> None:
    """Try every address in turn, into `.part`; what is complete and right is renamed to `path`."""
    assert source.url is not None
    partial = path.with_name(path.name + ".part")
    failures = []
    for url in (source.url, *source.mirrors):
        for _ in range(ATTEMPTS):
            before = _size(partial)
            try:
                _receive(url, partial, source, progress)
            except _Failed as failure:
                failures.append(f"{url}: {failure}")
                if _size(partial) > before:
                    continue
                break
            if (digest := file_sha256(partial)) == source.sha256:
                os.replace(partial, path)
                return
            bad = path.with_name(path.name + ".bad")
            os.replace(partial, bad)
            failures.append(f"{url}: wrong sha256 {digest}; what came is kept as {bad}")
            if not before:
                break  # else the beginning may have been another address's, or another day's: start anew
    raise DownloadError(
        f"{source.name} could not be fetched",
        got="; ".join(failures),
        expected=f"{source.num_bytes:,} bytes with sha256 {source.sha256}",
        cure=f"try again later, or put the file at {source.name} below a folder, and let REGARD_DATA name that folder",
    )


class _Failed(Exception):  # noqa: N818
    """One attempt at one address came to nothing, or not to the end."""


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _receive(url: str, partial: Path, source: Source, progress: Progress | None) -> None:
    """Bring the file `partial` to its full size, from where it ends."""
    total = source.num_bytes
    done = _size(partial)
    if done == total:
        return
    if done > total:
        done = 0  # too long to be a beginning
    with _opened(url, done) as answer:
        done = _start(answer, done)
        if answer.length is not None and done + answer.length != total:
            raise _Failed(f"wrong size, {done + answer.length:,} bytes")
        with open(partial, "r+b" if done else "wb", buffering=0) as file:
            file.seek(done)
            while chunk := _read(answer, done, total):
                if done + len(chunk) > total:
                    partial.unlink()
                    raise _Failed(f"wrong size, more than {total:,} bytes")
                _write(file.write, chunk, partial, done, total)
                done += len(chunk)
                if progress is not None:
                    progress(done, total)
            os.fsync(file.fileno())
    if done < total:
        raise _Failed(f"the connection ended after {done:,} of {total:,} bytes")


def _opened(url: str, done: int) -> HTTPResponse:
    headers = {"User-Agent": "regard"} | ({"Range": f"bytes={done}-"} if done else {})
    try:
        answer: HTTPResponse = urlopen(Request(url, headers=headers), timeout=TIMEOUT)
    except HTTPError as error:
        error.close()
        if error.code == 416 and done:  # it will not go on from here: ask for the whole
            return _opened(url, 0)
        raise _Failed(f"HTTP {error.code} {error.reason}") from error
    except (OSError, HTTPException) as error:
        raise _Failed(str(getattr(error, "reason", error)) or type(error).__name__) from error
    return answer


def _start(answer: HTTPResponse, done: int) -> int:
    """Where the bytes of this answer begin: a server may ignore the wish to go on from `done`."""
    if answer.status != 206:
        return 0
    if not answer.headers.get("Content-Range", "").startswith(f"bytes {done}-"):
        raise _Failed(f"another range than the one asked for, {answer.headers.get('Content-Range')}")
    return done


def _read(answer: HTTPResponse, done: int, total: int) -> bytes:
    try:
        return answer.read(CHUNK)
    except (OSError, HTTPException) as error:
        raise _Failed(f"the connection ended after {done:,} of {total:,} bytes ({error})") from error


def _write(write: Callable[[memoryview], int | None], chunk: bytes, partial: Path, done: int, total: int) -> None:
    rest = memoryview(chunk)
    try:
        while rest:
            rest = rest[write(rest) or 0 :]
    except OSError as error:  # a full disk, most often
        why = f"{error.strerror} after {done:,} of {total:,} bytes; make room and call again: what has come is kept"
        raise OSError(error.errno, why, str(partial)) from error
