"""Which paths of a recipe were given on this machine.

A recipe names the user's own files. One in a folder of a stranger may name any file of this machine, and its lines
would stand in a report. So a recipe with paths is signed, with a key that never leaves this user's cache folder, and
paths without a right signature are not followed (`regard.base.Unfollowed`): the user is asked to name them again.
"""

import hashlib
import hmac
import json
import os
import secrets
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, get_args, get_type_hints

from regard.base import Unfollowed, part_beside
from regard.base.ranges import PathMark
from regard.data.download import cache_folder

KEY = "key"  # in the cache folder
_BYTES = 32


def path_settings(kind: type) -> frozenset[str]:
    """The settings of a config that name files: those of type `UserPath`."""
    hints = get_type_hints(kind, include_extras=True)
    return frozenset(name for name, hint in hints.items() if _is_marked(hint))


def _is_marked(hint: Any) -> bool:
    """Whether a type is `UserPath`, or has it among its alternatives."""
    if any(isinstance(each, PathMark) for each in getattr(hint, "__metadata__", ())):
        return True
    return any(_is_marked(each) for each in get_args(hint))


def paths(config: Any, where: str = "") -> dict[str, str]:
    """Every path that a recipe names, by its setting."""
    named: dict[str, str] = {}
    marked = path_settings(type(config))
    for field in fields(config):
        value = getattr(config, field.name)
        if is_dataclass(value):
            named |= paths(value, f"{where}{field.name}.")
        elif field.name in marked:
            several = value if isinstance(value, tuple) else ()
            named |= {f"{where}{field.name}.{number}": path for number, path in enumerate(several)}
            named |= {where + field.name: value} if isinstance(value, str) else {}
    return named


def signature(config: Any) -> str | None:
    """Of the paths of a recipe; None where there are none, where one of them is a stranger's, or without a key."""
    named = paths(config)
    if not named or any(isinstance(path, Unfollowed) for path in named.values()):
        return None
    key = _key(new=True)
    return None if key is None else _sign(named, key)


def trusted(config: Any, signed: object) -> Any:
    """The recipe of a folder: as it is if the signature is ours, else with paths that are not followed."""
    named = paths(config)
    key = _key(new=False) if named and isinstance(signed, str) else None
    if not named or (key is not None and hmac.compare_digest(_sign(named, key).encode(), str(signed).encode())):
        return config
    return _unfollowed(config)


def _unfollowed(config: Any) -> Any:
    changes: dict[str, Any] = {}
    marked = path_settings(type(config))
    for field in fields(config):
        value = getattr(config, field.name)
        if is_dataclass(value):
            changes[field.name] = _unfollowed(value)
        elif field.name in marked and isinstance(value, str):
            changes[field.name] = Unfollowed(value)
        elif field.name in marked and isinstance(value, tuple):
            changes[field.name] = tuple(Unfollowed(path) for path in value)
    return replace(config, **changes)


def _sign(named: dict[str, str], key: bytes) -> str:
    return hmac.new(key, json.dumps(named, sort_keys=True).encode(), hashlib.sha256).hexdigest()


def _key(*, new: bool) -> bytes | None:
    """The key of this user; None where there is none, or where none can be written."""
    path = cache_folder() / KEY
    with suppress(OSError):
        if new and not path.exists():
            _make(path)
        key = path.read_bytes()
        return key if len(key) == _BYTES else None
    return None


def _make(path: Path) -> None:
    """A key that only this user may read; of two processes that make one at once, the first wins."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = part_beside(path)
    handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with open(handle, "wb") as file:
            file.write(secrets.token_bytes(_BYTES))
        with suppress(FileExistsError):
            os.link(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)
