from dataclasses import replace

import pytest
from sizes import parameters

from regard.models import SENet
from regard.recipes import RECIPES


@pytest.mark.parametrize(("gated", "plain", "more"), [("cifar10", "plain", 8652), ("cifar10_56", "plain_56", 25956)])
def test_twins_differ_in_their_gates_only(gated: str, plain: str, more: int) -> None:
    one, other = RECIPES[f"senet/{gated}"](), RECIPES[f"senet/{plain}"]()
    train = replace(one.train, undecayed=())  # of which the plain one has none
    assert (one.task, train, one.model.depth) == (other.task, other.train, other.model.depth)
    assert all(part.startswith("gate.") for part in one.train.undecayed)
    assert (one.paper, other.paper) == ("senet", "resnet")
    assert parameters(f"senet/{gated}") - parameters(f"senet/{plain}") == more


def test_what_does_not_decay_is_in_every_block() -> None:
    recipe = RECIPES["senet/cifar10_56"]()
    (part,) = recipe.train.undecayed
    names = [name for name, _ in SENet(recipe.model).named_parameters() if part in name]
    assert len(names) == 2 * 27  # a scale and a shift


def test_the_plain_one_has_the_size_of_the_paper() -> None:
    assert round(parameters("senet/plain") / 1e6, 2) == 0.27
