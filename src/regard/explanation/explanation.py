"""An explanation: what was attended to, as data. Made by a task, drawn by `viz`, shown by pages and notebooks."""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy import ndarray

from regard.base import RegardError, ShapeError, did_you_mean, shown
from regard.explanation.png import from_png, to_png
from regard.explanation.values import rounded

Kind = TypeVar("Kind", bound="Explanation")

FORMAT, VERSION = "regard.explanation", 1


class Explanation:
    """What every kind of explanation can do; each kind is a frozen dataclass of numbers and labels, in its own file.

    Two explanations are equal when their JSON is. JSON keeps six digits of each number.
    """

    kind: ClassVar[str]
    caption: ClassVar[str] = ""  # what stands above one that has no title, on the page of a report
    added: ClassVar[frozenset[str]] = frozenset()  # fields that older files do not have; these have defaults
    title: str

    def to_json(self) -> dict[str, Any]:
        """The explanation as values that `json.dumps` takes: its format, its kind and every field by name.

        Numbers of several axes are `{"shape": […], "values": […]}`, pictures `{"png": …}` in base64, and numbers by
        name a list of `{"name": …, "shape": […], "values": […]}`.
        """
        values = {field.name: _encoded(getattr(self, field.name)) for field in fields(self)}  # type: ignore[arg-type]
        return {"format": FORMAT, "version": VERSION, "kind": self.kind, **values}

    @classmethod
    def from_json(cls: type[Kind], content: object) -> Kind:
        """The explanation that `to_json` wrote; anything else is refused."""
        header = read_header(content)
        if header != cls.kind:
            raise RegardError("this explanation is of another kind", got=shown(header), expected=repr(cls.kind))
        assert isinstance(content, Mapping)  # read_header has looked
        known = {field.name for field in fields(cls)}  # type: ignore[arg-type]
        names = set(content) - {"format", "version", "kind"}
        old = {
            field.name: field.default
            for field in fields(cls)  # type: ignore[arg-type]
            if field.name in cls.added - names
        }
        names |= set(old)
        if wrong := sorted(map(str, names ^ known)):
            got = ", ".join(f"{'no ' if name in known else ''}{shown(name)}" for name in wrong[:4])
            raise RegardError(f"this {cls.kind} is damaged", got=got, expected=", ".join(sorted(known)))
        explanation = object.__new__(cls)  # values of any type, which the checks of the kind are for
        explanation._set(**old, **{name: _decoded(content[name]) for name in known - set(old)})
        explanation.__post_init__()
        return explanation

    def __post_init__(self) -> None:
        """Check every field; each kind has its own checks."""
        raise NotImplementedError

    def html(self) -> str:
        """What a notebook shows below the title: a table of all fields, unless a kind has a better picture of itself.

        A picture is one line of HTML or SVG without scripts; `""` says that there is nothing to show. Labels go through
        `regard.explanation.svg.text`.
        """
        from regard.explanation.svg import fields_as_table  # which knows some of the kinds

        shown_fields = [field.name for field in fields(self) if field.name != "title"]  # type: ignore[arg-type]
        return fields_as_table({name: getattr(self, name) for name in shown_fields})

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.to_json() == other.to_json()

    __hash__ = None  # type: ignore[assignment]

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from regard.explanation.widget import widget  # which knows every kind

        return widget(self)

    def _set(self, **values: Any) -> None:
        """Put checked values into the fields of a frozen dataclass."""
        for name, value in values.items():
            object.__setattr__(self, name, value)


def read_header(content: object) -> str:
    """The kind of an explanation as JSON, after a look at format and version."""
    if not isinstance(content, Mapping):
        raise RegardError("this is not an explanation", got=shown(type(content)), expected="values by name")
    format_, version, kind = (content.get(name) for name in ("format", "version", "kind"))
    if format_ != FORMAT or not isinstance(kind, str):
        got = f"format {shown(format_)}, kind {shown(kind)}"
        raise RegardError("this is not an explanation", got=got, expected=f"format {FORMAT!r} and a kind")
    if isinstance(version, bool) or version != VERSION:
        cure = "update regard" if isinstance(version, int) and version > VERSION else None
        raise RegardError("unknown version of an explanation", got=shown(version), expected=VERSION, cure=cure)
    return kind


def unknown_kind(kind: str, known: Mapping[str, type]) -> RegardError:
    """The error for a kind that is not on the menu."""
    expected = f"one of {', '.join(known)}"
    return RegardError(
        "unknown kind of explanation", got=shown(kind), expected=expected, cure=did_you_mean(kind, known)
    )


def _encoded(value: Any) -> Any:
    if isinstance(value, ndarray) and value.dtype == np.uint8:
        return {"png": base64.b64encode(to_png(value)).decode()}
    if isinstance(value, ndarray):
        return {"shape": list(value.shape), "values": rounded(value)}
    if isinstance(value, Mapping):
        return [{"name": name, **_encoded(array)} for name, array in value.items()]
    return list(value) if isinstance(value, tuple) else value


def _decoded(value: Any) -> Any:
    """What `_encoded` was given. Anything unexpected is handed on as it is: the checks of the kind refuse it."""
    if isinstance(value, Mapping) and "png" in value:
        return _picture(value["png"])
    if isinstance(value, Mapping) and "shape" in value:
        return _numbers(value["shape"], value.get("values"))
    if isinstance(value, list) and value and all(isinstance(item, Mapping) and "name" in item for item in value):
        names = [str(item["name"]) for item in value]
        if len(set(names)) < len(names):
            raise RegardError("this explanation is damaged", got="a name that comes twice", expected="different names")
        return {name: _decoded(item) for name, item in zip(names, value, strict=True)}
    return value


def _picture(text: object) -> ndarray:
    try:
        content = base64.b64decode(text if isinstance(text, str) else "", validate=True)
    except (binascii.Error, ValueError):
        raise RegardError("the picture of an explanation cannot be read", got="no base64") from None
    return from_png(content)


def _numbers(shape: object, values: object) -> ndarray:
    """Nested lists as an array of this shape, which an empty list cannot tell by itself."""
    try:
        array = np.asarray(values)
        if not isinstance(shape, list) or not all(type(side) is int and side >= 0 for side in shape):
            raise ValueError
        if array.shape != tuple(shape):
            array = array.reshape(shape if array.size == 0 else [-1])  # fails unless both are empty
            if array.shape != tuple(shape):
                raise ValueError
    except (ValueError, TypeError, OverflowError, RecursionError):
        what = "numbers of an explanation do not have their shape"
        raise ShapeError(what, got=f"shape {shown(shape)}", expected="nested lists of that shape") from None
    return array
