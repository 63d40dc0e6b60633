"""ConvS2S (Gehring et al. 2017)."""

from dataclasses import replace

from regard.models import ConvS2SConfig
from regard.recipes import transformer
from regard.recipes.recipe import Recipe


def small_en_fr() -> Recipe:
    """Three layers on each side on the embedded corpus, in minutes on two CPU cores."""
    base = transformer.small_en_fr()
    model = ConvS2SConfig(0, 0, embed_dim=128, dim=128, output_dim=128, encoder_layers=3, decoder_layers=3)
    return replace(base, paper="convs2s", model=model, train=replace(base.train, clip=0.5))


def multi30k_de_en() -> Recipe:
    """Convolutions of width 3, attention at every layer, joint sub-words."""
    base = transformer.multi30k_de_en()
    return replace(
        base,
        paper="convs2s",
        model=ConvS2SConfig(
            0,
            0,
            embed_dim=256,
            dim=512,
            output_dim=256,
            encoder_layers=6,
            decoder_layers=6,
            dropout=0.3,
            max_positions=256,
        ),
        train=replace(base.train, steps=4000, lr=1e-3, clip=0.5),
        published="34.1 tokenised, greedy (bentrevett's notebook 5, 37.4 M parameters)",
    )
