import pytest

from regard.data import Canvas
from regard.recipes import RECIPES
from regard.recipes.figures import SHOWN, data_folder, data_name, kind_of
from regard.tasks import TASKS, CaptioningConfig, ClassificationConfig, TranslationConfig


def test_every_task_is_shown() -> None:
    assert list(SHOWN) == list(TASKS)
    for shown in SHOWN.values():
        assert shown.counts in shown.figures


@pytest.mark.parametrize(("figures", "kind"), [
    ({"loss": 1.0, "tokenized_bleu": 3.0, "bleu": 2.0}, "translation"),
    ({"loss": 1.0, "error": 3.0}, "classification"),
    ({"loss": 1.0, "bleu_1": 3.0, "bleu_4": 1.0}, "captioning"),
])  # fmt: skip
def test_figures_say_of_which_task_they_are(figures: dict[str, float], kind: str) -> None:
    assert kind_of(figures) == kind


@pytest.mark.parametrize(("task", "name"), [
    (TranslationConfig("multi30k", "de", "en"), "multi30k de→en"),
    (CaptioningConfig("flickr8k"), "flickr8k"),
    (ClassificationConfig("cifar10"), "cifar10"),
    (ClassificationConfig("mnist", Canvas(60)), "mnist 60×60"),
    (ClassificationConfig("mnist", Canvas(60, clutter=4)), "mnist 60×60, 4 pieces of clutter"),
    (ClassificationConfig("mnist", Canvas(100, digits=2, target="sum")), "mnist 100×100, sum of 2"),
])  # fmt: skip
def test_data_in_a_few_words(task: object, name: str) -> None:
    assert data_name(task) == name


@pytest.mark.parametrize("name", RECIPES)
def test_the_data_of_every_recipe_has_a_name(name: str) -> None:
    task = RECIPES[name]().task
    assert data_name(task).startswith(data_folder(task))
