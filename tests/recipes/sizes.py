"""What the tests of recipes share: counting parameters without memory, and recipes small enough to run."""

from dataclasses import fields, is_dataclass, replace
from typing import Any

import torch
from torch import nn

from regard.data import LabelledTexts, Pictures, Vocabulary, WordCodec
from regard.datasets.shapes import shapes
from regard.models import MODELS
from regard.recipes import RECIPES, Recipe, build_model, change
from regard.tasks import Captioning, Classification, EncoderConfig, TextClassification, Translation

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
TASK = {name: build().entry.name for name, build in RECIPES.items()}
PICTURES = {  # channels, side, labels, classes of each data set
    "digits": (1, 28, 1, 10),
    "mnist": (1, 28, 1, 10),
    "svhn": (3, 64, 6, 11),
    "cifar10": (3, 32, 1, 10),
}


LABELLED = {"toy_reviews": (1, 2), "imdb": (1, 2), "yelp": (1, 5), "sst": (1, 2), "snli": (2, 3), "snli_full": (2, 3)}


def parameters(name: str, *settings: str) -> int:
    """How many a recipe has at its true vocabulary; on the meta device, so none of them takes memory."""
    recipe = change(RECIPES[name](), settings)
    if TASK[name] == "classification":
        with torch.device("meta"):
            model = MODELS[recipe.paper].model(few_pictures(recipe).complete(recipe.model))
        return sum(parameter.numel() for parameter in model.parameters())
    source, target = VOCABULARIES[recipe.task.corpus]
    with torch.device("meta"):
        model = MODELS[recipe.paper].model(replace(recipe.model, source_vocabulary=source, target_vocabulary=target))
    return sum(parameter.numel() for parameter in model.parameters())


def tiny(config: Any) -> Any:
    """A model's config in small sizes, and the configs inside it."""
    changes: dict[str, Any] = {}
    for each in fields(config):
        value = getattr(config, each.name)
        if is_dataclass(value):
            changes[each.name] = tiny(value)
        elif each.name.endswith("dim") and value:
            changes[each.name] = 8
        elif each.name in (few := {"glimpses": 2, "depth": 8, "encoder_frozen": 0}):
            changes[each.name] = few[each.name]
    return replace(config, **changes)


def seeing(recipe: Recipe) -> tuple[nn.Module, Classification | Captioning | TextClassification]:
    """A recipe on pictures or labelled texts in a tiny size, with a few of the right shape."""
    torch.manual_seed(0)
    makers = {"captioning": _captions, "classification": few_pictures, "text_classification": few_texts}
    task = makers[recipe.entry.name](recipe)
    return build_model(replace(recipe, model=tiny(recipe.model)), task), task


def few_texts(recipe: Recipe) -> TextClassification:
    """The task of a recipe with twelve texts or pairs of the right number of classes, and without word vectors."""
    sides, classes = LABELLED[recipe.task.dataset]
    texts = tuple([" ".join(WORDS[: 3 + number]) for number in range(12)] for _ in range(sides))
    few = LabelledTexts(texts, [number % classes for number in range(12)], tuple(map(str, range(classes))))
    task = replace(recipe.task, batch_size=4, vectors=None)
    return TextClassification(task, splits=dict.fromkeys(("train", "valid", "test"), few))


def few_pictures(recipe: Recipe) -> Classification:
    """The task of a recipe with six pictures of the right shape."""
    channels, side, labels, classes = PICTURES[recipe.task.dataset]
    images = torch.randint(0, 256, (6, channels, side, side), dtype=torch.uint8)
    wanted = torch.arange(6 * labels).view(6, labels) % classes
    names = tuple(str(number) for number in range(classes))
    few = Pictures(images, wanted[:, 0] if labels == 1 else wanted, names)
    return Classification(replace(recipe.task, batch_size=4), splits={"train": few, "valid": few, "test": few})


def _captions(recipe: Recipe) -> Captioning:
    encoder = EncoderConfig("patches", size=56, keep=False)
    changes = {"finetune": False, "jitter": 0, "captions_per_picture": 1, "min_count": 1, "batch_size": 4}
    config = replace(recipe.task, encoder=encoder, max_words=10, **changes)
    return Captioning(config, splits=shapes((6, 2, 2)))


def small(recipe: Recipe) -> tuple[nn.Module, Translation]:
    """The same model in a tiny size, for 50 words on both sides."""
    names = [field.name for field in fields(recipe.model)]
    sizes = {name: 8 for name in names if name.endswith("dim")} | {n: SMALL[n] for n in names if n in SMALL}
    codec = WordCodec(Vocabulary(WORDS))
    task = Translation(recipe.task, codecs=(codec, codec))
    torch.manual_seed(0)
    return build_model(replace(recipe, model=replace(recipe.model, **sizes)), task), task
