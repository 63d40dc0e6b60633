import pytest
from sizes import parameters

from regard.recipes import RECIPES

TWINS = {
    "encoder_decoder/plain_en_fr": "bahdanau/plain_en_fr",
    "encoder_decoder/multi30k_de_en": "bahdanau/multi30k_de_en",
    "encoder_decoder/sutskever_multi30k_de_en": "bahdanau/multi30k_de_en",
    "encoder_decoder/europarl_en_fr": "bahdanau/europarl_en_fr",
}


@pytest.mark.parametrize("name", TWINS)
def test_twins_are_of_one_size_on_one_text_trained_alike(name: str) -> None:
    without, attention = RECIPES[name](), RECIPES[TWINS[name]]()
    assert abs(parameters(name) / parameters(TWINS[name]) - 1) < 0.05
    assert (without.task, without.train) == (attention.task, attention.train)
