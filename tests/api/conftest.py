"""What the tests of the entry share: small runs of every task, trained in a moment."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from regard import api
from regard.data import Pictures
from regard.datasets import DATASETS
from regard.datasets.shapes import shapes
from regard.recipes import RECIPES, Recipe, change, with_files

SETTINGS = [
    *(f"model.{name}_dim=8" for name in ("embed", "hidden", "align", "maxout")),
    "task.batch_size=8", "task.search.beams=2", "train.steps=2", "train.log_every=1", "train.evaluate_every=2",
]  # fmt: skip
TRAIN = ["train.steps=2", "train.log_every=1", "train.evaluate_every=1", "train.warmup=0", "train.schedule=constant"]


@pytest.fixture(scope="session")
def shipped() -> api.Model:
    """The Transformer of the package."""
    return api.load("tatoeba-en-fr", device="cpu")


@pytest.fixture(scope="session")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Recipe:
    """A small translator on 75 pairs."""
    path = tmp_path_factory.mktemp("text") / "a.tsv"
    numbers = ["one", "two", "three", "four", "five"]
    pairs = [f"{a} and {b} {c}\t{c} {b} et {a}\n" for a in numbers for b in numbers for c in numbers[:3]]
    path.write_text("".join(pairs))
    return change(with_files(RECIPES["bahdanau/plain_en_fr"](), str(path), None), SETTINGS)


@pytest.fixture(scope="session")
def trained(recipe: Recipe, tmp_path_factory: pytest.TempPathFactory) -> api.Model:
    """Its run, of two steps."""
    return api.train(recipe, tmp_path_factory.mktemp("runs") / "trained")


@pytest.fixture(scope="session")
def gazing(tmp_path_factory: pytest.TempPathFactory) -> api.Model:
    """A model that takes three glimpses of embedded digits."""
    sizes = [f"model.{name}_dim=8" for name in ("part", "glimpse", "hidden")]
    settings = [*sizes, "model.glimpses=3", "task.batch_size=8", *TRAIN]
    return api.train(change(RECIPES["ram/mini"](), settings), tmp_path_factory.mktemp("runs") / "gazing")


@pytest.fixture(scope="session")
def captioning(tmp_path_factory: pytest.TempPathFactory) -> api.Model:
    """A model that says something of painted shapes, from files."""
    folder = tmp_path_factory.mktemp("shapes")
    made = shapes((30, 0, 0))["train"]
    for name in made.names:
        (folder / name).write_bytes(made.read(name))
    lines = [f"{name}\t{texts[0]}\n" for name, texts in zip(made.names, made.captions, strict=True)]
    (folder / "captions.tsv").write_text("".join(lines))
    recipe = with_files(RECIPES["show_attend_tell/shapes"](), str(folder / "captions.tsv"), str(folder))
    sizes = [f"model.{name}_dim=8" for name in ("embed", "hidden", "align", "project")]
    settings = [
        *sizes,
        "task.batch_size=8",
        "task.max_words=10",
        "task.search.beams=2",
        "task.search.min_steps=2",
        *TRAIN,
    ]
    return api.train(change(recipe, settings), tmp_path_factory.mktemp("runs") / "captioning")


def _colours() -> dict[str, Pictures]:
    """A few coloured pictures in place of CIFAR-10."""
    names = ("cat", "dog", "frog")
    labels = torch.arange(12) % len(names)
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (12, 3, 32, 32), generator=generator, dtype=torch.uint8)
    return {name: Pictures(images, labels, names) for name in ("train", "valid", "test")}


def _on_colours(name: str, folder: Path) -> api.Model:
    recipe = RECIPES[name]()
    settings = [*TRAIN, "task.batch_size=4", "train.capture=false", "train.precision=float32"]
    with pytest.MonkeyPatch.context() as patch:  # the task keeps what it has read
        patch.setitem(DATASETS, "cifar10", replace(DATASETS["cifar10"], read=_colours))
        return api.train(change(replace(recipe, model=replace(recipe.model, depth=8)), settings), folder)


@pytest.fixture(scope="session")
def gated(tmp_path_factory: pytest.TempPathFactory) -> api.Model:
    """A network with gates."""
    return _on_colours("senet/cifar10", tmp_path_factory.mktemp("runs") / "gated")


@pytest.fixture(scope="session")
def wide(tmp_path_factory: pytest.TempPathFactory) -> api.Model:
    """A network with a non-local block."""
    return _on_colours("nonlocal/cifar10", tmp_path_factory.mktemp("runs") / "wide")


@pytest.fixture(scope="session")
def digit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A black one on white, 40 × 20."""
    from PIL import Image

    pixels = np.full((40, 20), 255, np.uint8)
    pixels[5:35, 8:12] = 0
    path = tmp_path_factory.mktemp("pictures") / "one.png"
    Image.fromarray(pixels).save(path)
    return path
