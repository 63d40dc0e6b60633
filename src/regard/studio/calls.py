"""Queries and keys of a model in place of its weights: of long texts the weights would fill the memory many times over.

The weights of 4,096 tokens in 32 layers of 32 heads are 17 thousand million numbers. What they are made of is a few
hundred megabytes: it is kept, and the rows that somebody looks at are computed from it when they are asked for.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.attention.foreign import FusedCalls, _reason_against, without_fast_path
from regard.attention.fused_call import FusedCall
from regard.attention.layer_stack import LayerStack, modules_of
from regard.base import ConfigError, RegardError, parse_json, replacing, require
from regard.studio.traces import SIDE, Shown, shrunk

FORMAT = "regard.calls"
_ROWS = 24  # rows of each head that a thumbnail is made of
_AT_ONCE = 64  # rows whose weights are in memory at the same time
_MOST_ROWS = 1024  # rows of all heads together that are computed for one block; of more, rows at even distances


class Calls:
    """What the attention layers of a model were asked: queries and keys by layer, of the first text of a batch."""

    def __init__(self, labels: Sequence[str] | None = None) -> None:
        self.labels = None if labels is None else [str(label) for label in labels]
        self.layers: list[CalledLayer] = []
        self.left_out: list[str] = []

    def add(self, name: str, call: FusedCall) -> None:
        """Keep one call under the name of its layer; a second call of a layer gets a number."""
        reason = _reason_against(call.query) or ("its masks differ from row to row" if call.masks else None)
        if reason is not None:
            self.left_out.append(f"{name}: {reason}")
            return
        known = {layer.name for layer in self.layers}
        number, free = 1, name
        while free in known:
            number += 1
            free = f"{name} ({number})"
        query, keys = (tensor.detach().cpu() for tensor in (call.query, call.keys))
        query, keys = (each if call.has_heads else each.unsqueeze(-3) for each in (query, keys))
        query, keys = (each.reshape(-1, *each.shape[-3:])[0].contiguous() for each in (query, keys))
        self.layers.append(CalledLayer(free, query, keys, call.offset, float(call.scale), self.labels))

    def save(self, path: str | PathLike[str]) -> Path:
        """Write a safetensors file: the page reads of it what is looked at, and no more."""
        safetensors = require("safetensors.torch", extra="studio")
        path = Path(path)
        if path.suffix != ".safetensors":
            raise ConfigError("the file of recorded calls", got=path.name, expected="a name that ends in .safetensors")
        tensors, entries = {}, []
        for number, layer in enumerate(self.layers):
            tensors[f"{number}.query"], tensors[f"{number}.keys"] = layer.query, layer.keys
            tensors[f"{number}.thumbnails"] = torch.from_numpy(layer.thumbnails().astype(np.float16))
            entries.append({"name": layer.name, "offset": layer.offset, "scale": layer.scale})
        header = {"format": FORMAT, "version": 1, "labels": self.labels, "layers": entries, "left_out": self.left_out}
        with replacing(path) as unfinished:
            safetensors.save_file(tensors, unfinished, metadata={"regard": json.dumps(header)})
        return path

    def shown(self, name: str) -> Shown:
        """Gives the calls in the form in which the page shows them."""
        return _shown(name, self.layers, self.left_out)


class CalledLayer:
    """One layer as its queries [h q d] and keys [g k d]; tensors, or parts of a file that are read when needed."""

    def __init__(
        self, name: str, query: Any, keys: Any, offset: int | None, scale: float,
        labels: Sequence[str] | None, thumbnails: Any = None,
    ) -> None:  # fmt: skip
        self.name, self.query, self.keys, self.offset, self.scale = name, query, keys, offset, scale
        (num_heads, num_rows, _), (_, num_columns, _) = _shape(query), _shape(keys)
        self.heads: Sequence[int] = range(num_heads)
        self.rows: Sequence[int] = range(num_rows)
        self.num_columns: int = num_columns
        self.row_labels = labels if labels is not None and len(labels) == num_rows else None
        self.column_labels = labels if labels is not None and len(labels) == num_columns else None
        self._thumbnails = thumbnails

    def block(self, head: int | None, rows: slice, columns: slice) -> NDArray[Any]:
        """The weights of one head, or the mean of all, computed now; of a large block, rows at even distances."""
        numbers = list(range(*rows.indices(len(self.rows))))
        every = list(self.heads) if head is None else [head]
        most = max(16, _MOST_ROWS // len(every))
        if len(numbers) > most:
            numbers = [numbers[place * len(numbers) // most] for place in range(most)]
        total = np.zeros((len(numbers), len(range(*columns.indices(self.num_columns)))), np.float32)
        for each in every:
            total += self._weights(each, numbers)[:, columns]
        return total / len(every)

    def thumbnails(self) -> NDArray[Any]:
        """Small pictures of all heads, from rows at even distances."""
        if self._thumbnails is not None:
            return np.asarray(self._thumbnails[:].float())
        count = min(_ROWS, len(self.rows))
        some = np.linspace(0, len(self.rows) - 1, count).round().astype(int).tolist()
        return np.stack([shrunk(self._weights(head, some), SIDE, SIDE) for head in self.heads])

    def cleanness(self) -> None:
        """Nothing: all rows would have to be computed."""

    def _weights(self, head: int, rows: list[int]) -> NDArray[Any]:
        """The rows of one head, [r k]."""
        group = len(self.heads) // _shape(self.keys)[0]
        keys = self.keys[head // group].float()
        first, last = rows[0], rows[-1] + 1
        queries = self.query[head : head + 1, first:last][0].float()
        parts = []
        for start in range(0, len(rows), _AT_ONCE):
            chosen = torch.tensor(rows[start : start + _AT_ONCE])
            scores = (queries[chosen - first] @ keys.T) * self.scale
            if self.offset is not None:
                seen = torch.arange(scores.shape[1]) <= chosen[:, None] + self.offset
                scores = scores.masked_fill(~seen, -torch.inf)
            parts.append(scores.softmax(-1).nan_to_num(0.0))
        return torch.cat(parts).numpy()


@contextmanager
def recording(model: nn.Module, *, labels: Sequence[str] | None = None) -> Iterator[Calls]:
    """What `regard.studio.record` does."""
    calls = Calls(labels)
    stack = LayerStack(modules_of(model), lambda running, output: None)

    def keep(function: Any, make: Any, args: Any, kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        with torch.no_grad():
            calls.add(stack.next_call(function.__name__), make(*args, **kwargs))
        return result

    with stack, without_fast_path(), FusedCalls(keep, own=True) as stack.mode:
        yield calls
    if not calls.layers and not calls.left_out:
        cure = "use regard.trace, or set attn_implementation='sdpa' in transformers"
        raise RegardError("no call of fused attention was seen", got="other functions, or no call", cure=cure)


def read_calls(name: str, path: Path) -> Shown:
    """The calls in a file that `Calls.save` wrote; only its header is read now."""
    safetensors = require("safetensors", extra="studio")
    damaged = RegardError(f"{path.name} holds no calls", got="another file", expected="what calls.save(path) writes")
    try:
        file = safetensors.safe_open(path, framework="pt")
        header = parse_json((file.metadata() or {}).get("regard", "null"))
    except (RegardError, safetensors.SafetensorError) as error:
        raise damaged from error
    if not isinstance(header, dict) or header.get("format") != FORMAT or header.get("version") != 1:
        raise damaged
    try:
        layers = [
            CalledLayer(
                entry["name"], file.get_slice(f"{number}.query"), file.get_slice(f"{number}.keys"),
                entry["offset"], entry["scale"], header["labels"], file.get_slice(f"{number}.thumbnails"),
            )
            for number, entry in enumerate(header["layers"])
        ]  # fmt: skip
    except (KeyError, TypeError, ValueError, safetensors.SafetensorError) as error:
        raise damaged from error
    return _shown(name, layers, header.get("left_out", []))


def _shown(name: str, layers: Sequence[CalledLayer], left_out: Sequence[str]) -> Shown:
    notes = [f"Left out: {'; '.join(left_out[:6])}."] if left_out else []
    return Shown(name, layers, ["Rows are computed from queries and keys when they are looked at.", *notes])


def _shape(part: Tensor | Any) -> list[int]:
    return list(part.get_shape() if hasattr(part, "get_shape") else part.shape)
