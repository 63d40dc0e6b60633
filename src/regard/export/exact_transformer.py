"""What CTranslate2 and transformers can express of our Transformer, and the files that both folders share."""

import json
import shutil
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from regard.attention import Learned, Sinusoidal
from regard.base import RegardError
from regard.data import UNK, SubwordCodec, WordCodec, tokenizing
from regard.models import Transformer

if TYPE_CHECKING:
    from regard.api import Model


def check_transformer(model: "Model", to: str, *, positions: Collection[str]) -> None:
    """An error unless the run is a Transformer as published, with one of these kinds of positions.

    Layers that are normalised before or after, any number of them, and every way to tie the embeddings are fine.
    """
    expected = f"a Transformer with scaled dot product, softmax and {' or '.join(positions)} positions"
    what, cure = f"{model.name} cannot be exported to {to}", "use --to onnx, which takes every translator"
    if not isinstance(model.module, Transformer):
        raise RegardError(what, got=model.recipe.paper, expected=expected, cure=cure)
    config = model.module.config
    for name, value, known in (
        ("score", config.score, ("scaled_dot",)),
        ("align", config.align, ("softmax",)),
        ("position", config.position, positions),
    ):
        if value not in known:
            raise RegardError(what, got=f"model.{name}={value}", expected=expected, cure=cure)


def vocabulary_of(codec: Any) -> list[str]:
    """Every token of a codec, in the order of its numbers."""
    if isinstance(codec, SubwordCodec):
        return [codec._processor.id_to_piece(number) for number in range(len(codec))]
    assert isinstance(codec, WordCodec)
    return list(codec.vocabulary.tokens)


def positions_of(module: Transformer, places: int) -> Tensor:
    """What is added to words at each place [places dim]; learnt positions have a number of their own."""
    if isinstance(module.place, Learned):
        return module.place.weight.detach()
    assert isinstance(module.place, Sinusoidal)
    table: Tensor = module.place(torch.zeros(places, module.config.dim))
    return table


def write_units(model: "Model", folder: Path) -> None:
    """Write source and target units: sentencepiece models, or lists of words; and the rules that cut a text."""
    for side, codec in zip(("source", "target"), model.task.codecs, strict=True):
        if isinstance(codec, SubwordCodec):
            (folder / f"{side}.model").write_bytes(codec.to_bytes())
        else:
            words = json.dumps(vocabulary_of(codec)[UNK + 1 :], ensure_ascii=False)
            (folder / f"{side}_words.json").write_text(words, encoding="utf-8")
    shutil.copyfile(tokenizing.__file__, folder / "tokenizing.py")


def has_subwords(model: "Model") -> bool:
    """Whether both sides of a translator are sub-words of sentencepiece."""
    return all(isinstance(codec, SubwordCodec) for codec in model.task.codecs)


def cutting(model: "Model") -> tuple[str, str]:
    """Two expressions of Python for an example: the pieces of a `text`, and the text of a list of `pieces`."""
    lower = bool(model.task.config.lower)
    if has_subwords(model):
        text = "text.lower()" if lower else "text"
        return f"source.encode(normalize_text({text}), out_type=str)", "target.decode(pieces)"
    return f"tokenize(text, lower={lower})", "detokenize(pieces)"
