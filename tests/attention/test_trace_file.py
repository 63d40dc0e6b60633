"""A trace as JSON: heads and shared key heads come back; the rest is in test_tracing.py."""

import json

import numpy as np
import pytest

from regard.attention import Record
from regard.attention.trace_file import records_from_json, records_to_json
from regard.base import RegardError


def test_chosen_heads_come_back() -> None:
    weights = np.random.default_rng(0).random((2, 3, 4, 5)).astype(np.float32)
    record = Record("a.b", [weights], True, queries=[0, 2, 3, 4], head_numbers=[5, 1, 0], key_heads=[2, 0, 0])
    [again] = records_from_json(records_to_json([record], 7))
    assert (again.name, again.queries, again.head_numbers, again.key_heads) == (
        "a.b",
        [0, 2, 3, 4],
        [5, 1, 0],
        [2, 0, 0],
    )
    np.testing.assert_allclose(again.weights, weights, atol=1e-7)
    assert again.axes == ("b", "h", "q", "k")


def test_plain_records_are_written_as_before() -> None:
    text = records_to_json([Record("a", [np.ones((1, 1), dtype=np.float32)])], 2)
    [entry] = json.loads(text)["records"]
    assert set(entry) == {"name", "axes", "rows", "columns", "queries", "shape", "weights"}


def test_damaged_files() -> None:
    with pytest.raises(RegardError, match="this trace is damaged"):
        records_from_json('{"format": "regard.trace", "version": 1, "records": [{}]}')
