"""Ranges: what is in them, and the words for what is not."""

import math

import pytest

from regard.base import ConfigError
from regard.base.ranges import CERTAINTY, LARGEST_FLOAT, LARGEST_INT, Number, OneOf, Range


@pytest.mark.parametrize(
    ("limits", "inside", "outside"),
    [
        (Range(), [0, -5, 0.5, LARGEST_INT, -LARGEST_FLOAT], [LARGEST_INT + 1, -(2**40), 1e16, -1e300]),
        (Range(least=1), [1, 1.0, 2**31 - 1], [0, 0.999, -3]),
        (Range(above=0), [5e-324, 1], [0, -0.0, 0.0]),
        (Range(least=0, below=1), [0, 0.999], [1, 1.0, -1e-9]),
        (Range(above=0, most=1), [1e-300, 1.0], [0.0, 1.0000001]),
        (Range(least=0, most=2**63 - 1), [0, 2**63 - 1], [2**63, 10**400, -1]),
        (Range(above=0, least=1e-6), [1e-6], [1e-7, 0.0]),
        (CERTAINTY, [0.5], [0.0, 1.0]),
    ],
)
def test_what_is_inside(limits: Range, inside: list[Number], outside: list[Number]) -> None:
    for value in inside:
        limits.check("x", value)
    for value in [*outside, math.nan, math.inf, -math.inf]:
        with pytest.raises(ConfigError, match=r"^x: got "):
            limits.check("x", value)


@pytest.mark.parametrize(
    ("limits", "value", "text"),
    [
        (Range(least=1), 0, "train.steps: got 0; expected 1 or more"),
        (Range(least=1), 2**31, "train.steps: got 2147483648; expected at most 2,147,483,647"),
        (Range(above=0), 0.0, "train.steps: got 0.0; expected more than 0"),
        (Range(above=0), math.inf, "train.steps: got inf; expected a finite number, more than 0"),
        (Range(above=0), 1e300, "train.steps: got 1e+300; expected at most 1e+15"),
        (Range(), math.nan, "train.steps: got nan; expected a finite number"),
        (Range(), -1e300, "train.steps: got -1e+300; expected at least -1e+15"),
        (Range(), -(2**40), "train.steps: got -1099511627776; expected at least -2,147,483,647"),
        (Range(least=0, most=1), 1.5, "train.steps: got 1.5; expected 0 to 1"),
        (Range(least=0, below=1), 1.0, "train.steps: got 1.0; expected 0 ≤ steps < 1"),
        (Range(above=0, most=1), 0.0, "train.steps: got 0.0; expected 0 < steps ≤ 1"),
        (Range(above=0, below=1), 1.0, "train.steps: got 1.0; expected between 0 and 1"),
        (Range(above=0, least=1e-6), 0.0, "train.steps: got 0.0; expected more than 0"),
        (Range(above=0, least=1e-6), 1e-9, "train.steps: got 1e-09; expected 1e-06 or more"),
        (Range(least=1, most=2**20), 0, "train.steps: got 0; expected 1 or more"),
        (Range(least=1, most=2**20), 2**21, "train.steps: got 2097152; expected at most 1,048,576"),
        (Range(least=1), 10**90, "train.steps: got a number of about 90 digits; expected at most 2,147,483,647"),
        (Range(least=1, cure="use 7"), 0, "train.steps: got 0; expected 1 or more. Try: use 7."),
    ],
)
def test_words(limits: Range, value: Number, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        limits.check("train.steps", value)
    assert str(caught.value) == text


def test_names() -> None:
    OneOf(("adam", "sgd")).check("train.optimiser", "sgd")
    with pytest.raises(ConfigError) as caught:
        OneOf({"adam": 1, "sgd": 2}).check("train.optimiser", "adma")
    assert str(caught.value) == "train.optimiser: got 'adma'; expected one of adam, sgd. Did you mean 'adam'?"


def test_a_range_reads_well_in_the_help_of_a_config() -> None:
    assert repr(Range(least=0, below=1, cure="0.5")) == "Range(least=0, below=1)"
