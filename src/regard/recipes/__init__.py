"""Recipes: the only place where model, task and data meet. One function for each published or shipped run."""

from collections.abc import Callable

from regard.recipes import bahdanau, convs2s, encoder_decoder, gnmt, luong, transformer
from regard.recipes.ledger import entry, figure, table
from regard.recipes.recipe import (
    Recipe,
    build_model,
    change,
    find_recipe,
    load_recipe,
    load_task,
    save_recipe,
    with_files,
)

RECIPES: dict[str, Callable[[], Recipe]] = {
    "encoder_decoder/plain_en_fr": encoder_decoder.plain_en_fr,
    "encoder_decoder/multi30k_de_en": encoder_decoder.multi30k_de_en,
    "encoder_decoder/sutskever_multi30k_de_en": encoder_decoder.sutskever_multi30k_de_en,
    "encoder_decoder/europarl_en_fr": encoder_decoder.europarl_en_fr,
    "bahdanau/plain_en_fr": bahdanau.plain_en_fr,
    "bahdanau/multi30k_de_en": bahdanau.multi30k_de_en,
    "bahdanau/multi30k_de_en_sparse": bahdanau.multi30k_de_en_sparse,
    "bahdanau/europarl_en_fr": bahdanau.europarl_en_fr,
    "luong/dot": luong.dot,
    "luong/general": luong.general,
    "luong/concat": luong.concat,
    "luong/location": luong.location,
    "luong/local_m": luong.local_m,
    "luong/local_p": luong.local_p,
    "gnmt/multi30k_de_en": gnmt.multi30k_de_en,
    "convs2s/multi30k_de_en": convs2s.multi30k_de_en,
    "transformer/plain_en_fr": transformer.plain_en_fr,
    "transformer/multi30k_de_en": transformer.multi30k_de_en,
    "transformer/multi30k_en_de": transformer.multi30k_en_de,
    "transformer/tatoeba_en_fr": transformer.tatoeba_en_fr,
    "transformer/europarl_en_fr": transformer.europarl_en_fr,
}

__all__ = [
    "RECIPES",
    "Recipe",
    "build_model",
    "change",
    "entry",
    "figure",
    "find_recipe",
    "load_recipe",
    "load_task",
    "save_recipe",
    "table",
    "with_files",
]
