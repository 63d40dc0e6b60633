"""Errors say what, got, expected and cure, and survive a trip between processes."""

import copy
import pickle

import pytest

from regard.base import ConfigError, ImplementationUnavailable, MaskError, MissingExtra, RegardError, ShapeError

KINDS = [RegardError, ShapeError, MaskError, ConfigError, ImplementationUnavailable, MissingExtra]


@pytest.mark.parametrize(
    ("facts", "text"),
    [
        ({}, "bad"),
        ({"got": 3}, "bad: got 3"),
        ({"got": 0}, "bad: got 0"),
        ({"expected": "more"}, "bad: expected more"),
        ({"got": 3, "expected": 4}, "bad: got 3; expected 4"),
        ({"cure": "mend it"}, "bad. Try: mend it."),
        ({"got": [1, 2], "expected": "é", "cure": "mend it"}, "bad: got [1, 2]; expected é. Try: mend it."),
    ],
)
def test_message(facts: dict, text: str) -> None:
    assert str(RegardError("bad", **facts)) == text


@pytest.mark.parametrize("kind", KINDS)
def test_is_a_value_error_with_its_parts(kind: type[RegardError]) -> None:
    error = kind("bad", got=1, expected=2, cure="mend it")
    assert isinstance(error, ValueError)
    assert (error.what, error.got, error.expected, error.cure) == ("bad", 1, 2, "mend it")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("again", [lambda error: pickle.loads(pickle.dumps(error)), copy.copy, copy.deepcopy])
def test_round_trip(kind: type[RegardError], again) -> None:
    error = kind("bad", got=[1], expected=2, cure="mend it")
    back = again(error)
    assert type(back) is kind
    assert str(back) == str(error)
    assert (back.what, back.got, back.expected, back.cure) == ("bad", [1], 2, "mend it")


def test_missing_extra_is_an_import_error() -> None:
    with pytest.raises(ImportError, match="gone"):
        raise MissingExtra("gone")
