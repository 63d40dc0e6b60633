"""What answers are worth, by hand: cross entropy, rewards, baselines, discounts, and sequences up to a mistake."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.data.pictures import IGNORE
from regard.models.glimpse import Glimpsed
from regard.models.ram import RAM, RAMConfig
from regard.tasks import ClassificationConfig, Loss
from regard.tasks.glimpse_loss import classification_loss

TINY = RAMConfig(glimpses=3, size=4, part_dim=8, glimpse_dim=8, hidden_dim=8)


def judged(settings: dict[str, Any], out: Any, labels: Tensor) -> Loss:
    return classification_loss(out, labels, ClassificationConfig(**settings))


def glimpsed(**parts: Tensor) -> Glimpsed:
    """One picture, two glimpses, the second one drawn."""
    usual = {
        "logits": torch.tensor([[[2.0, 0.0]]]),
        "where": torch.zeros(1, 2, 2),
        "log_probability": torch.tensor([[0.0, -1.5]]),
        "entropy": torch.tensor([[0.0, 0.25]]),
        "baseline": torch.tensor([[0.9, 0.4]]),
        "drawn": torch.tensor([[False, True]]),
        "active": torch.tensor([[True, True]]),
        "label_of_glimpse": torch.tensor([1, 1]),
    }
    return Glimpsed(**{**usual, **parts})


def test_the_hybrid_loss_by_hand() -> None:
    settings = {"reward_weight": 2.0, "baseline_weight": 3.0, "entropy_weight": 0.1}
    out = glimpsed()
    for label, reward in ((0, 1.0), (1, 0.0)):
        loss = judged(settings, out, torch.tensor([[label]]))
        entropy = math.log(1 + math.exp(-2)) + (2 if label else 0)
        policy = -(reward - 0.4) * -1.5 - 0.1 * 0.25
        assert loss.total.item() == pytest.approx(entropy + 2 * policy + 3 * (reward - 0.4) ** 2, abs=1e-5)
        assert loss.figures["reward"].item() == reward
        assert loss.figures["steps"].item() == 2


def test_probability_is_a_reward_too() -> None:
    right = 1 / (1 + math.exp(-2))
    for label, reward in ((0, right), (1, 1 - right)):
        loss = judged({"reward": "probability"}, glimpsed(), torch.tensor([[label]]))
        assert loss.figures["reward"].item() == pytest.approx(reward, abs=1e-6)
        assert loss.figures["baseline_error"].item() == pytest.approx((reward - 0.4) ** 2, abs=1e-6)


def test_a_right_baseline_leaves_no_gradient() -> None:
    model = RAM(TINY)
    out = model(torch.rand(4, 1, 6, 6))
    labels = out.logits.argmax(-1)  # all right: the reward is 1
    exact = out._replace(baseline=torch.ones_like(out.baseline))
    judged({}, exact, labels).total.backward()
    assert all(not parameter.grad.any() for parameter in model.location.parameters())


def test_rollouts_are_a_baseline_to_one_another() -> None:
    """Of three rollouts of a picture one is right: its advantage is what it has over the others' surprises."""
    baseline, log_probability = torch.rand(6, 2), torch.randn(6, 2, requires_grad=True)
    logits = torch.tensor([[3.0, 0.0], [0.0, 3.0], [0.0, 3.0], [3.0, 0.0], [3.0, 0.0], [3.0, 0.0]]).unsqueeze(1)
    drawn = torch.ones(6, 2, dtype=torch.bool)
    out = glimpsed(
        logits=logits, log_probability=log_probability, baseline=baseline, drawn=drawn, active=drawn,
        entropy=torch.zeros(6, 2), where=torch.zeros(6, 2, 2),
    )  # fmt: skip
    loss = judged({"rollouts": 3}, out, torch.zeros(6, 1, dtype=torch.long))
    loss.total.backward()
    surprise = torch.tensor([1.0, 0.0, 0.0, 1.0, 1.0, 1.0]).unsqueeze(1) - baseline
    for at in range(6):
        others = [row for row in range(at - at % 3, at - at % 3 + 3) if row != at]
        wanted = -(surprise[at] - surprise[others].mean(0)) / 3
        torch.testing.assert_close(log_probability.grad[at], wanted)
    assert loss.figures["correct"].item() == pytest.approx(4 / 3)


def test_discount_counts_glimpses() -> None:
    labels = torch.tensor([[0]])
    for active, worth in (([True, True], 0.5), ([True, False], 1.0)):
        loss = judged({"discount": 0.5}, glimpsed(active=torch.tensor([active])), labels)
        assert loss.figures["reward"].item() == worth
    assert judged({"discount": 0.0}, glimpsed(), labels).figures["reward"].item() == 0
    only = judged({"discount": 0.0}, glimpsed(active=torch.tensor([[True, False]])), labels)
    assert only.figures["reward"].item() == 1


def test_answers_after_each_glimpse() -> None:
    every = torch.tensor([[[0.0, 1.0], [2.0, 0.0]]])
    out = glimpsed(logits_per_glimpse=every)
    plain, more = (judged({"every_weight": w}, out, torch.tensor([[0]])).total for w in (0.0, 0.5))
    each = math.log(1 + math.exp(1)) + math.log(1 + math.exp(-2))
    assert (more - plain).item() == pytest.approx(0.5 * each / 2, abs=1e-5)


def sequence(until_wrong: bool) -> tuple[float, Tensor]:
    """Three labels and no fourth; the second is wrong. Each has a glimpse of its own."""
    logits = torch.tensor([[3.0, 0.0], [3.0, 0.0], [0.0, 3.0], [0.0, 0.0]]).unsqueeze(0)
    labels = torch.tensor([[0, 1, 1, IGNORE]])
    log_probability = torch.full((1, 4), -1.0, requires_grad=True)
    out = Glimpsed(
        logits, torch.zeros(1, 4, 2), log_probability, torch.zeros(1, 4), torch.zeros(1, 4),
        torch.ones(1, 4) > 0, torch.ones(1, 4) > 0, torch.arange(4),
    )  # fmt: skip
    loss = judged({"until_wrong": until_wrong}, out, labels)
    loss.total.backward()
    return loss.figures["cross_entropy"].item(), log_probability.grad


def test_each_label_rewards_its_own_glimpses() -> None:
    entropy, gradient = sequence(until_wrong=False)
    good = math.log(1 + math.exp(-3))
    assert entropy == pytest.approx(2 * good + good + 3, abs=1e-5)
    assert gradient.tolist() == [[-1.0, 0.0, -1.0, 0.0]]  # the second is wrong, the fourth is none


def test_nothing_is_learnt_after_the_first_mistake() -> None:
    entropy, gradient = sequence(until_wrong=True)
    assert entropy == pytest.approx(2 * math.log(1 + math.exp(-3)) + 3, abs=1e-5)
    assert gradient.tolist() == [[-1.0, 0.0, 0.0, 0.0]]
