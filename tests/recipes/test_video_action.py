"""Recipes of the Video Action Transformer: twins differ in one thing, and context is learnt by attention alone."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from regard import api
from regard.recipes import RECIPES
from regard.viz import draw


def test_twins_differ_in_one_thing() -> None:
    for name, changes in (("two_actors", {"roi": "head", "i3d": "head", "without_locations": "locations",
                                          "relative": "locations", "low": "query"}),
                          ("weizmann", {"roi": "head", "i3d": "head", "without_locations": "locations"})):  # fmt: skip
        first = RECIPES[f"video_action/{name}"]()
        for twin, setting in changes.items():
            other = RECIPES[f"video_action/{name}_{twin}"]()
            assert (other.task, other.train) == (first.task, first.train)
            own = {setting: getattr(first.model, setting)}
            assert replace(other.model, **own) == first.model != other.model


def test_no_figure_of_a_left_out_person_chooses_weights() -> None:
    recipe = RECIPES["video_action/weizmann"]()
    assert recipe.task.leave_one_out
    assert recipe.train.average == 1  # the last weights, not the best ones
    assert recipe.train.clip is None  # a norm over nine networks would let one slow the others


@pytest.mark.bare  # the hook would take as long again
def test_the_small_one_learns_context_and_the_box_alone_does_not(tmp_path: Path) -> None:
    """Whether both go the same way: guessing is right in 50 of 100, and so is who sees one of them only."""
    recipe = RECIPES["video_action/smoke"]()
    short = replace(
        recipe,
        model=replace(recipe.model, trunk=(8, 16)),
        task=replace(recipe.task, frames=6),
        train=replace(recipe.train, steps=100, lr=6e-3, evaluate_every=100, save_every=100),
    )
    model = api.train(short, tmp_path / "run")
    shares = model.evaluate("test").details["by_label"]
    assert shares["goes right"] > 85
    assert shares["goes the same way"] > 80
    [example] = model.task.examples(model.module, "test", [3])
    draw(example.prediction.explanations[0])
    fewer = replace(short.train, steps=60, evaluate_every=60, save_every=60)
    blind = replace(short, task=replace(short.task, box_only=True, batch_size=10), train=fewer)
    alone = api.train(blind, tmp_path / "blind").evaluate("test").details["by_label"]
    assert alone["goes right"] > 70
    assert alone["goes the same way"] < 58  # 512 labels: chance is 50 ± 2.2


def test_a_run_goes_on_where_it_was(tmp_path: Path) -> None:
    recipe = RECIPES["video_action/smoke"]()
    small = replace(recipe, model=replace(recipe.model, trunk=(4, 4), dim=8, dropout=0.2),
                    task=replace(recipe.task, frames=4, batch_size=4, held_out=4))  # fmt: skip
    every = replace(recipe.train, steps=6, save_every=3, evaluate_every=3, log_every=2, schedule="constant")
    whole = api.train(replace(small, train=every), tmp_path / "whole")
    api.train(replace(small, train=replace(every, steps=3)), tmp_path / "cut")
    resumed = api.train(replace(small, train=every), tmp_path / "cut", resume=True)
    for first, second in zip(whole.module.parameters(), resumed.module.parameters(), strict=True):
        assert torch.equal(first, second)
