"""Without attention: Cho et al. 2014 and Sutskever et al. 2014, on the same text as the models with it."""

from dataclasses import replace

from regard.models import ChoConfig, SutskeverConfig
from regard.recipes import bahdanau
from regard.recipes.recipe import Recipe


def plain_en_fr() -> Recipe:
    """The twin without attention of `bahdanau/plain_en_fr`, of the same size."""
    twin = bahdanau.plain_en_fr()
    model = ChoConfig(0, 0, embed_dim=128, hidden_dim=248, maxout_dim=128)
    return replace(twin, paper="cho", model=model)


def small_en_fr() -> Recipe:
    """The twin without attention of `bahdanau/small_en_fr`."""
    return replace(plain_en_fr(), train=bahdanau.small_en_fr().train, note=bahdanau.small_en_fr().note)


def tatoeba_en_fr() -> Recipe:
    """The twin without attention of `bahdanau/tatoeba_en_fr`, of the same size; it ships too."""
    twin = bahdanau.tatoeba_en_fr()
    model = ChoConfig(0, 0, embed_dim=192, hidden_dim=340, maxout_dim=192, dropout=0.2)
    return replace(twin, paper="cho", model=model)


def multi30k_de_en() -> Recipe:
    """Cho's model: the source in one vector."""
    twin = bahdanau.multi30k_de_en()
    return replace(
        twin,
        paper="cho",
        model=ChoConfig(0, 0, embed_dim=256, hidden_dim=672, maxout_dim=512, dropout=0.4),
        published="20.6 tokenised, greedy (bentrevett's notebook 2, 14.2 M parameters)",
    )


def sutskever_multi30k_de_en() -> Recipe:
    """Sutskever's model: a stacked LSTM that reads the source backwards."""
    twin = bahdanau.multi30k_de_en()
    return replace(
        twin,
        paper="sutskever",
        model=SutskeverConfig(0, 0, embed_dim=256, hidden_dim=512, layers=2, dropout=0.4),
        published="13.8 tokenised, greedy (bentrevett's notebook 1, 13.9 M parameters)",
    )


def europarl_en_fr() -> Recipe:
    """The twin without attention of `bahdanau/europarl_en_fr`, of the same size."""
    twin = bahdanau.europarl_en_fr()
    return replace(
        twin,
        paper="cho",
        model=ChoConfig(0, 0, embed_dim=512, hidden_dim=704, maxout_dim=512, dropout=0.1),
        published="17.82 (WMT14 en-fr, RNNencdec-50; another corpus)",
    )
