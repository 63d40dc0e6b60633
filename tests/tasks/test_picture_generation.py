"""Bits per dimension over all places, and what users ask for: new pictures, completions, enlargements."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from regard.base import ConfigError
from regard.data.pictures import Rows
from regard.explanation import Blocks, Gallery
from regard.models import ImageTransformer, ImageTransformerConfig
from regard.tasks import DrawingSettings, PictureGeneration, PictureGenerationConfig

CONFIG = PictureGenerationConfig("single_shapes", small_size=4, batch_size=4)
MODEL = ImageTransformerConfig(dim=8, num_heads=1, hidden_dim=8, layers=1, query_block=24, memory_block=24)
FEW = DrawingSettings(pictures=2)


def built(**task: Any) -> tuple[PictureGeneration, ImageTransformer]:
    torch.manual_seed(0)
    generation = PictureGeneration(replace(CONFIG, **task))
    return generation, ImageTransformer(generation.complete(replace(MODEL, output="logistics")))


def test_a_uniform_guess_costs_eight_bits() -> None:
    task = PictureGeneration(CONFIG)

    class Guess(torch.nn.Module):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return torch.full((len(images), 192), math.log(256))

    rows = Rows(torch.arange(4))
    assert task.loss(Guess(), rows).total.item() == pytest.approx(8 * rows.count)
    assert task.evaluate(Guess(), "test").figures["bits"] == pytest.approx(8)


def test_bits_are_those_of_every_place_and_picture() -> None:
    """Batches of an evaluation do not matter, rows of the chart sum to the figure, and the loss is the same number."""
    task, model = built()
    task.splits = {**task.splits, "test": task.splits["test"].take(slice(0, 70))}  # a full batch, and a part of one
    test = task.splits["test"]
    nats = torch.cat([model.eval()(test.images[rows]) for rows in torch.arange(70).split(9)]).double()
    exact = (nats.sum() / math.log(2) / len(nats) / 192).item()
    evaluation = task.evaluate(model, "test", full=True)
    assert evaluation.figures["bits"] == pytest.approx(exact, abs=1e-5)
    assert np.mean(evaluation.details["bits_by_row"]) == pytest.approx(exact, abs=1e-5)
    assert float(evaluation.details["outputs"][3]) == pytest.approx(nats[3].sum().item() / math.log(2) / 192, abs=1e-3)
    rows = nats.sum(0).view(8, 8).sum(1) / math.log(2) / len(nats) / 24
    assert evaluation.details["bits_by_row"] == pytest.approx(rows.tolist(), abs=1e-5)
    few = task.evaluate(model, "test", DrawingSettings(evaluated=5))
    assert few.figures["bits"] == pytest.approx((nats[:5].sum() / math.log(2) / 5 / 192).item(), abs=1e-5)
    train = nats.new_tensor(task.loss(model, Rows(torch.tensor([7, 1]))).total.item())
    whole = model(task.splits["train"].images[[7, 1]]).sum() / math.log(2) / 192
    torch.testing.assert_close(train, whole.double(), rtol=1e-5, atol=1e-5)


@pytest.mark.bare
def test_new_pictures_and_completions(tmp_path: Path) -> None:
    task, model = built()
    image = task.splits["test"].images[0].permute(1, 2, 0).numpy()
    Image.fromarray(image).save(tmp_path / "form.png")
    [[new], [other], [again], [completed], [kept]] = [
        *task.predict(model, ["seed=3", "seed=4", "seed=3", str(tmp_path / "form.png")], FEW),
        *task.predict(model, [image], replace(FEW, known=1.0)),
    ]
    assert np.array_equal(new.images, again.images)
    assert not np.array_equal(new.images, other.images)
    assert new.described.startswith("drawn anew (")
    assert np.array_equal(completed.images[:, :4], np.stack([image[:4]] * 2))
    assert completed.text == "completed from 50 % on"
    assert np.array_equal(kept.images[1], image)
    gallery, blocks = completed.explanations
    assert isinstance(gallery, Gallery)
    assert gallery.columns == ("known", "drawn 1", "drawn 2", "picture")
    assert (gallery.tiles()[0, 0, 4:] == 128).all()
    assert isinstance(blocks, Blocks)
    [layer] = task.layers(model, completed)
    assert layer == blocks


@pytest.mark.bare
def test_a_class_must_be_known_where_it_is_told() -> None:
    task, model = built(told="class")
    [[circle]] = task.predict(model, ["circle seed=2"], FEW)
    [[cross]] = task.predict(model, ["cross seed=2"], FEW)
    assert not np.array_equal(circle.images, cross.images)
    picture = np.zeros((8, 8, 3), dtype=np.uint8)
    assert task.predict(model, [picture], replace(FEW, kind="square"))[0][0].images.shape == (2, 8, 8, 3)
    with pytest.raises(ConfigError, match=r"must be told the class of a picture: got 'squar'.*square"):
        task.predict(model, [picture], replace(FEW, kind="squar"))
    with pytest.raises(ConfigError, match="must be told the class of a picture: got ''"):
        task.predict(model, ["seed=2"], FEW)
    [gallery] = task.overviews(model, "test")
    assert gallery.columns == ("square", "circle", "cross", "triangle")
    assert gallery.grid == (4, 4)


@pytest.mark.bare
def test_small_pictures_are_enlarged() -> None:
    task, model = built(told="small")
    numbers = task.choose("test", 3)
    assert len({int(task.splits["test"].labels[number]) for number in numbers}) == 3
    first, *_ = examples = task.examples(model, "test", numbers)
    assert len(examples) == 3
    assert first.output.startswith("enlarged from 4×4 to 8×8 (")
    gallery = first.prediction.explanations[0]
    assert np.array_equal(gallery.tiles()[0, -1], first.image)
    assert np.array_equal(gallery.tiles()[0, 0, ::2], gallery.tiles()[0, 0, 1::2])  # pixels twice as large
    with pytest.raises(ConfigError, match="this model enlarges pictures and draws no new ones: got 'seed=1'"):
        task.predict(model, ["seed=1"], FEW)
    assert task.overviews(model, "test") == []
    assert task.examples(model, "test", []) == []
