"""Recipes of the Image Transformer: CIFAR-10 in bits per dimension, blocks of several lengths, and super-resolution.

Norms come before the layers and there is no dropout: in a few epochs a model learns faster so, and does not overfit.
Forward and backward cost 545 GFLOP a picture with a softmax for each channel (8 layers), 275 with logistics (12
layers). A training ends after 18 minutes, wherever it is then: the rate follows the clock.
"""

from dataclasses import replace

from regard.models import ImageTransformerConfig
from regard.recipes.recipe import Recipe
from regard.tasks import PictureGenerationConfig
from regard.train import Train

TRAIN = Train(
    steps=24_000, seconds=1080.0, lr=7e-4, betas=(0.9, 0.95), schedule="cosine", warmup=1000, precision="pure_bfloat16",
    capture=True, ema=0.999, log_every=100, evaluate_every=6000, save_every=12_000, keep=1,
)  # fmt: skip


def smoke() -> Recipe:
    """Generated pictures of 8×8 pixels, a coloured form on a grey ground: less than a minute on a CPU."""
    return Recipe(
        paper="image_transformer",
        model=ImageTransformerConfig(
            dim=32, num_heads=2, hidden_dim=64, layers=2, query_block=48, memory_block=48, dropout=0.0, pre_norm=True
        ),
        task=PictureGenerationConfig("single_shapes", small_size=4, batch_size=16, side=8),
        train=Train(
            steps=160, lr=1e-2, schedule="cosine", warmup=20, log_every=40, evaluate_every=80, save_every=80, keep=1
        ),
        note="generated pictures, on a CPU",
    )


def smoke_super_resolution() -> Recipe:
    """The same pictures from 4×4 pixels, by an encoder and a decoder."""
    recipe = smoke()
    return replace(
        recipe,
        model=replace(recipe.model, encoder_layers=1),
        task=replace(recipe.task, told="small"),
        note="generated pictures, 4×4 → 8×8, on a CPU",
    )


def cifar10() -> Recipe:
    """CIFAR-10, a softmax for each channel: 3,072 places, query and memory blocks of 256; 8 layers as in the table."""
    return Recipe(
        paper="image_transformer",
        model=ImageTransformerConfig(layers=8, dropout=0.0, pre_norm=True),
        task=PictureGenerationConfig(batch_size=16),
        train=TRAIN,
        note="pictures of 32×32, a softmax for each channel, blocks of 256",
        published="2.99 (the paper, 1D, categorical; days of training)",
    )


def cifar10_block64() -> Recipe:
    """The same with query and memory blocks of 64."""
    return _with_blocks(64, "3.13 (the paper, 8 layers)")


def cifar10_block16() -> Recipe:
    """The same with query and memory blocks of 16."""
    return _with_blocks(16, "3.47 (the paper, 8 layers)")


def cifar10_2d() -> Recipe:
    """The same with blocks of 8×8 pixels, which see 8 rows above and 4 columns on either side."""
    recipe = cifar10()
    return replace(
        recipe,
        model=replace(recipe.model, local="2d"),
        note="pictures of 32×32, a softmax for each channel, blocks of 8×8 pixels",
        published="2.99 (the paper, 2D, categorical; days of training)",
    )


def cifar10_dmol() -> Recipe:
    """CIFAR-10, ten discretised logistics for each pixel: 1,024 places, 12 layers."""
    return Recipe(
        paper="image_transformer",
        model=ImageTransformerConfig(output="logistics", dropout=0.0, pre_norm=True),
        task=PictureGenerationConfig(batch_size=32),
        train=TRAIN,
        note="pictures of 32×32, ten logistics for each pixel, blocks of 256",
        published="2.90 (the paper, 1D, logistics; days of training)",
    )


def cifar10_classes() -> Recipe:
    """CIFAR-10 with the class known, ten logistics for each pixel."""
    recipe = cifar10_dmol()
    return replace(
        recipe,
        task=replace(recipe.task, told="class"),
        note="pictures of 32×32 of a known class, ten logistics for each pixel",
        published="",
    )


def cifar10_super_resolution() -> Recipe:
    """CIFAR-10 from 8×8 pixels to 32×32: four layers read the small picture, and every layer attends to it."""
    recipe = cifar10()
    return replace(
        recipe,
        task=replace(recipe.task, told="small"),
        train=replace(TRAIN, steps=12_000, evaluate_every=4000),
        note="pictures of 32×32 from 8×8, a softmax for each channel",
        published="",
    )


def cifar10_super_resolution_twin() -> Recipe:
    """The twin, which is not told the small picture: as many updates."""
    recipe = cifar10_super_resolution()
    return replace(
        recipe,
        task=replace(recipe.task, told="nothing"),
        note="pictures of 32×32, nothing known: the twin of super-resolution",
    )


def _with_blocks(length: int, published: str) -> Recipe:
    recipe = cifar10()
    return replace(
        recipe,
        model=replace(recipe.model, query_block=length, memory_block=length),
        note=f"pictures of 32×32, a softmax for each channel, blocks of {length}",
        published=published,
    )
