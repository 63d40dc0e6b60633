from sizes import parameters

from regard.recipes import RECIPES


def test_its_plain_twin_learns_alike() -> None:
    recipe, plain = RECIPES["nonlocal/cifar10"](), RECIPES["senet/plain"]()
    assert (recipe.task, recipe.train, recipe.model.depth) == (plain.task, plain.train, plain.model.depth)
    assert 0 < parameters("nonlocal/cifar10") / parameters("senet/plain") - 1 < 0.05
