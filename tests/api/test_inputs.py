import base64
from pathlib import Path

import numpy as np
import pytest
import torch

from regard import api
from regard.base import ConfigError, RegardError
from regard.explanation import Tape, Video
from regard.explanation.png import from_png
from regard.recipes import RECIPES, build_model, build_task, change


def untrained(name: str, *settings: str) -> api.Model:
    recipe = change(RECIPES[name](), settings)
    torch.manual_seed(0)
    task = build_task(recipe)
    return api.Model(name, recipe, task, build_model(recipe, task).eval(), Path("nowhere"))


def test_a_text_is_given_back_as_the_model_takes_it(trained: api.Model) -> None:
    inputs = api.first_inputs(trained, 3)
    assert len(inputs) == 3
    for each in inputs:
        assert set(each) == {"text", "target"}
        assert api.example_prediction(trained, 0).text is not None
        trained.predict(each["text"])


def test_pictures_are_given_as_they_are_shown(gazing: api.Model) -> None:
    first, second = api.first_inputs(gazing, 2)
    head, _, data = first["picture"].partition(",")
    assert head == "data:image/png;base64"
    pixels = from_png(base64.b64decode(data))
    np.testing.assert_array_equal(
        pixels[..., 0], gazing.task.held_out("test").images[api.chosen(gazing, "test", 2)[0], 0]
    )
    assert (first["target"], second["target"]) == ("0", "1")


def test_bits_are_typed_or_drawn_from_a_seed() -> None:
    model = untrained("ntm/copy", "model.hidden_dim=8", "model.slots=8", "model.slot_dim=4")
    texts = [each["text"] for each in api.first_inputs(model)]
    assert texts[0] == model.task.problem.example
    assert texts[1] == "seed=1 length=10"
    for text in texts[:2]:
        assert isinstance(model.predict(text).explanations[0], Tape)
    narrow = untrained("ntm/copy", "model.hidden_dim=8", "model.slots=8", "model.slot_dim=4", "task.bits=3")
    assert [each["text"] for each in api.first_inputs(narrow)] == texts[1:], "the example has eight bits"


def test_a_clip_is_an_example_by_its_number() -> None:
    task = ["task.frames=4", "task.height=16", "task.width=32", "task.held_out=5", "task.batch_size=2"]
    numbers = {"dim": 8, "layers": 1, "heads": 2, "hidden_dim": 8, "roi_size": 2, "location_dim": 2}
    sizes = [*task, "model.trunk=4,4", *(f"model.{name}={value}" for name, value in numbers.items())]
    model = untrained("video_action/two_actors", *sizes)
    first, *_ = api.first_inputs(model, 2)
    assert set(first) == {"example", "text", "target"}
    seen = api.example_prediction(model, first["example"])
    assert seen.source == first["text"]
    assert isinstance(seen.explanations[0], Video)
    for wrong in (-1, True, "../x", 1.5):
        with pytest.raises(ConfigError, match="the number of an example"):
            api.example_prediction(model, wrong)
    with pytest.raises(RegardError, match="has no such example"):
        api.example_prediction(model, 10**6)


def test_data_that_are_not_here_give_no_examples(trained: api.Model, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: object) -> None:
        raise RegardError("the data are not here")

    monkeypatch.setattr("regard.api.inputs.chosen", away)
    assert api.first_inputs(trained) == []
