"""Recipes of the Image Transformer: settings, twins that differ in one thing, and that the small ones learn."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from regard import api
from regard.models import MODELS
from regard.recipes import RECIPES, with_files
from regard.viz import draw

CIFAR = [name for name in RECIPES if name.startswith("image_transformer/cifar10")]


def recipe_of(name: str):
    return RECIPES[f"image_transformer/{name}"]()


def test_recipes_differ_in_what_they_say() -> None:
    base = recipe_of("cifar10")
    assert (base.model.query_block, base.model.memory_block, base.model.layers) == (256, 256, 8)
    for length in (64, 16):
        other = recipe_of(f"cifar10_block{length}")
        assert replace(other.model, query_block=256, memory_block=256) == base.model
        assert (other.model.query_block, other.model.memory_block) == (length, length)
        assert (other.task, other.train) == (base.task, base.train)
    assert replace(recipe_of("cifar10_2d").model, local="1d") == base.model
    told, twin = recipe_of("cifar10_super_resolution"), recipe_of("cifar10_super_resolution_twin")
    assert replace(told.task, told="nothing") == twin.task
    assert (told.model, told.train) == (twin.model, twin.train)
    assert replace(recipe_of("cifar10_classes").task, told="nothing") == recipe_of("cifar10_dmol").task
    assert all(RECIPES[name]().task.dataset == "cifar10_lossless" for name in CIFAR)


@pytest.mark.parametrize("name", CIFAR)
def test_full_sizes_fit_pictures_of_cifar10(name: str) -> None:
    """Built on the meta device and run there: shapes of all layers, and widths that fused kernels take."""
    recipe = RECIPES[name]()
    task = recipe.task
    known = {"class_conditional": task.told == "class", "small_size": 8 if task.told == "small" else 0}
    config = replace(recipe.model, image_size=32, channels=3, classes=10, layers=1, encoder_layers=1, **known)
    with torch.device("meta"):
        model = MODELS[recipe.paper].model(config)
    assert (config.dim // config.num_heads) % 8 == 0
    assert config.places == (1024 if config.output == "logistics" else 3072)
    assert model.to_output.out_features == (100 if config.output == "logistics" else 256)


@pytest.mark.bare  # the hook would take as long again
def test_the_small_one_learns_and_needs_its_memory(tmp_path: Path) -> None:
    """Each number alone costs 2.4 bits; 6 bits for one of 64 pictures are 0.03. Blocks of three places see a pixel."""
    recipe = recipe_of("smoke")
    quick = replace(recipe, train=replace(recipe.train, steps=80, evaluate_every=80, save_every=80))
    model = api.train(quick, tmp_path / "run")
    bits = model.evaluate("test").figures["bits"]
    assert bits < 0.35
    narrow = replace(quick, model=replace(quick.model, query_block=3, memory_block=0))
    assert api.train(narrow, tmp_path / "narrow").evaluate("test").figures["bits"] > bits + 0.1
    [drawn] = model.predict(["seed=1"], pictures=2)
    assert drawn.images.shape == (2, 8, 8, 3)
    for explanation in drawn.explanations:
        draw(explanation)


@pytest.mark.bare
def test_a_small_picture_helps_and_own_pictures_are_read(tmp_path: Path) -> None:
    chance = np.random.default_rng(0)
    for number in range(20):
        colours = chance.integers(0, 256, (4, 4, 3), dtype=np.uint8)
        (tmp_path / "own").mkdir(exist_ok=True)
        Image.fromarray(colours.repeat(2, 0).repeat(2, 1)).save(tmp_path / "own" / f"{number:02d}.png")
    recipe = with_files(recipe_of("smoke_super_resolution"), str(tmp_path / "own"), None)
    train = replace(recipe.train, steps=3, warmup=0, evaluate_every=3, save_every=3, log_every=1)
    model = api.train(replace(recipe, train=train), tmp_path / "run")
    assert model.task.config.data_set() == "own"
    assert model.module.config.small_size == 4
    assert model.evaluate("test").figures["bits"] < 9
    [enlarged] = model.predict([str(tmp_path / "own" / "03.png")], pictures=1)
    assert enlarged.text == "enlarged from 4×4 to 8×8"


def test_a_run_goes_on_where_it_was(tmp_path: Path) -> None:
    recipe = recipe_of("smoke")
    every = replace(recipe.train, steps=4, warmup=0, schedule="constant", save_every=2, evaluate_every=2, log_every=1)
    small = replace(recipe, model=replace(recipe.model, layers=1, dim=8, hidden_dim=8, dropout=0.2))
    whole = api.train(replace(small, train=every), tmp_path / "whole")
    api.train(replace(small, train=replace(every, steps=2)), tmp_path / "cut")
    resumed = api.train(replace(small, train=every), tmp_path / "cut", resume=True)
    for first, second in zip(whole.module.parameters(), resumed.module.parameters(), strict=True):
        assert first.equal(second)
