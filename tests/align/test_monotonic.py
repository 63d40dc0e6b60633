"""Monotonic attention."""

import itertools
import math

import pytest
import torch
from torch import Tensor

from regard.align import Monotonic, monotonic


def _enumerate(stop: Tensor) -> Tensor:
    """The chance of each position, summed over every way for the queries before to stop."""
    num_queries, num_keys = stop.shape
    weights = torch.zeros_like(stop)
    for i in range(num_queries):
        for path in itertools.combinations_with_replacement(range(num_keys), i + 1):
            chance, start = 1.0, 0
            for query, end in enumerate(path):
                chance *= stop[query, end].item() * math.prod(1 - stop[query, j].item() for j in range(start, end))
                start = end
            weights[i, path[-1]] += chance
    return weights


def _recurrence(stop: Tensor, before: Tensor) -> Tensor:
    """w_ij = p_ij · reach_ij, one entry after the other."""
    rows = []
    for row in stop:
        reach, weights = torch.zeros(()).to(stop), []
        for j, chance in enumerate(row):
            reach = reach * (1 - row[j - 1] if j else 1) + before[j]
            weights.append(chance * reach)
        before = torch.stack(weights)
        rows.append(before)
    return torch.stack(rows)


def _scan(stop: Tensor) -> Tensor:
    """The hard reader: from where the query before stopped to the first p above one half."""
    weights, start = torch.zeros_like(stop), 0
    for i, row in enumerate(stop.tolist()):
        start = next((j for j in range(start, len(row)) if row[j] > 0.5), len(row))
        if start == len(row):  # it ran off the end, and stays there
            break
        weights[i, start] = 1
    return weights


def _start(num_keys: int) -> Tensor:
    return torch.eye(num_keys, dtype=torch.float64)[0]


def test_equals_enumeration() -> None:
    for _ in range(5):
        stop = torch.rand(3, 4, dtype=torch.float64)
        torch.testing.assert_close(monotonic(stop), _enumerate(stop), rtol=0, atol=1e-14)


@pytest.mark.parametrize("shape", [(7, 9), (9, 4), (1, 5), (5, 1), (1, 1)])
@pytest.mark.parametrize("given", [False, True])
def test_equals_the_sequential_recurrence_with_gradients(shape: tuple[int, int], given: bool) -> None:
    stop = torch.rand(shape, dtype=torch.float64, requires_grad=True)
    before = torch.rand(shape[1], dtype=torch.float64).softmax(-1) if given else _start(shape[1])
    before.requires_grad_()
    cotangent = torch.randn(shape, dtype=torch.float64)
    ours, theirs = monotonic(stop, before if given else None), _recurrence(stop, before)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-14)
    inputs = (stop, before) if given else (stop,)
    torch.testing.assert_close(
        torch.autograd.grad(ours, inputs, cotangent), torch.autograd.grad(theirs, inputs, cotangent)
    )


def test_certain_stops_give_the_hard_scan() -> None:
    for _ in range(20):
        stop = (torch.rand(5, 8) < 0.3).float()
        torch.testing.assert_close(monotonic(stop), _scan(stop), rtol=0, atol=0)


def test_evaluation_is_the_hard_scan() -> None:
    align, scores = Monotonic(offset=-0.5).eval(), torch.randn(40, 6, 9)
    weights = align(scores).weights
    expected = torch.stack([_scan(s) for s in torch.sigmoid(scores - 0.5)])
    torch.testing.assert_close(weights, expected, rtol=0, atol=0)
    for rows in weights:
        focus = rows.argmax(-1)[rows.sum(-1) > 0]
        assert (focus.diff() >= 0).all()
    assert 0 < weights.sum(-1).mean() < 1


def test_training_takes_the_expected_alignment() -> None:
    align, scores, mask = Monotonic(offset=-2.0, noise=0.0), torch.randn(2, 3, 5), torch.rand(2, 3, 5) < 0.7
    expected = monotonic(torch.sigmoid(scores - 2).masked_fill(~mask, 0.0))
    torch.testing.assert_close(align(scores, mask).weights, expected)
    align(scores).weights.sum().backward()
    assert align.offset.grad != 0


def test_noise_acts_in_training_only() -> None:
    align, scores = Monotonic(noise=1.0), torch.randn(2, 3, 5)
    assert not torch.equal(align(scores).weights, align(scores).weights)
    align.eval()
    assert torch.equal(align(scores).weights, align(scores).weights)


def test_noise_has_the_given_deviation() -> None:
    weights = Monotonic(offset=0.0, noise=2.0)(torch.zeros(20000, 1, 1)).weights
    noise = torch.logit(weights)
    assert noise.std().item() == pytest.approx(2, rel=0.05)
    assert abs(noise.mean().item()) < 0.06


def test_mass_is_never_gained() -> None:
    sums = monotonic(torch.rand(50, 6, 7)).sum(-1)
    assert (sums <= 1 + 1e-6).all()
    assert (sums.diff(dim=-1) <= 1e-6).all()
    torch.testing.assert_close(monotonic(torch.ones(3, 4)), torch.eye(4)[:1].expand(3, 4))
    assert (monotonic(torch.zeros(3, 4)) == 0).all()


@pytest.mark.parametrize("training", [False, True])
def test_step_by_step_equals_one_pass(training: bool) -> None:
    align, scores = Monotonic(noise=0.0).train(training), torch.randn(2, 6, 8)
    whole, previous = align(scores).weights, None
    for t in range(6):
        step = align(scores[:, t : t + 1], previous=previous).weights
        torch.testing.assert_close(step, whole[:, t : t + 1])
        previous = step[:, -1]


def test_previous_broadcasts_over_leading_axes() -> None:
    stop, previous = torch.rand(2, 3, 4, 5), torch.rand(5).softmax(-1)
    torch.testing.assert_close(monotonic(stop, previous), monotonic(stop, previous.expand(2, 3, 5)))


@pytest.mark.parametrize("level", [-8.0, 0.0, 8.0])
def test_long_sources_in_float32(level: float) -> None:
    scores = (level + torch.randn(1, 5, 400)).requires_grad_()
    weights = Monotonic(offset=0.0, noise=0.0)(scores).weights
    torch.testing.assert_close(weights, monotonic(scores.detach().double().sigmoid()).float())
    (weights * torch.arange(400)).sum().backward()
    assert scores.grad.isfinite().all()
    assert (scores.grad != 0).any()


@pytest.mark.parametrize("training", [False, True])
def test_float16_in_and_out(training: bool) -> None:
    align, scores = Monotonic(noise=0.0).train(training), torch.randn(2, 4, 6).half()
    first = align(scores[:, :2])
    rest = align(scores[:, 2:], previous=first.weights[:, -1])
    weights = torch.cat([first.weights, rest.weights], 1)
    assert weights.dtype == torch.float16
    torch.testing.assert_close(weights.float(), align(scores.float()).weights, rtol=0, atol=2e-3)


def test_infinite_scores_stop_the_reader() -> None:
    scores = torch.tensor([[0.0, math.inf, 0.0], [math.inf, -math.inf, math.inf]])
    assert Monotonic(noise=0.0, offset=-100.0)(scores).weights.tolist() == [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]


def test_repr_shows_the_noise() -> None:
    assert repr(Monotonic(noise=0.5)) == "Monotonic(noise=0.5)"
