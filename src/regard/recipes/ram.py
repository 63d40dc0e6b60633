"""Recurrent models of visual attention (Mnih et al. 2014), and the two baselines of its tables."""

from dataclasses import replace
from typing import Any

from regard.data import Canvas
from regard.models import ConvolutionalConfig, FullyConnectedConfig, RAMConfig, ram_28, ram_60, ram_100
from regard.recipes.recipe import Recipe
from regard.tasks import ClassificationConfig
from regard.train import Train

TRAIN = Train(steps=30_000, lr=1e-3, schedule="cosine", warmup=200, precision="tf32", capture=True, ema=0.999,
              log_every=500, evaluate_every=5000, save_every=10_000, keep=1)  # fmt: skip
SHORT = replace(TRAIN, steps=8000, lr=2e-3, precision="pure_bfloat16")
LONG = replace(TRAIN, steps=24_000, precision="pure_bfloat16")
LONGEST = replace(LONG, steps=40_000)
PAIRS = replace(LONG, steps=12_000)
BASELINE = replace(TRAIN, steps=LONGEST.steps, lr=2e-3)  # as many updates as the model that they are compared with
WIDE: dict[str, Any] = {"core": "lstm", "part_dim": 256, "glimpse_dim": 512, "hidden_dim": 512}  # twice the paper's
WIDER: dict[str, Any] = {"part_dim": 512, "glimpse_dim": 1024, "hidden_dim": 1024}  # four times
TURNED: dict[str, Any] = {"turn": 8.0, "stretch": 0.08}
SHAKEN: dict[str, Any] = {"turn": 15.0, "stretch": 0.15, "crop": 28, "pad": 2}  # without it 28×28 is learnt by heart


MINI = RAMConfig(glimpses=4, size=8, scales=2, core="lstm", location_rate=0.1)
SMALL = Train(
    steps=600, lr=3e-3, schedule="cosine", log_every=100, evaluate_every=300, save_every=300, keep=1
)  # fmt: skip


def mini() -> Recipe:
    """Embedded digits, on two CPU cores, in half a minute."""
    return Recipe(
        paper="ram",
        model=MINI,
        task=ClassificationConfig("digits", batch_size=64),
        train=Train(
            steps=350, lr=3e-3, schedule="cosine", log_every=50, evaluate_every=175, save_every=175, keep=1
        ),
        note="1,797 small digits, on a CPU",
    )  # fmt: skip


def digits60() -> Recipe:
    """A digit somewhere on 60×60 among pieces of others, embedded digits, in the paper's widths; it ships."""
    return Recipe(
        paper="ram",
        model=replace(ram_60(), core="lstm"),
        task=ClassificationConfig("digits", Canvas(60, clutter=4), batch_size=512, turn=12.0, stretch=0.12),
        train=replace(SHORT, steps=20_000, evaluate_every=4000),
        note="1,797 small digits among pieces of others, 60×60, 8 glimpses; ships with the package",
    )


def mnist28() -> Recipe:
    """Six glimpses of 8×8 pixels, in the paper's widths; digits are turned, stretched and shifted a little."""
    recipe = _recipe(ram_28(), Canvas(), "digits of 28×28, 6 glimpses", "1.29 (NIPS 2014); 1.12 (arXiv v1)")
    task = replace(recipe.task, **SHAKEN)
    return replace(recipe, model=replace(ram_28(), core="lstm"), task=task, train=SHORT)


def translated60() -> Recipe:
    """A digit somewhere on 60×60, turned a little."""
    recipe = _recipe(ram_60(), Canvas(60), "translated digits, 8 glimpses", "1.84 (NIPS 2014); 1.20 (arXiv v1)")
    return replace(recipe, task=replace(recipe.task, **TURNED), train=SHORT)


def cluttered60() -> Recipe:
    """A digit somewhere on 60×60, among pieces of others; four times the paper's width."""
    published = "5.23 (NIPS 2014); 4.04 (arXiv v1)"
    recipe = _recipe(ram_60(), Canvas(60, clutter=4), "cluttered 60×60, 8 glimpses", published)
    return replace(recipe, model=replace(recipe.model, **WIDER), train=LONGEST)


def cluttered100() -> Recipe:
    """The same on 100×100, seen at four scales; digits turned a little."""
    recipe = _recipe(ram_100(), Canvas(100, clutter=4), "cluttered 100×100, 8 glimpses", "10.83 (NIPS 2014)")
    model, task = replace(recipe.model, **WIDER), replace(recipe.task, **TURNED)
    return replace(recipe, model=model, task=task, train=LONG)


def pairs() -> Recipe:
    """Two digits on 100×100, beside dram/pairs: as many glimpses through the same retina."""
    model = replace(ram_100(), size=14, scales=3)
    canvas = Canvas(100, digits=2, target="pair")
    recipe = _recipe(model, canvas, "two digits on 100×100, which ones", "9 (Ba et al. 2015)")
    return replace(recipe, train=PAIRS)


def sums() -> Recipe:
    """What is their sum?"""
    recipe = pairs()
    task = replace(recipe.task, canvas=replace(recipe.task.canvas, target="sum"))
    return replace(recipe, task=task, note="two digits on 100×100, their sum", published="")


def fully_connected() -> Recipe:
    """The baseline that sees all pixels of a cluttered 60×60: pictures and updates as in `cluttered60`."""
    published = "13.2 (NIPS 2014); 11.96 (arXiv v1)"
    return _baseline(FullyConnectedConfig(), published, paper="fully_connected")


def convolutional() -> Recipe:
    """The baseline with eight filters of 10×10: pictures and updates as in `cluttered60`."""
    published = "7.83 (NIPS 2014); 8.09 (arXiv v1)"
    return _baseline(ConvolutionalConfig(), published, paper="convolutional")


def _baseline(model: Any, published: str, *, paper: str) -> Recipe:
    recipe = _recipe(model, Canvas(60, clutter=4), "cluttered 60×60", published, paper=paper)
    return replace(recipe, train=BASELINE)


def _recipe(model: Any, canvas: Canvas, note: str, published: str, *, paper: str = "ram") -> Recipe:
    if isinstance(model, RAMConfig):
        model = replace(model, **WIDE)
    return Recipe(
        paper=paper,
        model=model,
        task=ClassificationConfig("mnist", canvas, batch_size=1024),
        train=TRAIN,
        note=note,
        published=published,
    )
