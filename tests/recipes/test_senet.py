import pytest
from sizes import parameters

from regard.recipes import RECIPES


@pytest.mark.parametrize(("gated", "plain", "more"), [("cifar10", "plain", 8652), ("cifar10_56", "plain_56", 25956)])
def test_twins_differ_in_their_gates_only(gated: str, plain: str, more: int) -> None:
    one, other = RECIPES[f"senet/{gated}"](), RECIPES[f"senet/{plain}"]()
    assert (one.task, one.train, one.model.depth) == (other.task, other.train, other.model.depth)
    assert (one.paper, other.paper) == ("senet", "resnet")
    assert parameters(f"senet/{gated}") - parameters(f"senet/{plain}") == more


def test_the_plain_one_has_the_size_of_the_paper() -> None:
    assert round(parameters("senet/plain") / 1e6, 2) == 0.27
