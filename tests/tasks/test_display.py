"""Every task says how its numbers are shown, and nothing else has to."""

import pytest
from table import cases

from regard.data import Canvas
from regard.recipes import RECIPES
from regard.tasks import TASKS, CaptioningConfig, ClassificationConfig, Column, Display, Figure, TranslationConfig


@pytest.mark.parametrize("name", TASKS)
def test_a_display_fits_together(name: str) -> None:
    entry, display = TASKS[name], TASKS[name].display
    keys = [figure.key for figure in display.figures]
    assert entry.name == name
    assert len(set(keys)) == len(keys)
    assert display.counts in keys
    assert display.counted.better in ("higher", "lower")
    columns = (*display.overview, *display.table, *display.more, *display.report_rows)
    assert all(column.keys for column in columns)
    assert {key.removeprefix("greedy_") for column in columns for key in column.keys} <= set(keys)
    assert display.speed is None or display.speed in keys
    assert display.note


def test_tasks_are_told_apart() -> None:
    for fields in (("task",), ("config",), ("verb", "inputs")):  # pictures and texts are both classified
        assert len({tuple(getattr(entry, field) for field in fields) for entry in TASKS.values()}) == len(TASKS)


def test_what_is_not_said_has_a_default() -> None:
    display = Display((Figure("loss", "loss", 3, "lower"),), "loss", "tokens", "texts", "Texts",
                      overview=(), table=(Column("loss", ("loss",), 3),))  # fmt: skip
    assert display.figure("bits_per_character") == Figure("bits_per_character", "bits per character")
    assert display.report_rows == display.table
    assert (display.decimals("loss"), display.decimals("other")) == (3, 1)


@pytest.mark.parametrize(("task", "name"), [
    (TranslationConfig("multi30k", "de", "en"), "multi30k de→en"),
    (CaptioningConfig("flickr8k"), "flickr8k"),
    (ClassificationConfig("cifar10"), "cifar10"),
    (ClassificationConfig("mnist", Canvas(60)), "mnist 60×60"),
    (ClassificationConfig("mnist", Canvas(60, clutter=4)), "mnist 60×60, 4 pieces of clutter"),
    (ClassificationConfig("mnist", Canvas(100, digits=2, target="sum")), "mnist 100×100, sum of 2"),
])  # fmt: skip
def test_data_in_a_few_words(task: TranslationConfig, name: str) -> None:
    assert task.describe_data() == name


@cases("name", RECIPES)
def test_the_data_of_every_recipe_has_a_name(name: str) -> None:
    task = RECIPES[name]().task
    assert task.describe_data().startswith(task.data_set())
