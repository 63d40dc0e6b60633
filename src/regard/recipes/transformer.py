"""Transformer (Vaswani et al. 2017), in sizes that fit the corpora."""

from dataclasses import replace

from regard.models import TransformerConfig
from regard.recipes.recipe import Recipe
from regard.tasks import Search, TranslationConfig
from regard.train import Train


def _small(**sizes: object) -> TransformerConfig:
    base = TransformerConfig(
        0, 0, dim=256, hidden_dim=512, num_heads=8, encoder_layers=3, decoder_layers=3, pre_norm=True
    )
    return replace(base, **sizes)  # type: ignore[arg-type]


def multi30k_de_en() -> Recipe:
    """Three layers of width 256, joint sub-words: German captions into English."""
    return Recipe(
        paper="transformer",
        model=_small(dropout=0.2),
        task=TranslationConfig(
            "multi30k", "de", "en", units="bpe", vocabulary=8000, joint=True, lower=True, batch_size=256,
            batch_tokens=None, fit=8, smoothing=0.1, search=Search(5, length_penalty=1.0),
        ),
        train=Train(
            steps=5000, lr=2e-3, betas=(0.9, 0.98), schedule="cosine", warmup=400, precision="pure_bfloat16",
            capture=True, ema=0.999, evaluate_every=1000, save_every=2000,
        ),
        note="captions, German to English",
        published="36.5 tokenised, greedy (bentrevett's notebook 6, 9.0 M parameters)",
    )  # fmt: skip


def multi30k_de_en_rdrop() -> Recipe:
    """The same with stronger dropout, and two passes that shall agree (R-Drop)."""
    recipe = multi30k_de_en()
    return replace(
        recipe,
        model=_small(dropout=0.3),
        task=replace(recipe.task, consistency=5.0),
        train=replace(recipe.train, steps=12_000),
        note="captions, German to English; two passes agree",
    )


def multi30k_en_de() -> Recipe:
    """The other way, as the last one."""
    recipe = multi30k_de_en_rdrop()
    return replace(
        recipe,
        task=replace(recipe.task, source="en", target="de"),
        note="captions, English to German",
        published="41.0 tokenised, beam 5 (fairseq_mmt tiny, text only, 2.6 M parameters, recalled ± 0.5)",
    )


def tatoeba_en_fr() -> Recipe:
    """The model that ships: everyday English into French."""
    return Recipe(
        paper="transformer",
        model=_small(dropout=0.1, encoder_layers=4, decoder_layers=4),
        task=TranslationConfig(
            "tatoeba", "en", "fr", units="bpe", vocabulary=8000, joint=True, batch_size=1024, batch_tokens=None, fit=8,
            smoothing=0.1, search=Search(5, length_penalty=1.0), edges=(5, 8, 11),
        ),
        train=Train(
            steps=8000, lr=2.5e-3, betas=(0.9, 0.98), schedule="cosine", warmup=500, precision="pure_bfloat16",
            capture=True, ema=0.999, evaluate_every=4000, save_every=4000,
        ),
        note="everyday sentences, English to French; ships with the package",
    )  # fmt: skip


def plain_en_fr() -> Recipe:
    """The embedded corpus, on two CPU cores."""
    return Recipe(
        paper="transformer",
        model=_small(
            dim=192, hidden_dim=384, num_heads=4, encoder_layers=2, decoder_layers=2, dropout=0.1, tie="output"
        ),
        task=TranslationConfig(lower=True, batch_size=64, batch_tokens=None, smoothing=0.1, edges=(5, 8, 11)),
        train=Train(steps=3000, lr=2e-3, betas=(0.9, 0.98), schedule="cosine", warmup=300, evaluate_every=1000),
        note="plain everyday sentences, English to French, on a CPU",
    )


def small_en_fr() -> Recipe:
    """The same in fewer updates: minutes on two CPU cores."""
    recipe = plain_en_fr()
    train = replace(recipe.train, steps=600, warmup=100, evaluate_every=600, save_every=300)
    return replace(recipe, train=train, note="plain everyday sentences, minutes on a CPU")


def europarl_en_fr() -> Recipe:
    """Debates, English to French."""
    return Recipe(
        paper="transformer",
        model=_small(dim=512, hidden_dim=1024, encoder_layers=4, decoder_layers=4, dropout=0.1),
        task=TranslationConfig(
            "europarl", "en", "fr", units="bpe", vocabulary=16_000, joint=True, batch_size=None, batch_tokens=16_384,
            fit=8, smoothing=0.1,
        ),
        train=Train(
            steps=20_000, lr=1e-3, betas=(0.9, 0.98), schedule="noam", warmup=1000, precision="pure_bfloat16",
            capture=True, ema=0.9995, evaluate_every=2000, save_every=2000,
        ),
        note="debates, English to French",
    )  # fmt: skip
