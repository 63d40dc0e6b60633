"""The LSTMN as a classifier in ONNX: a loop over words cannot be a graph of any length, so one word is.

first, second   a word of each row, whether it is real, and the tapes so far → the next tapes, and where it looked
tapes           pairs with fusion: all that the first text left → keys and values for the second text
classifier      the sums of all hidden states and the numbers of words → logits

Every state starts at zero but for those that `tapes` makes. Tapes have a fixed number of cells, the newest last.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from regard.data import UNK
from regard.export.graphs import Axes, Recorded, StateLayout, measured_axes, record
from regard.models import LSTMN, LSTMNReader
from regard.models.lstmn import Cells, Gazes, SourceTapes


class ReaderState(NamedTuple):
    """What goes from word to word of one text."""

    cells: tuple[Cells, ...]  # the tapes of each layer
    total: Tensor  # [b d]: the sum of h of the top layer so far
    gazes: tuple[Gazes, ...] = ()  # with fusion: what the attention to the other text goes on from
    source: tuple[SourceTapes, ...] = ()  # with fusion: the tapes of the other text


def write_reader(module: LSTMNReader, folder: Path) -> dict[str, Recorded]:
    """Write the graphs of a reader, and give what goes in and out of each by the name of its file."""
    graphs = {"first": _write_text(module, module.first, folder / "first.onnx")}
    if module.config.texts == 2:
        if _fused(module.second):
            graphs["tapes"] = _write_tapes(module, folder / "tapes.onnx")
        graphs["second"] = _write_text(module, module.second, folder / "second.onnx")
    graphs["classifier"] = _write_classifier(module, folder / "classifier.onnx")
    return graphs


def _write_text(module: LSTMNReader, layers: nn.ModuleList, path: Path) -> Recorded:
    """The graph that reads one word of each row."""
    layout = StateLayout.of(_example(module, layers, 2, 5))
    axes = measured_axes(lambda batch, source, written: layout.tensors(_example(module, layers, batch, source)))
    names = [place.name for place in layout.places]
    words, active = torch.tensor([UNK, UNK + 1, UNK]), torch.tensor([1, 0, 1])
    before = layout.tensors(_example(module, layers, 3, 5))
    with torch.no_grad():
        after = layout.tensors(_read_word(module, layers, words, active, layout.state(before))[0])
    carried = [number for number, (old, new) in enumerate(zip(before, after, strict=True)) if old is not new]

    def read(words: Tensor, active: Tensor, *tensors: Tensor) -> Sequence[Tensor]:
        state, seen = _read_word(module, layers, words, active, layout.state(tensors))
        following = layout.tensors(state)
        return [*seen.values(), *(following[number] for number in carried)]

    with torch.no_grad():
        seen = _read_word(module, layers, words, active, layout.state(before))[1]
    width, tape = module.config.hidden_dim, module.config.tape
    kinds: dict[str, Axes] = {
        "hidden": ("batch", width), "memory": ("batch", width), "weights": ("batch", tape), "inter": ("batch", "source")
    }  # fmt: skip
    outputs = [*seen, *(f"next.{names[number]}" for number in carried)]
    output_axes = [*(kinds[name.partition(".")[0]] for name in seen), *(axes[number] for number in carried)]
    inputs = {"words": words, "active": active, **dict(zip(names, before, strict=True))}
    return record(module, read, inputs, [("batch",), ("batch",), *axes], outputs, output_axes, path)


def _read_word(
    module: LSTMNReader, layers: nn.ModuleList, words: Tensor, active: Tensor, state: ReaderState
) -> tuple[ReaderState, dict[str, Tensor]]:
    """One word of each row: the next state, and h, c and the weights of each layer by name."""
    x = entry = module.words(words.unsqueeze(1))
    cells, gazes, seen = [], [], dict[str, Tensor]()
    for number, layer in enumerate(layers):
        assert isinstance(layer, LSTMN)
        before = state.cells[number]
        query = torch.cat([entry.squeeze(1), before.summary], -1).unsqueeze(1)
        look = layer.attention(query, before.hidden, before.hidden, mask=before.written.unsqueeze(1), need_weights=True)
        assert look.weights is not None
        seen[f"weights.{number}"] = look.weights.squeeze(1)
        tapes: Any
        if layer.fusion == "none":
            tapes = layer(entry, before, lengths=active)
        else:
            source = state.source[number]
            tapes = layer.fused(entry, source, before, gazes=state.gazes[number], lengths=active, need_weights=True)
            gazes.append(tapes.gazes)
            seen[f"inter.{number}"] = tapes.weights.squeeze(1)
        seen |= {f"hidden.{number}": tapes.hidden.squeeze(1), f"memory.{number}": tapes.memory.squeeze(1)}
        cells.append(tapes.cells)
        entry = torch.cat([x, tapes.hidden], -1)
    return state._replace(cells=tuple(cells), total=state.total + tapes.hidden.squeeze(1), gazes=tuple(gazes)), seen


def _write_tapes(module: LSTMNReader, path: Path) -> Recorded:
    """The graph that prepares the tapes of the first text for the second one."""
    layers, width = len(module.second), module.config.hidden_dim
    names = [f"{tape}.{number}" for number in range(layers) for tape in ("hidden", "memory")]

    def prepare(lengths: Tensor, *tapes: Tensor) -> Sequence[Tensor]:
        prepared = []
        for number, layer in enumerate(module.second):
            assert isinstance(layer, LSTMN)
            source = layer.source_tapes(tapes[2 * number], tapes[2 * number + 1], lengths)
            prepared += [*source, layer.initial_gazes(source).inter]
        return prepared

    generator = torch.Generator().manual_seed(0)
    tapes = [torch.rand(3, 5, width, generator=generator) for _ in names]
    inputs = {"lengths": torch.tensor([5, 4, 3]), **dict(zip(names, tapes, strict=True))}
    outputs: list[str] = []
    for number in range(layers):
        outputs += [f"source.{number}.{kind}" for kind in SourceTapes._fields] + [f"gazes.{number}.inter"]

    def example(batch: int, source: int, written: int) -> Sequence[Tensor]:
        return prepare(torch.full((batch,), source), *[torch.zeros(batch, source, width)] * len(names))

    axes = measured_axes(example)
    input_axes: list[Axes] = [("batch",), *[("batch", "source", width)] * len(tapes)]
    return record(module, prepare, inputs, input_axes, outputs, axes, path)


def _write_classifier(module: LSTMNReader, path: Path) -> Recorded:
    """The graph that makes classes of the mean hidden state of each text."""
    sides, width = module.config.texts, module.config.hidden_dim

    def classify(lengths: Tensor, *totals: Tensor) -> Sequence[Tensor]:
        means = [total / lengths[:, side].clamp(min=1).unsqueeze(1) for side, total in enumerate(totals)]
        return [module.classifier(torch.cat(means, -1))]

    inputs = {"lengths": torch.full((3, sides), 5), **{f"total.{side}": torch.zeros(3, width) for side in range(sides)}}
    axes: list[Axes] = [("batch", sides), *[("batch", width)] * sides]
    return record(module, classify, inputs, axes, ["logits"], [("batch", module.config.classes)], path)


def _example(module: LSTMNReader, layers: nn.ModuleList, batch: int, source: int) -> ReaderState:
    """A state before the first word, beside another text of `source` words where there is fusion."""
    width = module.config.hidden_dim
    cells, sources, gazes = [], [], []
    for layer in layers:
        assert isinstance(layer, LSTMN)
        cells.append(layer.initial_cells(batch))
        if layer.fusion != "none":
            generator = torch.Generator().manual_seed(0)
            hidden, memory = (torch.rand(batch, source, width, generator=generator) for _ in range(2))
            sources.append(layer.source_tapes(hidden, memory, torch.full((batch,), source)))
            start = layer.initial_gazes(sources[-1])
            gazes.append(start._replace(time=torch.zeros(batch, dtype=torch.long)))
    return ReaderState(tuple(cells), torch.zeros(batch, width), tuple(gazes), tuple(sources))


def _fused(layers: nn.ModuleList) -> bool:
    return any(isinstance(layer, LSTMN) and layer.fusion != "none" for layer in layers)
