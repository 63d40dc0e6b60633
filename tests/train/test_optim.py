"""Optimisers: each name, its own formula, and state that comes back."""

import pytest
import torch
import toy
from torch import nn

from regard.base import RegardError
from regard.train import OPTIMISERS, Train, build_optimiser
from regard.train.optim import load_optimiser_tensors, optimiser_tensors, set_rate


def settings(name: str) -> Train:
    return Train(optimiser=name, lr=0.05, momentum=0.9, weight_decay=0.01)


def advance(model: nn.Module, optimiser: torch.optim.Optimizer, steps: int) -> None:
    for step in range(steps):
        torch.manual_seed(step)
        model(torch.randn(3, 2)).square().sum().backward()
        optimiser.step()
        optimiser.zero_grad()


@pytest.mark.parametrize("name", OPTIMISERS)
def test_state_comes_back(name: str) -> None:
    one, other = toy.network(0.0), toy.network(0.0)
    first = build_optimiser(list(one.parameters()), settings(name))
    advance(one, first, 3)
    saved = {key: tensor.clone() for key, tensor in optimiser_tensors(first, dict(one.named_parameters())).items()}
    assert saved
    other.load_state_dict(one.state_dict())
    second = build_optimiser(list(other.parameters()), settings(name))
    load_optimiser_tensors(second, dict(other.named_parameters()), saved)
    again = optimiser_tensors(second, dict(other.named_parameters()))
    assert set(again) == set(saved)
    assert all(torch.equal(again[key], saved[key]) and again[key].dtype == saved[key].dtype for key in saved)
    advance(one, first, 2)
    advance(other, second, 2)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


def one_number(name: str, **options: object) -> list[float]:
    """w² from w = 1: where three steps lead."""
    parameter = nn.Parameter(torch.ones(()))
    optimiser = build_optimiser([parameter], Train(optimiser=name, **options))  # type: ignore[arg-type]
    path = []
    for _ in range(3):
        parameter.square().backward()
        optimiser.step()
        optimiser.zero_grad()
        path.append(parameter.item())
    return path


def test_formulas() -> None:
    weight, speed, nag, sgd = 1.0, 0.0, [], []
    for _ in range(3):  # Nesterov as in torch: the step looks one momentum ahead
        speed = 0.9 * speed + 2 * weight
        weight -= 0.1 * (2 * weight + 0.9 * speed)
        nag.append(weight)
    weight, speed = 1.0, 0.0
    for _ in range(3):
        speed = 0.9 * speed + 2 * weight
        weight -= 0.1 * speed
        sgd.append(weight)
    assert one_number("nag", lr=0.1, momentum=0.9) == pytest.approx(nag)
    assert one_number("sgd", lr=0.1, momentum=0.9) == pytest.approx(sgd)

    weight, squares, moves, adadelta = 1.0, 0.0, 0.0, []
    for _ in range(3):  # Zeiler 2012, algorithm 1
        gradient = 2 * weight
        squares = 0.95 * squares + 0.05 * gradient**2
        move = ((moves + 1e-6) / (squares + 1e-6)) ** 0.5 * gradient
        moves = 0.95 * moves + 0.05 * move**2
        weight -= move
        adadelta.append(weight)
    assert one_number("adadelta", lr=1.0, eps=1e-6, rho=0.95) == pytest.approx(adadelta)
    assert one_number("adam", lr=0.1, betas=(0.9, 0.98), eps=1e-9)[0] == pytest.approx(0.9)  # the first step is lr
    assert one_number("adamw", lr=0.1, weight_decay=0.5)[0] == pytest.approx(1 - 0.1 * 0.5 - 0.1)


@pytest.mark.parametrize("name", OPTIMISERS)
def test_some_do_not_decay(name: str) -> None:
    free, decayed, slow = (nn.Parameter(torch.ones(1)) for _ in range(3))
    given = Train(optimiser=name, lr=0.1, momentum=0.9, weight_decay=0.5)
    optimiser = build_optimiser([free, decayed, slow], given, shares=[1.0, 1.0, 0.5], decays=[False, True, True])
    for parameter in (free, decayed, slow):
        parameter.grad = torch.zeros(1)
    optimiser.step()
    assert free.item() == 1
    assert decayed.item() < 1
    assert slow.item() < 1
    assert [group["weight_decay"] for group in optimiser.param_groups] == [0.5, 0.0, 0.5]


def test_the_rate() -> None:
    optimiser = build_optimiser([nn.Parameter(torch.ones(2))], Train(lr=0.5))
    set_rate(optimiser, 0.25)
    assert optimiser.param_groups[0]["lr"] == 0.25
    place = torch.tensor(0.5)
    optimiser.param_groups[0]["lr"] = place  # as a captured optimiser has it
    set_rate(optimiser, 0.125)
    assert optimiser.param_groups[0]["lr"] is place
    assert place.item() == 0.125


def test_state_of_others_is_refused() -> None:
    model = toy.network()
    optimiser = build_optimiser(list(model.parameters()), settings("adam"))
    named = dict(model.named_parameters())
    with pytest.raises(RegardError, match=r"the optimiser of another model: got a state of 9.weight. Try: start a new"):
        load_optimiser_tensors(optimiser, named, {"9.weight/step": torch.ones(())})
    with pytest.raises(
        RegardError, match=r"state of another optimiser: got momentum_buffer; expected exp_avg, exp_avg_sq"
    ):
        load_optimiser_tensors(optimiser, named, {"0.weight/momentum_buffer": torch.ones(4, 2)})
