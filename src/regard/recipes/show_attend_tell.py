"""Show, attend and tell (Xu et al. 2015): soft, hard, and without attention."""

from dataclasses import replace

from regard.models import ShowAttendTellConfig
from regard.recipes.recipe import Recipe
from regard.tasks import CaptioningConfig, EncoderConfig, Search
from regard.train import Train


def shapes() -> Recipe:
    """Two coloured shapes on a grid, on two CPU cores, in half a minute."""
    return Recipe(
        paper="show_attend_tell",
        model=ShowAttendTellConfig(
            0, embed_dim=64, hidden_dim=128, align_dim=64, project_dim=64, dropout=0.1
        ),
        task=CaptioningConfig(
            "shapes", encoder=EncoderConfig("patches", size=56, keep=False), batch_size=32, min_count=1,
            doubly_stochastic=0.0,
        ),
        train=Train(
            steps=300, lr=4e-3, schedule="cosine", warmup=50, log_every=50, evaluate_every=150, save_every=150, keep=1
        ),
        note="painted shapes, on a CPU",
    )  # fmt: skip


def flickr8k_soft() -> Recipe:
    """EfficientNet-Lite0 at 320 pixels, 10×10 places, fine-tuned from its third stage on."""
    return Recipe(
        paper="show_attend_tell",
        model=ShowAttendTellConfig(
            0, hidden_dim=1024, project_dim=512, tied=True, embed_dropout=0.3, feature_dropout=0.3, encoder_frozen=3
        ),
        task=CaptioningConfig(
            finetune=True, mirrored=True, jitter=32, captions_per_picture=5, smoothing=0.1, min_count=5, max_words=25,
            batch_size=256, fit=4, doubly_stochastic=1.0, search=Search(40, length_penalty=0.0, consensus=0.7),
        ),
        train=Train(
            steps=2400, lr=5e-4, schedule="cosine", warmup=200, ema=0.999, precision="bfloat16", capture=True,
            evaluate_every=300, patience=2, save_every=1200, keep=1,
        ),
        note="captions of photographs, soft attention",
        published="67 / 44.8 / 29.9 / 19.5, METEOR 18.93 (the paper, soft)",
    )  # fmt: skip


def flickr8k_frozen() -> Recipe:
    """The same with the encoder as it was published: its features are computed once, and kept. Five prefixes."""
    recipe = flickr8k_soft()
    return replace(
        recipe,
        model=replace(recipe.model, encoder_frozen=0),
        task=replace(recipe.task, finetune=False, jitter=0, captions_per_picture=1, search=Search(5)),
        train=replace(recipe.train, steps=3000, evaluate_every=500, patience=None, save_every=1500),
        note="captions of photographs, soft attention, frozen encoder",
    )


def flickr8k_hard() -> Recipe:
    """Places are drawn, and learnt from rewards: how much better than the expected place they did.

    It is judged with expected places; `--set places=argmax` of `regard evaluate` takes the most likely one.
    """
    recipe = flickr8k_soft()
    return replace(
        recipe,
        model=replace(recipe.model, align="sample"),
        task=replace(recipe.task, doubly_stochastic=0.0, baseline="expected", reward=0.01, entropy=0.002),
        note="captions of photographs, hard attention",
        published="67 / 45.7 / 31.4 / 21.3, METEOR 20.30 (the paper, hard)",
    )


def flickr8k_mean() -> Recipe:
    """The twin without attention: the mean of all places at every word."""
    recipe = flickr8k_soft()
    return replace(
        recipe,
        model=replace(recipe.model, mean_pooled=True),
        task=replace(recipe.task, doubly_stochastic=0.0),
        note="captions of photographs, without attention",
        published="",
    )
