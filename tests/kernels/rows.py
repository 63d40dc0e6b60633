"""Kernels that work on rows: weights of the dot family, rows of length one. `child.py` runs this file."""

import pytest
import torch
from cases import DEVICE
from torch import Tensor
from torch.testing import assert_close

from regard.align import Softmax
from regard.attention import Mask, attend
from regard.attention.weights import recompute_weights
from regard.kernels.dot_weights import dot_weights
from regard.kernels.unit import unit_rows
from regard.score import Cosine, ScaledDot, Score

pytestmark = pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS:UserWarning")
MASKS = {
    "none": None,
    "causal": Mask.causal(),
    "window and padding": Mask.window(2, 1) & Mask.padding([7, 0, 1]),
    "dense": Mask.of(torch.rand(3, 1, 5, 7, generator=torch.Generator().manual_seed(0)) > 0.5),
}


def example(dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(1)
    shapes = (3, 2, 5, 6), (3, 2, 7, 6), (3, 2, 7, 4)
    query, keys, values = (torch.randn(shape).to(DEVICE, dtype) for shape in shapes)
    return query, keys, values


@pytest.mark.parametrize("score", [ScaledDot(), Cosine(3.0)], ids=["scaled dot", "cosine"])
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_weights_are_those_of_the_reference(score: Score, mask: Mask | None) -> None:
    query, keys, values = example()
    score, align = score.to(DEVICE), Softmax(0.7)
    with torch.no_grad():
        expected = attend(query, keys, values, score=score, align=align, mask=mask, impl="reference").weights
    assert expected is not None
    given = query, keys, values, score, align, mask, None
    assert_close(recompute_weights(*given), expected, rtol=1e-5, atol=1e-6)
    found = recompute_weights(*given, rows=[4, 0, -2], heads=[1])
    assert_close(found, expected[:, [1]][:, :, [4, 0, 3]], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("size", [(1, 3, 300, 20), (2, 150, 130, 5)])
def test_weights_of_many_tiles_and_parts(size: tuple[int, int, int, int]) -> None:
    n, q, k, width = size
    torch.manual_seed(2)
    query, keys = torch.randn(n, q, width, device=DEVICE), 3 * torch.randn(n, k, width, device=DEVICE)
    expected = (query.double() @ keys.double().mT * 0.5).softmax(-1)
    assert_close(dot_weights(query, keys, scale=0.5).double(), expected, rtol=1e-5, atol=1e-7)
    rows = torch.tensor([q - 1, 0], device=DEVICE)
    later = torch.arange(k, device=DEVICE) > rows.unsqueeze(1) + k - q
    expected = (query[:, rows].double() @ keys.double().mT).masked_fill(later, -torch.inf).softmax(-1).nan_to_num(0.0)
    assert_close(dot_weights(query, keys, rows=rows, causal=True).double(), expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=str)
def test_unit_rows(dtype: torch.dtype) -> None:
    torch.manual_seed(3)
    scales = torch.tensor([1.0, 1e-30, 1e30, 0.0]) if dtype == torch.float32 else torch.tensor([1.0, 1e-4, 1e3, 0.0])
    x = (torch.randn(2, 4, 33) * scales.unsqueeze(1)).to(DEVICE, dtype).requires_grad_()
    grad = torch.randn(2, 4, 33).to(DEVICE, dtype)
    exact = x.detach().double().requires_grad_()
    expected = exact / exact.norm(dim=-1, keepdim=True).clamp(min=1e-200)
    found = unit_rows(x)
    bound = 2 * torch.finfo(dtype).eps
    assert_close(found.double(), expected, rtol=bound, atol=bound)
    [wanted], [mine] = torch.autograd.grad(expected, exact, grad.double()), torch.autograd.grad(found, x, grad)
    keep = scales != 0
    relative = (mine.double() - wanted)[:, keep].norm(dim=-1) / wanted[:, keep].norm(dim=-1)
    assert relative.max() < 4 * bound
    assert mine[:, ~keep].count_nonzero() == 0


def test_unit_has_a_second_derivative_and_passes_opcheck() -> None:
    torch.manual_seed(4)
    x = torch.randn(3, 5, device=DEVICE, requires_grad=True)
    a, b = torch.randn(3, 5, device=DEVICE), torch.randn(3, 5, device=DEVICE)

    def second(norm: object) -> Tensor:
        [first] = torch.autograd.grad((norm(x) * a).sum(), x, create_graph=True)  # type: ignore[operator]
        [result] = torch.autograd.grad((first * b).sum(), x)
        return result

    assert_close(second(unit_rows), second(lambda x: x / x.norm(dim=-1, keepdim=True)), rtol=1e-4, atol=1e-5)
    torch.library.opcheck(unit_rows.operator, (x,))
