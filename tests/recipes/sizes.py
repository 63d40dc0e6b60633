"""What the tests of recipes share: counting parameters without memory, and recipes small enough to run."""

from dataclasses import fields, replace

import torch
from torch import nn

from regard.data import Vocabulary, WordCodec
from regard.models import MODELS
from regard.recipes import RECIPES, Recipe, build_model
from regard.tasks import Translation

VOCABULARIES = {
    "tatoeba_plain": (960, 1011),
    "tatoeba": (8000, 8000),
    "multi30k": (8000, 8000),
    "europarl": (16000,) * 2,
}
SMALL: dict[str, object] = {
    "num_heads": 2,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "layers": 2,
    "window": 2,
    "dropout": 0.0,
}
WORDS = [f"word{number}" for number in range(46)]  # and four specials


def parameters(name: str) -> int:
    """How many a recipe has at its true vocabulary; on the meta device, so none of them takes memory."""
    recipe = RECIPES[name]()
    source, target = VOCABULARIES[recipe.task.corpus]
    with torch.device("meta"):
        model = MODELS[recipe.paper].model(replace(recipe.model, source_vocabulary=source, target_vocabulary=target))
    return sum(parameter.numel() for parameter in model.parameters())


def small(recipe: Recipe) -> tuple[nn.Module, Translation]:
    """The same model in a tiny size, for 50 words on both sides."""
    names = [field.name for field in fields(recipe.model)]
    sizes = {name: 8 for name in names if name.endswith("dim")} | {n: SMALL[n] for n in names if n in SMALL}
    codec = WordCodec(Vocabulary(WORDS))
    task = Translation(recipe.task, codecs=(codec, codec))
    torch.manual_seed(0)
    return build_model(replace(recipe, model=replace(recipe.model, **sizes)), task), task
