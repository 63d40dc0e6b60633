"""Recipes of neural Turing machines: sizes of the paper, equal twins, and a run that learns."""

from dataclasses import replace
from pathlib import Path

import pytest

from regard import api
from regard.recipes import RECIPES, build_model, build_task

PROBLEMS = ("copy", "repeat_copy", "recall", "ngrams", "sort")


@pytest.mark.parametrize("name", PROBLEMS)
def test_twins_differ_in_the_network_alone(name: str) -> None:
    ours, twin = RECIPES[f"ntm/{name}"](), RECIPES[f"ntm/{name}_lstm"]()
    assert ours.task == twin.task
    own = {name: getattr(twin.train, name) for name in ("steps", "evaluate_every", "save_every", "lr")}
    assert replace(ours.train, **own) == twin.train  # a twin may have more updates, never fewer, and the rate it likes
    assert twin.train.lr in (ours.train.lr, RECIPES["ntm/copy"]().train.lr)
    assert twin.train.steps >= ours.train.steps
    assert (ours.paper, twin.paper) == ("ntm", "ntm_lstm")
    assert ours.task.problem == name
    assert ours.train.clip == 10
    assert (ours.model.slots, ours.model.slot_dim) == (128, 20)
    assert twin.model.layers == 3


def test_sizes_of_the_paper() -> None:
    assert RECIPES["ntm/copy"]().task.tested == (10, 20, 30, 50, 120)
    task = RECIPES["ntm/recall"]().task
    assert (task.bits, task.shortest, task.longest) == (6, 2, 6)
    task = RECIPES["ntm/sort"]().task
    assert (task.shortest, task.longest, task.kept) == (20, 20, 16)
    assert RECIPES["ntm/ngrams"]().task.longest == 200
    task = RECIPES["ntm/repeat_copy"]().task
    assert (task.longest, task.repeats) == (10, 10)


@pytest.mark.parametrize("name", [f"{problem}{twin}" for problem in PROBLEMS for twin in ("", "_lstm")])
def test_channels_come_from_the_data(name: str) -> None:
    recipe = RECIPES[f"ntm/{name}"]()
    task = build_task(recipe)
    model = build_model(recipe, task)
    assert model.config.inputs == task.problem.inputs
    assert model.to_output.out_features == task.problem.outputs


@pytest.mark.bare  # the hook would take as long again
def test_the_small_run_learns_to_copy(tmp_path: Path) -> None:
    """Guessing has every second bit wrong and costs six bits a sequence of two vectors of three bits."""
    model = api.train(RECIPES["ntm/smoke"](), tmp_path / "run")
    figures = model.evaluate("test").figures
    assert figures["wrong"] < 20
    assert figures["bits"] < 4
