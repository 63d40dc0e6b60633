"""The parts of glimpse models, by hand."""

import math

import pytest
import torch
from torch.distributions import Normal

from regard.models.glimpse import (
    Core,
    GlimpseNetwork,
    LocationNetwork,
    expected_reward,
    inside,
    log_normal,
    look_at,
    shifted,
)


def test_what_and_where_are_added() -> None:
    network = GlimpseNetwork(18, part_dim=5, glimpse_dim=7)
    patch, where = torch.rand(4, 2, 3, 3), torch.rand(4, 2)
    what, place = network.what(patch.flatten(1)).relu(), network.where(where).relu()
    expected = (network.from_what(what) + network.from_where(place)).relu()
    torch.testing.assert_close(network(patch, where), expected)
    path = network(patch.expand(3, 4, 2, 3, 3), where.expand(3, 4, 2))  # many at once
    torch.testing.assert_close(path, expected.expand(3, 4, 7))


def test_the_published_core() -> None:
    core = Core("rnn", 3, 4)
    weight, recurrent, bias, other = core._parts()
    state, glimpse = torch.rand(2, 4), torch.rand(2, 3)
    (found,) = core.step(glimpse, (state,))
    torch.testing.assert_close(found, (glimpse @ weight.T + bias + state @ recurrent.T + other).relu())


@pytest.mark.parametrize("kind", ["rnn", "lstm"])
def test_steps_equal_the_whole(kind: str) -> None:
    core = Core(kind, 3, 4)
    glimpses = torch.rand(2, 5, 3)
    state = core.init_state(2)
    whole = core(glimpses, state)
    for step in range(5):
        state = core.step(glimpses[:, step], state)
        torch.testing.assert_close(whole[:, step], state[0])


def test_means_stay_inside() -> None:
    network = LocationNetwork(4)
    means = network(100 * torch.randn(50, 4))
    assert means.abs().max() <= 1
    assert sum(p.numel() for p in network.parameters()) == 10
    assert sum(p.numel() for p in LocationNetwork(4, middle_dim=3).parameters()) == 15 + 8
    assert LocationNetwork(4, middle_dim=3)(torch.rand(2, 5, 4)).shape == (2, 5, 2)


def test_density_over_both_coordinates() -> None:
    point, mean = torch.randn(6, 2), torch.randn(6, 2)
    expected = Normal(mean, 0.3).log_prob(point).sum(-1)
    torch.testing.assert_close(log_normal(point, mean, 0.3), expected, atol=1e-4, rtol=1e-5)
    assert log_normal(mean, mean, 0.3)[0].item() == pytest.approx(-math.log(2 * math.pi * 0.09))


def test_drawn_around_the_mean() -> None:
    mean, noise = torch.rand(3, 2), torch.randn(3, 2)
    torch.testing.assert_close(look_at(mean, noise, 0.1), mean + 0.1 * noise)
    assert look_at(mean, None, 0.1).equal(mean)
    assert inside(torch.tensor([[-1.5, 0.3]])).tolist() == [[-1.0, pytest.approx(0.3)]]


def test_states_before_glimpses() -> None:
    after = torch.arange(6.0).view(1, 3, 2)
    assert shifted(after, torch.tensor([[8.0, 9.0]])).tolist() == [[[8, 9], [0, 1], [2, 3]]]


def test_baselines_do_not_train_states() -> None:
    states = torch.rand(2, 3, 4, requires_grad=True)
    linear = torch.nn.Linear(4, 1)
    expected_reward(linear, states).sum().backward()
    assert states.grad is None
    assert linear.weight.grad.abs().sum() > 0
