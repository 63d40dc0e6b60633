"""Recipes of LSTMN and of its twin, an ordinary LSTM of the same size."""

from dataclasses import replace

from regard.models import LSTMLanguageModelConfig, LSTMNConfig
from regard.recipes.recipe import Recipe
from regard.tasks import LanguageModellingConfig
from regard.train import Train


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
        model=LSTMNConfig(dropout=0.5, tied=True),
        task=LanguageModellingConfig("ptb", batch_size=64, fit=8),
        train=Train(
            steps=26_000, lr=3e-3, schedule="cosine", warmup=200, clip=1.0, precision="tf32", capture=True, ema=0.999,
            weight_decay=0.0, log_every=200, evaluate_every=1300, save_every=6500,
        ),
        note="newspaper sentences, one by one",
        published="108 (the paper, 300 units)",
    )  # fmt: skip


def ptb_lstm() -> Recipe:
    """The same with an ordinary LSTM of the same size."""
    return replace(
        ptb(),
        paper="lstm_language_model",
        model=LSTMLanguageModelConfig(dropout=0.5, tied=True),
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
