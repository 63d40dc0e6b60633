"""What a trace has seen as one HTML page that needs nothing else: layers × heads, one matrix, and a shaded text.

The page has a thumbnail of every head, and rows of weights in 8 bits, packed and unpacked one head at a time. Rows that
would make the file larger than a limit are left out, the last ones stay, and the page says so.
"""

import base64
import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import resources
from string import Template
from typing import Any

import numpy as np
from numpy import ndarray

from regard.base import ConfigError
from regard.explanation.svg import text as as_html
from regard.explanation.widget import read
from regard.viz.seen_layer import SeenLayer, pooled, short_names, to_bytes

MEGABYTE = 1_000_000
THUMBNAIL = 64  # rows and columns of a thumbnail, at most
_SHADES = 16  # of a word; trace_page.js has the same number
_FIRST_STRONG, _FIRST_STRONG_IN_THE_DARK = 13, 10  # shades on which letters of the other colour have more contrast
_SAMPLED = 24  # rows of a head that are packed to estimate how well all of them will


@dataclass(frozen=True)
class TracePage:
    """A page as text, and what had to be left out of it, in sentences."""

    text: str
    notes: tuple[str, ...]
    rows_kept: int  # of the layer with the most rows
    rows_seen: int


def trace_page(
    layers: Sequence[SeenLayer], *, title: str, limit: int | float = 64, notes: Sequence[str] = ()
) -> TracePage:
    """Make the page of some layers, no larger than `limit` megabytes unless the thumbnails alone are.

    `notes` are sentences that stand at its head, before those on what was left out.

    >>> page = trace_page([SeenLayer("inner", np.eye(3)[None], [0], range(3))], title="One head")
    >>> page.text.startswith("<!doctype html>"), page.notes, "<script src" in page.text
    (True, (), False)
    """
    if not layers:
        raise ConfigError("a page of a trace needs layers", got="none")
    if not 0 < limit < 4096:
        raise ConfigError("the limit of a page, in megabytes", got=limit, expected="a number above 0, below 4096")
    finite, said_of_layers = _finite(layers)
    sentences = [*notes, *said_of_layers]
    thumbnails = [_script(f"t{place}", _packed(_thumbnail(layer))) for place, layer in enumerate(finite)]
    most = max(len(layer.rows) for layer in finite)
    facts = _facts(finite, most)
    room = int(limit * MEGABYTE) - sum(map(len, thumbnails)) - len(facts) - 60_000  # for style, script and markup
    kept, rows = _fitting(finite, most, room)
    if kept < most:
        there = f"the last {kept:,} rows of each head are" if kept > 1 else "one row of each head is"
        said = f"only {there} here in full" if kept else "no row is here in full"
        all_rows = f"All {most:,} rows would make a file larger than {limit:g} MB"
        sentences.append(f"{all_rows}: {said}. Thumbnails show all of them.")
        facts = _facts(finite, kept)
    page = Template(_file("trace_page.html")).substitute(
        title=as_html(title),
        summary=as_html(_summary(finite)),
        notes="\n".join(f'<p class="note">{as_html(note)}</p>' for note in sentences),
        style=read("widget.css") + Template(_file("trace_page.css")).substitute(shades=_shades()),
        script=_file("trace_matrix.js") + _file("trace_page.js"),
        facts=facts,
        thumbnails="\n".join(thumbnails),
        rows="\n".join(rows),
    )
    return TracePage(page, tuple(sentences), kept, most)


def size_of(layers: Sequence[SeenLayer]) -> int:
    """How many weights there are in all."""
    return sum(layer.weights.size for layer in layers)


def _file(name: str) -> str:
    return resources.files("regard.viz").joinpath(name).read_text(encoding="utf-8")


def _finite(layers: Sequence[SeenLayer]) -> tuple[list[SeenLayer], list[str]]:
    """Layers without NaN and infinities, which become 0; and a sentence for each layer that had some."""
    finite, notes = [], []
    for layer in layers:
        wrong = layer.weights.size - int(np.isfinite(layer.weights).sum())
        if wrong:
            notes.append(f"{layer.name}: {wrong:,} weights are NaN or infinite; they are shown as 0.")
            layer = replace(layer, weights=np.nan_to_num(layer.weights, nan=0.0, posinf=0.0, neginf=0.0))
        finite.append(layer)
    return finite, notes


def _thumbnail(layer: SeenLayer) -> ndarray:
    """Pooled weights, one line for each head."""
    small = pooled(layer.weights, THUMBNAIL)
    return small.reshape(len(small), small.shape[1] * small.shape[2])


def _packed(values: ndarray) -> str:
    """Lines of numbers in base64: what 0 and 255 stand for in each line, then the bytes; all packed by zlib."""
    steps, low, high = to_bytes(values)
    ends = np.stack([low, high]).astype("<f4")
    return base64.b64encode(zlib.compress(ends.tobytes() + steps.tobytes(), 6)).decode()


def _script(name: str, packed: str) -> str:
    return f'<script type="text/plain" id="{name}">{packed}</script>'


def _fitting(layers: Sequence[SeenLayer], most: int, room: int) -> tuple[int, list[str]]:
    """The last rows of each head, as many as fit into so many characters, and how many these are."""
    kept = most if _characters(layers, most, 1.0) <= room else _estimate(layers, most, room)
    while kept > 0:
        scripts, used = [], 0
        for place, layer in enumerate(layers):
            for head, weights in enumerate(layer.weights):
                scripts.append(_script(f"r{place}-{head}", _packed(weights[-kept:])))
                used += len(scripts[-1]) + 1
            if used > room:
                break
        if used <= room:
            return kept, scripts
        share = _characters(layers[: place + 1], kept, 1.0) / max(_characters(layers, kept, 1.0), 1)
        kept = min(kept - 1, int(kept * share * room / used * 0.97))
    return 0, []


def _characters(layers: Sequence[SeenLayer], kept: int, ratio: float) -> float:
    """How many characters so many rows of each head take, packed by `ratio`."""
    characters = 0.0
    for layer in layers:
        heads, rows, columns = layer.weights.shape
        characters += heads * (4 / 3 * ratio * min(kept, rows) * (columns + 8) + 60)
    return characters


def _estimate(layers: Sequence[SeenLayer], most: int, room: int) -> int:
    """How many rows probably fit, from how well some rows of some heads can be packed."""
    packed, plain = 0, 0
    for layer in layers[:: max(1, len(layers) // 8)]:
        for weights in layer.weights[:: max(1, len(layer.weights) // 4)]:
            sample = weights[:: max(1, len(weights) // _SAMPLED)]
            packed += len(_packed(sample))
            plain += 4 * (sample.size + 8 * len(sample)) // 3
    ratio = packed / max(plain, 1)
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if _characters(layers, middle, ratio) <= room else (low, middle - 1)
    return low


def _facts(layers: Sequence[SeenLayer], kept: int) -> str:
    """All but the weights as JSON in which nothing can end the element that it stands in."""
    texts: dict[tuple[str, ...], int] = {}

    def number(words: list[str], labels: Sequence[str] | None) -> int | None:
        return None if labels is None else texts.setdefault(tuple(words), len(texts))

    described: list[dict[str, Any]] = []
    for layer, short in zip(layers, short_names([layer.name for layer in layers]), strict=True):
        rows, columns = layer.weights.shape[1:]
        described.append(
            {
                "name": layer.name,
                "short": short,
                "heads": [int(head) for head in layer.heads],
                "hasHeads": layer.has_heads,
                "rows": [int(row) for row in layer.rows],
                "columns": columns,
                "kept": min(kept, rows) if columns else 0,
                "thumb": [min(rows, THUMBNAIL), min(columns, THUMBNAIL)],
                "rowText": number(layer.row_words, layer.row_labels),
                "columnText": number(layer.column_words, layer.column_labels),
                "columnOfRow": layer.column_of_row,
            }
        )
    content = json.dumps({"layers": described, "texts": list(map(list, texts))}, separators=(",", ":"))
    return content.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _summary(layers: Sequence[SeenLayer]) -> str:
    def span(counts: Sequence[int], one: str, many: str) -> str:
        low, high = min(counts), max(counts)
        return f"{high:,} {one if high == 1 else many}" if low == high else f"{low:,} to {high:,} {many}"

    heads = span([len(layer.heads) for layer in layers], "head", "heads")
    rows = span([len(layer.rows) for layer in layers], "row", "rows")
    columns = span([layer.weights.shape[-1] for layer in layers], "column", "columns")
    return f"{len(layers):,} {'layer' if len(layers) == 1 else 'layers'} of {heads}; {rows} looking at {columns}."


def _shades() -> str:
    """Classes for words: the ground of each shade, and the colour of letters that has more contrast with it."""
    grounds = [
        f".words .s{shade} {{ background: rgba(var(--heat), {0.95 * shade / _SHADES:.3f}); }}"
        for shade in range(1, _SHADES + 1)
    ]
    strong = "{ color: var(--strong); }"
    light, dark = (
        ", ".join(f".words .s{shade}" for shade in range(first, _SHADES + 1))
        for first in (_FIRST_STRONG, _FIRST_STRONG_IN_THE_DARK)
    )
    return "\n".join([*grounds, f"{light} {strong}", f"@media (prefers-color-scheme: dark) {{ {dark} {strong} }}"])
