from dataclasses import replace

from regard.recipes import RECIPES


def test_pairs_and_sums_differ_in_the_question_only() -> None:
    pairs, sums = RECIPES["dram/pairs"](), RECIPES["dram/sums"]()
    assert replace(sums.task, canvas=pairs.task.canvas) == pairs.task
    assert (pairs.task.canvas.target, sums.task.canvas.target) == ("pair", "sum")
    assert (pairs.task.canvas.size, pairs.task.canvas.digits) == (100, 2)
    assert pairs.model == sums.model


def test_ram_has_the_same_pictures_and_the_same_retina() -> None:
    for name in ("pairs", "sums"):
        ours, twin = RECIPES[f"dram/{name}"](), RECIPES[f"ram/{name}"]()
        assert ours.task == twin.task
        for what in ("glimpses", "size", "scales", "sigma"):
            assert getattr(ours.model, what) == getattr(twin.model, what), what


def test_house_numbers_are_read_label_by_label() -> None:
    recipe = RECIPES["dram/svhn"]()
    assert (recipe.task.dataset, recipe.task.crop) == ("svhn", 54)
    assert recipe.task.canvas.size is None
    assert recipe.model.context
