"""A trace as JSON text, and back."""

import json
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.attention.record import EdgeList, GlimpsePath, Labels, Record
from regard.base import RegardError, parse_json


def records_to_json(records: Iterable[Record], digits: int) -> str:
    """The records of a trace as JSON text, weights and places rounded to `digits` decimals."""
    entries = [
        {
            "name": record.name,
            "axes": list(record.axes),
            "rows": _plain(record.rows),
            "columns": _plain(record.columns),
            "queries": record.queries,
            **({} if record.edges is None else {"edges": [record.edges[0].pairs.tolist(), record.edges[0].sizes]}),
            **({} if record.head_numbers is None else {"head_numbers": record.head_numbers}),
            **({} if record.key_heads is None else {"key_heads": record.key_heads}),
        }
        | (_numbers("weights", record.weights, digits) if record.calls else {})
        | (_numbers("places", record.places, digits) | {"active": record.active.tolist()} if record.paths else {})
        for record in records
    ]
    return json.dumps({"format": "regard.trace", "version": 1, "records": entries}, ensure_ascii=False)


def records_from_json(text: str) -> list[Record]:
    """The records that `records_to_json` wrote."""
    try:
        content = parse_json(text)
    except RegardError as error:
        raise RegardError("this is not JSON", got=error.got, expected="what Trace.to_json writes") from error
    if not isinstance(content, dict) or content.get("format") != "regard.trace" or content.get("version") != 1:
        raise RegardError("this is not a trace", expected="format 'regard.trace', version 1")
    try:
        return [_record_of(entry) for entry in content["records"]]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RegardError("this trace is damaged", got=str(error), expected="what Trace.to_json writes") from error


def _record_of(entry: Any) -> Record:
    labels = entry["rows"], entry["columns"], entry.get("queries")
    numbers = np.asarray(entry["places" if "places" in entry else "weights"], dtype=np.float32)
    numbers, name = numbers.reshape(entry["shape"]), entry["name"]
    if "places" in entry:
        active = np.asarray(entry["active"], dtype=bool).reshape(entry["shape"][:-1])
        return Record(name, [], False, *labels, paths=[GlimpsePath(numbers, active)])
    edges = _edges_from_json(entry["edges"], numbers) if "edges" in entry else None
    heads = {key: entry.get(key) for key in ("head_numbers", "key_heads")}
    return Record(name, [numbers], "h" in entry["axes"], *labels, edges, **heads)


def _numbers(name: str, array: NDArray[Any], digits: int) -> dict[str, Any]:
    return {"shape": list(array.shape), name: np.round(array.astype(np.float64), digits).tolist()}


def _edges_from_json(entry: Any, weights: NDArray[Any]) -> list[EdgeList]:
    pairs, (num_queries, num_keys) = np.asarray(entry[0], dtype=np.int64).reshape(2, -1), entry[1]
    if pairs.shape[1] != weights.shape[-1]:
        raise ValueError(f"{weights.shape[-1]} weights for {pairs.shape[1]} edges")
    return [EdgeList(pairs, (num_queries, num_keys))]


def _plain(labels: Labels | None) -> list[Any] | None:
    if labels is None:
        return None
    return [entry if isinstance(entry, str) else list(entry) for entry in labels]
