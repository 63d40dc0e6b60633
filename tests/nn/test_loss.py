"""The loss, against torch's cross entropy and against its definition."""

import math

import pytest
import torch
from torch import Tensor
from torch.distributions import Categorical, kl_divergence
from torch.nn.functional import cross_entropy

from regard.base import ConfigError, ShapeError
from regard.nn import loss as module
from regard.nn import token_divergence, token_loss, two_pass_loss

SMOOTHING = pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.9])


def example(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    logits = (3 * torch.randn(3, 5, 11, dtype=torch.float64)).to(dtype).requires_grad_()
    targets = torch.randint(1, 11, (3, 5))
    targets[0, 3:], targets[2, 1:] = 0, 0
    return logits, targets


def reference(logits: Tensor, targets: Tensor, smoothing: float, ignore: int = 0) -> Tensor:
    flat = logits.flatten(0, -2), targets.flatten()
    return cross_entropy(*flat, label_smoothing=smoothing, ignore_index=ignore, reduction="sum")


@SMOOTHING
@pytest.mark.parametrize("block", [1, 25, 2**20])  # one row at a time, two with a rest, all
def test_value_and_gradient_are_those_of_torch(smoothing: float, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(module._BLOCK, "cpu", block)
    logits, targets = example()
    loss, expected = token_loss(logits, targets, smoothing=smoothing), reference(logits, targets, smoothing)
    torch.testing.assert_close(loss, expected)
    factor = 0.37
    found, wanted = (torch.autograd.grad(factor * value, logits)[0] for value in (loss, expected))
    torch.testing.assert_close(found, wanted)
    assert (found[targets == 0] == 0).all()


@SMOOTHING
def test_gradient_by_differences(smoothing: float) -> None:
    logits, targets = example()
    assert torch.autograd.gradcheck(lambda x: token_loss(x, targets, smoothing=smoothing), logits)


def test_the_mass_is_spread_evenly() -> None:
    logits, targets, mass = torch.randn(1, 4), torch.tensor([2]), torch.full((4,), 0.2 / 4)
    mass[2] += 0.8
    expected = -(mass * logits[0].log_softmax(-1)).sum()
    torch.testing.assert_close(token_loss(logits, targets, smoothing=0.2), expected)


@SMOOTHING
def test_what_is_ignored_counts_nothing(smoothing: float) -> None:
    logits, targets = example()
    few = token_loss(logits[targets != 0], targets[targets != 0], smoothing=smoothing)
    torch.testing.assert_close(token_loss(logits, targets, smoothing=smoothing), few)
    other = targets.masked_fill(targets == 0, -100)  # outside the vocabulary
    torch.testing.assert_close(token_loss(logits, other, smoothing=smoothing, ignore=-100), few)
    nothing = token_loss(logits, torch.zeros_like(targets), smoothing=smoothing)
    assert nothing == 0
    assert (torch.autograd.grad(nothing, logits)[0] == 0).all()


@SMOOTHING
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_summed_in_single(dtype: torch.dtype, smoothing: float) -> None:
    logits, targets = example(dtype)
    loss = token_loss(logits, targets, smoothing=smoothing)
    wide = logits.detach().float().requires_grad_()
    expected = reference(wide, targets, smoothing)
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, expected)
    loss.backward()
    expected.backward()
    assert logits.grad.dtype == dtype
    torch.testing.assert_close(logits.grad, wide.grad.to(dtype), atol=4e-3, rtol=1e-2)


def test_large_and_barred_logits() -> None:
    logits = torch.tensor([[1e4, 0.0, -1e4], [-math.inf, 0.0, 0.0]], requires_grad=True)
    loss = token_loss(logits, torch.tensor([1, 2]))
    assert loss.item() == pytest.approx(1e4 + math.log(2))
    loss.backward()
    torch.testing.assert_close(logits.grad, torch.tensor([[1.0, -1.0, 0.0], [0.0, 0.5, -0.5]]))


def test_one_row_many_axes_and_none() -> None:
    logits = torch.randn(2, 3, 2, 7)
    targets = torch.randint(1, 7, (2, 3, 2))
    torch.testing.assert_close(token_loss(logits, targets), reference(logits, targets, 0.0))
    one = reference(logits[0, 0, :1], targets[0, 0, :1], 0.0)
    torch.testing.assert_close(token_loss(logits[0, 0, 0], targets[0, 0, 0]), one)
    assert token_loss(torch.zeros(0, 7), torch.zeros(0, dtype=torch.long), smoothing=0.1) == 0


def test_logits_are_left_as_they_are() -> None:
    logits, targets = example()
    before = logits.detach().clone()
    token_loss(logits, targets, smoothing=0.1).backward()
    assert torch.equal(logits, before)


@pytest.mark.parametrize("smoothing", [-0.1, 1.0, math.nan])
def test_bad_smoothing(smoothing: float) -> None:
    with pytest.raises(ConfigError, match=r"smoothing: got .*; expected 0 ≤ smoothing < 1"):
        token_loss(torch.zeros(1, 2), torch.tensor([1]), smoothing=smoothing)


def test_targets_that_do_not_fit() -> None:
    with pytest.raises((ShapeError, TypeError)):  # the import hook may be faster
        token_loss(torch.zeros(2, 3, 5), torch.zeros(2, 4, dtype=torch.long))


def test_divergence_is_the_sum_of_both_directions() -> None:
    first, targets = example()
    second = torch.randn_like(first).requires_grad_()
    p, q = (Categorical(logits=each) for each in (first, second))
    expected = (kl_divergence(p, q) + kl_divergence(q, p))[targets != 0].sum()
    found = token_divergence(first, second, targets != 0)
    torch.testing.assert_close(found, expected)
    for mine, wanted in zip(*(torch.autograd.grad(x, (first, second)) for x in (found, expected)), strict=True):
        torch.testing.assert_close(mine, wanted)
    assert token_divergence(first, first, targets != 0) == 0
    half = token_divergence(first.bfloat16(), second.bfloat16(), targets != 0)
    assert half.dtype == torch.float32


def test_two_passes_have_half_of_both_losses_and_a_share_of_their_divergence() -> None:
    first, targets = example()
    second, real = torch.randn_like(first), targets != 0
    total, apart = two_pass_loss(torch.tensor(7.0).double(), torch.cat([first, second]), real, consistency=3.0)
    torch.testing.assert_close(apart, token_divergence(first, second, real))
    torch.testing.assert_close(total, 3.5 + 0.75 * apart)
    assert apart > 1
