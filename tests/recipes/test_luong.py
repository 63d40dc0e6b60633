import pytest

from regard.recipes import RECIPES


@pytest.mark.parametrize(
    ("name", "score", "align"),
    [
        ("dot", "dot", "softmax"),
        ("general", "general", "softmax"),
        ("concat", "concat", "softmax"),
        ("location", "location", "softmax"),
        ("local_m", "general", "local_monotonic"),
        ("local_p", "general", "local_predictive"),
    ],
)
def test_one_recipe_for_each_row_of_the_paper(name: str, score: str, align: str) -> None:
    recipe = RECIPES[f"luong/{name}"]()
    assert (recipe.model.score, recipe.model.align) == (score, align)
    assert recipe.task == RECIPES["bahdanau/multi30k_de_en"]().task  # so that their numbers may be compared


def test_the_general_score_learns_slowly() -> None:
    assert RECIPES["luong/general"]().model.score_rate < 0.1  # five seeds within one BLEU; 13 apart at the full rate
