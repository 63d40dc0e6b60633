"""Recipes of Transformer-XL: words and characters of running text, and a twin that forgets each segment."""

from dataclasses import replace

from regard.models import TransformerXLConfig
from regard.recipes.recipe import Recipe
from regard.tasks import LanguageModellingConfig
from regard.tasks.generation import Generation
from regard.train import Train


def smoke() -> Recipe:
    """Generated sentences whose verb agrees with a distant subject, as one stream: seconds on a CPU."""
    return Recipe(
        paper="transformer_xl",
        model=TransformerXLConfig(
            dim=32, num_heads=2, hidden_dim=64, layers=2, memory=16, dropout=0.0, init_std=0.1
        ),
        task=LanguageModellingConfig("agreement", context="stream", batch_size=32, length=16),
        train=Train(
            steps=240, lr=1e-2, schedule="cosine", warmup=20, log_every=60, evaluate_every=120, save_every=120, keep=1,
        ),
        note="generated sentences, on a CPU",
    )  # fmt: skip


def ptb() -> Recipe:
    """Penn Treebank, 16 layers and 24 M parameters as in the paper, with locked dropout, R-Drop and averaged weights.

    Heads of width 48 and 144 keys are multiples of what fused kernels read at once; 38 and 140 are not.
    """
    return Recipe(
        paper="transformer_xl",
        model=TransformerXLConfig(
            dim=384, num_heads=8, hidden_dim=640, memory=72, dropout=0.2, attention_dropout=0.2, embed_dropout=0.6,
            output_dropout=0.5, word_dropout=0.2, locked=True, wide=False,
        ),
        task=LanguageModellingConfig(
            "ptb", context="stream", batch_size=16, length=72, shifted=True, consistency=0.5,
            generation=Generation(rows=10, memory=144),
        ),
        train=Train(
            steps=100_000, seconds=900.0, optimiser="adamw", lr=3e-4, weight_decay=0.01, undecayed=("bias", "norm"),
            schedule="cosine", warmup=2000, clip=0.25, precision="pure_bfloat16", capture=True, ema=0.9998,
            log_every=404, evaluate_every=8080, save_every=40_400, keep=1,
        ),
        note="newspaper text, words, the memory goes on",
        published="54.5 (the paper, 24 M parameters)",
    )  # fmt: skip


def wikitext2() -> Recipe:
    """WikiText-2: articles, whole words, 33,278 of them."""
    base = ptb()
    return replace(
        base,
        model=replace(base.model, memory=144),
        task=replace(base.task, corpus="wikitext2", length=96, generation=Generation(rows=10, memory=288)),
        train=replace(base.train, steps=100_000, log_every=1360, evaluate_every=13_600, save_every=40_800),
        note="encyclopedia text, words, the memory goes on",
        published="",
    )


def enwik8() -> Recipe:
    """The first quarter of enwik8, byte by byte: 12 layers of the paper's width."""
    return Recipe(
        paper="transformer_xl",
        model=TransformerXLConfig(
            dim=512, num_heads=8, hidden_dim=2048, layers=12, memory=256, dropout=0.1, wide=False
        ),
        task=LanguageModellingConfig(
            "enwik8", units="characters", context="stream", batch_size=32, length=256,
            generation=Generation(rows=16, memory=1024),
        ),
        train=Train(
            steps=40_000, lr=4e-4, schedule="cosine", warmup=1000, clip=0.25, precision="bfloat16", capture=True,
            log_every=100, evaluate_every=10_000, save_every=20_000, keep=1,
        ),
        note="a quarter of enwik8, bytes, the memory goes on",
        published="1.06 bits on all of enwik8 (the paper, 41 M parameters)",
    )  # fmt: skip


def enwik8_without_memory() -> Recipe:
    """The same, and each segment begins with nothing: the twin."""
    recipe = enwik8()
    return replace(
        recipe,
        model=replace(recipe.model, memory=0),
        task=replace(recipe.task, generation=replace(recipe.task.generation, memory=None)),
        note="a quarter of enwik8, bytes, each segment begins anew: the twin without memory",
        published="",
    )


def shakespeare() -> Recipe:
    """Tiny Shakespeare, character by character."""
    return Recipe(
        paper="transformer_xl",
        model=TransformerXLConfig(
            dim=256, num_heads=8, hidden_dim=1024, layers=6, memory=128, dropout=0.3, embed_dropout=0.1, locked=True
        ),
        task=LanguageModellingConfig(
            "tinyshakespeare", units="characters", context="stream", batch_size=64, length=128,
            generation=Generation(rows=16, memory=256, max_tokens=200, temperature=0.8),
        ),
        train=Train(
            steps=6000, lr=1e-3, schedule="cosine", warmup=300, clip=0.5, precision="tf32", capture=True, ema=0.999,
            log_every=100, evaluate_every=600, save_every=3000, keep=1,
        ),
        note="plays, character by character, the memory goes on",
    )  # fmt: skip
