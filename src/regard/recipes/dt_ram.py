"""Dynamic computational time for visual attention (Li et al. 2017)."""

from dataclasses import replace

from regard.data import Canvas
from regard.models import DTRAMConfig, ram_28, ram_60
from regard.recipes.ram import MINI, SHAKEN, SHORT, SMALL, TRAIN, WIDE
from regard.recipes.recipe import Recipe
from regard.tasks import ClassificationConfig


def mnist28() -> Recipe:
    """At most seven glimpses of 8×8, fewer where fewer do."""
    return Recipe(
        paper="dt_ram",
        model=DTRAMConfig(replace(ram_28(), glimpses=7, core="lstm")),
        task=ClassificationConfig("mnist", batch_size=1024, discount=0.99, **SHAKEN),
        train=SHORT,
        note="digits of 28×28, as many glimpses as it takes",
        published="1.12 in 5.2 glimpses (the paper; RAM 1.07 in 7)",
    )


def mini() -> Recipe:
    """Embedded digits, at most five glimpses, fewer where fewer do: a minute on two CPU cores."""
    return Recipe(
        paper="dt_ram",
        model=DTRAMConfig(replace(MINI, glimpses=5)),
        task=ClassificationConfig("digits", batch_size=64, discount=0.99),
        train=SMALL,
        note="1,797 small digits, as many glimpses as it takes, on a CPU",
    )


def cluttered60() -> Recipe:
    """The same on a cluttered 60×60."""
    recipe = mnist28()
    model = DTRAMConfig(replace(ram_60(), **WIDE))
    task = ClassificationConfig("mnist", Canvas(60, clutter=4), batch_size=1024, discount=0.99)
    note = "cluttered 60×60, as many glimpses as it takes"
    return replace(recipe, model=model, task=task, train=TRAIN, note=note, published="")
