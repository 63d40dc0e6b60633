"""The soft look-up: phone book, box table, interpolation."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.align import Softmax
from regard.attention import Found, lookup
from regard.base import RegardError, ShapeError
from regard.score import Distance

PHONES = {"Ann Jones": "555-1234", "Bob Smith": "555-5678", "Zoë": "555-9999"}
BOXES = {300: 30.0, 400: 40.0}
INVERSE = Distance("inverse")


def test_phone_book() -> None:
    found = lookup(PHONES, "Bob Smith")
    assert isinstance(found, Found)
    assert found == ("555-5678", {"Ann Jones": 0.0, "Bob Smith": 1.0, "Zoë": 0.0})


def test_a_name_that_is_not_in_the_book() -> None:
    with pytest.raises(KeyError, match="'Bob' is not in the table; pass score="):
        lookup(PHONES, "Bob")


@pytest.mark.parametrize("score", [None, INVERSE])
def test_empty_table(score: Distance | None) -> None:
    with pytest.raises(RegardError, match="the table is empty"):
        lookup({}, 1, score=score)


def test_box_example() -> None:
    found = lookup(BOXES, 360, score=INVERSE)
    assert abs(found.value - 36.0) < 1e-12
    assert list(found.weights) == [300, 400]
    assert abs(found.weights[300] - 2 / 5) < 1e-12
    assert abs(found.weights[400] - 3 / 5) < 1e-12


def test_softmax_of_the_kernel_is_another_map() -> None:
    assert lookup(BOXES, 360, score=INVERSE, align=Softmax()).value == pytest.approx(35.0208, abs=1e-4)
    log = lookup(BOXES, 360, score=Distance("inverse", log=True), align=Softmax())
    assert log.value == pytest.approx(36.0, abs=1e-12)  # but softmax of its logarithm is not


@settings(deadline=None, max_examples=25)
@given(
    low=st.floats(-1e3, 1e3),
    gap=st.floats(1e-2, 1e3),
    share=st.floats(0, 1),
    values=st.tuples(st.floats(-1e3, 1e3), st.floats(-1e3, 1e3)),
)
def test_two_keys_interpolate(low: float, gap: float, share: float, values: tuple[float, float]) -> None:
    high = low + gap
    query = min(low + share * gap, high)
    found = lookup({low: values[0], high: values[1]}, query, score=INVERSE)
    assert found.value == pytest.approx(np.interp(query, [low, high], values), abs=1e-6)


@pytest.mark.parametrize("query", BOXES)
def test_exact_hit(query: int) -> None:
    found = lookup(BOXES, query, score=INVERSE)
    assert found.value == BOXES[query]
    assert found.weights == {box: float(box == query) for box in BOXES}


class _Number(tuple):
    """A key of one number, equal to itself alone: a dictionary may hold it twice."""

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


def test_several_hits_share() -> None:
    table = {_Number([1.0]): 10.0, _Number([2.0]): 99.0, _Number([1.0]): 30.0}
    found = lookup(table, 1.0, score=INVERSE)
    assert found.value == 20.0
    assert list(found.weights.values()) == [0.5, 0.0, 0.5]


def test_vectors() -> None:
    table = {(0.0, 0.0): [1.0, 0.0], (3.0, 4.0): [0.0, 2.0]}
    found = lookup(table, (1.5, 2.0), score=INVERSE)
    assert found.value == pytest.approx([0.5, 1.0], abs=1e-12)
    assert found.weights == pytest.approx(dict.fromkeys(table, 0.5), abs=1e-12)


def test_gaussian_kernel() -> None:
    found = lookup({0: 0.0, 3: 1.0}, 1, score=Distance("gaussian", bandwidth=2.0))
    near, far = math.exp(-1 / 8), math.exp(-4 / 8)
    assert found.weights == pytest.approx({0: near / (near + far), 3: far / (near + far)}, abs=1e-12)
    assert found.value == pytest.approx(far / (near + far), abs=1e-12)


@pytest.mark.parametrize(
    ("table", "query"),
    [
        ({1: "one", 2: "two"}, 1.5),
        (PHONES, "Bob"),
        ({1: None, 2: 1.0}, 1.5),
        ({1: 1.0, 2: 2.0}, "x"),
        ({1: 1.0, 2: 2.0}, (1.0, 2.0)),
        ({1: 1.0, (2, 3): 2.0}, 1.0),
        ({1: [1.0], 2: [2.0, 3.0]}, 1.0),
    ],
    ids=["text values", "text keys", "no value", "text query", "wide query", "ragged keys", "ragged values"],
)
def test_what_cannot_be_mixed(table: dict, query: object) -> None:
    with pytest.raises(ShapeError):
        lookup(table, query, score=INVERSE)
