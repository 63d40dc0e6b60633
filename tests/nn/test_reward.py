"""Estimators: unbiased against enumeration, calmer with a baseline, and no gradient where none belongs."""

from itertools import product

import pytest
import torch
from torch import Tensor

from regard.align import Hard
from regard.base import ConfigError, ShapeError
from regard.nn.reward import MovingBaseline, baseline_error, leave_one_out, reinforce

KEYS = 8
REWARDS = -((torch.linspace(-2, 2, KEYS, dtype=torch.float64) - 0.7) ** 2)


def logits() -> Tensor:
    return torch.randn(KEYS, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()


def exact() -> Tensor:
    """∇ of the expected reward, to be descended: of its negative."""
    free = logits()
    (-(free.softmax(0) * REWARDS).sum()).backward()
    return free.grad


def gradient(choice: int, baseline: Tensor | None = None) -> Tensor:
    free = logits()
    reinforce(free.log_softmax(0)[choice], REWARDS[choice], baseline).sum().backward()
    return free.grad


@pytest.mark.parametrize("baseline", [None, 0.0, -1.3, 20.0])
def test_unbiased_with_any_constant_baseline(baseline: float | None) -> None:
    fixed = None if baseline is None else torch.tensor(baseline, dtype=torch.float64)
    weights = logits().detach().softmax(0)
    mean = sum(weight * gradient(choice, fixed) for choice, weight in enumerate(weights))
    torch.testing.assert_close(mean, exact(), atol=1e-12, rtol=0)


def test_a_baseline_that_saw_the_choice_is_biased() -> None:
    weights = logits().detach().softmax(0)
    mean = sum(weight * gradient(choice, 0.5 * REWARDS[choice]) for choice, weight in enumerate(weights))
    assert (mean - exact()).abs().max() > 0.05


def test_each_gradient_sums_to_zero() -> None:
    for choice in range(KEYS):
        assert gradient(choice).sum().abs() < 1e-12


@pytest.mark.parametrize("samples", [2, 3])
def test_leave_one_out_is_unbiased(samples: int) -> None:
    weights = logits().detach().softmax(0)
    mean = torch.zeros(KEYS, dtype=torch.float64)
    for choices in product(range(KEYS), repeat=samples):
        free, chosen = logits(), torch.tensor(choices)
        reward = REWARDS[chosen]
        reinforce(free.log_softmax(0)[chosen], reward, leave_one_out(reward)).mean().backward()
        mean += weights[chosen].prod() * free.grad
    torch.testing.assert_close(mean, exact(), atol=1e-12, rtol=0)


def test_a_baseline_calms() -> None:
    weights = logits().detach().softmax(0)
    expected = (weights * REWARDS).sum()

    def variance(baseline: Tensor | None) -> Tensor:
        every = torch.stack([gradient(choice, baseline) for choice in range(KEYS)])
        return (weights * (every - exact()).square().sum(1)).sum()

    assert exact().norm().item() == pytest.approx(1.5844, abs=1e-4)
    assert variance(None).item() == pytest.approx(9.1056, abs=1e-4)
    assert variance(expected).item() == pytest.approx(3.7314, abs=1e-4)


def test_through_sampled_alignment() -> None:
    """Many draws of `Hard("sample")`: the mean gradient is the exact one, within its own standard error."""
    torch.manual_seed(0)
    free, draws = logits(), 40_000
    weights, log_probability, entropy = Hard("sample")(free.expand(draws, 1, KEYS))
    reward = weights.detach() @ REWARDS  # [n 1]
    losses = reinforce(log_probability, reward, torch.tensor(-1.0, dtype=torch.float64))
    (mean,) = torch.autograd.grad(losses.mean(), free)
    probabilities = free.detach().softmax(0)
    scores = weights.detach().squeeze(1) - probabilities  # ∇ log p, by hand
    spread = ((reward + 1) * scores).std(0) / draws**0.5
    assert ((mean - exact()).abs() < 5 * spread).all()
    assert (mean.abs() > 10 * spread).any()
    assert entropy[0, 0].item() == pytest.approx(-(probabilities * probabilities.log()).sum().item())


def test_rewards_and_baselines_are_constants() -> None:
    log_probability, reward, baseline = (torch.rand(4, requires_grad=True) for _ in range(3))
    reinforce(log_probability, reward, baseline).sum().backward()
    assert reward.grad is None
    assert baseline.grad is None
    torch.testing.assert_close(log_probability.grad, (baseline - reward).detach())


def test_a_baseline_learns_the_reward_and_nothing_else_does() -> None:
    baseline, reward = torch.tensor([0.2, 0.9], requires_grad=True), torch.tensor([1.0, 0.0], requires_grad=True)
    errors = baseline_error(baseline, reward)
    torch.testing.assert_close(errors.detach(), torch.tensor([0.64, 0.81]))
    errors.sum().backward()
    torch.testing.assert_close(baseline.grad, torch.tensor([-1.6, 1.8]))
    assert reward.grad is None


def test_entropy_is_a_bonus() -> None:
    log_probability, entropy = torch.zeros(2), torch.tensor([0.5, 1.0], requires_grad=True)
    loss = reinforce(log_probability, torch.ones(2), entropy=entropy, entropy_weight=0.1)
    loss.sum().backward()
    assert entropy.grad.tolist() == pytest.approx([-0.1, -0.1])


def test_moving_baseline() -> None:
    moving = MovingBaseline(decay=0.75, start=1.0)
    assert moving(torch.tensor([5.0, 9.0])).item() == 1.0  # not yet
    assert moving(torch.tensor([2.5])).item() == 2.5  # 0.75 · 1 + 0.25 · 7
    assert moving.eval()(torch.tensor([100.0])).item() == 2.5
    assert moving.eval()(torch.tensor([100.0])).item() == 2.5  # it stands still
    assert list(moving.state_dict()) == ["value"]


def test_errors() -> None:
    with pytest.raises(ConfigError, match=r"MovingBaseline decay: got 1\.0; expected 0 ≤ decay < 1"):
        MovingBaseline(decay=1.0)
    with pytest.raises(ShapeError, match="leave_one_out: got 1 sample"):
        leave_one_out(torch.zeros(1, 3))
