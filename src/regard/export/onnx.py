"""ONNX: a translator or captioner as two graphs, encoder and decoder step, a classifier of texts as one.

encoder   what is read → the state before the first word
decoder   the last word of each row and the state → logits, weights of attention, and the next state

The state is a list of named tensors. Those that a step leaves as they are, such as the keys of the source, are inputs
of the decoder only; for the others `next.NAME` goes back in as NAME. model.json says all of it, and run.py is a
greedy search that needs numpy and onnxruntime.
"""

import copy
import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from regard.align import Align
from regard.attention import Attention, Cache
from regard.base import RegardError
from regard.data import BOS, EOS, PAD, UNK, EnglishWords, SubwordCodec, WordCodec, tokenizing
from regard.export import run_onnx
from regard.export.graphs import Axes, Recorded, StateLayout, measured_axes, record
from regard.export.onnx_reader import write_reader
from regard.models import (
    ConvS2S,
    LSTMNReader,
    LSTMNTranslator,
    SelfAttentive,
    ShowAttendTell,
    Transformer,
    Translator,
)
from regard.score import Score

if TYPE_CHECKING:
    from regard.api import Model

PACKAGES = ("onnx", "onnxscript")
ABLE = (Translator, ShowAttendTell, SelfAttentive, LSTMNReader)
_EXPECTED = (
    "cho, sutskever, bahdanau, luong, gnmt, convs2s, transformer, show_attend_tell, self_attentive or lstmn_reader"
)


def check(model: "Model") -> None:
    """An error where this run cannot become ONNX."""
    module, what = model.module, f"{model.name} cannot be exported to onnx"
    if isinstance(module, LSTMNTranslator) or not isinstance(module, ABLE):
        raise RegardError(what, got=model.recipe.paper, expected=_EXPECTED, cure="export one of them")
    if isinstance(module, ShowAttendTell) and module.encoder is not None:
        cure = "train with task.finetune=false, so that features come in"
        raise RegardError(what, got="a captioner with its encoder inside", expected=_EXPECTED, cure=cure)
    if isinstance(module, Transformer | ConvS2S | LSTMNReader):  # their first step has no earlier weights to go on from
        for name, layer in module.named_modules():
            if isinstance(layer, Score | Align) and {*layer.needs} & {"previous", "step"}:
                got, expected = f"{name}, which looks at earlier weights", "attention without history"
                raise RegardError(what, got=got, expected=expected, cure="export a run of bahdanau, luong or gnmt")


def write(model: "Model", folder: Path) -> None:
    """Write graphs, units, model.json and run.py."""
    module = plain_copy(model.module)
    spec: dict[str, Any] = {
        "format": "regard onnx",
        "version": 1,
        "task": model.entry.name,
        "paper": model.recipe.paper,
    }
    if isinstance(module, SelfAttentive | LSTMNReader):
        spec |= _write_classifier(model, module, folder)
    elif isinstance(module, ShowAttendTell):
        spec |= _write_captioner(model, module, folder)
    else:
        spec |= _write_translator(model, module, folder)
    (folder / "model.json").write_text(json.dumps(spec, indent=1, ensure_ascii=False), encoding="utf-8")
    _write_runner(folder)


def plain_copy(module: nn.Module) -> Any:
    """A copy on the CPU in float32, in evaluation mode; weights are plain numbers, and attention plain operations."""
    plain = copy.deepcopy(module).cpu().float().eval().requires_grad_(False)
    for layer in list(plain.modules()):
        if isinstance(layer, Attention):
            layer.impl = "reference"
        for name, child in list(layer.named_children()):
            if isinstance(child, nn.Linear) and parametrize.is_parametrized(child):  # a copy shares its class with ours
                setattr(layer, name, _plain_linear(child))
    return plain


def _plain_linear(layer: nn.Linear) -> nn.Linear:
    """A linear layer whose weights are what a parametrised one computes."""
    plain = nn.Linear(layer.in_features, layer.out_features, bias=layer.bias is not None).requires_grad_(False)
    plain.weight.copy_(layer.weight)
    if layer.bias is not None:
        plain.bias.copy_(layer.bias)
    return plain.eval()


# ── what writes words ───────────────────────────────────────────────────────────────────────────────────────────────


def _write_translator(model: "Model", module: Any, folder: Path) -> dict[str, Any]:
    vocabulary = module.config.source_vocabulary

    def example(batch: int, source: int) -> dict[str, Tensor]:
        lengths = torch.tensor([source - number % 2 for number in range(batch)])
        return {"source": (torch.arange(batch * source) % (vocabulary - 1) + 1).view(batch, source), "lengths": lengths}

    def start(source: Tensor, lengths: Tensor) -> Any:
        state = module.init_state(module.encode(source, lengths))
        if isinstance(module, Transformer):
            nothing = _no_words(module, source)
            state = state._replace(caches=tuple(Cache(nothing, nothing) for _ in state.caches))
        return state

    axes: list[Axes] = [("batch", "source"), ("batch",)]
    graphs = write_steps(module, start, example, axes, module.config.target_vocabulary, folder)
    search, (source, target) = model.task.config.search, model.task.codecs
    lower = bool(model.task.config.lower)
    return {
        "graphs": graphs,
        "search": {
            "bos": BOS, "eos": EOS, "forbidden": [PAD, BOS], "min_steps": search.min_steps,
            "max_ratio": search.max_ratio, "max_more": 10,
        },
        "units": {
            "source": _write_units(source, lower, folder, "source"),
            "target": _write_units(target, lower, folder, "source" if target is source else "target"),
        },
    }  # fmt: skip


def _no_words(module: Transformer, source: Tensor) -> Tensor:
    """Keys of no words [b h 0 d], the cache before the first one."""
    heads = module.config.num_heads
    return torch.zeros(source.shape[0], heads, 0, module.config.dim // heads)


def _write_captioner(model: "Model", module: ShowAttendTell, folder: Path) -> dict[str, Any]:
    config = module.config

    def example(batch: int, source: int) -> dict[str, Tensor]:
        generator = torch.Generator().manual_seed(0)
        return {"features": torch.rand(batch, source, config.feature_dim, generator=generator)}

    def start(features: Tensor) -> Any:
        return module.init_state(module.encode(features))

    axes: list[Axes] = [("batch", "source", config.feature_dim)]
    graphs = write_steps(module, start, example, axes, config.vocabulary, folder)
    words = list(model.task.vocabulary.tokens[UNK + 1 :])
    (folder / "target_words.json").write_text(json.dumps(words, ensure_ascii=False), encoding="utf-8")
    return {
        "graphs": graphs,
        "search": {
            "bos": BOS, "eos": EOS, "forbidden": [PAD, BOS, UNK], "min_steps": model.task.config.search.min_steps,
            "max_steps": model.task.config.max_words,
        },
        "units": {"target": {"kind": "words", "file": "target_words.json", "lower": True, "plain": True}},
    }  # fmt: skip


def write_steps(
    module: Any,
    start: Callable[..., Any],
    example: Callable[[int, int], dict[str, Tensor]],
    input_axes: list[Axes],
    vocabulary: int,
    folder: Path,
) -> dict[str, Any]:
    """Write encoder.onnx and decoder.onnx of a model with `step`, and say what goes in and out of them.

    `start` makes the first state of what `example(batch, source)` gives.
    """
    with torch.no_grad():
        layout = StateLayout.of(start(*example(2, 5).values()))

        def state_after(batch: int, source: int, written: int) -> list[Tensor]:
            tensors = layout.tensors(start(*example(batch, source).values()))
            for _ in range(written):
                tensors = layout.tensors(module.step(torch.full((batch,), EOS), layout.state(tensors)).state)
            return tensors

        axes = measured_axes(state_after)
        before, tokens = state_after(3, 5, 4), torch.tensor([EOS, UNK, BOS])
        step = module.step(tokens, layout.state(before))
    after = layout.tensors(step.state)
    carried = [number for number, (old, new) in enumerate(zip(before, after, strict=True)) if old is not new]
    has_weights = step.weights is not None
    names = [place.name for place in layout.places]

    def encode(*inputs: Tensor) -> Sequence[Tensor]:
        return layout.tensors(start(*inputs))

    def decode(tokens: Tensor, *state: Tensor) -> Sequence[Tensor]:
        step = module.step(tokens, layout.state(state))
        tensors = layout.tensors(step.state)
        return [step.logits, *([step.weights] if has_weights else []), *(tensors[number] for number in carried)]

    first: list[Axes] = [tuple(0 if axis == "written" else axis for axis in each) for each in axes]
    encoder = record(module, encode, example(3, 5), input_axes, names, first, folder / "encoder.onnx")
    outputs = ["logits", *(["weights"] if has_weights else []), *(f"next.{names[number]}" for number in carried)]
    output_axes: list[Axes] = [
        ("batch", vocabulary),
        *([("batch", "source")] if has_weights else []),
        *(axes[number] for number in carried),
    ]
    inputs = {"tokens": tokens, **dict(zip(names, before, strict=True))}
    decoder = record(module, decode, inputs, [("batch",), *axes], outputs, output_axes, folder / "decoder.onnx")
    return {
        "encoder": _described(encoder, "encoder.onnx"),
        "decoder": _described(decoder, "decoder.onnx")
        | {"carried": {f"next.{names[number]}": names[number] for number in carried}},
    }


# ── what says a class ───────────────────────────────────────────────────────────────────────────────────────────────


def _write_classifier(model: "Model", module: SelfAttentive | LSTMNReader, folder: Path) -> dict[str, Any]:
    if isinstance(module, LSTMNReader):
        graphs = write_reader(module, folder)
    else:
        graphs = {"classifier": write_self_attentive(module, folder / "classifier.onnx")}
    task = model.task
    return {
        "graphs": {name: _described(graph, f"{name}.onnx") for name, graph in graphs.items()},
        "texts": module.config.texts,
        "classes": list(task.classes),
        "shorten": {"limit": task.config.max_units, "kept": task.config.kept},
        "units": {"source": _write_units(task.codec, bool(task.config.lower), folder, "source")},
    }


def write_self_attentive(module: SelfAttentive, path: Path) -> Recorded:
    """Write a classifier as one graph: ids and lengths in, logits and the weights of its hops out."""
    config, outputs, seen = module.config, ["logits"], list[Tensor]()
    sides, axes = config.texts, list[Axes]([("batch", config.classes)])
    if module.hop_layers:
        outputs.append("weights")
        axes.append(("batch", sides, config.hops, "source"))
        module.attention.register_forward_pre_hook(_ask_for_weights, with_kwargs=True)
        module.attention.register_forward_hook(lambda layer, inputs, out: seen.append(out.weights))

    def classify(texts: Tensor, lengths: Tensor) -> Sequence[Tensor]:
        seen.clear()
        logits = module(texts, lengths).logits.squeeze(1)
        return [logits, *(weights.view(-1, sides, *weights.shape[1:]) for weights in seen)]

    lengths = torch.tensor([[5] * sides, [4] * sides, [3] * sides])
    inputs = {"texts": torch.full((3, sides, 5), UNK), "lengths": lengths}
    return record(module, classify, inputs, [("batch", sides, "source"), ("batch", sides)], outputs, axes, path)


def _ask_for_weights(layer: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any]) -> Any:
    return inputs, {**named, "need_weights": True}


# ── files beside the graphs ─────────────────────────────────────────────────────────────────────────────────────────


def _described(graph: Recorded, file: str) -> dict[str, Any]:
    return {
        "file": file,
        "inputs": [each.to_json() for each in graph.inputs],
        "outputs": [each.to_json() for each in graph.outputs],
    }


def _write_units(codec: Any, lower: bool, folder: Path, side: str) -> dict[str, Any]:
    if isinstance(codec, SubwordCodec):
        (folder / f"{side}.model").write_bytes(codec.to_bytes())
        return {"kind": "subwords", "file": f"{side}.model", "lower": lower}
    assert isinstance(codec, WordCodec)
    words = json.dumps(list(codec.vocabulary.tokens[UNK + 1 :]), ensure_ascii=False)
    (folder / f"{side}_words.json").write_text(words, encoding="utf-8")
    kind = "english words" if isinstance(codec, EnglishWords) else "words"
    return {"kind": kind, "file": f"{side}_words.json", "lower": codec.lower}


def _write_runner(folder: Path) -> None:
    """run.py, and tokenizing.py beside it; both are copies of files of this package."""
    text = Path(run_onnx.__file__).read_text(encoding="utf-8")
    (folder / "run.py").write_text(text.replace("from regard.data.tokenizing ", "from tokenizing "), encoding="utf-8")
    shutil.copyfile(tokenizing.__file__, folder / "tokenizing.py")
