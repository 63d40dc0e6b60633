"""What is inside the Triton kernels, called alone and compared with float64; the interpreter runs this file."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from regard.kernels.arithmetic import dot, precise_exp, signed_falling, signed_tanh, within
from regard.kernels.dropout import kept, kept_turned


@triton.jit
def _functions(x, tanh, exp, bounded, size: tl.constexpr):
    place = tl.arange(0, size)
    number = tl.load(x + place)
    tl.store(tanh + place, signed_tanh(signed_falling(number)))
    tl.store(exp + place, precise_exp(number))
    tl.store(bounded + place, within(number, 2.0))


@triton.jit
def _product(left, right, out, size: tl.constexpr):
    rows, columns = tl.arange(0, size)[:, None], tl.arange(0, size)[None, :]
    place = rows * size + columns
    tl.store(out + place, dot(tl.load(left + place), tl.load(right + place)))


@triton.jit
def _kept_turned(seed, out, item, dropout, size: tl.constexpr):
    rows, columns = tl.arange(0, size), tl.arange(0, size)
    keep = kept_turned(seed, item, rows, columns, dropout)
    tl.store(out + rows[None, :] * size + columns[:, None], keep.to(tl.int32))


@triton.jit
def _kept(seed, out, item, dropout, size: tl.constexpr):
    rows, columns = tl.arange(0, size), tl.arange(0, size)
    tl.store(out + rows[:, None] * size + columns[None, :], kept(seed, item, rows, columns, dropout).to(tl.int32))


def test_arithmetic_of_single_numbers() -> None:
    x = torch.cat([torch.linspace(-30, 30, 126), torch.tensor([0.0, float("nan")])])
    tanh, exp, bounded = (torch.empty(128) for _ in range(3))
    _functions[(1,)](x, tanh, exp, bounded, size=128)
    exact = x[:-1].double()
    torch.testing.assert_close(tanh[:-1].double(), exact.tanh(), rtol=0, atol=2.5e-7)
    torch.testing.assert_close(exp[:-1].double(), exact.exp(), rtol=2.5e-7, atol=0)
    assert torch.equal(bounded[:-1], x[:-1].clamp(-2, 2))
    assert torch.stack([tanh[-1], exp[-1], bounded[-1]]).isnan().all()


def test_arithmetic_of_matrices() -> None:
    left, right = torch.randn(2, 16, 16)
    out = torch.empty(16, 16)
    _product[(1,)](left, right, out, size=16)
    exact = left.double() @ right.double()
    bound = left.double().abs() @ right.double().abs()
    assert ((out.double() - exact).abs() <= 2.0**-20 * bound).all()  # ten bits alone would be off by 2⁻¹⁰


def _noise(seed: int, item: int, dropout: float) -> Tensor:
    out = torch.empty(32, 32, dtype=torch.int32)
    _kept[(1,)](torch.tensor([seed]), out, torch.tensor(item).item(), dropout, size=32)
    return out


def test_dropout_depends_on_seed_and_place() -> None:
    first = _noise(7, 3, 0.3)
    assert torch.equal(_noise(7, 3, 0.3), first)
    assert not torch.equal(_noise(8, 3, 0.3), first)
    assert not torch.equal(_noise(7, 4, 0.3), first)
    turned = torch.empty_like(first)
    _kept_turned[(1,)](torch.tensor([7]), turned, 3, 0.3, size=32)
    assert torch.equal(turned, first)
    assert 0.6 < first.float().mean() < 0.8  # seven standard deviations of 1,024 draws
    assert (_noise(7, 3, 0.6) <= first).all()  # the same noise: what survives more dropout survives less
