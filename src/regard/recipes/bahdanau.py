"""RNNsearch (Bahdanau et al. 2015)."""

from dataclasses import replace

from regard.models import BahdanauConfig
from regard.recipes.recipe import Recipe
from regard.tasks import Search, TranslationConfig
from regard.train import Train


def plain_en_fr() -> Recipe:
    """The embedded corpus, on two CPU cores: the attention half of `regard demo`."""
    return Recipe(
        paper="bahdanau",
        model=BahdanauConfig(0, 0, embed_dim=128, hidden_dim=192, align_dim=128, maxout_dim=128, published_start=False),
        task=TranslationConfig(lower=True, batch_size=64, batch_tokens=None, edges=(5, 8, 11)),
        train=Train(steps=3000, lr=3e-3, schedule="linear", floor=0.05, evaluate_every=1000, save_every=1000),
        note="plain everyday sentences, English to French, on a CPU",
    )


def small_en_fr() -> Recipe:
    """The same in fewer updates: a translator in less than five minutes on two CPU cores."""
    recipe = plain_en_fr()
    train = replace(recipe.train, steps=1200, evaluate_every=600, save_every=600)
    return replace(recipe, train=train, note="plain everyday sentences, minutes on a CPU")


def tatoeba_en_fr() -> Recipe:
    """The RNNsearch that ships: everyday English into French; pieces of each language for themselves, case is kept."""
    return Recipe(
        paper="bahdanau",
        model=BahdanauConfig(
            0, 0, embed_dim=192, hidden_dim=256, align_dim=192, maxout_dim=192, dropout=0.2, published_start=False
        ),
        task=TranslationConfig(
            "tatoeba", "en", "fr", units="bpe", vocabulary=5000, batch_size=512, batch_tokens=None, fit=8,
            smoothing=0.1, search=Search(5, length_penalty=1.0), edges=(5, 8, 11),
        ),
        train=Train(
            steps=10_000, lr=2e-3, schedule="cosine", warmup=300, precision="pure_bfloat16", capture=True, ema=0.999,
            evaluate_every=2500, save_every=5000,
        ),
        note="everyday sentences, English to French; ships with the package",
    )  # fmt: skip


def multi30k_de_en() -> Recipe:
    """Joint sub-words, lower-cased."""
    return Recipe(
        paper="bahdanau",
        model=BahdanauConfig(
            0, 0, embed_dim=256, hidden_dim=512, align_dim=512, maxout_dim=512, dropout=0.4, published_start=False
        ),
        task=TranslationConfig(
            "multi30k", "de", "en", units="bpe", vocabulary=8000, joint=True, lower=True, batch_size=128,
            batch_tokens=None, fit=8, smoothing=0.1, search=Search(5),
        ),
        train=Train(
            steps=4000, lr=1e-3, schedule="cosine", warmup=200, precision="pure_bfloat16", capture=True, ema=0.999,
            evaluate_every=1000, save_every=2000,
        ),
        note="captions, German to English",
        published="28.3 tokenised, greedy (bentrevett's notebook 3, 20.5 M parameters)",
    )  # fmt: skip


def europarl_en_fr() -> Recipe:
    """Debates, sentences of up to 40 words: the paper's figure 2."""
    return Recipe(
        paper="bahdanau",
        model=BahdanauConfig(
            0, 0, embed_dim=512, hidden_dim=512, align_dim=512, maxout_dim=512, dropout=0.1, published_start=False
        ),
        task=TranslationConfig(
            "europarl", "en", "fr", units="bpe", vocabulary=16_000, joint=True, batch_size=256, batch_tokens=None,
            fit=8, smoothing=0.1, search=Search(5),
        ),
        train=Train(
            steps=7000, lr=1e-3, schedule="cosine", warmup=500, precision="pure_bfloat16", capture=True, ema=0.999,
            evaluate_every=3500, save_every=3500,
        ),
        note="debates, English to French, BLEU by length",
        published="26.75 (WMT14 en-fr, RNNsearch-50; another corpus)",
    )  # fmt: skip


def multi30k_de_en_sparse() -> Recipe:
    """The same with sparsemax: most words look at one or two others."""
    recipe = multi30k_de_en()
    return replace(
        recipe, model=replace(recipe.model, align="sparsemax"), note="captions, sparse alignment", published=""
    )
