import pytest

from regard.recipes import RECIPES


@pytest.mark.parametrize("name", ["mnist28", "cluttered60"])
def test_it_may_stop_before_the_glimpses_of_its_twin(name: str) -> None:
    recipe, twin = RECIPES[f"dt_ram/{name}"](), RECIPES[f"ram/{name}"]()
    assert recipe.task.canvas == twin.task.canvas
    assert recipe.model.ram.glimpses >= twin.model.glimpses
    assert (recipe.model.ram.size, recipe.model.ram.scales) == (twin.model.size, twin.model.scales)


def test_a_late_answer_is_worth_less() -> None:
    assert 0 < RECIPES["dt_ram/mnist28"]().task.discount < 1
