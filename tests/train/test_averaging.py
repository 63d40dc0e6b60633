"""Means of weights, against the sum written out."""

from contextlib import suppress

import pytest
import torch
import toy
from torch import nn

from regard.train import RunningMean, mean_of, weights


def test_the_running_mean() -> None:
    model = nn.Linear(1, 1, bias=False)
    with torch.no_grad():
        model.weight.fill_(1.0)
    mean = RunningMean(model, 0.25)
    expected = 1.0
    for step, value in enumerate([2.0, -1.0, 5.0, 0.5], 1):
        with torch.no_grad():
            model.weight.fill_(value)
        mean.aim(step)
        mean.update()
        decay = min(0.25, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay) * value
        assert mean.tensors()["weight"].item() == pytest.approx(expected)
        assert model.weight.item() == value
    assert [min(0.25, (1 + step) / (10 + step)) for step in (1, 2, 3)] == [2 / 11, 0.25, 0.25]  # both cases were seen


def test_in_place_and_back() -> None:
    model = toy.network()
    mean = RunningMean(model, 0.9)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1.0)
    own = {name: tensor.clone() for name, tensor in weights(model).items()}
    with suppress(toy.Stop), mean.in_place():
        assert all(
            torch.equal(tensor, mean.tensors()[name]) for name, tensor in weights(model).items() if name != "number"
        )
        assert model.number == 7
        raise toy.Stop
    assert all(torch.equal(tensor, own[name]) for name, tensor in weights(model).items())


def test_tied_weights_and_whole_numbers() -> None:
    mean = RunningMean(toy.network(), 0.9)
    assert list(mean.tensors()) == ["shift", "0.weight", "0.bias", "3.weight", "4.weight", "4.bias"]


def test_there_and_back() -> None:
    one, other = RunningMean(toy.network(), 0.9), RunningMean(toy.network(), 0.9)
    with torch.no_grad():
        for tensor in one.mean:
            tensor.normal_()
    other.load(one.tensors())
    assert all(torch.equal(a, b) for a, b in zip(one.mean, other.mean, strict=True))


def test_the_mean_of_several() -> None:
    parts = [{"w": torch.tensor([float(n), 1e8 + n]), "n": torch.tensor(n)} for n in (1, 2, 6)]
    found = mean_of(parts)
    assert found["w"].tolist() == [3.0, torch.tensor(1e8 + 3).item()]
    assert found["w"].dtype == torch.float32
    assert found["n"].item() == 6  # whole numbers are those of the last
    thirds = mean_of([{"w": torch.tensor(0.1)}] * 3)
    assert torch.equal(thirds["w"], torch.tensor(0.1))  # exact, because the sum is in float64
