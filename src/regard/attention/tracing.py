"""The trace: collects the weights of any model, by layer and head, with labels; of glimpse models, the places.

with trace(model, rows=target, columns=source) as seen:
    model(batch)
seen["decoder.0.cross"].weights
"""

import fnmatch
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from os import PathLike
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.attention.foreign import ForeignWatch, has_foreign_modules, selected
from regard.attention.layer_stack import modules_of
from regard.attention.record import EdgeList, GlimpsePath, Labels, Record
from regard.attention.trace_checks import check_layers, check_seen
from regard.attention.trace_file import records_from_json, records_to_json
from regard.attention.trace_views import TraceViews
from regard.base import ConfigError, RegardError, write_atomically
from regard.score import Edges

Layer = nn.Module | str | None  # a module, or the name of a function; None for a call of `attend`

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


class Trace(TraceViews):
    """What was seen: records by name (or by number, in the order of their first call), and pictures of them."""

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
        self._met: set[str] = set()  # names of all layers that attended, whether they were asked for or not
        self._most_queries, self._most_heads = 0, 0  # of a call of a layer that was asked for
        self._watch: ForeignWatch | None = None  # while the block runs
        self._unseen: dict[str, str] = {}
        self._ran = False  # whether the model, or a module of it, was called
        self._modules = {} if model is None else modules_of(model)
        for name, module in self._modules.items():
            self._names[id(module)] = name
            self._alive.append(module)

    @property
    def unseen(self) -> dict[str, str]:
        """Modules that look like attention and gave no weights, by name, each with the reason; filled at the end."""
        return dict(self._unseen if self._watch is None else self._watch.unseen)

    def label(self, layers: str = "*", *, rows: Labels | None = None, columns: Labels | None = None) -> None:
        """Give labels to the layers whose names match, now or later: `seen.label("decoder.*.cross", rows=…)`."""
        self._labels.append((layers, rows, columns))
        for record in self._records.values():
            self._apply_labels(record)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Name → weights, or the places of a layer that has no weights."""
        self._settle()
        return {name: record.weights if record.calls else record.places for name, record in self._records.items()}

    def to_json(self, *, digits: int = 6) -> str:
        """Everything as JSON text, weights and places rounded to `digits` decimals."""
        self._settle()
        return records_to_json(self._records.values(), digits)

    def save(self, path: str | PathLike[str], *, digits: int = 6) -> None:
        """Write `to_json` to a file, whole or not at all."""
        write_atomically(path, self.to_json(digits=digits))

    @classmethod
    def from_json(cls, text: str) -> "Trace":
        """The trace that `to_json` wrote."""
        seen = cls()
        seen._records = {record.name: record for record in records_from_json(text)}
        return seen

    def __getitem__(self, key: str | int) -> Record:
        self._settle()
        if isinstance(key, int):
            return list(self._records.values())[key]
        if key not in self._records:
            raise KeyError(
                f"no weights under {key!r}; seen: {', '.join(self._records) or 'nothing'}."
                " Compiled and exported modules record nothing, nor do other threads and layers outside the pattern."
            )
        return self._records[key]

    def __iter__(self) -> Iterator[str]:
        self._settle()
        return iter(self._records)

    def __len__(self) -> int:
        self._settle()
        return len(self._records)

    def __repr__(self) -> str:
        def line(record: Record) -> str:
            calls = record.calls or [path.places for path in record.paths]
            times = f" × {len(calls)}" if len(calls) > 1 else ""
            return f"{record.name} {list(calls[0].shape)}{times}"

        self._settle()
        return f"Trace({', '.join(map(line, self._records.values()))})"

    def _settle(self) -> None:
        """Wait for the numbers that are on their way from a GPU."""
        if self._watch is not None:
            self._watch.settle()

    def _name(self, module: Layer) -> str:
        if module is None and self._watch is not None and self._watch.stack.running:
            return self._watch.stack.running[-1].name  # `attend` inside a module of the model
        if module is None or isinstance(module, str):
            return module or "attend"
        if id(module) not in self._names:
            kind = type(module).__name__.lower()
            self._names[id(module)] = f"{kind}.{self._counts.get(kind, 0)}"
            self._counts[kind] = self._counts.get(kind, 0) + 1
            self._alive.append(module)
        return self._names[id(module)]

    @property
    def _is_open(self) -> bool:
        return any(seen is self for seen in _ACTIVE.get())

    def _wants(self, module: Layer) -> bool:
        return self._layers == "*" or fnmatch.fnmatchcase(self._name(module), self._layers)

    def _attends(self, module: Layer) -> bool:
        """Note that one of our own layers attends; whether its weights are asked for."""
        self._met.add(self._name(module))
        if self._watch is not None:
            self._watch.stack.mark()
        return self._wants(module)

    def _record(
        self,
        module: Layer,
        heads: bool,
        queries: list[int] | None,
        *,
        edges: bool = False,
        head_numbers: list[int] | None = None,
        key_heads: list[int] | None = None,
    ) -> Record:
        name = self._name(module)
        if name not in self._records:
            record = Record(name, [], heads, queries=queries, head_numbers=head_numbers, key_heads=key_heads)
            record.edges = [] if edges else None
            self._records[name] = record
            self._apply_labels(self._records[name])
        return self._records[name]

    def _forget(self, name: str) -> None:
        self._records.pop(name, None)

    def _chosen(self, num_queries: int, num_heads: int | None) -> tuple[list[int] | None, list[int] | None]:
        """Rows and heads of a call that were asked for and are there."""
        self._most_queries = max(self._most_queries, num_queries)
        self._most_heads = max(self._most_heads, num_heads or 0)
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
    may_be_empty: bool = False,
) -> Iterator[Trace]:
    """Collect the weights of every attention that runs inside, in this thread.

    With a model, layers bear their names in it, and it may be any model: calls of torch's fused functions are seen in
    it too, and what cannot be seen is named in a warning and in `seen.unseen`. Without a model only layers of this
    library are seen, and numbered: `multihead.0`, `attention.1`. Fused passes stay fused: their weights come from a
    second pass over what is asked for.

    - `layers` is a pattern such as `"decoder.*"`; `""` records nothing.
    - `rows` and `columns` label queries and keys.
    - `rows` of whole numbers, and `heads`, choose what is kept; −1 is the last one. A call that has fewer gives what it
      has, since models have layers of several sizes. With a model, a row or head that no call has is an error, and so
      are a pattern that no layer has and a model that ran without any attention.
    - `may_be_empty` allows all of these: the trace is then empty.

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
        raise ConfigError("trace heads", got=repr(heads), expected="whole numbers", cure="write trace(heads=[0, 3])")
    strict = model is not None and layers != "" and not may_be_empty
    seen = Trace(model, layers, queries=chosen, heads=heads)
    if strict:
        check_layers(seen._modules, layers)
    labels = cast(Labels, rows) if chosen is None else None
    if labels is not None or columns is not None:
        seen.label(rows=labels, columns=columns)
    foreign = layers != "" and has_foreign_modules(seen._modules)
    seen._watch = ForeignWatch(seen._modules, seen) if foreign else None
    token = _ACTIVE.set((*_ACTIVE.get(), seen))
    try:
        with seen._watch or (_noting_calls(model, seen) if strict and model is not None else nullcontext()):
            yield seen
    finally:
        _ACTIVE.reset(token)
        seen._settle()
        watch, seen._watch = seen._watch, None  # the arrays are free again as soon as the trace is
        seen._unseen = {} if watch is None else watch.unseen
    if watch is not None:
        watch.look_back()
        seen._ran, seen._unseen = bool(watch.stack.ran), watch.unseen
    if strict:
        check_seen(seen._modules, seen)


@contextmanager
def _noting_calls(model: nn.Module, seen: Trace) -> Iterator[None]:
    """Note in a trace that the model was called in this thread."""
    thread = threading.get_ident()

    def note(module: nn.Module, inputs: object) -> None:
        seen._ran = seen._ran or threading.get_ident() == thread

    handle = model.register_forward_pre_hook(note)
    try:
        yield
    finally:
        handle.remove()


@contextmanager
def untraced() -> Iterator[None]:
    """No trace sees what runs inside: for layers that hand over their weights themselves, in another form.

    >>> from regard.attention import attend
    >>> with trace() as seen, untraced():
    ...     _ = attend(torch.ones(1, 2), torch.ones(3, 2), torch.ones(3, 2))
    >>> list(seen)
    []
    """
    token = _ACTIVE.set(())
    try:
        yield
    finally:
        _ACTIVE.reset(token)


def watched(module: Layer) -> bool:
    """Whether a trace wants the weights of this layer."""
    if torch.compiler.is_compiling():
        return False
    wanted = [seen._attends(module) for seen in _ACTIVE.get()]
    return any(wanted)


def is_tracing() -> bool:
    """Whether a trace watches any layer."""
    return bool(_ACTIVE.get())


def record(
    module: Layer,
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
        selected_weights = cast(LaterWeights, later)(rows, some) if weights is None else selected(weights, rows, some)
        seen._record(module, heads, rows, head_numbers=some).calls.append(_array(selected_weights))


def record_edges(module: Layer, weights: Tensor, edges: Edges, *, heads: bool = False) -> None:
    """Hand weights [*b e], and the edges that they belong to, to the traces that want them."""
    _refuse_meta(weights)
    for seen in _ACTIVE.get():
        if not seen._wants(module):
            continue
        rows, some = seen._chosen(edges.num_queries, weights.shape[-2] if heads else None)
        edge_weights, pairs = weights if some is None else weights[..., some, :], edges.pairs
        if rows is not None:
            chosen = torch.isin(edges.targets, edges.targets.new_tensor(rows))
            edge_weights, pairs = edge_weights[..., chosen], pairs[:, chosen]
        record = seen._record(module, heads, rows, edges=True, head_numbers=some)
        record.calls.append(_array(edge_weights))
        listed = EdgeList(pairs.detach().cpu().numpy().copy(), (edges.num_queries, edges.num_keys))
        cast(list[EdgeList], record.edges).append(listed)


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
            steps = slice(None) if rows is None else rows
            path = GlimpsePath(_array(places[:, steps]), active[:, steps].detach().cpu().numpy().copy())
            seen._record(module, False, rows).paths.append(path)


def _array(tensor: Tensor) -> NDArray[Any]:
    """The numbers of a tensor in float32 or better, in memory of their own."""
    array: NDArray[Any] = tensor.detach().to("cpu", torch.promote_types(tensor.dtype, torch.float32)).numpy().copy()
    return array


def _refuse_meta(tensor: Tensor) -> None:
    if tensor.is_meta:
        raise RegardError("a trace of meta tensors", got="tensors without numbers", cure="trace a call with real ones")


def _there(asked: Sequence[int] | None, size: int) -> list[int] | None:
    if asked is None:
        return None
    return [number % size for number in asked if -size <= number < size]


def _are_numbers(name: str, values: Sequence[Any]) -> bool:
    kinds = {isinstance(each, int | np.integer) and not isinstance(each, bool) for each in values}
    if len(kinds) > 1:
        raise ConfigError(f"trace {name}", got=repr(values), expected="labels, or whole numbers, not both")
    return kinds == {True}
