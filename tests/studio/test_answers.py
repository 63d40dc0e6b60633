import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from regard.base import ConfigError, RegardError
from regard.explanation import Matrix
from regard.studio import answers
from regard.studio.limits import Limits
from regard.tasks import Prediction


def model(task: str, verb: str = "x", **more: Any) -> Any:
    return SimpleNamespace(
        name="it", entry=SimpleNamespace(name=task, verb=verb, inputs="things"), task=SimpleNamespace(**more)
    )


@pytest.mark.parametrize(
    "settings",
    [
        {"beams": 17},
        {"nbest": 1e9},
        {"max_tokens": 401},
        {"max_ratio": 5},
        {"x": [1]},
        {"x": float("nan")},
        7,
        {str(n): n for n in range(41)},
    ],
)
def test_settings_above_a_limit_are_refused(settings: Any) -> None:
    with pytest.raises(ConfigError, match="setting"):
        answers.settings_of({"settings": settings}, Limits())
    assert answers.settings_of({"settings": {"beams": 16}}, Limits()) == {"beams": 16}


def test_texts_have_a_length() -> None:
    assert answers.text_of({"text": "a" * 2000}, Limits()) == "a" * 2000
    with pytest.raises(ConfigError, match="the text is too long: got 2,001 characters; expected at most 2,000"):
        answers.text_of({"text": "a" * 2001}, Limits())
    with pytest.raises(ConfigError, match="expected a string"):
        answers.text_of({"text": 3}, Limits())


def test_no_text_becomes_the_name_of_a_file() -> None:
    for task in answers.PICTURES:
        with pytest.raises(RegardError, match="is given pictures"):
            answers.input_of(model(task, facts=SimpleNamespace(classes=("cat",))), {"text": "/etc/passwd"}, Limits())
    with pytest.raises(RegardError, match="needs a file"):
        answers.input_of(model("action_recognition"), {"text": "/etc"}, Limits())
    draws = model("picture_generation", "draw", facts=SimpleNamespace(classes=("cat",)))
    assert answers.input_of(draws, {"text": "seed=7 cat"}, Limits()) == "seed=7 cat"
    for text in ("cat cat", "seed=7 seed=8", "seed=x", "", "seed=7 /etc/passwd"):
        with pytest.raises(RegardError, match="is given pictures"):
            answers.input_of(draws, {"text": text}, Limits())


def test_seeds_and_pairs() -> None:
    assert answers.input_of(model("algorithmic"), {"seed": 7, "length": 9}, Limits()) == "seed=7 length=9"
    assert answers.input_of(model("text_classification"), {"text": "a", "second": "b"}, Limits()) == ("a", "b")
    with pytest.raises(ConfigError, match="whole numbers"):
        answers.input_of(model("algorithmic"), {"seed": "7"}, Limits())


def test_pictures_have_a_size() -> None:
    with pytest.raises(RegardError, match="the picture"):
        answers.picture_of(b"no picture", Limits())


def test_a_prediction_is_json_with_its_explanations() -> None:
    prediction = Prediction(
        "a b", "c", ["c"], ["a", "b"], float("-inf"), -1.5, True, np.array([[0.25, 0.75]], np.float32)
    )
    content = answers.prediction_json(prediction)
    json.dumps(content, allow_nan=False)
    assert content["text"] == "c"
    assert content["log_prob"] == -1.5
    assert content["score"] is None
    assert Matrix.from_json(content["explanations"][0]).weights.tolist() == [[0.25, 0.75]]
