from sizes import parameters

from regard import api
from regard.recipes import RECIPES, load_recipe


def test_directions() -> None:
    there, back = RECIPES["transformer/multi30k_de_en"]().task, RECIPES["transformer/multi30k_en_de"]().task
    assert (there.source, there.target) == ("de", "en")
    assert (back.source, back.target) == ("en", "de")


def test_sizes_beside_the_published_ones() -> None:
    assert parameters("transformer/multi30k_de_en") < 9.0e6  # bentrevett's notebook 6
    assert parameters("transformer/multi30k_en_de") < 6.1e6  # fairseq_mmt tiny has 2.6 M


def test_the_model_that_ships_is_of_this_recipe() -> None:
    shipped, recipe = load_recipe(api.shipped()["tatoeba-en-fr"]), RECIPES["transformer/tatoeba_en_fr"]()
    assert (shipped.paper, shipped.model, shipped.task.corpus) == (recipe.paper, recipe.model, recipe.task.corpus)
    model = api.load("tatoeba-en-fr", device="cpu")
    assert (model.num_parameters, model.task.vocabularies) == (parameters("transformer/tatoeba_en_fr"), (8000, 8000))
