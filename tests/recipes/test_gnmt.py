from regard.recipes import RECIPES


def test_length_and_coverage_are_paid_for() -> None:
    recipe = RECIPES["gnmt/multi30k_de_en"]()
    assert (recipe.task.search.length_penalty, recipe.task.search.coverage_penalty) == (1.0, 0.2)
    assert (recipe.model.encoder_layers, recipe.model.decoder_layers) == (4, 4)
    assert recipe.task.corpus == "multi30k"
