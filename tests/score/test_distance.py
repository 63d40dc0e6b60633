"""Distance kernels."""

import math

import pytest
import torch

from regard.align import Align, Normalize, Softmax, normalize, softmax
from regard.score import Distance, gaussian_kernel, inverse_distance

KERNELS = pytest.mark.parametrize("score", [Distance("inverse"), Distance("gaussian", bandwidth=0.7)], ids=repr)


def test_box_table() -> None:
    query, keys = (torch.tensor(x, dtype=torch.float64) for x in ([[360.0]], [[300.0], [400.0]]))
    weights = normalize(inverse_distance(query, keys))
    torch.testing.assert_close(weights, torch.tensor([[0.4, 0.6]], dtype=torch.float64), rtol=0, atol=1e-15)
    assert abs((weights @ (keys / 10)).item() - 36.0) < 1e-12
    assert (softmax(inverse_distance(query, keys)) @ (keys / 10)).item() == pytest.approx(35.0208, abs=1e-4)


def test_inverse_is_the_reciprocal_of_the_norm() -> None:
    query, keys = torch.randn(2, 3, 4), torch.randn(2, 5, 4)
    expected = 1 / (query.unsqueeze(-2) - keys.unsqueeze(-3)).norm(dim=-1)
    torch.testing.assert_close(inverse_distance(query, keys), expected)
    torch.testing.assert_close(inverse_distance(query, keys, log=True), expected.log())


@pytest.mark.parametrize("bandwidth", [0.5, 1.0, 3.0])
def test_gaussian_is_exp_of_the_squared_distance(bandwidth: float) -> None:
    query, keys = torch.randn(2, 3, 4), torch.randn(2, 5, 4)
    squared = (query.unsqueeze(-2) - keys.unsqueeze(-3)).square().sum(-1)
    exponent = -squared / (2 * bandwidth**2)
    torch.testing.assert_close(gaussian_kernel(query, keys, bandwidth=bandwidth), exponent.exp())
    torch.testing.assert_close(gaussian_kernel(query, keys, bandwidth=bandwidth, log=True), exponent)


@pytest.mark.parametrize("kernel", ["inverse", "gaussian"])
@pytest.mark.parametrize(("log", "align"), [(False, Normalize()), (False, Softmax()), (True, Softmax())])
def test_exact_hit_has_finite_gradients(kernel: str, log: bool, align: Align) -> None:
    query = torch.tensor([[1.0, 2.0], [0.0, 0.5]], requires_grad=True)
    keys = torch.tensor([[3.0, 4.0], [1.0, 2.0], [0.0, 1.0]], requires_grad=True)
    scores = Distance(kernel, log=log)(query, keys)
    if kernel == "inverse":
        assert scores[0, 1] == math.inf
        assert scores.isinf().sum() == 1
    weights = align(scores).weights
    if kernel == "inverse":
        torch.testing.assert_close(weights[0], torch.tensor([0.0, 1.0, 0.0]))
    (weights * torch.tensor([1.0, 2.0, 4.0])).sum().backward()
    assert query.grad.isfinite().all()
    assert keys.grad.isfinite().all()
    assert (query.grad[1] != 0).any()


def test_two_hits_share_the_row() -> None:
    keys = torch.tensor([[1.0], [2.0], [1.0]])
    torch.testing.assert_close(normalize(inverse_distance(keys[:1], keys)), torch.tensor([[0.5, 0.0, 0.5]]))


@KERNELS
def test_softmax_of_the_logarithm_is_normalize(score: Distance) -> None:
    query, keys = torch.randn(2, 3, 4, dtype=torch.float64), torch.randn(2, 5, 4, dtype=torch.float64)
    keys[0, 2] = query[0, 1]
    log = Distance(score.kernel, bandwidth=score.bandwidth, log=True)
    torch.testing.assert_close(softmax(log(query, keys)), normalize(score(query, keys)))


def test_logarithm_is_safe_far_from_all_keys() -> None:
    query, keys = torch.tensor([[1000.0]]), torch.tensor([[0.0], [1.0]])
    assert normalize(Distance("gaussian")(query, keys)).sum() == 0
    assert softmax(Distance("gaussian", log=True)(query, keys)).tolist() == [[0.0, 1.0]]


def test_distance_is_exact_far_from_the_origin() -> None:
    query, keys = torch.tensor([[4096.0, 4096.0]]), torch.tensor([[4096.0, 4096.0625]])
    assert inverse_distance(query, keys).item() == 16


@KERNELS
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_in_full_precision_out(score: Distance, dtype: torch.dtype) -> None:
    query, keys = torch.randn(3, 4).to(dtype), torch.randn(5, 4).to(dtype)
    scores = score(query, keys)
    assert scores.dtype == torch.float32  # scores are wide, whatever comes in
    torch.testing.assert_close(scores, score(query.float(), keys.float()))


def test_repr_shows_the_kernel() -> None:
    assert repr(Distance(log=True)) == "Distance('inverse', log=True)"
    assert repr(Distance("gaussian", bandwidth=2.0)) == "Distance('gaussian', bandwidth=2.0, log=False)"
