"""Recipes of graph attention networks: settings of the paper, twins, and that the small ones learn by attention."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from regard import api
from regard.recipes import RECIPES
from regard.viz import draw


def test_settings_of_the_paper() -> None:
    for name in ("cora", "citeseer"):
        recipe = RECIPES[f"gat/{name}"]()
        train, model = recipe.train, recipe.model
        assert (train.optimiser, train.lr, train.weight_decay, train.clip) == ("adam", 0.005, 5e-4, None)
        assert (train.patience, train.evaluate_every, train.average) == (100, 1, 0)
        assert (model.hidden_dim, model.heads, model.output_heads, model.layers) == (8, 8, 1, 2)
        assert (model.input_dropout, model.weight_dropout, model.feature_dropout) == (0.6, 0.6, 0.6)
        assert recipe.task.normalise


def test_twins_differ_in_one_thing() -> None:
    cora, constant, second = (RECIPES[f"gat/{name}"]() for name in ("cora", "cora_constant", "cora_gatv2"))
    assert replace(constant.model, attention="learned") == cora.model
    assert replace(second.model, score="gat") == cora.model
    assert constant.train == second.train == cora.train
    assert constant.task == second.task == cora.task


@pytest.mark.bare  # the hook would take as long again
def test_the_small_one_learns_and_its_twin_cannot(tmp_path: Path) -> None:
    """Four communities: chance is right in 25 of 100 nodes, and the mean of the neighbours' colours tells little."""
    recipe = RECIPES["gat/smoke"]()
    model = api.train(recipe, tmp_path / "run")
    accuracy = model.evaluate("test").figures["accuracy"]
    assert accuracy > 85
    blind = api.train(replace(recipe, model=replace(recipe.model, attention="constant")), tmp_path / "blind")
    assert blind.evaluate("test").figures["accuracy"] < accuracy - 15
    [node] = model.predict(["17"])
    draw(node.explanations[0])
    first, _ = model.layers(node)
    badge = model.task.splits["test"].graphs[0].features[:, 0] == 1
    wearing = torch.tensor([bool(badge[int(name.partition(" ")[0])]) for name in first.nodes])
    if wearing.any() and not wearing.all():
        weights = torch.from_numpy(first.weights.max(0))
        assert weights[wearing].max() > weights[~wearing].mean()  # some head looks at badges


@pytest.mark.bare
def test_graphs_that_training_did_not_see(tmp_path: Path) -> None:
    recipe = RECIPES["gat/inductive"]()
    quick = replace(recipe, train=replace(recipe.train, steps=250))
    assert api.train(quick, tmp_path / "run").evaluate("test").figures["accuracy"] > 60  # by chance: 25


def test_a_run_goes_on_where_it_was(tmp_path: Path) -> None:
    recipe = RECIPES["gat/inductive"]()
    every = replace(recipe.train, steps=12, save_every=5, evaluate_every=3, log_every=2)
    small = replace(recipe, model=replace(recipe.model, hidden_dim=4, weight_dropout=0.3))
    whole = api.train(replace(small, train=every), tmp_path / "whole")
    api.train(replace(small, train=replace(every, steps=5)), tmp_path / "cut")
    resumed = api.train(replace(small, train=every), tmp_path / "cut", resume=True)
    for first, second in zip(whole.module.parameters(), resumed.module.parameters(), strict=True):
        assert first.equal(second)
