"""How a trace is looked at: as a heat map, a grid of heads, a shaded text, and a page that answers to the pointer."""

import fnmatch
import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from regard.attention.layer_stack import listed
from regard.attention.record import Labels, Record
from regard.base import ConfigError, RegardError, ShapeError, did_you_mean, shown, write_atomically

if TYPE_CHECKING:
    import matplotlib.axes

    from regard.explanation import Shading
    from regard.viz.seen_layer import SeenLayer

_NOTEBOOK = 1_000_000  # weights that a notebook shows as a page; of more it shows a table
_MOST_DENSE = 200_000_000  # weights of an edge list that are made a matrix
_MOST_LINES = 60  # layers of a table


@dataclass(frozen=True)
class PageFile:
    """The file of a page: where it is, how many bytes it has, and what was left out of it, in sentences."""

    path: Path
    size: int
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        size = f"{self.size / 1e6:.1f} MB" if self.size >= 1e6 else f"{self.size / 1e3:.0f} kB"
        return " ".join([f"{self.path}: {size}.", *self.notes])


class TraceViews(Mapping[str, Record]):
    """What can be drawn of the records of a trace. `item` is the number of a text in the batch."""

    def heatmap(
        self, layer: str | int, head: int | None = None, *, item: int = 0, dark: bool = False
    ) -> "matplotlib.axes.Axes":
        """Draw the weights of one head as a matrix with labels; without `head`, the mean of all heads that were kept.

        >>> import torch, regard
        >>> with regard.trace(columns=["a", "b"]) as seen:
        ...     _ = regard.attend(torch.ones(1, 3, 2), torch.ones(1, 2, 2), torch.ones(1, 2, 2))
        >>> [label.get_text() for label in seen.heatmap("attend").get_xticklabels()]
        ['a', 'b']
        """
        from regard.viz import heatmap

        seen = self._layer(layer, item)
        matrix, name = _of_head(seen, head)
        rows = None if seen.row_labels is None and list(seen.rows) == list(range(len(seen.rows))) else seen.row_words
        columns = None if seen.column_labels is None else seen.column_words
        return heatmap(matrix, rows, columns, title=name, colorbar=max(matrix.shape) > 12, dark=dark)

    def head_grid(self, layers: str = "*", *, item: int = 0, dark: bool = False) -> "matplotlib.axes.Axes":
        """Draw all heads of the layers that match as small matrices: a line for each layer, a column for each head."""
        from regard.viz import head_grid

        return head_grid(self._layers_of(layers, item), dark=dark)

    def text(self, layer: str | int, head: int | None = None, *, row: int | None = None, item: int = 0) -> "Shading":
        """Shade the words of a text by the weights of one row; without `row`, by the mean of the rows that were kept.

        `row` is the number of a query, and counts from the end if it is negative. Rows that saw nothing are not part of
        the mean. The result shows itself in a notebook, and `regard.viz.draw` makes a picture of it.
        """
        from regard.explanation import Shading

        seen = self._layer(layer, item)
        matrix, name = _of_head(seen, head)
        if row is None:
            chosen = matrix[matrix.any(-1)]
            weights = chosen.mean(0) if len(chosen) else np.zeros(matrix.shape[-1])
            name = f"{name} · mean of {len(chosen)} rows"
        else:
            place = _place_of(row, seen.rows, f"row of {seen.name}")
            weights = matrix[place]
            word = "" if seen.row_labels is None else f" {seen.row_words[place]}"
            name = f"{name} · row {seen.rows[place]}{word}"
        return Shading(weights[None], seen.column_words, title=name)

    def page(
        self,
        path: str | PathLike[str],
        *,
        layers: str = "*",
        item: int = 0,
        limit: int | float = 64,
        title: str | None = None,
    ) -> PageFile:
        """Write one HTML page that needs nothing else: layers × heads, one matrix at a time, and a shaded text.

        The file has a thumbnail of each head, and its rows in steps of one 255th of the largest weight of a row. If it
        would be larger than `limit` megabytes, only the last rows are kept, and the page and the result say so.
        """
        from regard.viz.trace_page import trace_page

        seen = self._layers_of(layers, item)
        headline = "What the model looked at" if title is None else title
        page = trace_page(seen, title=headline, limit=limit, notes=self._left_out(layers))
        content = page.text.encode("utf-8", "replace")
        return PageFile(write_atomically(path, content), len(content), page.notes)

    def _repr_html_(self) -> str:
        """What a notebook shows: the page if it is small, else a table of the layers."""
        return records_html(list(self.values()), "Trace")

    def _layer(self, layer: str | int, item: int) -> "SeenLayer":
        names = list(self)
        if not names:
            raise _nothing()
        if isinstance(layer, int) and not isinstance(layer, bool) and -len(names) <= layer < len(names):
            return seen_layer(self[names[layer]], item)
        if not isinstance(layer, str) or layer not in names:
            expected = f"one of {listed(names)}" + (f", or a number up to {len(names) - 1}" if names else "")
            cure = did_you_mean(layer, names) if isinstance(layer, str) else None
            raise ConfigError("the trace has no such layer", got=shown(layer), expected=expected, cure=cure)
        return seen_layer(self[layer], item)

    def _layers_of(self, pattern: str, item: int) -> list["SeenLayer"]:
        """The layers that match and have weights."""
        if not len(self):
            raise _nothing()
        matching = [name for name in self if fnmatch.fnmatchcase(name, pattern)]
        if not matching:
            near = did_you_mean(pattern, self)
            raise ConfigError(
                "no layer matches", got=shown(pattern), expected=f"a pattern for {listed(list(self))}", cure=near
            )
        with_weights = [name for name in matching if self[name].calls]
        if not with_weights:
            return [seen_layer(self[matching[0]], item)]  # which says why it cannot
        return [seen_layer(self[name], item) for name in with_weights]

    def _left_out(self, pattern: str) -> list[str]:
        """Sentences on layers that match and are not on the page."""
        names = [name for name in self if fnmatch.fnmatchcase(name, pattern) and not self[name].calls]
        return [f"Left out, since they have places and no weights: {listed(names)}."] if names else []


def seen_layer(record: Record, item: int = 0) -> "SeenLayer":
    """The weights of one text of the batch, [h q k], cut to its labels, with the numbers of their heads and rows."""
    from regard.viz.seen_layer import SeenLayer

    if not record.calls:
        raise ShapeError(
            f"{record.name} has no weights",
            got="places that it looked at",
            cure="read .places and .active, or draw them",
        )
    weights = _matrices(record)
    lead = weights.shape[: -3 if record.heads else -2]
    count = int(np.prod(lead))
    if isinstance(item, bool) or not isinstance(item, int | np.integer) or not -count <= item < count:
        there = f"a number from 0 to {count - 1}" if count else "nothing, since the batch is empty"
        raise ConfigError(f"{record.name} has no such item", got=shown(item), expected=there)
    place = int(item) % count
    one = weights.reshape(count, *weights.shape[len(lead) :])[place]
    one = one if record.heads else one[None]
    numbers = record.row_numbers
    rows, kept_rows = _labels(record.rows, place, count, numbers)
    columns, kept_columns = _labels(record.columns, place, count, list(range(one.shape[2])))
    if len(kept_rows) < one.shape[1]:  # a copy, which large weights are spared
        one = one[:, kept_rows]
    one = one[..., : len(kept_columns)]
    heads = record.head_numbers if record.head_numbers is not None and record.heads else list(range(len(one)))
    return SeenLayer(record.name, one, heads, [numbers[row] for row in kept_rows], rows, columns, record.heads)


def records_html(records: Sequence[Record], kind: str) -> str:
    """HTML of some records for a notebook: their page in a frame of its own if it is small, else a table."""
    from regard.viz.trace_page import size_of, trace_page

    with_weights = [record for record in records if record.calls]
    try:
        small = sum(call.size for record in with_weights for call in record.calls) <= 64 * _NOTEBOOK
        layers = [seen_layer(record) for record in with_weights] if small else []
        layers = [layer for layer in layers if layer.weights.size]
        if layers and size_of(layers) <= _NOTEBOOK:
            title = records[0].name if kind == "Record" else "What the model looked at"
            page = trace_page(layers, title=title, limit=3).text
            frame = 'sandbox="allow-scripts" style="width:100%;height:46rem;border:0;border-radius:.4rem"'
            return f'<iframe {frame} title="attention weights" srcdoc="{html.escape(page)}"></iframe>'
    except RegardError:
        pass  # calls of several shapes, which have no picture in common; the table shows all of them
    return _table(records, kind)


def _table(records: Sequence[Record], kind: str) -> str:
    """The names, shapes and rows of records."""
    lines = []
    for record in records[:_MOST_LINES]:
        calls = record.calls or [path.places for path in record.paths]
        shape = " × ".join(map(str, calls[0].shape)) if calls else "–"
        times = f"{len(calls)} calls, the first " if len(calls) > 1 else ""
        rows = "all" if record.queries is None else shown(record.queries)
        heads = ("all" if record.head_numbers is None else shown(record.head_numbers)) if record.heads else "–"
        cells = [record.name, f"{times}{shape}", " ".join(record.axes) if calls else "–", heads, rows]
        lines.append("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>")
    more = f"<p>and {len(records) - _MOST_LINES} more layers</p>" if len(records) > _MOST_LINES else ""
    title = f"{html.escape(kind)} of {len(records)} {'layer' if len(records) == 1 else 'layers'}"
    hint = "; <code>.page(&quot;seen.html&quot;)</code> writes a page of it" if kind == "Trace" and records else ""
    if not records:
        return f"<p>{html.escape(kind)} of nothing: no attention was recorded.</p>"
    head = "".join(f"<th>{name}</th>" for name in ("layer", "shape", "axes", "heads", "rows"))
    return (
        f"<p><b>{title}</b>{hint}</p><table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>{more}"
    )


def _nothing() -> ConfigError:
    return ConfigError("the trace has no records", got="nothing", cure="call the model inside of the block of trace")


def _of_head(seen: "SeenLayer", head: int | None) -> tuple[NDArray[Any], str]:
    """The matrix of one head, or the mean of all, and its name."""
    if not seen.weights.size:
        raise ShapeError(f"{seen.name} has nothing to draw", got=f"weights of shape {list(seen.weights.shape)}")
    if head is None:
        name = f"{seen.name} · mean of {len(seen.heads)} heads" if len(seen.heads) > 1 else seen.name
        return seen.weights.mean(0), name
    if not seen.has_heads:
        raise ConfigError(f"{seen.name} has no heads", got=f"head {shown(head)}", cure="leave head= out")
    place = _place_of(head, seen.heads, f"head of {seen.name}")
    return seen.weights[place], f"{seen.name} · head {seen.heads[place]}"


def _place_of(number: int, numbers: Sequence[int], what: str) -> int:
    """Where a number is among those that were kept; negative ones count from the end."""
    if isinstance(number, int | np.integer) and not isinstance(number, bool):
        if number < 0 and -number <= len(numbers):
            return len(numbers) + int(number)
        if number in numbers:
            return list(numbers).index(int(number))
    kept = list(numbers)
    run = len(kept) > 1 and kept == list(range(kept[0], kept[0] + len(kept)))
    there = f"{kept[0]} to {kept[-1]}" if run else shown(kept)
    raise ConfigError(f"this {what} was not kept", got=shown(number), expected=f"one of {there}")


def _matrices(record: Record) -> NDArray[Any]:
    """The weights [*b h q k] or [*b q k], also those of an edge list."""
    if record.edges is None:
        return record.weights
    if len(record.calls) > 1:
        return record.weights  # which raises the error for several edge lists
    queries, keys = record.edges[0].sizes
    size = int(np.prod(record.calls[0].shape[:-1])) * queries * keys
    if size > _MOST_DENSE:
        raise ShapeError(
            f"the edges of {record.name} are too many for a matrix",
            got=f"{queries} × {keys} pairs of nodes, {size:,} weights",
            expected=f"at most {_MOST_DENSE:,}",
            cure="draw a part of the graph as regard.explanation.EdgeWeights",
        )
    return record.dense()


def _labels(labels: Labels | None, item: int, items: int, numbers: list[int]) -> tuple[list[str] | None, list[int]]:
    """The labels of one text for rows of these numbers, and which of the rows have one; all, without labels."""
    everything = list(range(len(numbers)))
    if labels is None:
        return None, everything
    if len(labels) and not isinstance(labels[0], str):
        if len(labels) != items:
            raise ShapeError("labels for each text", got=f"{len(labels)} lists", expected=f"{items}, as the batch has")
        labels = labels[item]
    texts = [str(label) for label in labels]
    if len(texts) == len(numbers) and max(numbers, default=0) >= len(texts):
        return texts, everything  # of just the rows that were kept
    kept = [place for place in everything if numbers[place] < len(texts)]
    return [texts[numbers[place]] for place in kept], kept
