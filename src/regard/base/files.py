"""Files that are either whole or not there, and files that others may have made: read with care, or not at all."""

import hashlib
import json
import os
import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from regard.base.errors import RegardError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

T = TypeVar("T")
RESTORE = "restore it, or train anew"  # the advice where a file of a run folder is damaged
MAX_DEPTH = 64  # of brackets inside brackets; what this package writes has six
_PART = re.compile(r"^\.(.+)\.[0-9a-f]{12}\.part$")


def write_atomically(path: str | os.PathLike[str], content: str | bytes) -> Path:
    """Write beside `path`, then rename: a reader sees the old file or the new one, never half of either."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    data = content.encode() if isinstance(content, str) else content
    with replacing(path) as unfinished, open(unfinished, "xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    return path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path beside `path` to write a file to: it is renamed to `path` at the end, or removed after an error."""
    unfinished = part_beside(path)
    try:
        yield unfinished
        os.replace(unfinished, path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def part_beside(path: Path) -> Path:
    """A new path in the folder of `path`, for what is not yet whole; no two calls give the same."""
    return path.with_name(f".{path.name}.{secrets.token_hex(6)}.part")


def sync_folder(folder: Path) -> None:
    """Let the names in a folder reach the disk, where the system can do that."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def wait_for_lock(handle: int) -> bool:
    """Wait until no other process has locked this open file; it is unlocked when it is closed, however that happens.

    False where the system, or the disk, has no such locks: then nobody waits.
    """
    if fcntl is None:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
    except OSError:
        return False
    return True


def whole_path(unfinished: Path) -> Path:
    """The path for which `part_beside` gave this one; any other path as it is.

    >>> whole_path(Path("run/.log.jsonl.0123456789ab.part")).as_posix()
    'run/log.jsonl'
    """
    return unfinished.with_name(_PART.sub(r"\1", unfinished.name)) if unfinished.name else unfinished


def file_sha256(path: str | os.PathLike[str]) -> str:
    """The sha256 of the bytes of a file, in hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def parse_json(text: str | bytes) -> Any:
    """What a JSON text says. All JSON that the package reads comes through here; the error quotes nothing of the text.

    >>> parse_json('{"steps": [1, 2]}')
    {'steps': [1, 2]}
    >>> parse_json("[" * 100_000)
    Traceback (most recent call last):
        ...
    regard.base.errors.RegardError: this is no JSON: got brackets nested too deeply
    """
    try:
        content = json.loads(text.decode("utf-8") if isinstance(text, bytes) else text)
        level, depth = [content], 0
        while level := [child for parent in level for child in _parts(parent) if isinstance(child, dict | list)]:
            depth += 1
            if depth >= MAX_DEPTH:
                raise RecursionError
    except RecursionError:
        raise RegardError("this is no JSON", got="brackets nested too deeply") from None
    except ValueError as error:  # no JSON, no UTF-8, or a number of more digits than Python reads
        raise RegardError("this is no JSON", got=str(error)) from None
    return content


def read_json(path: Path, *, cure: str, expected: str = "values by name") -> dict[str, Any]:
    """The values of a JSON file in a run folder, by name; it must lie there itself, see `inside`.

    What cannot be opened is an `OSError`, as of any file.
    """
    data = inside(path).read_bytes()
    try:
        content = parse_json(data)
    except RegardError as error:
        raise RegardError(f"{path} cannot be read", got=error.got, cure=cure) from error
    if not isinstance(content, dict):
        raise RegardError(f"{path} cannot be read", got=type(content).__name__, expected=expected, cure=cure)
    return content


def read_stored(path: Path, parse: Callable[[str], T], *, expected: str | None = None) -> T:
    """What `parse` makes of the text of a file in a run folder; an error names the file, and what to do about it."""
    inside(path)
    try:
        return parse(path.read_text(encoding="utf-8"))
    except OSError as error:
        got = (error.strerror or str(error)).lower()
        raise RegardError(f"{path} cannot be read", got=got, expected=expected, cure=RESTORE) from error
    except (ValueError, TypeError, AttributeError) as error:
        raise RegardError(f"{path} cannot be read", got=str(error), cure=RESTORE) from error


def inside(path: Path) -> Path:
    """The path of a file, if it lies in its folder itself.

    A link that leads elsewhere is refused: a folder of a stranger could show what is in a file of yours. So is what is
    no plain file, such as a device without an end. The folder itself may be reached by a link.
    """
    if path.resolve().parent != path.parent.resolve():
        cure = "put the file itself there"
        raise RegardError(f"{path} cannot be read", got="a link that leads out of its folder", cure=cure)
    if path.exists() and not path.is_file():
        raise RegardError(f"{path} cannot be read", got="no plain file", expected="a file")
    return path


class Unfollowed(str):
    """A path that stands in the recipe of a run folder, but that nobody named on this machine. It is not opened."""


def followed(path: str, *, cure: str) -> str:
    """The path; an error that asks for it again where it is `Unfollowed`."""
    if isinstance(path, Unfollowed):
        raise RegardError(
            "this run was trained on files whose paths are not followed",
            got=f"{str(path)!r} in its recipe.json",
            expected="paths that were given on this machine",
            cure=cure,
        )
    return path


def _parts(value: Any) -> Any:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
