"""Models with random weights and a little text, as `regard.load` would give them: no training, no files."""

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import torch

from regard.api import Model
from regard.data import LabelledTexts, SubwordCodec, Vocabulary, WordCodec
from regard.models import MODELS, TransformerConfig
from regard.recipes import Recipe
from regard.tasks import (
    Captioning,
    CaptioningConfig,
    TextClassification,
    TextClassificationConfig,
    Translation,
    TranslationConfig,
)
from regard.train import Train

Kind = Literal["bpe", "unigram"]
ENGLISH = [
    "the old cat sees a bird.",
    "a big dog didn't eat the fish!",
    "who likes the small girl?",
    "the man finds it",
]
FRENCH = ["le vieux chat voit l'oiseau.", "un grand chien n'a pas mangé !", "qui aime la fille ?", "l'homme le trouve"]
TEXTS = ["the cat", "", "who sees the old fish? a man.", "bird", "the unheard dog likes a cat, the girl and a bird!"]

SIZES: dict[str, dict[str, Any]] = {
    "cho": {"embed_dim": 6, "hidden_dim": 8, "maxout_dim": 5},
    "sutskever": {"embed_dim": 6, "hidden_dim": 8, "layers": 2},
    "bahdanau": {"embed_dim": 6, "hidden_dim": 8, "align_dim": 7, "maxout_dim": 5, "published_start": False},
    "luong": {"embed_dim": 6, "hidden_dim": 8, "layers": 2, "published_start": False},
    "gnmt": {
        "embed_dim": 6, "hidden_dim": 8, "align_dim": 7, "encoder_layers": 3, "decoder_layers": 2,
        "published_start": False,
    },
    "convs2s": {
        "embed_dim": 6, "dim": 8, "encoder_layers": 2, "decoder_layers": 2, "output_dim": 5, "max_positions": 64,
    },
    "transformer": {"dim": 8, "hidden_dim": 12, "num_heads": 2, "encoder_layers": 1, "decoder_layers": 1},
}  # fmt: skip


def translator(paper: str, *, subwords: Kind | None = None, joint: bool = False, **changes: Any) -> Model:
    """A translator of words, or of sub-words of one kind, with the sizes above and `changes`."""
    codecs: tuple[Any, Any]
    if subwords is None:
        codecs = (WordCodec.train(ENGLISH, lower=True), WordCodec.train(FRENCH, lower=True))
    elif joint:
        codecs = (SubwordCodec.train(ENGLISH + FRENCH, size=55, kind=subwords),) * 2
    else:
        codecs = (
            SubwordCodec.train(ENGLISH, size=35, kind=subwords),
            SubwordCodec.train(FRENCH, size=37, kind=subwords),
        )
    settings = TranslationConfig(units="words" if subwords is None else subwords, joint=joint, lower=True)
    task = Translation(settings, codecs=codecs)
    sizes = SIZES[paper] | ({"tie": "all" if joint else "none"} if paper == "transformer" else {}) | changes
    config = MODELS[paper].config(len(codecs[0]), len(codecs[1]), **sizes)
    return made(paper, config, task)


def classifier(paper: str, *, paired: bool = False, **changes: Any) -> Model:
    """A classifier of texts or of pairs into three classes."""
    texts = ([*ENGLISH, *FRENCH], [*FRENCH, *ENGLISH]) if paired else ([*ENGLISH, *FRENCH],)
    split = LabelledTexts(texts, [0, 1, 2, 0, 1, 2, 0, 1], ("good", "bad", "neither"))
    settings = TextClassificationConfig(max_units=9, kept="ends", batch_size=4)
    task = TextClassification(settings, splits=dict.fromkeys(("train", "valid", "test"), split))
    return made(paper, task.complete(MODELS[paper].config(**changes)), task)


def captioner(**changes: Any) -> Model:
    """A captioner on features of five numbers."""
    settings = CaptioningConfig(max_words=9)
    settings = replace(settings, search=replace(settings.search, min_steps=3))
    task = Captioning(settings, vocabulary=Vocabulary.build([text.split() for text in ENGLISH]))
    sizes: dict[str, Any] = {"feature_dim": 5, "embed_dim": 6, "hidden_dim": 8, "align_dim": 7}
    config = MODELS["show_attend_tell"].config(len(task.vocabulary), **(sizes | changes))
    return made("show_attend_tell", config, task)


def made(paper: str, config: Any, task: Any) -> Model:
    """A model of these settings with random weights that are large enough for attention to choose."""
    torch.manual_seed(0)
    module = MODELS[paper].model(config).eval()
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if parameter.ndim > 1 and "norm" not in name:
                parameter.mul_(2.0)
    recipe = Recipe(paper, config, task.config, Train(steps=1))
    return Model(f"small_{paper}", recipe, task, module, Path())


def plain_transformer(**changes: Any) -> TransformerConfig:
    """Settings of a Transformer with 30 words of each language."""
    return TransformerConfig(**({"source_vocabulary": 30, "target_vocabulary": 30} | SIZES["transformer"] | changes))
