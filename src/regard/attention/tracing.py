"""The trace: collects the weights of any model, by layer and head, with labels; of glimpse models, the places.

with trace(model, rows=target, columns=source) as seen:
    model(batch)
seen["decoder.0.cross"].weights
"""

import fnmatch
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import Any, NamedTuple, Protocol, cast, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.base import ConfigError, RegardError, ShapeError, parse_json, write_atomically

Labels = Sequence[str] | Sequence[Sequence[str]]  # of one sentence, or of each sentence in the batch

_ACTIVE: ContextVar[tuple["Trace", ...]] = ContextVar("regard_trace", default=())


@runtime_checkable
class LaterWeights(Protocol):
    """A call of attention that can say its weights later."""

    @property
    def query(self) -> Tensor:
        """The queries, [*b q d]."""
        ...

    def __call__(self, rows: Sequence[int] | None, heads: Sequence[int] | None) -> Tensor:
        """The weights of some rows and heads."""
        ...


class GlimpsePath(NamedTuple):
    """Where a model looked in one call, and which of these glimpses count."""

    places: NDArray[Any]  # [b t 2]: (x, y) in [−1, 1]
    active: NDArray[Any]  # [b t] bool: False after a model has stopped


@dataclass
class Record:
    """The weights of one layer, [*b h q k] from heads and [*b q k] without, and the labels of the last two axes.

    A model that looks at one place after the other has `places` [b t 2] and `active` [b t] in place of weights.
    """

    name: str
    calls: list[NDArray[Any]] = field(repr=False)
    heads: bool = False
    rows: Labels | None = field(default=None, repr=False)
    columns: Labels | None = field(default=None, repr=False)
    queries: list[int] | None = None  # the numbers of the rows that were asked for; None: all
    paths: list[GlimpsePath] = field(default_factory=list, repr=False)

    @property
    def places(self) -> NDArray[Any]:
        """Where the model looked, [b t 2]: (x, y) in [−1, 1]."""
        return self._path.places

    @property
    def active(self) -> NDArray[Any]:
        """Which of the glimpses count, [b t]: False after a model has stopped."""
        return self._path.active

    @property
    def _path(self) -> GlimpsePath:
        if len(self.paths) != 1:
            what = "looked at no places" if not self.paths else "was called several times"
            cure = "read .weights" if not self.paths else "read .paths, or open a trace for each batch"
            raise ShapeError(f"{self.name} {what}", got=f"{len(self.paths)} paths", expected="one", cure=cure)
        return self.paths[0]

    @property
    def weights(self) -> NDArray[Any]:
        """All calls in one array: queries of step-by-step decoding follow each other, missing keys have weight 0."""
        if not self.calls:
            raise ShapeError(f"{self.name} has no weights", got="places", cure="read .places and .active")
        if len(self.calls) == 1:
            return self.calls[0]
        if len({call.shape[:-2] for call in self.calls}) > 1:
            raise ShapeError(
                f"{self.name} was called with several batch shapes",
                got=[list(call.shape) for call in self.calls],
                cure="read .calls, or open a trace for each batch",
            )
        width = max(call.shape[-1] for call in self.calls)
        pad = [(0, 0)] * (self.calls[0].ndim - 1)
        return np.concatenate([np.pad(call, [*pad, (0, width - call.shape[-1])]) for call in self.calls], axis=-2)

    @property
    def axes(self) -> tuple[str, ...]:
        """One letter for each axis of the weights, as in docs/notation.md; of places if there are none."""
        if not self.calls:
            return ("b", "t", "2")
        tail = ("h", "q", "k") if self.heads else ("q", "k")
        return ("b",) * (self.calls[0].ndim - len(tail)) + tail

    def item(self, batch: int = 0) -> "Record":
        """One item of the batch, without its batch axis: cut to its labels, or a path, cut to glimpses that count."""
        if not self.calls:
            places, active = self.places[batch], self.active[batch]
            return replace(self, paths=[GlimpsePath(places[active], active[active])])
        weights = self.weights
        if self.axes.count("b") == 1:
            weights = weights[batch]
        elif self.axes.count("b") > 1:
            weights = weights.reshape(-1, *weights.shape[self.axes.count("b") :])[batch]
        rows, columns = _labels_of(self.rows, batch), _labels_of(self.columns, batch)
        if rows is not None and self.queries is not None:
            rows = [rows[number] for number in self.queries if number < len(rows)]
        weights = weights[..., : None if rows is None else len(rows), : None if columns is None else len(columns)]
        return replace(self, calls=[weights], rows=rows, columns=columns)


class Trace(Mapping[str, Record]):
    """What was seen: records by name (or by number, in the order of their first call)."""

    def __init__(
        self,
        model: nn.Module | None = None,
        layers: str = "*",
        *,
        queries: Sequence[int] | None = None,
        heads: Sequence[int] | None = None,
    ) -> None:
        self._records: dict[str, Record] = {}
        self._names: dict[int, str] = {}
        self._alive: list[nn.Module] = []  # so that no id is used twice
        self._layers, self._queries, self._heads = layers, queries, heads
        self._labels: list[tuple[str, Labels | None, Labels | None]] = []
        self._counts: dict[str, int] = {}
        for name, module in model.named_modules() if model is not None else ():
            self._names[id(module)] = name or type(module).__name__.lower()
            self._alive.append(module)

    def label(self, layers: str = "*", *, rows: Labels | None = None, columns: Labels | None = None) -> None:
        """Give labels to the layers whose names match, now or later: `seen.label("decoder.*.cross", rows=…)`."""
        self._labels.append((layers, rows, columns))
        for record in self._records.values():
            self._apply_labels(record)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Name → weights, or the places of a layer that has no weights."""
        return {name: record.weights if record.calls else record.places for name, record in self._records.items()}

    def to_json(self, *, digits: int = 6) -> str:
        """Everything as JSON text, weights and places rounded to `digits` decimals."""
        records = [
            {
                "name": record.name,
                "axes": list(record.axes),
                "rows": _plain(record.rows),
                "columns": _plain(record.columns),
                "queries": record.queries,
            }
            | (_numbers("weights", record.weights, digits) if record.calls else {})
            | (_numbers("places", record.places, digits) | {"active": record.active.tolist()} if record.paths else {})
            for record in self._records.values()
        ]
        return json.dumps({"format": "regard.trace", "version": 1, "records": records}, ensure_ascii=False)

    def save(self, path: str | PathLike[str], *, digits: int = 6) -> None:
        """Write `to_json` to a file, whole or not at all."""
        write_atomically(path, self.to_json(digits=digits))

    @classmethod
    def from_json(cls, text: str) -> "Trace":
        """The trace that `to_json` wrote."""
        try:
            content = parse_json(text)
        except RegardError as error:
            raise RegardError("this is not JSON", got=error.got, expected="what Trace.to_json writes") from error
        if not isinstance(content, dict) or content.get("format") != "regard.trace" or content.get("version") != 1:
            raise RegardError("this is not a trace", expected="format 'regard.trace', version 1")
        seen = cls()
        try:
            for entry in content["records"]:
                labels = entry["rows"], entry["columns"], entry.get("queries")
                numbers = np.asarray(entry["places" if "places" in entry else "weights"], dtype=np.float32)
                numbers, name = numbers.reshape(entry["shape"]), entry["name"]
                if "places" in entry:
                    active = np.asarray(entry["active"], dtype=bool).reshape(entry["shape"][:-1])
                    seen._records[name] = Record(name, [], False, *labels, paths=[GlimpsePath(numbers, active)])
                else:
                    seen._records[name] = Record(name, [numbers], "h" in entry["axes"], *labels)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise RegardError("this trace is damaged", got=str(error), expected="what Trace.to_json writes") from error
        return seen

    def __getitem__(self, key: str | int) -> Record:
        if isinstance(key, int):
            return list(self._records.values())[key]
        if key not in self._records:
            raise KeyError(
                f"no weights under {key!r}; seen: {', '.join(self._records) or 'nothing'}."
                " Compiled and exported modules record nothing, nor do other threads and layers outside the pattern."
            )
        return self._records[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._records)

    def __len__(self) -> int:
        return len(self._records)

    def __repr__(self) -> str:
        def line(record: Record) -> str:
            calls = record.calls or [path.places for path in record.paths]
            times = f" × {len(calls)}" if len(calls) > 1 else ""
            return f"{record.name} {list(calls[0].shape)}{times}"

        return f"Trace({', '.join(map(line, self._records.values()))})"

    def _name(self, module: nn.Module | None) -> str:
        if module is None:
            return "attend"
        if id(module) not in self._names:
            kind = type(module).__name__.lower()
            self._names[id(module)] = f"{kind}.{self._counts.get(kind, 0)}"
            self._counts[kind] = self._counts.get(kind, 0) + 1
            self._alive.append(module)
        return self._names[id(module)]

    def _wants(self, module: nn.Module | None) -> bool:
        return self._layers == "*" or fnmatch.fnmatchcase(self._name(module), self._layers)

    def _record(self, module: nn.Module | None, heads: bool, queries: list[int] | None) -> Record:
        name = self._name(module)
        if name not in self._records:
            self._records[name] = Record(name, [], heads, queries=queries)
            self._apply_labels(self._records[name])
        return self._records[name]

    def _chosen(self, num_queries: int, num_heads: int | None) -> tuple[list[int] | None, list[int] | None]:
        """Rows and heads of a call that were asked for and are there."""
        return _there(self._queries, num_queries), None if num_heads is None else _there(self._heads, num_heads)

    def _apply_labels(self, record: Record) -> None:
        for pattern, rows, columns in self._labels:
            if fnmatch.fnmatchcase(record.name, pattern):
                record.rows = rows if rows is not None else record.rows
                record.columns = columns if columns is not None else record.columns


@contextmanager
def trace(
    model: nn.Module | None = None,
    *,
    layers: str = "*",
    rows: Labels | Sequence[int] | None = None,
    columns: Labels | None = None,
    heads: Sequence[int] | None = None,
) -> Iterator[Trace]:
    """Collect the weights of every attention that runs inside, in this thread.

    With a model, layers bear their names in it; without, they are numbered: `multihead.0`, `attention.1`. `layers` is a
    pattern such as `"decoder.*"`. `rows` and `columns` label queries and keys; `rows` of whole numbers, and `heads`,
    choose what is kept (−1 is the last one; a layer that has fewer gives what it has). Fused passes stay fused: their
    weights come from a second pass over what is asked for.

    >>> from regard.attention import MultiHead
    >>> layer = MultiHead(4, num_heads=2)
    >>> with trace(rows=["a", "b", "c"], columns=["a", "b", "c"]) as seen:
    ...     _ = layer(torch.zeros(1, 3, 4))
    >>> seen["multihead.0"].weights.shape, seen["multihead.0"].item(0).rows
    ((1, 2, 3, 3), ['a', 'b', 'c'])
    """
    if model is not None and not isinstance(model, nn.Module):
        raise ConfigError("trace takes a model", got=type(model).__name__, expected="a torch.nn.Module, or nothing")
    chosen = None if rows is None or not _are_numbers("rows", rows) else [int(cast(int, row)) for row in rows]
    if heads is not None and not _are_numbers("heads", heads):
        raise ConfigError("trace heads", got=repr(heads), expected="whole numbers", cure="trace(heads=[0, 3])")
    seen = Trace(model, layers, queries=chosen, heads=heads)
    labels = cast(Labels, rows) if chosen is None else None
    if labels is not None or columns is not None:
        seen.label(rows=labels, columns=columns)
    token = _ACTIVE.set((*_ACTIVE.get(), seen))
    try:
        yield seen
    finally:
        _ACTIVE.reset(token)


def watched(module: nn.Module | None) -> bool:
    """Whether a trace wants the weights of this layer (None for a call of `attend`)."""
    if torch.compiler.is_compiling():
        return False
    active = _ACTIVE.get()
    return bool(active) and any(seen._wants(module) for seen in active)


def record(
    module: nn.Module | None,
    weights: Tensor | None,
    later: LaterWeights | None = None,
    *,
    heads: bool = False,
) -> None:
    """Hand the weights of a layer to the traces that want them; `later(rows, heads)` makes those of a fused pass."""
    known = weights if weights is not None else cast(LaterWeights, later).query
    _refuse_meta(known)
    *lead, num_queries, _ = known.shape
    for seen in _ACTIVE.get():
        if not seen._wants(module):
            continue
        rows, some = seen._chosen(num_queries, lead[-1] if heads else None)
        kept = cast(LaterWeights, later)(rows, some) if weights is None else _selected(weights, rows, some)
        seen._record(module, heads, rows).calls.append(_array(kept))


def record_path(module: nn.Module, places: Tensor, active: Tensor) -> None:
    """Hand the places [b t 2] that a model looked at to the traces that want them, and which glimpses count [b t].

    `trace(rows=[0, -1])` keeps the first and the last glimpse, as it keeps some of the queries of a layer.
    """
    if not watched(module):
        return
    _refuse_meta(places)
    for seen in _ACTIVE.get():
        if seen._wants(module):
            rows, _ = seen._chosen(places.shape[1], None)
            kept = slice(None) if rows is None else rows
            path = GlimpsePath(_array(places[:, kept]), active[:, kept].detach().cpu().numpy().copy())
            seen._record(module, False, rows).paths.append(path)


def _array(tensor: Tensor) -> NDArray[Any]:
    """The numbers of a tensor in float32 or better, in memory of their own."""
    array: NDArray[Any] = tensor.detach().to("cpu", torch.promote_types(tensor.dtype, torch.float32)).numpy().copy()
    return array


def _refuse_meta(tensor: Tensor) -> None:
    if tensor.is_meta:
        raise RegardError("a trace of meta tensors", got="tensors without numbers", cure="trace a call with real ones")


def _numbers(name: str, array: NDArray[Any], digits: int) -> dict[str, Any]:
    return {"shape": list(array.shape), name: np.round(array.astype(np.float64), digits).tolist()}


def _selected(weights: Tensor, rows: list[int] | None, heads: list[int] | None) -> Tensor:
    if rows is not None:
        weights = weights[..., rows, :]
    return weights if heads is None else weights[..., heads, :, :]


def _there(asked: Sequence[int] | None, size: int) -> list[int] | None:
    if asked is None:
        return None
    return [number % size for number in asked if -size <= number < size]


def _are_numbers(name: str, values: Sequence[Any]) -> bool:
    kinds = {isinstance(each, int | np.integer) and not isinstance(each, bool) for each in values}
    if len(kinds) > 1:
        raise ConfigError(f"trace {name}", got=repr(values), expected="labels, or whole numbers, not both")
    return kinds == {True}


def _labels_of(labels: Labels | None, batch: int) -> list[str] | None:
    if labels is None:
        return None
    if labels and not isinstance(labels[0], str):
        return list(labels[batch])
    return list(cast(Sequence[str], labels))


def _plain(labels: Labels | None) -> list[Any] | None:
    if labels is None:
        return None
    return [entry if isinstance(entry, str) else list(entry) for entry in labels]
