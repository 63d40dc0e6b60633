"""A folder of transformers: config, weights and tokenizer, for `AutoModelForSeq2SeqLM` and `AutoTokenizer`.

Layers that are normalised after, as published, are a Marian model; layers that are normalised before are a Pegasus
model. Both have a table of positions. That of Pegasus is read from the file, and saved again, so it is ours, and every
sum over a word vector adds the same numbers in the same order: the logits are ours to the last bit.

Marian leaves its table out when it is saved, and makes it anew, with all sines before the cosines, where ours stand in
turns. So a Marian model has the numbers of every word vector in that order, 0, 2, 4, …, 1, 3, 5, …, which is the same
mathematics; its sums are rounded otherwise.

Pegasus has one vocabulary. Where ours differ in size, the smaller one is filled up, and the new entries of the target
get a logit of −10⁹.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from regard.attention import MultiHead
from regard.data import BOS, EOS, PAD, SPECIALS, UNK, SubwordCodec
from regard.export.exact_transformer import check_transformer, cutting, has_subwords, positions_of, write_units
from regard.export.fast_tokenizer import fast_tokenizer
from regard.models import Transformer
from regard.nn import DecoderLayer, EncoderLayer, FeedForward, Residual

if TYPE_CHECKING:
    from regard.api import Model

PACKAGES = ("tokenizers",)  # transformers itself is needed to load the folder, not to write it
POSITIONS = 1024  # the table of positions; its size is in the config
NEVER = -1e9  # the logit of a token that does not exist

EXAMPLE = '''"""Translate lines of standard input."""

import sys
from pathlib import Path

from transformers import {classes}
{imports}
folder = Path(__file__).parent
model = AutoModelForSeq2SeqLM.from_pretrained(folder)
{units}
for text in map(str.strip, sys.stdin):
{loop}
'''


def check(model: "Model") -> None:
    """An error where this run cannot become a folder of transformers."""
    check_transformer(model, "transformers", positions=("sinusoidal",))


def write(model: "Model", folder: Path) -> None:
    """Write config.json, generation_config.json, model.safetensors, the tokenizer and an example."""
    module = model.module
    assert isinstance(module, Transformer)
    (folder / "config.json").write_text(json.dumps(config_of(module), indent=1))
    search = model.task.config.search
    generation = {
        **_ids(), "decoder_start_token_id": BOS, "num_beams": search.beams, "suppress_tokens": [PAD, BOS],
        "max_length": 256, "length_penalty": search.length_penalty, "early_stopping": False,
    }  # fmt: skip
    (folder / "generation_config.json").write_text(json.dumps(generation, indent=1))
    save_file(weights_of(module), folder / "model.safetensors", metadata={"format": "pt"})
    if has_subwords(model):
        _write_tokenizers(model, folder)
    else:
        write_units(model, folder)
    _write_example(model, folder)


def config_of(module: Transformer) -> dict[str, Any]:
    """The config of a Marian or Pegasus model with the sizes of ours."""
    config = module.config
    source, target = config.source_vocabulary, config.target_vocabulary
    common = {
        **_ids(),
        "decoder_start_token_id": BOS, "forced_eos_token_id": None, "is_encoder_decoder": True,
        "d_model": config.dim, "encoder_layers": config.encoder_layers, "decoder_layers": config.decoder_layers,
        "encoder_ffn_dim": config.hidden_dim, "decoder_ffn_dim": config.hidden_dim,
        "encoder_attention_heads": config.num_heads, "decoder_attention_heads": config.num_heads,
        "activation_function": "relu", "dropout": config.dropout, "attention_dropout": config.attention_dropout,
        "scale_embedding": True, "max_position_embeddings": POSITIONS, "dtype": "float32",
    }  # fmt: skip
    if config.pre_norm:
        return common | {
            "model_type": "pegasus", "architectures": ["PegasusForConditionalGeneration"],
            "vocab_size": max(source, target), "tie_word_embeddings": config.tie == "all",
        }  # fmt: skip
    return common | {
        "model_type": "marian", "architectures": ["MarianMTModel"],
        "vocab_size": source, "decoder_vocab_size": target,
        "share_encoder_decoder_embeddings": config.tie == "all", "tie_word_embeddings": config.tie != "none",
    }  # fmt: skip


def weights_of(module: Transformer) -> dict[str, Tensor]:
    """Our weights under the names of transformers, in the order that its positions have (see above)."""
    config = module.config
    order = torch.arange(config.dim) if config.pre_norm else _sines_first(config.dim)
    size = max(config.source_vocabulary, config.target_vocabulary) if config.pre_norm else 0
    tables = {
        "encoder.embed_tokens": module.source.weight,
        "decoder.embed_tokens": module.target.weight,
        "lm_head": module.to_logits.weight,
    }
    tensors: dict[str, Tensor] = {}
    if config.tie == "all":
        tensors["model.shared.weight"] = module.source.weight[:, order]
    else:
        if not config.pre_norm and config.tie == "output":
            del tables["lm_head"]  # Marian ties it to the decoder's words
        for name, table in tables.items():
            filled = torch.cat([table, table.new_zeros(max(0, size - len(table)), config.dim)])
            tensors[f"{name if name == 'lm_head' else f'model.{name}'}.weight"] = filled[:, order]
        if config.pre_norm:
            tensors["model.shared.weight"] = tensors["model.encoder.embed_tokens.weight"].clone()
    bias = torch.zeros(1, max(size, config.target_vocabulary))
    bias[:, config.target_vocabulary :] = NEVER
    tensors["final_logits_bias"] = bias
    for side, layers, norm in (
        ("encoder", module.encoder, module.encoder_norm), ("decoder", module.decoder, module.decoder_norm)
    ):  # fmt: skip
        tensors[f"model.{side}.embed_positions.weight"] = positions_of(module, POSITIONS)[:, order]
        if config.pre_norm:
            tensors |= _norm(f"model.{side}.layer_norm", norm, order)
        for number, layer in enumerate(layers):
            assert isinstance(layer, EncoderLayer | DecoderLayer)
            tensors |= _layer(f"model.{side}.layers.{number}", layer, order)
    return {name: tensor.detach().cpu().float().contiguous() for name, tensor in tensors.items()}


def _layer(name: str, layer: EncoderLayer | DecoderLayer, order: Tensor) -> dict[str, Tensor]:
    tensors = _attention(f"{name}.self_attn", layer.inner, layer.around_inner, order)
    if isinstance(layer, DecoderLayer):
        tensors |= _attention(f"{name}.encoder_attn", layer.cross, layer.around_cross, order)
    return tensors | _feed(name, layer.feed, layer.around_feed, order)


def _attention(name: str, layer: MultiHead, around: Residual, order: Tensor) -> dict[str, Tensor]:
    tensors = _norm(f"{name}_layer_norm", around.norm, order)
    for theirs, ours in (("q_proj", layer.to_query), ("k_proj", layer.to_keys), ("v_proj", layer.to_values)):
        tensors |= {f"{name}.{theirs}.weight": ours.weight[:, order], f"{name}.{theirs}.bias": ours.bias}
    out = layer.to_output
    return tensors | {f"{name}.out_proj.weight": out.weight[order], f"{name}.out_proj.bias": out.bias[order]}


def _feed(name: str, feed: FeedForward, around: Residual, order: Tensor) -> dict[str, Tensor]:
    return _norm(f"{name}.final_layer_norm", around.norm, order) | {
        f"{name}.fc1.weight": feed.widen.weight[:, order],
        f"{name}.fc1.bias": feed.widen.bias,
        f"{name}.fc2.weight": feed.narrow.weight[order],
        f"{name}.fc2.bias": feed.narrow.bias[order],
    }


def _norm(name: str, norm: Any, order: Tensor) -> dict[str, Tensor]:
    return {f"{name}.weight": norm.weight[order], f"{name}.bias": norm.bias[order]}


def _sines_first(dim: int) -> Tensor:
    """Even numbers, then odd ones: sines first, then cosines.

    >>> _sines_first(6).tolist()
    [0, 2, 4, 1, 3, 5]
    """
    return torch.arange(dim).view(-1, 2).t().flatten()


def _ids() -> dict[str, int]:
    return {"pad_token_id": PAD, "bos_token_id": BOS, "eos_token_id": EOS}


def _write_tokenizers(model: "Model", folder: Path) -> None:
    """Write the tokenizer of the source; a target with other sub-words has one of its own in the folder target."""
    source, target = model.task.codecs
    _write_tokenizer(source, folder, lower=bool(model.task.config.lower))
    if target != source:
        (folder / "target").mkdir()
        _write_tokenizer(target, folder / "target", lower=bool(model.task.config.lower))


def _write_tokenizer(codec: SubwordCodec, folder: Path, *, lower: bool) -> None:
    fast_tokenizer(codec, lower=lower).save(str(folder / "tokenizer.json"))
    settings: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": POSITIONS, "padding_side": "right",
        "clean_up_tokenization_spaces": False, "split_special_tokens": True,
    }  # fmt: skip
    settings |= {f"{text[1:-1]}_token": text for text in SPECIALS}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=1))


def _write_example(model: "Model", folder: Path) -> None:
    """An example in a few lines; words have no tokenizer of transformers, so the example brings its own."""
    if has_subwords(model):
        classes, imports = "AutoModelForSeq2SeqLM, AutoTokenizer", ""
        source, target = model.task.codecs
        units = "tokenizer = AutoTokenizer.from_pretrained(folder)\ntarget = tokenizer"
        if source != target:
            units = units.replace("= tokenizer", '= AutoTokenizer.from_pretrained(folder / "target")')
        loop = [
            'ids = model.generate(**tokenizer(text, return_tensors="pt"))[0]',
            'sys.stdout.write(target.decode(ids, skip_special_tokens=True) + "\\n")',
        ]
    else:
        cut, joined = cutting(model)
        classes = "AutoModelForSeq2SeqLM"
        imports = "\nimport json\n\nimport torch\nfrom tokenizing import detokenize, tokenize\n"
        units = "\n".join(
            f'{side} = ["<pad>", "<bos>", "<eos>", "<unk>", *json.loads((folder / "{side}_words.json").read_text())]'
            for side in ("source", "target")
        )
        loop = [
            f"words = [source.index(word) if word in source[4:] else {UNK} for word in {cut}]",
            f"ids = model.generate(torch.tensor([[*words, {EOS}]]))[0].tolist()",
            f"pieces = [target[number] for number in ids if number > {EOS}]",
            f'sys.stdout.write({joined} + "\\n")',
        ]
    example = EXAMPLE.format(
        classes=classes, imports=imports, units=units, loop="\n".join(f"    {line}" for line in loop)
    )
    (folder / "translate.py").write_text(example, encoding="utf-8")
