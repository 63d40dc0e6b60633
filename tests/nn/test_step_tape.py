"""A tape gives what joining all cells gives, values and gradients, and copies each cell once."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from regard.base import ShapeError
from regard.nn import StepTape


def recurrence(x: Tensor, w: Tensor, first: Callable[[int], int], joined: bool) -> Tensor:
    """A little attention to all earlier cells, each made of what the one before attended to."""
    tape, outputs = StepTape(x.shape[1]), []
    if joined:
        tape._joined = ([], [])  # as under a transform
    for t in range(x.shape[1]):
        hidden = x[:, t] + (outputs[-1] if outputs else 0)
        tape.write((hidden @ w).unsqueeze(1), torch.cat([hidden, hidden.square()], -1).unsqueeze(1))
        keys, values = tape.read(first(t))
        weights = torch.tanh(keys + (x[:, t] @ w).unsqueeze(1)).sum(-1).softmax(-1)
        outputs.append((weights.unsqueeze(1) @ values).squeeze(1)[:, : x.shape[2]])
    return torch.stack(outputs, 1)


@pytest.fixture
def parts() -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    return tuple(torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in ((2, 6, 3), (3, 4)))  # type: ignore[return-value]


@pytest.mark.parametrize("first", [lambda t: 0, lambda t: max(0, t - 2)], ids=["all", "window"])
def test_as_joined(parts: tuple[Tensor, Tensor], first: Callable[[int], int]) -> None:
    ours, plain = (recurrence(*parts, first, joined) for joined in (False, True))
    torch.testing.assert_close(ours, plain, rtol=0, atol=1e-14)
    target = torch.randn_like(plain)
    for one, other in zip(
        torch.autograd.grad(ours, parts, target), torch.autograd.grad(plain, parts, target), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-14)
    assert torch.autograd.gradcheck(lambda *inputs: recurrence(*inputs, first, False), parts)


def test_a_graph_may_be_differentiated_twice(parts: tuple[Tensor, Tensor]) -> None:
    total = recurrence(*parts, lambda t: 0, False).square().sum()
    one, other = (torch.autograd.grad(total, parts, retain_graph=True) for _ in range(2))
    assert all(torch.equal(*pair) for pair in zip(one, other, strict=True))


def test_transforms_join_the_cells(parts: tuple[Tensor, Tensor]) -> None:
    x, w = (part.detach() for part in parts)
    loss = lambda x, w: recurrence(x, w, lambda t: 0, False).square().sum()  # noqa: E731
    expected = torch.autograd.grad(loss(*parts), parts)
    for one, other in zip(torch.func.grad(loss, argnums=(0, 1))(x, w), expected, strict=True):
        torch.testing.assert_close(one, other)


def test_cells_without_gradient_before_those_with() -> None:
    tape, learnt = StepTape(2), torch.ones(1, 1, 2, requires_grad=True)
    tape.write(torch.zeros(1, 1, 2), torch.zeros(1, 1, 2))
    assert not tape.read()[0].requires_grad
    tape.write(learnt, 3 * learnt)
    keys, values = tape.read()
    (keys.sum() + values.sum()).backward()
    assert learnt.grad is not None
    assert learnt.grad.tolist() == [[[4.0, 4.0]]]


def test_half_precision_sums_are_wide() -> None:
    """The gradient of a cell that is read 2,000 times is not lost in bfloat16, where 256 + 1 is 256."""
    tape, cell = StepTape(1), torch.ones(1, 1, 1, dtype=torch.bfloat16, requires_grad=True)
    tape.write(cell, cell)
    total = torch.stack([tape.read()[1].float().sum() for _ in range(2000)]).sum()
    (gradient,) = torch.autograd.grad(total, cell)
    assert gradient.item() == 2000


def test_reads_are_views_of_one_store() -> None:
    with torch.no_grad():
        tape = StepTape(3)
        for number in range(3):
            tape.write(torch.full((1, 1, 1), float(number)), torch.zeros(1, 1, 1))
        assert tape.read()[0].data_ptr() == tape.read()[0].data_ptr()
        assert tape.read(1)[0].flatten().tolist() == [1.0, 2.0]


def test_too_many_cells_and_none() -> None:
    tape = StepTape(1)
    with pytest.raises(ShapeError, match="there is no such cell"):
        tape.read()
    tape.write(torch.zeros(2, 1, 1), torch.zeros(2, 1, 1))
    with pytest.raises(ShapeError, match="the tape is full: got 2 cells; expected at most 1"):
        tape.write(torch.zeros(2, 1, 1), torch.zeros(2, 1, 1))
