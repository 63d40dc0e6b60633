"""What places add to a caption's loss: against enumeration, in pairs and alone."""

from types import SimpleNamespace

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from regard.data import PAD
from regard.nn.reward import MovingBaseline
from regard.tasks.caption_loss import doubly_stochastic, hard_loss, twice


def test_the_doubly_stochastic_term() -> None:
    weights = torch.rand(2, 3, 5, dtype=torch.double).softmax(-1).requires_grad_()
    real = torch.tensor([[True, True, True], [True, False, False]])
    wanted = sum(
        ((1 - weights[row][real[row]].sum(0)) ** 2).sum() for row in range(2)
    )  # target 1, not T / L; nothing after the end
    torch.testing.assert_close(doubly_stochastic(weights, real), wanted)
    assert doubly_stochastic(weights, torch.zeros_like(real)) == 0
    even = torch.full((1, 5, 5), 1 / 5)
    assert doubly_stochastic(even, torch.ones(1, 5, dtype=torch.bool)).item() == pytest.approx(0, abs=1e-6)


def test_pulling_hard_makes_places_equal() -> None:
    scores = torch.randn(1, 6, 6, requires_grad=True)
    for _ in range(150):
        apart = doubly_stochastic(scores.softmax(-1), torch.ones(1, 6, dtype=torch.bool))
        [gradient] = torch.autograd.grad(apart, scores)
        scores = (scores - gradient).detach().requires_grad_()
    torch.testing.assert_close(scores.softmax(-1).sum(1), torch.ones(1, 6), atol=0.05, rtol=0)


def words_after(places: Tensor, table: Tensor) -> Tensor:
    """Logits of two words that depend on both places, the second on the first one too."""
    first = table[places[:, 0]]
    second = table[places[:, 1]] + 0.5 * table[places[:, 0]].flip(-1)
    return torch.stack([first, second], 1)


def test_the_hard_gradient_is_that_of_the_expected_log_probability() -> None:
    """Enumerated: 3 places at each of 2 steps, weighted by their chance, must give ∇ E[log p]."""
    table, targets = torch.randn(3, 4, dtype=torch.double), torch.tensor([[1, 2]])
    scores = torch.randn(2, 3, dtype=torch.double, requires_grad=True)
    log_alpha = scores.log_softmax(-1)
    exact, estimated = torch.zeros_like(log_alpha), torch.zeros_like(scores)
    value = torch.zeros((), dtype=torch.double)
    for i in range(3):
        for j in range(3):
            logits = words_after(torch.tensor([[i, j]]), table)
            log_p = -cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum")
            value = value + (log_alpha[0, i] + log_alpha[1, j]).exp() * log_p
            log_prob = torch.stack([log_alpha[0, i], log_alpha[1, j]]).unsqueeze(0)
            baseline = MovingBaseline(start=-1.7).double()  # any constant will do
            out = SimpleNamespace(logits=logits, log_prob=log_prob, entropy=0 * log_prob, baseline=baseline)
            loss, _ = hard_loss(out, targets, reward=1.0, entropy=0.0)
            [gradient] = torch.autograd.grad(-loss, scores, retain_graph=True)
            estimated = estimated + (log_alpha[0, i] + log_alpha[1, j]).exp().detach() * gradient
    [exact] = torch.autograd.grad(value, scores)
    torch.testing.assert_close(estimated, exact, atol=1e-10, rtol=0)
    assert exact.abs().max() > 0.01


def test_the_reward_carries_no_gradient() -> None:
    log_prob = torch.ones(1, 2, requires_grad=True)
    logits = torch.zeros(1, 2, 4, requires_grad=True)
    out = SimpleNamespace(logits=logits, log_prob=log_prob, entropy=log_prob, baseline=MovingBaseline())
    total, _ = hard_loss(out, torch.tensor([[3, PAD]]), reward=1.0, entropy=0.0)
    total.backward()  # type: ignore[no-untyped-call]
    assert logits.grad is None
    assert log_prob.grad is not None
    torch.testing.assert_close(log_prob.grad, torch.tensor([[torch.tensor(4.0).log(), 0.0]]))  # and none after the end


def test_in_pairs_the_gradient_is_the_same() -> None:
    """Enumerated as above; the caption with expected places stands before the drawn one, and takes no reward."""
    table, targets = torch.randn(3, 4, dtype=torch.double), torch.tensor([[1, 2]])
    scores = torch.randn(2, 3, dtype=torch.double, requires_grad=True)
    log_alpha = scores.log_softmax(-1)
    with_expected = torch.randn(1, 2, 4, dtype=torch.double)  # whatever it is, it is not drawn
    found: dict[int | None, Tensor] = {}
    for pairs in (None, 1):
        estimated = torch.zeros_like(scores)
        for i in range(3):
            for j in range(3):
                logits = words_after(torch.tensor([[i, j]]), table)
                chance = (log_alpha[0, i] + log_alpha[1, j]).exp().detach()
                log_prob = torch.stack([log_alpha[0, i], log_alpha[1, j]]).unsqueeze(0)
                both = targets
                if pairs:
                    logits, both = torch.cat([with_expected, logits]), targets.repeat(2, 1)
                    log_prob = torch.cat([0 * log_prob.detach() - 3, log_prob])
                out = SimpleNamespace(logits=logits, log_prob=log_prob, entropy=0 * log_prob, baseline=MovingBaseline())
                loss, _ = hard_loss(out, both, reward=1.0, entropy=0.0, pairs=pairs)
                [gradient] = torch.autograd.grad(-loss, scores, retain_graph=True)
                estimated = estimated + chance * gradient
        found[pairs] = estimated
    torch.testing.assert_close(found[1], found[None], atol=1e-10, rtol=0)
    assert found[None].abs().max() > 0.01


def test_a_hard_word_is_not_a_bad_place() -> None:
    """Rewards that differ by the word alone: nothing to learn for places, in pairs."""
    words = torch.randn(6, 1, 4, 5).expand(6, 2, 4, 5)  # the same with drawn and with expected places
    targets, logits = torch.randint(4, 5, (6, 1, 4)).expand(6, 2, 4), words.reshape(12, 4, 5)
    log_prob = torch.zeros(12, 4, requires_grad=True)
    out = SimpleNamespace(logits=logits, log_prob=log_prob, entropy=torch.zeros(12, 4), baseline=MovingBaseline())
    loss, figures = hard_loss(out, targets.reshape(12, 4), reward=1.0, entropy=0.0, pairs=1)
    [gradient] = torch.autograd.grad(loss, log_prob)
    assert gradient.abs().max() < 1e-5
    assert figures["reward"].abs() < 1e-4
    alone, _ = hard_loss(out, targets.reshape(12, 4), reward=1.0, entropy=0.0)
    [gradient] = torch.autograd.grad(alone, log_prob)
    assert gradient.abs().max() > 0.1


def test_captions_twice() -> None:
    tokens = torch.arange(24).view(6, 4)
    double = twice(tokens, each=3).view(2, 2, 3, 4)
    assert torch.equal(double[:, 0], tokens.view(2, 3, 4))
    assert torch.equal(double[:, 1], tokens.view(2, 3, 4))
