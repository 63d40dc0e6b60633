import pytest
from sizes import parameters

from regard.recipes import RECIPES

CLUTTERED = ("ram/cluttered60", "ram/fully_connected", "ram/convolutional")


def test_the_embedded_digits_need_no_download_and_no_gpu() -> None:
    recipe = RECIPES["ram/mini"]()
    assert recipe.task.dataset == "digits"
    assert (recipe.train.capture, recipe.train.precision) == (False, "float32")


@pytest.mark.parametrize(("name", "side", "clutter", "scales", "glimpses"), [
    ("mnist28", None, 0, 1, 6), ("translated60", 60, 0, 3, 8), ("cluttered60", 60, 4, 3, 8),
    ("cluttered100", 100, 4, 4, 8),
])  # fmt: skip
def test_canvases_and_retinas_of_the_paper(
    name: str, side: int | None, clutter: int, scales: int, glimpses: int
) -> None:
    recipe = RECIPES[f"ram/{name}"]()
    canvas = recipe.task.canvas
    assert (canvas.size, canvas.clutter, canvas.patch) == (side, clutter, 8)
    assert (recipe.model.scales, recipe.model.glimpses) == (scales, glimpses)
    assert recipe.model.size == (8 if side is None else 12)


def test_baselines_see_the_same_pictures() -> None:
    tasks = [RECIPES[name]().task for name in CLUTTERED]
    assert {(task.dataset, task.canvas, task.canvas_seed) for task in tasks} == {
        ("mnist", tasks[0].canvas, tasks[0].canvas_seed)
    }
    recipes = [RECIPES[name]() for name in CLUTTERED]
    shown = ("batch_size", "turn", "stretch", "crop", "pad", "mirror", "erase")
    assert len({tuple(getattr(recipe.task, name) for name in shown) for recipe in recipes}) == 1
    assert len({recipe.train.steps for recipe in recipes}) == 1
    assert {RECIPES[name]().paper for name in CLUTTERED} == {"ram", "fully_connected", "convolutional"}


def test_one_walk_for_each_picture_unless_stated() -> None:
    for name, build in RECIPES.items():
        if name.startswith(("ram/", "dt_ram/")):
            assert build().task.draws <= 1, name


def test_sizes() -> None:
    assert parameters("ram/fully_connected") == 3600 * 256 + 256 + 256 * 256 + 256 + 256 * 10 + 10
    published = ("model.part_dim=128", "model.glimpse_dim=256", "model.hidden_dim=256")
    assert parameters("ram/cluttered60") > 3 * parameters("ram/cluttered60", *published)
    assert parameters("ram/cluttered60", *published) < parameters("ram/fully_connected")
