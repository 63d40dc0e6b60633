"""What settings mean: the comment beside each field of a config, read from its source.

>>> from dataclasses import dataclass
>>> from regard.train import Train
>>> [each for each in described(Train(steps=5)) if each.name == "steps"][0].value
'5'
"""

import inspect
import io
import re
import tokenize
from dataclasses import MISSING, dataclass, fields, is_dataclass
from typing import Any

_FIELD = re.compile(r"^\s+(\w+)\s*:")


@dataclass(frozen=True)
class Meaning:
    """One setting: its name (`search.beams` for one inside another), its value, its default, and what it means."""

    name: str
    value: str
    default: str
    meaning: str


def described(config: Any) -> list[Meaning]:
    """Every setting of a config, those of configs inside it after a dot."""
    comments = _comments(type(config))
    settings: list[Meaning] = []
    for field in fields(config):
        value = getattr(config, field.name)
        if is_dataclass(value):
            inner = described(value)
            settings += [Meaning(f"{field.name}.{each.name}", each.value, each.default, each.meaning) for each in inner]
            continue
        default = field.default if field.default_factory is MISSING else field.default_factory()
        shown = "none: it has to be given" if default is MISSING else _text(default)
        settings.append(Meaning(field.name, _text(value), shown, comments.get(field.name, "")))
    return settings


def _text(value: Any) -> str:
    """A value as `--set` takes it."""
    if value is None or isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(_text, value)) if isinstance(value, tuple | list) else str(value)


def _comments(kind: type) -> dict[str, str]:
    """The comments of a dataclass and of those that it inherits from, by field."""
    comments: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        if not is_dataclass(each):
            continue
        try:
            source = inspect.getsource(each)
        except (OSError, TypeError):  # a class that was typed into a shell
            continue
        lines = source.splitlines()
        for token in tokenize.generate_tokens(io.StringIO(inspect.cleandoc(source)).readline):
            if token.type == tokenize.COMMENT and (match := _FIELD.match(lines[token.start[0] - 1])):
                comments[match[1]] = token.string.lstrip("# ")
    return comments
