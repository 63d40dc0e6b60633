from sizes import parameters

from regard.recipes import RECIPES


def test_the_text_of_the_transformer_in_other_layers() -> None:
    recipe, base = RECIPES["convs2s/multi30k_de_en"](), RECIPES["transformer/multi30k_de_en"]()
    assert recipe.task == base.task
    assert (recipe.train.clip, recipe.model.kernel) == (0.5, 3)


def test_size_beside_the_published_one() -> None:
    assert 0.5 * 37.4e6 < parameters("convs2s/multi30k_de_en") < 37.4e6  # bentrevett's notebook 5
