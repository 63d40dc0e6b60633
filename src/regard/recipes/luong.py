"""Luong, Pham & Manning 2015: global attention with four scores, local-m, local-p."""

from dataclasses import replace

from regard.models import LuongConfig
from regard.recipes import bahdanau
from regard.recipes.recipe import Recipe


def _recipe(**model: object) -> Recipe:
    base = bahdanau.multi30k_de_en()
    config = LuongConfig(0, 0, embed_dim=256, hidden_dim=512, layers=2, dropout=0.3, published_start=False)
    return replace(
        base,
        paper="luong",
        model=replace(config, **model),  # type: ignore[arg-type]
        train=replace(base.train, steps=5000),
        published="",
    )


def small_en_fr() -> Recipe:
    """Local attention on the embedded corpus, in minutes on two CPU cores."""
    model = LuongConfig(
        0, 0, embed_dim=128, hidden_dim=192, layers=1, align="local_predictive", window=4, published_start=False
    )
    return replace(bahdanau.small_en_fr(), paper="luong", model=model)


def dot() -> Recipe:
    """Global attention, h_t · h̄_s."""
    return _recipe(score="dot")


def general() -> Recipe:
    """Global attention, h_t W h̄_s; W learns slowly, since Adam's full steps freeze attention on one word."""
    return _recipe(score="general", score_rate=0.05)


def concat() -> Recipe:
    """Global attention, vᵀ tanh(W [h_t; h̄_s])."""
    return _recipe(score="concat")


def location() -> Recipe:
    """Global attention from the target state alone."""
    return _recipe(score="location")


def local_m() -> Recipe:
    """A window that moves with the output."""
    return _recipe(score="general", align="local_monotonic")


def local_p() -> Recipe:
    """A window at a predicted place: the paper's best."""
    return _recipe(score="general", align="local_predictive")
