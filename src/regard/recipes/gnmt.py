"""GNMT (Wu et al. 2016), in a size that fits the corpus."""

from dataclasses import replace

from regard.models import GNMTConfig
from regard.recipes import bahdanau
from regard.recipes.recipe import Recipe
from regard.tasks import Search


def small_en_fr() -> Recipe:
    """Two layers on each side on the embedded corpus, in minutes on two CPU cores."""
    model = GNMTConfig(
        0, 0, embed_dim=128, hidden_dim=128, align_dim=128, encoder_layers=2, decoder_layers=2, dropout=0.0,
        published_start=False, state_gain=8.0,
    )  # fmt: skip
    return replace(bahdanau.small_en_fr(), paper="gnmt", model=model)


def multi30k_de_en() -> Recipe:
    """Four layers on each side, sub-words, length and coverage penalties."""
    base = bahdanau.multi30k_de_en()
    return replace(
        base,
        paper="gnmt",
        model=GNMTConfig(
            0,
            0,
            embed_dim=256,
            hidden_dim=512,
            align_dim=512,
            encoder_layers=4,
            decoder_layers=4,
            dropout=0.3,
            published_start=False,
        ),
        task=replace(base.task, search=Search(5, length_penalty=1.0, coverage_penalty=0.2)),
        published="",
    )
