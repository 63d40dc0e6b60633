"""Multiple object recognition with visual attention (Ba et al. 2015)."""

from dataclasses import replace

from regard.data import Canvas
from regard.models import DRAMConfig, dram_pairs, dram_svhn
from regard.recipes.ram import PAIRS, SMALL, TRAIN
from regard.recipes.recipe import Recipe
from regard.tasks import ClassificationConfig


def pairs() -> Recipe:
    """Which two digits are on 100×100?"""
    return Recipe(
        paper="dram",
        model=dram_pairs(),
        task=ClassificationConfig("mnist", Canvas(100, digits=2, target="pair"), batch_size=1024),
        train=PAIRS,
        note="two digits on 100×100, which ones",
        published="5 (the paper; without context 7, RAM 9)",
    )


def small() -> Recipe:
    """Two embedded digits on 60×60, read from left to right: minutes on two CPU cores."""
    return Recipe(
        paper="dram",
        model=DRAMConfig(
            labels=2,
            glimpses=3,
            size=14,
            scales=2,
            filters=(16, 16, 32),
            glimpse_dim=128,
            hidden_dim=128,
            sigma=0.2,
            he=True,
        ),
        task=ClassificationConfig("digits", Canvas(60, digits=2), batch_size=64, standardise=True),
        train=replace(SMALL, steps=3500, lr=1e-3, evaluate_every=700, save_every=700),
        note="two small digits on 60×60, from left to right, on a CPU",
    )


def sums() -> Recipe:
    """What is their sum? Learnt from sums alone it takes very long: begin with `start=` a run of dram/pairs."""
    recipe = pairs()
    canvas = Canvas(100, digits=2, target="sum")
    return replace(
        recipe, task=replace(recipe.task, canvas=canvas), note="two digits on 100×100, their sum",
        published="2.5 (the paper; a convolutional network 3.2)",
    )  # fmt: skip


def svhn() -> Recipe:
    """House numbers, digit by digit; each picture standardised, as their light differs more than they do."""
    return Recipe(
        paper="dram",
        model=dram_svhn(),
        task=ClassificationConfig(
            "svhn", batch_size=512, crop=54, until_wrong=True, turn=6.0, stretch=0.15, standardise=True
        ),
        train=replace(TRAIN, lr=5e-4, precision="pure_bfloat16", evaluate_every=2500),
        note="house numbers, whole number wrong",
        published="5.1 (the paper, a single DRAM, one walk; with 200,000 pictures more)",
    )
