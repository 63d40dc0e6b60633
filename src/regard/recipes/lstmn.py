"""Recipes of LSTMN: language models beside an ordinary LSTM, classifiers of texts and pairs, and translators."""

from dataclasses import replace
from typing import Any

from regard.models import LSTMLanguageModelConfig, LSTMNConfig, LSTMNReaderConfig, LSTMNTranslatorConfig
from regard.recipes import bahdanau
from regard.recipes.recipe import Recipe
from regard.tasks import LanguageModellingConfig, TextClassificationConfig
from regard.train import Train

PTB_SIZES: dict[str, Any] = {
    "dropout": 0.4, "embed_dropout": 0.2, "word_dropout": 0.1, "weight_dropout": 0.3, "locked": True, "tied": True,
}  # fmt: skip
SST = TextClassificationConfig("sst", phrases=True, vectors="glove50d", batch_size=128, fit=8)
SST_MODEL = LSTMNReaderConfig(
    embed_dim=50, hidden_dim=168, align_dim=168, mlp_dim=168, dropout=0.5, embed_dropout=0.2, word_dropout=0.1
)
SST_TRAIN = Train(
    steps=7280, lr=4e-4, schedule="cosine", warmup=100, clip=1.0, precision="tf32", capture=True, ema=0.999,
    log_every=364, evaluate_every=607, save_every=3640, keep=1,
)  # fmt: skip


def smoke() -> Recipe:
    """Generated sentences whose verb agrees with a distant subject: seconds on a CPU."""
    return Recipe(
        paper="lstmn",
        model=LSTMNConfig(embed_dim=32, hidden_dim=32, align_dim=32),
        task=LanguageModellingConfig("agreement", batch_size=32),
        train=Train(steps=150, lr=1e-2, schedule="linear", floor=0.05, log_every=50, evaluate_every=75, save_every=75),
        note="generated sentences, on a CPU",
    )


def ptb() -> Recipe:
    """Penn Treebank, 300 units, one layer; the tape is empty at the start of each sentence."""
    return Recipe(
        paper="lstmn",
        model=LSTMNConfig(**PTB_SIZES),
        task=LanguageModellingConfig("ptb", batch_size=64, fit=8),
        train=Train(
            steps=26_000, optimiser="sgd", momentum=0.0, lr=20.0, schedule="cosine", warmup=200, clip=0.25,
            precision="tf32", capture=True, ema=0.999, log_every=200, evaluate_every=1300, save_every=6500,
        ),
        note="newspaper sentences, one by one",
        published="108 (the paper, 300 units)",
    )  # fmt: skip


def ptb_lstm() -> Recipe:
    """The same with an ordinary LSTM of the same size."""
    return replace(
        ptb(),
        paper="lstm_language_model",
        model=LSTMLanguageModelConfig(**PTB_SIZES),
        note="newspaper sentences, one by one: the twin without attention",
        published="115 (the paper, 300 units)",
    )


def shakespeare() -> Recipe:
    """Tiny Shakespeare, character by character, with a tape that goes on through the text."""
    return Recipe(
        paper="lstmn",
        model=LSTMNConfig(embed_dim=128, hidden_dim=300, align_dim=128, tape=64, dropout=0.2),
        task=LanguageModellingConfig(
            "tinyshakespeare", units="characters", context="stream", batch_size=64, length=64
        ),
        train=Train(
            steps=5000, lr=3e-3, schedule="cosine", warmup=200, clip=1.0, precision="tf32", capture=True, ema=0.999,
            log_every=100, evaluate_every=500, save_every=2500,
        ),
        note="plays, character by character, the tape goes on",
    )  # fmt: skip


def reviews() -> Recipe:
    """Generated reviews, in seconds on a CPU: an opinion counts, and whether it is negated."""
    return Recipe(
        paper="lstmn_reader",
        model=LSTMNReaderConfig(embed_dim=32, hidden_dim=48, align_dim=24, mlp_dim=64, dropout=0.0),
        task=TextClassificationConfig("toy_reviews", batch_size=64),
        train=Train(
            steps=220, lr=1e-2, schedule="linear", warmup=20, clip=1.0, log_every=55, evaluate_every=110,
            save_every=220, keep=1,
        ),
        note="generated reviews, on a CPU",
    )  # fmt: skip


def sst2() -> Recipe:
    """Sentences of film reviews, negative or positive, trained on all phrases of the trees: 12 epochs, two layers."""
    published = "87.0 with two layers, 86.3 with one (the paper, vectors of 300 numbers)"
    note = "sentences of film reviews, two classes"
    model = replace(SST_MODEL, layers=2)
    return Recipe("lstmn_reader", model, replace(SST, binary=True), SST_TRAIN, note, published)


def sst5() -> Recipe:
    """The same with five classes, very negative to very positive: 8 epochs."""
    train = replace(SST_TRAIN, steps=9960, log_every=498, evaluate_every=1245, save_every=4980)
    published = "47.6 (the paper, vectors of 300 numbers)"
    return Recipe("lstmn_reader", SST_MODEL, SST, train, "sentences of film reviews, five classes", published)


def snli() -> Recipe:
    """Entailment, 100,000 pairs: the hypothesis reads the tapes of the premise by deep fusion; 12 epochs."""
    return Recipe(
        paper="lstmn_reader",
        model=LSTMNReaderConfig(embed_dim=50, hidden_dim=450, dropout=0.3, embed_dropout=0.2),
        task=TextClassificationConfig("snli", vectors="glove50d", batch_size=256, fit=8),
        train=Train(
            steps=4692, lr=2e-3, schedule="cosine", warmup=200, clip=1.0, precision="tf32", capture=True, ema=0.999,
            log_every=391, evaluate_every=391, save_every=2346, keep=1,
        ),
        note="entailment, deep fusion",
        published="86.3 on 549,367 pairs (the paper, 450 units)",
    )  # fmt: skip


def snli_shallow() -> Recipe:
    """The same with shallow fusion."""
    recipe = snli()
    model = replace(recipe.model, fusion="shallow")
    return replace(recipe, model=model, note="entailment, shallow fusion", published="")


def multi30k_de_en() -> Recipe:
    """Captions, German to English: the decoder reads the tapes of the encoder by deep fusion."""
    base = bahdanau.multi30k_de_en()
    model = LSTMNTranslatorConfig(0, 0, embed_dim=256, hidden_dim=512, align_dim=256, dropout=0.4)
    return replace(
        base,
        paper="lstmn_translator",
        model=model,
        train=replace(base.train, precision="tf32", clip=1.0),
        note="captions, German to English, deep fusion",
        published="",
    )


def multi30k_de_en_shallow() -> Recipe:
    """The same with shallow fusion."""
    recipe = multi30k_de_en()
    note = "captions, German to English, shallow fusion"
    return replace(recipe, model=replace(recipe.model, fusion="shallow"), note=note)
