from collections import Counter
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from regard.base import RegardError, ShapeError
from regard.nn.step_linear import StepLinear

STEPS, ROWS, WIDTH = 4, 3, 5


class Counting(TorchDispatchMode):
    """Which operations run, and how often."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.counts[function._schema.name] += 1
        return function(*args, **(kwargs or {}))


def leaves(dtype: torch.dtype = torch.float64) -> list[Tensor]:
    """A weight, a bias, an addend for each step, and the start."""
    shapes = (WIDTH, WIDTH), (WIDTH,), (STEPS, ROWS, WIDTH), (ROWS, WIDTH)
    return [torch.randn(shape, dtype=dtype, requires_grad=True) for shape in shapes]


def loop(weight: Tensor, bias: Tensor, addend: Tensor, start: Tensor) -> Tensor:
    plain, own = StepLinear(weight, bias, shape=(STEPS, ROWS)), StepLinear(weight, addend, shape=(STEPS, ROWS))
    bare = StepLinear(weight, shape=(STEPS, ROWS))
    states = [start]
    for _ in range(STEPS):
        states.append(torch.tanh(plain(states[-1])) + own(states[-1]) * bare(states[-1]).sigmoid())
    return torch.stack(states[1:])


def by_hand(weight: Tensor, bias: Tensor, addend: Tensor, start: Tensor) -> Tensor:
    states = [start]
    for each in addend:
        x = states[-1]
        own, bare = F.linear(x, weight) + each, F.linear(x, weight)
        states.append(torch.tanh(F.linear(x, weight, bias)) + own * bare.sigmoid())
    return torch.stack(states[1:])


def test_results_and_gradients_are_those_of_the_plain_loop() -> None:
    given = leaves()
    found, expected = loop(*given), by_hand(*given)
    torch.testing.assert_close(found, expected)
    pull = torch.randn_like(found)
    torch.testing.assert_close(torch.autograd.grad(found, given, pull), torch.autograd.grad(expected, given, pull))
    assert torch.autograd.gradcheck(loop, leaves())


def test_a_weight_is_multiplied_once_for_all_steps() -> None:
    weight, bias, _, start = leaves()
    product, x = StepLinear(weight, bias, shape=(STEPS, ROWS)), start
    for _ in range(STEPS):
        x = product(x)
    with Counting() as seen:
        x.sum().backward()
    assert seen.counts["aten::mm"] == STEPS + 1  # one to each step's input, and one to the weight
    assert seen.counts["aten::add"] == seen.counts["aten::add_"] == 0


def test_some_of_the_gradients() -> None:
    weight, bias, addend, start = given = leaves()
    for chosen in ([weight], [start], [bias, addend]):
        pairs = [torch.autograd.grad(make(*given)[-1].sum(), chosen) for make in (loop, by_hand)]
        torch.testing.assert_close(*pairs)
    early = [torch.autograd.grad(make(*given)[1].sum(), given) for make in (loop, by_hand)]  # later steps get none
    torch.testing.assert_close(*early)
    frozen = [part.detach() for part in given]
    frozen[2].requires_grad_()
    [found], [expected] = (torch.autograd.grad(make(*frozen).sum(), frozen[2]) for make in (loop, by_hand))
    torch.testing.assert_close(found, expected)


def test_twice_through_the_same_graph() -> None:
    given = leaves()
    out = loop(*given).sum()
    torch.autograd.grad(out, given[3], retain_graph=True)  # leaves nothing behind for the weight
    first, second = torch.autograd.grad(out, given, retain_graph=True), torch.autograd.grad(out, given)
    torch.testing.assert_close(first, second, rtol=0, atol=0)
    [gradient, *_] = torch.autograd.grad(loop(*given).sum(), given, create_graph=True)
    with pytest.raises(RuntimeError, match="differentiate twice"):
        gradient.sum().backward()


def test_fewer_steps_than_there_might_be() -> None:
    weight, bias, _, start = leaves()
    out = StepLinear(weight, bias, shape=(STEPS, ROWS))(start)
    found = torch.autograd.grad(out.square().sum(), (weight, bias))
    expected = torch.autograd.grad(F.linear(start, weight, bias).square().sum(), (weight, bias))
    torch.testing.assert_close(found, expected)


def test_without_gradients_nothing_is_kept() -> None:
    weight, bias, _, start = leaves()
    with torch.no_grad():
        product = StepLinear(weight, bias, shape=(1, ROWS))
        assert torch.equal(product(start), F.linear(start, weight, bias))
    frozen = StepLinear(weight.detach(), bias.detach(), shape=(1, ROWS))
    frozen(start).sum().backward()
    torch.testing.assert_close(start.grad, weight.detach().sum(0).expand(ROWS, -1))
    assert product._inputs == frozen._inputs == []


def test_under_autocast_the_weight_is_cast_once() -> None:
    given = leaves(torch.float32)
    weight, bias, _, start = given
    with Counting() as seen, torch.autocast("cpu", torch.bfloat16):
        product, x = StepLinear(weight, bias, shape=(STEPS, ROWS)), start
        for _ in range(STEPS):
            x = product(x)
    assert x.dtype == torch.bfloat16
    assert seen.counts["aten::_to_copy"] == 3  # the weight, the bias, the first input
    x.float().sum().backward()
    assert weight.grad is not None
    assert weight.grad.dtype == bias.grad.dtype == torch.float32


def test_bfloat16() -> None:
    given = leaves()
    with torch.no_grad():
        half = [part.bfloat16().requires_grad_() for part in given]
    out = loop(*half)
    assert out.dtype == torch.bfloat16
    exact = [part.detach().double().requires_grad_() for part in half]
    found = torch.autograd.grad(out.float().mean(), half)
    for one, other in zip(found, torch.autograd.grad(by_hand(*exact).mean(), exact), strict=True):
        torch.testing.assert_close(one.double(), other, rtol=0.1, atol=0.05)


def test_each_parameter_is_told_once() -> None:
    """As data-parallel training expects: one whole gradient by the usual way."""
    weight, bias, addend, _ = leaves()
    calls = []
    weight.register_post_accumulate_grad_hook(lambda parameter: calls.append(parameter.grad.clone()))
    product = StepLinear(weight, bias, shape=(STEPS, ROWS))
    torch.stack([product(part) for part in addend]).sum().backward()
    assert len(calls) == 1
    torch.testing.assert_close(calls[0], addend.detach().sum((0, 1)).expand(WIDTH, -1))


def test_bad_input() -> None:
    with pytest.raises(ShapeError, match=r"bias does not fit: got \[4, 2, 5\]; expected \[5\], or \[4, 3, 5\]"):
        StepLinear(torch.ones(5, 5), torch.ones(4, 2, 5), shape=(4, 3))
    product = StepLinear(torch.ones(5, 5), shape=(1, 3))
    product(torch.ones(3, 5))
    with pytest.raises(RegardError, match="there are no more steps"):
        product(torch.ones(3, 5))


def test_transforms_see_a_plain_product() -> None:
    weight, bias, x = torch.randn(3, 2), torch.randn(3), torch.randn(4, 2)

    def steps(weight: Tensor, bias: Tensor) -> Tensor:
        product = StepLinear(weight, bias, shape=(2, 4))
        return product(x) + product(2 * x)

    def plain(weight: Tensor, bias: Tensor) -> Tensor:
        return F.linear(x, weight, bias) + F.linear(2 * x, weight, bias)

    for act in (
        lambda f: torch.func.jvp(f, (weight, bias), (torch.ones_like(weight), torch.ones_like(bias)))[1],
        lambda f: torch.func.grad(lambda w: f(w, bias).square().sum())(weight),
        lambda f: torch.func.vmap(f)(torch.stack([weight, -weight]), torch.stack([bias, bias])),
    ):
        torch.testing.assert_close(act(steps), act(plain))
