"""CTranslate2: our weights in its own specification of a Transformer.

Positions are written as a table, so that they are ours to the last bit: sine and cosine stand in turns here, in two
halves there. Weights are stored in float32; `compute_type="int8"` quantises them while they are loaded.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from regard.attention import MultiHead
from regard.base import require
from regard.data import BOS, EOS, SPECIALS, UNK
from regard.export.exact_transformer import (
    check_transformer,
    cutting,
    has_subwords,
    positions_of,
    vocabulary_of,
    write_units,
)
from regard.models import Transformer
from regard.nn import DecoderLayer, EncoderLayer, FeedForward, Residual

if TYPE_CHECKING:
    from regard.api import Model

PACKAGES = ("ctranslate2",)
POSITIONS = 1024  # CTranslate2 reads as many tokens unless told otherwise

EXAMPLE = '''"""Translate lines of standard input; `compute_type="int8"` is smaller and faster."""

import sys
from pathlib import Path

import ctranslate2
{imports}
from tokenizing import {rules}

folder = Path(__file__).parent
{units}
model = ctranslate2.Translator(str(folder), device="cpu", compute_type=sys.argv[1] if sys.argv[1:] else "float32")
texts = [line.strip() for line in sys.stdin]
read = [{cut} for text in texts]
never = [["<pad>"], ["<bos>"]]
limits = {{"max_input_length": {read}, "max_decoding_length": {written}}}
for result in model.translate_batch(read, beam_size=5, suppress_sequences=never, **limits):
    pieces = result.hypotheses[0]
    sys.stdout.write({joined} + "\\n")
'''


def check(model: "Model") -> None:
    """An error where this run cannot become a model of CTranslate2."""
    check_transformer(model, "ctranslate2", positions=("sinusoidal", "learned"))


def write(model: "Model", folder: Path) -> None:
    """Write model.bin, config.json, the vocabularies, the units and an example."""
    spec = transformer_spec(model.module)
    source, target = (vocabulary_of(codec) for codec in model.task.codecs)
    spec.register_source_vocabulary(source)
    spec.register_target_vocabulary(target)
    spec.config.bos_token, spec.config.eos_token, spec.config.unk_token = SPECIALS[BOS], SPECIALS[EOS], SPECIALS[UNK]
    spec.config.decoder_start_token, spec.config.add_source_eos = SPECIALS[BOS], True
    spec.validate()
    spec.optimize()
    spec.save(str(folder))
    write_units(model, folder)
    (cut, joined), places = cutting(model), len(spec.decoder.position_encodings.encodings.numpy())
    units = [
        f'{side} = sentencepiece.SentencePieceProcessor(model_file=str(folder / "{side}.model"))'
        for side in ("source", "target")
    ]
    subwords = has_subwords(model)
    example = EXAMPLE.format(
        imports="import sentencepiece" if subwords else "",
        rules="normalize_text" if subwords else "detokenize, tokenize",
        units="\n".join(units) if subwords else "",
        cut=cut, joined=joined, read=places, written=min(256, places),
    )  # fmt: skip
    (folder / "translate.py").write_text(example, encoding="utf-8")


def transformer_spec(module: Any) -> Any:
    """The `TransformerSpec` of CTranslate2 with our weights, without vocabularies."""
    specs = require("ctranslate2.specs", extra="ctranslate2")
    assert isinstance(module, Transformer)
    config = module.config
    layers = (config.encoder_layers, config.decoder_layers)
    spec = specs.TransformerSpec.from_config(layers, config.num_heads, pre_norm=config.pre_norm)
    table = _array(positions_of(module, POSITIONS))
    for side, words in ((spec.encoder, module.source), (spec.decoder, module.target)):
        side.position_encodings.encodings = table
        embeddings = side.embeddings[0] if isinstance(side.embeddings, list) else side.embeddings
        embeddings.weight = _array(words.weight)
    spec.decoder.projection.weight = _array(module.to_logits.weight)
    if config.pre_norm:
        _fill_norm(spec.encoder.layer_norm, module.encoder_norm)
        _fill_norm(spec.decoder.layer_norm, module.decoder_norm)
    for place, layer in zip(spec.encoder.layer, module.encoder, strict=True):
        assert isinstance(layer, EncoderLayer)
        _fill_self(place.self_attention, layer.inner, layer.around_inner)
        _fill_feed(place.ffn, layer.feed, layer.around_feed)
    for place, layer in zip(spec.decoder.layer, module.decoder, strict=True):
        assert isinstance(layer, DecoderLayer)
        _fill_self(place.self_attention, layer.inner, layer.around_inner)
        _fill_cross(place.attention, layer.cross, layer.around_cross)
        _fill_feed(place.ffn, layer.feed, layer.around_feed)
    return spec


def _fill_self(place: Any, layer: MultiHead, around: Residual) -> None:
    _fill_norm(place.layer_norm, around.norm)
    _fill_linear(place.linear[0], layer.to_query, layer.to_keys, layer.to_values)
    _fill_linear(place.linear[1], layer.to_output)


def _fill_cross(place: Any, layer: MultiHead, around: Residual) -> None:
    _fill_norm(place.layer_norm, around.norm)
    _fill_linear(place.linear[0], layer.to_query)
    _fill_linear(place.linear[1], layer.to_keys, layer.to_values)
    _fill_linear(place.linear[2], layer.to_output)


def _fill_feed(place: Any, layer: FeedForward, around: Residual) -> None:
    _fill_norm(place.layer_norm, around.norm)
    _fill_linear(place.linear_0, layer.widen)
    _fill_linear(place.linear_1, layer.narrow)


def _fill_linear(place: Any, *layers: nn.Linear) -> None:
    """Several layers of the same input become one."""
    place.weight = np.concatenate([_array(layer.weight) for layer in layers])
    place.bias = np.concatenate([_array(layer.bias) for layer in layers])


def _fill_norm(place: Any, norm: Any) -> None:
    place.gamma, place.beta = _array(norm.weight), _array(norm.bias)


def _array(tensor: torch.Tensor) -> Any:
    return tensor.detach().cpu().float().numpy()
