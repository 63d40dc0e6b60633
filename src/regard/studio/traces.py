"""Traces for the page: an overview of layers and heads as small squares, and parts of a matrix when asked for."""

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from regard.base import ConfigError, RegardError, did_you_mean, shown

SIDE = 24  # cells on each side of a thumbnail
MOST_CELLS = 512  # on each side of the part of a matrix that is sent; what is larger is averaged
MOST_IN_A_ROW = 65_536  # cells, where one row alone is asked for
_LABEL = 60  # characters of a label
_SAMPLED = 256  # rows of a large matrix that a thumbnail is made of


@runtime_checkable
class Layer(Protocol):
    """The weights of one layer: its sizes, and any block of them."""

    name: str
    heads: Sequence[int]  # their numbers in the model
    rows: Sequence[int]
    num_columns: int
    row_labels: Sequence[str] | None
    column_labels: Sequence[str] | None

    def block(self, head: int | None, rows: slice, columns: slice) -> NDArray[Any]:
        """The weights [rows columns] of the head at this place, or the mean of all heads."""
        ...

    def thumbnails(self) -> NDArray[Any]:
        """Small pictures of all heads, [heads s s] with the mean weight of each cell."""
        ...

    def cleanness(self) -> list[float] | None:
        """The largest weight of a row of each head, in the mean over its rows; None if it is too much to compute."""
        ...


class Shown:
    """A trace on the page, made of layers."""

    def __init__(self, name: str, layers: Sequence[Layer], notes: Sequence[str] = ()) -> None:
        self.name, self.layers, self.notes = name, list(layers), list(notes)

    def overview(self) -> dict[str, Any]:
        """Every layer with its labels and the thumbnails of its heads, as bytes in base64."""
        labels: list[Sequence[str]] = []  # each once: the layers of a model have the same ones
        return {
            "name": self.name,
            "notes": self.notes,
            "side": SIDE,
            "layers": [self._layer(layer, labels) for layer in self.layers],
            "labels": [[_mark(label) for label in each] for each in labels],  # after the layers, which have filled it
        }

    def rows(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """A block of one matrix, averaged where it has more than `MOST_CELLS` cells on a side.

        A layer that computes its rows gives fewer of a large block: those at even distances.
        """
        layer = self._named(body.get("layer"))
        head = body.get("head")
        place = None
        if head is not None:
            if type(head) is not int or head not in layer.heads:
                expected = f"one of {shown(list(layer.heads))}, or null for their mean"
                raise ConfigError("the head of a request", got=shown(head), expected=expected)
            place = list(layer.heads).index(head)
        rows = _range(body.get("rows"), len(layer.rows), "rows")
        columns = _range(body.get("columns"), layer.num_columns, "columns")
        block = layer.block(place, slice(*rows), slice(*columns))
        most = min(MOST_CELLS, _whole(body.get("most"), MOST_CELLS))
        small = shrunk(block, most, MOST_IN_A_ROW if len(block) == 1 else most).astype("<f4")
        return {
            "layer": layer.name,
            "head": head,
            "rows": list(rows),
            "columns": list(columns),
            "shape": list(small.shape),
            "weights": base64.b64encode(small.tobytes()).decode(),
            "largest": float(block.max(initial=0)),
        }

    def _layer(self, layer: Layer, labels: list[Sequence[str]]) -> dict[str, Any]:
        thumbnails = layer.thumbnails()
        largest = thumbnails.reshape(len(thumbnails), -1).max(-1, initial=0)
        steps = np.rint(thumbnails / np.where(largest > 0, largest, 1)[:, None, None] * 255).clip(0, 255)

        def number(names: Sequence[str] | None) -> int | None:
            if names is None:
                return None
            known = (place for place, each in enumerate(labels) if each is names or each == names)
            place = next(known, len(labels))
            if place == len(labels):
                labels.append(names)
            return place

        return {
            "name": layer.name,
            "heads": [int(head) for head in layer.heads],
            "rows": [int(row) for row in layer.rows]
            if list(layer.rows) != list(range(len(layer.rows)))
            else len(layer.rows),
            "columns": layer.num_columns,
            "row_labels": number(layer.row_labels),
            "column_labels": number(layer.column_labels),
            "shape": list(thumbnails.shape[1:]),
            "thumbnails": base64.b64encode(steps.astype(np.uint8).tobytes()).decode(),
            "clean": layer.cleanness(),
        }

    def _named(self, name: object) -> Layer:
        for layer in self.layers:
            if layer.name == name:
                return layer
        names = [layer.name for layer in self.layers]
        cure = did_you_mean(name, names) if isinstance(name, str) else None
        raise RegardError("the trace has no such layer", got=shown(name), cure=cure or "look at its overview")


class Traces:
    """Traces by name; those in files are read when they are first asked for."""

    def __init__(self) -> None:
        self._shown: dict[str, Shown] = {}
        self._files: dict[str, Path] = {}

    def add(self, name: str, trace: Any) -> str:
        """Put a trace on the page; the name under which it stands there."""
        name = self._free(name)
        self._shown[name] = of_trace(name, trace)
        return name

    def add_matrices(self, name: str, matrices: Sequence[Any]) -> None:
        """Put the layers of a model on the page: explanations of the kind `Matrix`."""
        self._shown[name] = Shown(name, [_InMemory(_of_matrix(matrix)) for matrix in matrices])

    def add_file(self, path: Path) -> str:
        """Put a saved trace on the page."""
        name = self._free(path.stem)
        self._files[name] = path
        return name

    def lines(self) -> list[dict[str, Any]]:
        """The names of all traces, with the sizes of those that were read."""
        return [
            {"name": name, "layers": len(self._shown[name].layers) if name in self._shown else None}
            for name in [*self._files, *(name for name in self._shown if name not in self._files)]
        ]

    def get(self, name: object) -> Shown:
        """The trace of this name."""
        known = [line["name"] for line in self.lines()]
        if not isinstance(name, str) or name not in known:
            cure = did_you_mean(name, known) if isinstance(name, str) else None
            cure = cure or "start the studio with the file of a trace, or call regard.studio.show(seen)"
            raise RegardError("the studio has no such trace", got=shown(name), cure=cure)
        if name not in self._shown:
            self._shown[name] = read(name, self._files[name])
        return self._shown[name]

    def _free(self, stem: str) -> str:
        name, number = stem, 1
        while name in self._shown or name in self._files:
            number += 1
            name = f"{stem} ({number})"
        return name


def read(name: str, path: Path) -> Shown:
    """The trace in a file that `Trace.save` wrote, or the calls in one that `Calls.save` wrote."""
    from regard.attention import Trace

    if path.suffix == ".safetensors":
        from regard.studio.calls import read_calls

        return read_calls(name, path)
    try:
        return of_trace(name, Trace.from_json(path.read_text(encoding="utf-8")))
    except UnicodeDecodeError:
        cure = "save it by seen.save(path)"
        raise RegardError("this is no trace", got="bytes that are no text", cure=cure) from None


def of_trace(name: str, trace: Any) -> Shown:
    """A trace in memory, or one record of it."""
    from regard.attention.record import Record
    from regard.attention.trace_views import seen_layer

    if hasattr(trace, "shown"):  # recorded calls
        made: Shown = trace.shown(name)
        return made

    records = [trace] if isinstance(trace, Record) else list(trace.values())
    layers: list[Layer] = [_InMemory(seen_layer(record)) for record in records if record.calls]
    layers = [layer for layer in layers if layer.heads and layer.rows and layer.num_columns]
    left = len(records) - len(layers)
    if not layers:
        raise RegardError(
            "the trace has no weights to show", got=f"{len(records)} layers", cure="trace a model that attends"
        )
    notes = [f"{left} layers are left out, since they have places, or nothing, and no weights."] if left else []
    return Shown(name, layers, notes)


def _of_matrix(matrix: Any) -> Any:
    """A matrix as a layer that was seen: with heads, rows and labels."""
    weights = np.asarray(matrix.weights)
    weights = weights if weights.ndim == 3 else weights[None]
    return SimpleNamespace(
        name=matrix.layer,
        heads=range(len(weights)),
        rows=range(weights.shape[1]),
        weights=weights,
        row_labels=list(matrix.rows),
        column_labels=list(matrix.columns),
    )


class _InMemory:
    """A layer whose weights are all there."""

    def __init__(self, seen: Any) -> None:
        self.name: str = seen.name
        self.heads: Sequence[int] = list(seen.heads)
        self.rows: Sequence[int] = list(seen.rows)
        self.weights: NDArray[Any] = seen.weights
        self.num_columns: int = seen.weights.shape[2]
        self.row_labels: Sequence[str] | None = seen.row_labels
        self.column_labels: Sequence[str] | None = seen.column_labels

    def cleanness(self) -> list[float] | None:
        """The mean of the largest weight of each row, for each head."""
        return [round(float(clean), 6) for clean in np.nan_to_num(self.weights).max(-1).mean(-1)]

    def block(self, head: int | None, rows: slice, columns: slice) -> NDArray[Any]:
        """The weights of one head, or the mean of all."""
        part: NDArray[Any] = self.weights[:, rows, columns]
        chosen: NDArray[Any] = part.mean(0) if head is None else part[head]
        return chosen

    def thumbnails(self) -> NDArray[Any]:
        """The mean of each cell; of many rows some are looked at."""
        weights = self.weights
        if weights.shape[1] > _SAMPLED:
            weights = weights[:, np.linspace(0, weights.shape[1] - 1, _SAMPLED).round().astype(int)]
        return np.stack([shrunk(head, SIDE, SIDE) for head in weights])


def shrunk(matrix: NDArray[Any], down: int, across: int) -> NDArray[Any]:
    """The mean of each block of cells, so that the matrix has at most so many rows and columns.

    >>> shrunk(np.array([[1.0, 0.0, 0.5, 0.5]]), 9, 2)
    array([[0.5, 0.5]])
    """
    for axis, most in ((1, across), (0, down)):
        size = matrix.shape[axis]
        if size > most:
            starts = np.arange(most) * size // most
            counts = np.diff([*starts, size])
            matrix = np.add.reduceat(matrix, starts, axis=axis) / (counts if axis else counts[:, None])
    return matrix


def _range(asked: object, size: int, what: str) -> tuple[int, int]:
    if asked is None:
        return 0, size
    if not isinstance(asked, list) or len(asked) != 2 or not all(type(each) is int for each in asked):
        raise ConfigError(f"the {what} of a request", got=shown(asked), expected="[first, end]")
    first, end = asked
    if not 0 <= first < end <= size:
        raise ConfigError(f"the {what} of a request", got=shown(asked), expected=f"a part of 0 to {size}")
    return first, end


def _whole(value: object, default: int) -> int:
    return value if type(value) is int and value > 0 else default


def _mark(label: str) -> str:
    from regard.viz.seen_layer import word

    return word(label)[:_LABEL]
