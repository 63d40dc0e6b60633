from regard.recipes import RECIPES


def test_the_smoke_recipe_needs_no_download_and_no_gpu() -> None:
    recipe = RECIPES["show_attend_tell/shapes"]()
    assert (recipe.task.dataset, recipe.task.encoder.name) == ("shapes", "patches")
    assert (recipe.train.capture, recipe.train.precision) == (False, "float32")


def test_soft_hard_and_none_on_the_same_pictures() -> None:
    soft, hard, mean = (RECIPES[f"show_attend_tell/flickr8k_{name}"]() for name in ("soft", "hard", "mean"))
    assert {recipe.task.dataset for recipe in (soft, hard, mean)} == {"flickr8k"}
    assert {recipe.task.metrics for recipe in (soft, hard, mean)} == {soft.task.metrics}
    assert (hard.model.align, soft.model.align) == ("sample", "softmax")
    assert mean.model.mean_pooled
    assert not soft.model.mean_pooled
    assert soft.task.doubly_stochastic > 0
    assert mean.task.doubly_stochastic == 0  # there are no weights to balance
    assert hard.task.reward > 0
