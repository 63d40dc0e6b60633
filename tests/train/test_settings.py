"""Settings of a training: what is refused, and in which words."""

import json
from typing import Any

import pytest

from regard.base import ConfigError, from_json, override, to_json
from regard.train import OPTIMISERS, SCHEDULES, Train


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"steps": 0}, "train.steps: got 0; expected 1 or more"),
        ({"accumulate": -1}, "train.accumulate: got -1; expected 1 or more"),
        ({"keep": 0}, "train.keep: got 0"),
        ({"optimiser": "adma"}, "train.optimiser: got 'adma'; expected one of adam, .*Did you mean 'adam'?"),
        ({"schedule": "cosin"}, "train.schedule: got 'cosin'; .*Did you mean 'cosine'?"),
        ({"lr": 0.0}, "train.lr: got 0.0; expected more than 0"),
        ({"lr": float("nan")}, "train.lr: got nan"),
        ({"seconds": 0.0}, "train.seconds: got 0.0; expected more than 0"),
        ({"clip": 0.0}, "train.clip: got 0.0; expected more than 0"),
        ({"patience": 0}, "train.patience: got 0; expected 1 or more"),
        ({"seed": -1}, "train.seed: got -1; expected 0 or more"),
        ({"warmup": -1}, "train.warmup: got -1"),
        ({"average": -1}, "train.average: got -1"),
        ({"average": 4}, "train.average: got 4; expected at most train.keep, 3. Try: raise train.keep"),
        ({"undecayed": ("bias", "")}, "train.undecayed: .* expected no empty name. Try: give parts of names, such as"),
        ({"ema": 1.0}, "train.ema: got 1.0; expected 0 ≤ ema < 1"),
        (
            {"optimiser": "nag", "momentum": 0.0},
            "train.momentum: got 0.0; expected more than 0 for nag. Try: set train.optimiser=sgd",
        ),
    ],
)
def test_what_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Train(**settings)


@pytest.mark.bare
def test_an_unknown_precision() -> None:
    with pytest.raises(ConfigError, match=r"train.precision: got 'float16'; expected one of float32, tf32, bf"):
        Train(precision="float16")  # type: ignore[arg-type]


def test_there_and_back() -> None:
    settings = Train(
        steps=5, betas=(0.9, 0.98), clip=None, ema=0.5, patience=2, seconds=1.5, average=2, undecayed=("gate",)
    )
    assert from_json(Train, json.loads(json.dumps(to_json(settings)))) == settings
    assert override(
        Train(), ["clip=none", "betas=0.9,0.98", "precision=bfloat16", "capture=yes", "undecayed=gate,bias"]
    ) == Train(clip=None, betas=(0.9, 0.98), precision="bfloat16", capture=True, undecayed=("gate", "bias"))
    assert override(Train(undecayed=("gate",)), ["undecayed="]).undecayed == ()


def test_every_name_is_allowed() -> None:
    for optimiser in OPTIMISERS:
        for schedule in SCHEDULES:
            Train(optimiser=optimiser, schedule=schedule)
