"""Settings: frozen dataclasses, changed by `a.b=c`, written as JSON, read back with every name checked.

>>> @dataclasses.dataclass(frozen=True)
... class Optim:
...     lr: float = 0.001
...     betas: tuple[float, float] = (0.9, 0.999)
>>> @dataclasses.dataclass(frozen=True)
... class Run:
...     steps: int = 100
...     optim: Optim = Optim()
>>> override(Run(), ["optim.lr=3e-4", "optim.betas=0.9,0.98", "steps=7"])
Run(steps=7, optim=Optim(lr=0.0003, betas=(0.9, 0.98)))
>>> fill(Run(), {"lr": 0.1, "classes": 10})
Run(steps=100, optim=Optim(lr=0.1, betas=(0.9, 0.999)))
>>> override(Run(), ["optm.lr=1"])
Traceback (most recent call last):
    ...
regard.base.errors.ConfigError: unknown setting 'optm'; known: steps, optim. Cure: did you mean 'optim'?
"""

import dataclasses
import difflib
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from regard.base.errors import ConfigError

T = TypeVar("T")


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """A cure for a misspelt name, or None if nothing is near.

    >>> did_you_mean("bahdanua", ["luong", "bahdanau"])
    "did you mean 'bahdanau'?"
    """
    near = difflib.get_close_matches(name, list(known), 1, cutoff=0.5)
    return f"did you mean {near[0]!r}?" if near else None


def override(config: T, settings: Iterable[str]) -> T:
    """The config with each of `settings`, written a.b=c, in place of its own; checked by name and type."""
    changes: dict[str, Any] = {}
    for setting in settings:
        path, equals, text = setting.partition("=")
        if not equals or not path:
            raise ConfigError("a setting", got=repr(setting), expected="name=value, such as train.steps=500")
        _collect(config, path.strip().split("."), text.strip(), path.strip(), changes)
    changed: T = _applied(config, changes)
    return changed


def fill(config: T, known: Mapping[str, Any]) -> T:
    """The config, and the configs inside it, with these settings wherever there are such; others go unused."""
    changes: dict[str, Any] = {}
    for field in dataclasses.fields(config):  # type: ignore[arg-type]
        part = getattr(config, field.name)
        if field.name in known:
            changes[field.name] = known[field.name]
        elif dataclasses.is_dataclass(part):
            changes[field.name] = fill(part, known)
    return dataclasses.replace(config, **changes)  # type: ignore[type-var]


def to_json(config: Any) -> Any:
    """The config as what `json.dumps` takes: dictionaries, lists, numbers, strings."""
    if dataclasses.is_dataclass(config) and not isinstance(config, type):
        return {field.name: to_json(getattr(config, field.name)) for field in dataclasses.fields(config)}
    return [to_json(part) for part in config] if isinstance(config, tuple | list) else config


def from_json(kind: type[T], content: Any, *, where: str = "") -> T:
    """What `to_json` gave, as a config of `kind` again. Missing settings take defaults, unknown ones are errors."""
    if not isinstance(content, Mapping):
        raise ConfigError(where.rstrip(".") or kind.__name__, got=type(content).__name__, expected="settings by name")
    hints = get_type_hints(kind)
    for name in content:
        _check_name(name, list(hints), where)
    values = {name: _typed(hints[name], value, f"{where}{name}") for name, value in content.items()}
    fields = dataclasses.fields(kind)  # type: ignore[arg-type]
    missing = [f.name for f in fields if f.default is f.default_factory is dataclasses.MISSING and f.name not in values]
    if missing:
        what = f"{where.rstrip('.') or kind.__name__} lacks a setting"
        raise ConfigError(what, got=", ".join(values) or "none", expected=", ".join(missing))
    return kind(**values)


def _collect(config: Any, path: list[str], text: str, whole: str, changes: dict[str, Any]) -> None:
    """Check one setting, and note it in a nest like the config's own."""
    name, *rest = path
    if not dataclasses.is_dataclass(config):
        raise ConfigError(f"unknown setting {whole!r}", cure=f"what is before {name!r} has no parts of its own")
    hints = get_type_hints(type(config))
    where = whole.removesuffix(".".join(path))
    _check_name(name, list(hints), where, deeper=[f"{where}{found}" for found in _below(config, name)])
    part = getattr(config, name)
    if rest:
        _collect(part, rest, text, whole, changes.setdefault(name, {}))
    elif dataclasses.is_dataclass(part):
        parts = ", ".join(f"{whole}.{field.name}" for field in dataclasses.fields(part))
        raise ConfigError(f"{whole} has several settings", got=repr(text), expected=f"one of {parts}")
    else:
        changes[name] = _read(hints[name], text, whole)


def _applied(config: Any, changes: dict[str, Any]) -> Any:
    """All changes at once, so that settings which depend on each other may come in any order."""
    new = {}
    for name, value in changes.items():
        part = getattr(config, name)
        new[name] = _applied(part, value) if dataclasses.is_dataclass(part) else value
    return dataclasses.replace(config, **new) if new else config


def _check_name(name: str, known: list[str], where: str, deeper: Iterable[str] = ()) -> None:
    if name not in known:
        what = f"unknown setting {where + name!r}; known: {', '.join(known)}"
        near = " or ".join(map(repr, deeper))
        raise ConfigError(what, cure=f"did you mean {near}?" if near else did_you_mean(name, known))


def _below(config: Any, name: str) -> Iterator[str]:
    """Where a setting of this very name stands deeper down: "train.steps" for "steps"."""
    for field in dataclasses.fields(config):
        part = getattr(config, field.name)
        if dataclasses.is_dataclass(part):
            if name in get_type_hints(type(part)):
                yield f"{field.name}.{name}"
            yield from (f"{field.name}.{deep}" for deep in _below(part, name))


def _choices(hint: Any) -> list[Any]:
    choices = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    return sorted(choices, key=lambda choice: choice is str)  # text takes everything, so it comes last


def _read(hint: Any, text: str, where: str) -> Any:
    """A value from the command line."""
    for choice in _choices(hint):
        if choice is types.NoneType:
            if text.lower() in ("none", "null", ""):
                return None
        elif choice is bool:
            if text.lower() in ("true", "yes", "on", "1", "false", "no", "off", "0"):
                return text.lower() in ("true", "yes", "on", "1")
        elif choice in (int, float, str):
            try:
                return choice(text.replace("_", "")) if choice is int else choice(text)
            except ValueError:
                continue
        elif get_origin(choice) is Literal:
            if text in get_args(choice):
                return text
        elif get_origin(choice) is tuple:
            parts = [part.strip() for part in text.strip("()[]").split(",") if part.strip()]
            inner = get_args(choice)
            kinds = [inner[0]] * len(parts) if inner[-1] is Ellipsis else list(inner)
            if len(kinds) == len(parts):
                return tuple(_read(kind, part, where) for kind, part in zip(kinds, parts, strict=True))
    raise ConfigError(where, got=repr(text), expected=_named(hint))


def _typed(hint: Any, value: Any, where: str) -> Any:
    """A value from JSON."""
    for choice in _choices(hint):
        if choice is Any:
            return value
        if dataclasses.is_dataclass(choice) and isinstance(choice, type):
            if isinstance(value, choice):
                return value
            if isinstance(value, Mapping):
                return from_json(choice, value, where=where + ".")
        elif get_origin(choice) is tuple and isinstance(value, list | tuple):
            inner = get_args(choice)
            kinds = [inner[0]] * len(value) if inner[-1] is Ellipsis else list(inner)
            if len(kinds) == len(value):
                return tuple(_typed(kind, part, where) for kind, part in zip(kinds, value, strict=True))
        elif get_origin(choice) is Literal:
            if value in get_args(choice):
                return value
        elif choice is float and isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
        elif isinstance(choice, type) and isinstance(value, choice) and not (choice is int and isinstance(value, bool)):
            return value
    raise ConfigError(where, got=repr(value), expected=_named(hint))


def _named(hint: Any) -> str:
    names = []
    for choice in _choices(hint):
        if choice is types.NoneType:
            names.append("none")
        elif get_origin(choice) is Literal:
            names += [repr(value) for value in get_args(choice)]
        elif get_origin(choice) is tuple:
            names.append("numbers with commas between" if {int, float} & set(get_args(choice)) else str(choice))
        else:
            known = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}
            names.append(known.get(choice, str(choice)))
    return " or ".join(sorted(names, key=lambda name: name == "none"))
