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
regard.base.errors.ConfigError: unknown setting 'optm'; known: steps, optim. Did you mean 'optim'?
"""

import dataclasses
import types
from collections.abc import Iterable, Iterator, Mapping
from numbers import Integral, Real
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from regard.base.errors import ConfigError, did_you_mean, shown
from regard.base.ranges import Range

T = TypeVar("T")

_SHOWN = 12  # names in an error, which shall be one line


def check_settings(config: Any, where: str = "") -> None:
    """Every field of a dataclass against its type and its range (`regard.base.ranges`): called in `__post_init__`.

    A value of a like kind takes the type of its field: a list becomes a tuple, a number of numpy a number of Python.
    `where` is what errors put before the name of a field.

    >>> @dataclasses.dataclass(frozen=True)
    ... class Optim:
    ...     lr: Annotated[float, Range(above=0)] = 0.001
    ...     def __post_init__(self) -> None:
    ...         check_settings(self, "optim")
    >>> Optim(lr=0.0)
    Traceback (most recent call last):
        ...
    regard.base.errors.ConfigError: optim.lr: got 0.0; expected more than 0
    """
    for name, hint in _hints(type(config)).items():
        current = getattr(config, name)
        value = _typed(hint, current, f"{where}.{name}" if where else name)
        if value is not current:
            object.__setattr__(config, name, value)


def override(config: T, settings: Iterable[str]) -> T:
    """The config with each of `settings`, written a.b=c, in place of its own; checked by name and type."""
    changes: dict[str, Any] = {}
    for setting in settings:
        path, equals, text = setting.partition("=")
        if not equals or not path:
            raise ConfigError("a setting", got=shown(setting), expected="name=value, such as train.steps=500")
        _collect(config, path.strip().split("."), text.strip(), path.strip(), changes)
    changed: T = _applied(config, changes)
    return changed


def fill(config: T, known: Mapping[str, Any]) -> T:
    """The config, and the configs inside it, with these settings wherever there are such; others go unused."""
    changes: dict[str, Any] = {}
    for field in dataclasses.fields(config):  # type: ignore[arg-type]
        setting = getattr(config, field.name)
        if field.name in known:
            changes[field.name] = known[field.name]
        elif dataclasses.is_dataclass(setting):
            changes[field.name] = fill(setting, known)
    return dataclasses.replace(config, **changes)  # type: ignore[type-var]


def to_json(config: Any) -> Any:
    """The config as what `json.dumps` takes: dictionaries, lists, numbers, strings."""
    if dataclasses.is_dataclass(config) and not isinstance(config, type):
        return {field.name: to_json(getattr(config, field.name)) for field in dataclasses.fields(config)}
    return [to_json(item) for item in config] if isinstance(config, tuple | list) else config


def from_json(kind: type[T], content: Any, *, where: str = "") -> T:
    """What `to_json` gave, as a config of `kind` again. Missing settings take defaults, unknown ones are errors."""
    if not isinstance(content, Mapping):
        raise ConfigError(where.rstrip(".") or kind.__name__, got=type(content).__name__, expected="settings by name")
    hints = _hints(kind)
    for name in content:
        _check_name(name, list(hints), where)
    values = {name: _typed(hints[name], value, f"{where}{name}") for name, value in content.items()}
    fields = dataclasses.fields(kind)  # type: ignore[arg-type]
    missing = [f.name for f in fields if f.default is f.default_factory is dataclasses.MISSING and f.name not in values]
    if missing:
        what = f"{where.rstrip('.') or kind.__name__} lacks a setting"
        raise ConfigError(what, got=", ".join(values) or "none", expected=", ".join(missing))
    return kind(**values)


def _collect(config: Any, path: list[str], text: str, full_name: str, changes: dict[str, Any]) -> None:
    """Check one setting, and note it in a nest like the config's own."""
    name, *rest = path
    if not dataclasses.is_dataclass(config):
        raise ConfigError(
            f"unknown setting {full_name!r}", cure=f"leave {name!r} out: what is before it has no settings"
        )
    hints = _hints(type(config))
    where = full_name.removesuffix(".".join(path))
    _check_name(name, list(hints), where, deeper=[f"{where}{candidate}" for candidate in _below(config, name)])
    setting = getattr(config, name)
    if rest:
        _collect(setting, rest, text, full_name, changes.setdefault(name, {}))
    elif dataclasses.is_dataclass(setting):
        names = [f"{full_name}.{field.name}" for field in dataclasses.fields(setting)]
        more = f", and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        expected = f"one of {', '.join(names[:_SHOWN])}{more}"
        raise ConfigError(f"{full_name} has several settings", got=shown(text), expected=expected)
    else:
        changes[name] = _read(hints[name], text, full_name)


def _applied(config: Any, changes: dict[str, Any]) -> Any:
    """All changes at once, so that settings which depend on each other may come in any order."""
    new = {}
    for name, value in changes.items():
        setting = getattr(config, name)
        new[name] = _applied(setting, value) if dataclasses.is_dataclass(setting) else value
    return dataclasses.replace(config, **new) if new else config


def _check_name(name: str, known: list[str], where: str, deeper: Iterable[str] = ()) -> None:
    if name not in known:
        listed = f"; known: {', '.join(known)}" if known else ": there are no settings"
        what = f"unknown setting {shown(where + name)}{listed}"
        near = " or ".join(map(repr, deeper))
        raise ConfigError(what, cure=f"did you mean {near}?" if near else did_you_mean(name, known))


def _below(config: Any, name: str) -> Iterator[str]:
    """Where a setting of this very name stands deeper down: "train.steps" for "steps"."""
    for field in dataclasses.fields(config):
        setting = getattr(config, field.name)
        if dataclasses.is_dataclass(setting):
            if name in _hints(type(setting)):
                yield f"{field.name}.{name}"
            yield from (f"{field.name}.{deep}" for deep in _below(setting, name))


def _hints(kind: type) -> dict[str, Any]:
    """The fields of a dataclass and their types, ranges included."""
    hints = get_type_hints(kind, include_extras=True)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}


def _choices(hint: Any) -> list[tuple[Any, tuple[Any, ...]]]:
    """The types that a setting may have, each with its ranges."""
    choices = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    ranged = [(get_args(c)[0], get_args(c)[1:]) if get_origin(c) is Annotated else (c, ()) for c in choices]
    return sorted(ranged, key=lambda choice: choice[0] is str)  # text takes everything, so it comes last


def _read(hint: Any, text: str, where: str) -> Any:
    """A value from the command line."""
    for choice, ranges in _choices(hint):
        if choice is types.NoneType:
            if text.lower() in ("none", "null", ""):
                return None
        elif choice is bool:
            if text.lower() in ("true", "yes", "on", "1", "false", "no", "off", "0"):
                return text.lower() in ("true", "yes", "on", "1")
        elif choice in (int, float, str):
            try:
                value = choice(text.replace("_", "")) if choice is int else choice(text)
            except ValueError:
                continue
            return _checked(value, ranges, where)
        elif get_origin(choice) is Literal:
            if text in get_args(choice):
                return text
        elif get_origin(choice) is tuple:
            parts = [item.strip() for item in text.strip("()[]").split(",") if item.strip()]
            inner = get_args(choice)
            kinds = [inner[0]] * len(parts) if inner[-1] is Ellipsis else list(inner)
            if len(kinds) == len(parts):
                return tuple(_read(kind, item, where) for kind, item in zip(kinds, parts, strict=True))
    raise ConfigError(where, got=shown(text), expected=_named(hint), cure=_meant(hint, text))


def _typed(hint: Any, value: Any, where: str) -> Any:
    """A value from JSON, or from Python."""
    for choice, ranges in _choices(hint):
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
                parts = tuple(_typed(kind, item, where) for kind, item in zip(kinds, value, strict=True))
                same = type(value) is tuple and all(new is old for new, old in zip(parts, value, strict=True))
                return value if same else parts
        elif get_origin(choice) is Literal:
            if isinstance(value, str) and value in get_args(choice):
                return value
        elif choice in (int, float):
            number = _number(choice, value)
            if number is not None:
                return _checked(number, ranges, where)
        elif isinstance(kind := get_origin(choice) or choice, type) and isinstance(value, kind):
            return _checked(value, ranges, where)
    raise ConfigError(where, got=shown(value), expected=_named(hint), cure=_meant(hint, value))


def _number(kind: type, value: Any) -> Any:
    """A number as one of `kind`, or None if it is something else."""
    if type(value) is kind:
        return value
    if isinstance(value, bool) or not isinstance(value, Integral if kind is int else Real):
        return None
    try:
        return kind(value)
    except OverflowError:  # a whole number that no float holds
        return float("inf")


def _checked(value: Any, ranges: tuple[Any, ...], where: str) -> Any:
    if isinstance(value, str):
        _check_text(value, where)
    for allowed in ranges or ((Range(),) if type(value) in (int, float) else ()):
        allowed.check(where, value)
    return value


def _check_text(text: str, where: str) -> None:
    """Settings are written as JSON in UTF-8, and are names of files: neither takes everything."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ConfigError(where, got=shown(text), expected="text that UTF-8 can write") from None
    if "\0" in text:
        raise ConfigError(where, got=shown(text), expected="text without the character NUL")


def _meant(hint: Any, value: Any) -> str | None:
    """The name of a menu that is like the one that was given."""
    names = [name for choice, _ in _choices(hint) if get_origin(choice) is Literal for name in get_args(choice)]
    return did_you_mean(value, names) if isinstance(value, str) else None


def _named(hint: Any) -> str:
    names = []
    for choice, _ in _choices(hint):
        if choice is types.NoneType:
            names.append("none")
        elif get_origin(choice) is Literal:
            menu = get_args(choice)
            names += [repr(value) for value in menu] if len(menu) < 4 else [f"one of {', '.join(menu)}"]
        elif get_origin(choice) is tuple:
            inner = {kind for member in get_args(choice) for kind, _ in _choices(member)}
            names.append("numbers with commas between" if {int, float} & inner else "names with commas between")
        else:
            known = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}
            names.append(known.get(choice, getattr(choice, "__name__", str(choice))))
    return " or ".join(sorted(names, key=lambda name: name == "none"))
