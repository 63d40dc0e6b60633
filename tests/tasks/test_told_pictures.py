"""Pictures to learn from: data sets whose pixels are exact, folders, and what a model is told."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from regard.base import ConfigError, RegardError
from regard.data.pictures import Facts
from regard.models import ImageTransformerConfig
from regard.tasks import PictureGeneration, PictureGenerationConfig
from regard.tasks.told_pictures import shrunk

CONFIG = PictureGenerationConfig("single_shapes", small_size=4)


def test_the_data_and_the_task_decide_the_model() -> None:
    model = ImageTransformerConfig()
    plain = PictureGeneration(CONFIG).complete(model)
    assert (plain.image_size, plain.channels, plain.classes) == (8, 3, 4)
    assert (plain.class_conditional, plain.small_size) == (False, 0)
    assert PictureGeneration(replace(CONFIG, told="class")).complete(model).class_conditional
    assert PictureGeneration(replace(CONFIG, told="small")).complete(model).small_size == 4
    assert replace(CONFIG, told="small").describe_data() == "single_shapes, 4×4 known"
    assert replace(CONFIG, told="class", folder="x").describe_data() == "own, class known"


def test_what_is_told() -> None:
    images = torch.randint(0, 256, (3, 3, 8, 8), dtype=torch.uint8)
    labels = torch.tensor([2, 0, 1])
    assert PictureGeneration(CONFIG).told(images, labels) == {}
    assert PictureGeneration(replace(CONFIG, told="class")).told(images, labels)["classes"] is labels
    small = PictureGeneration(replace(CONFIG, told="small")).told(images, labels)["small"]
    means = images.double().unflatten(2, (4, 2)).unflatten(4, (4, 2)).mean((3, 5))
    assert (small.double() - means).abs().max() <= 0.5
    with pytest.raises(ConfigError, match=r"task.small_size: got 3; expected a number that divides 8"):
        shrunk(images, 3)


@pytest.mark.parametrize("name", ["cifar10", "svhn"])
def test_pictures_that_went_through_jpeg_are_refused(name: str) -> None:
    with pytest.raises(
        ConfigError, match=f"{name} has pictures that went through JPEG, so bits per dimension would mean"
    ):
        PictureGeneration(PictureGenerationConfig(name))


def test_a_run_folder_keeps_the_facts(tmp_path: Path) -> None:
    facts = Facts(("a", "b"), 1, 3, 8)
    PictureGeneration(CONFIG, facts=facts).save(tmp_path)
    assert PictureGeneration.load(tmp_path, CONFIG).facts == facts
    (tmp_path / "pictures.json").write_text('{"classes": 5}')
    with pytest.raises(RegardError, match="cannot be read"):
        PictureGeneration.load(tmp_path, CONFIG)
    assert PictureGeneration.load(tmp_path / "none", CONFIG).facts.image_size == 8


def test_one_folder_is_enough() -> None:
    assert PictureGeneration.from_files(CONFIG, "pictures", None).folder == "pictures"
    with pytest.raises(ConfigError, match=r"--target: got x.*one folder of pictures is enough"):
        PictureGeneration.from_files(CONFIG, "pictures", "x")
