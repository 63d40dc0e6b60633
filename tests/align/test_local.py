"""Local attention: local-m and local-p."""

import math

import pytest
import torch
from torch import Tensor

from regard.align import Hard, LocalMonotonic, LocalPredictive, Sparsemax, softmax, sparsemax
from regard.base import ConfigError


def _window(query: int, num_keys: int, size: int) -> list[bool]:
    return [abs(key - query) <= size for key in range(num_keys)]


@pytest.mark.parametrize("size", [0, 1, 3])
def test_local_m_looks_around_its_own_time(size: int) -> None:
    scores = torch.randn(2, 5, 6)
    inside = torch.tensor([_window(t, 6, size) for t in range(5)])
    weights = LocalMonotonic(size)(scores).weights
    torch.testing.assert_close(weights, softmax(scores, inside))
    assert torch.equal(weights > 0, inside.expand(2, 5, 6))


@pytest.mark.parametrize("as_tensor", [False, True])
def test_local_m_step_by_step(as_tensor: bool) -> None:
    align, scores = LocalMonotonic(1), torch.randn(2, 7, 5)
    whole = align(scores).weights
    for t in range(7):
        step = torch.tensor(t) if as_tensor else t
        torch.testing.assert_close(align(scores[:, t : t + 1], step=step).weights, whole[:, t : t + 1])
    torch.testing.assert_close(align(scores[:, 2:4], step=2).weights, whole[:, 2:4])


@pytest.mark.parametrize("shape", [(3,)])
def test_local_m_one_step_per_sentence(shape: tuple[int, ...]) -> None:
    align, scores = LocalMonotonic(1), torch.randn(3, 1, 5)
    weights = align(scores, step=torch.tensor([0, 2, 4]).reshape(shape)).weights
    for sentence, step in enumerate((0, 2, 4)):
        torch.testing.assert_close(weights[sentence], align(scores[sentence], step=step).weights)


def test_local_m_empty_window_is_zero() -> None:
    scores = torch.randn(1, 6, 3, requires_grad=True)
    weights = LocalMonotonic(1)(scores).weights
    assert (weights[0, :4].sum(-1) > 0.99).all()
    assert (weights[0, 4:] == 0).all()
    weights.square().sum().backward()
    assert (scores.grad[0, 4:] == 0).all()
    assert (LocalMonotonic(1)(torch.zeros(1, 1, 3), step=9).weights == 0).all()


def test_local_m_with_mask_and_base() -> None:
    scores, mask = torch.randn(2, 5, 6), torch.rand(2, 5, 6) < 0.7
    inside = torch.tensor([_window(t, 6, 2) for t in range(5)])
    weights = LocalMonotonic(2, base=Sparsemax())(scores, mask).weights
    torch.testing.assert_close(weights, sparsemax(scores, mask & inside))
    result = LocalMonotonic(2, base=Hard("sample"))(scores)
    assert result.log_prob.shape == (2, 5)


def _with_centre(window: int, energy: float) -> LocalPredictive:
    """A predictor whose v·tanh(W q) is `energy` for the query 1."""
    align = LocalPredictive(1, window=window)
    torch.nn.init.constant_(align.to_hidden.weight, 1.0)
    torch.nn.init.constant_(align.to_centre.weight, energy / math.tanh(1.0))
    return align


def test_local_p_golden_values() -> None:
    weights = _with_centre(4, 0.3)(torch.zeros(1, 10), query=torch.ones(1, 1)).weights
    expected = [0, 0, 0.021666, 0.048756, 0.085450, 0.116634, 0.123984, 0.102643, 0.066179, 0.033230]
    torch.testing.assert_close(weights, torch.tensor([expected]), rtol=0, atol=1e-6)
    assert weights.sum().item() == pytest.approx(0.598542, abs=1e-5)


def _loop(align: LocalPredictive, query: Tensor, scores: list[float], length: int) -> list[float]:
    """Luong's formula for one query and one sentence of `length` words, the rest of `scores` being padding."""
    energy = align.to_centre.weight[0] @ torch.tanh(align.to_hidden.weight @ query)
    centre = length / (1 + math.exp(-energy.item()))
    inside = [s for s in range(length) if centre - align.window <= s <= centre + align.window]
    total = sum(math.exp(scores[s]) for s in inside)
    weights = [0.0] * len(scores)
    for s in inside:
        gaussian = math.exp(-((s - centre) ** 2) / (2 * (align.window / 2) ** 2))
        weights[s] = math.exp(scores[s]) / total * gaussian
    return weights


@pytest.mark.parametrize("length", [1, 5, 12])
@pytest.mark.parametrize("window", [1, 3, 20])
def test_local_p_equals_a_loop(window: int, length: int) -> None:
    align, scores, query = LocalPredictive(4, window=window, hidden_dim=6), torch.randn(1, 7, 12), torch.randn(1, 7, 4)
    query = 4 * query  # centres all over the sentence
    mask = torch.arange(12) < length
    weights = align(scores, mask, query=query).weights
    expected = [_loop(align, query[0, t], scores[0, t].tolist(), length) for t in range(7)]
    torch.testing.assert_close(weights, torch.tensor([expected]))
    assert (weights.sum(-1) < 1).all()
    assert ((weights > 0).sum(-1) <= 2 * window + 1).all()


def test_local_p_is_global_in_a_wide_window() -> None:
    align, scores = LocalPredictive(4, window=10**6), torch.randn(2, 3, 8)
    torch.testing.assert_close(align(scores, query=torch.randn(2, 3, 4)).weights, softmax(scores))


def test_local_p_gradient_reaches_the_predictor() -> None:
    align, query = LocalPredictive(4, window=3), torch.randn(2, 3, 4, requires_grad=True)
    align(torch.zeros(2, 3, 8), query=query).weights.sum().backward()
    assert (align.to_hidden.weight.grad != 0).any()
    assert (align.to_centre.weight.grad != 0).any()
    assert (query.grad != 0).any()


@pytest.mark.parametrize("pads", [1, 4])
def test_local_p_left_padding_shifts_the_centre(pads: int) -> None:
    align, scores, query = LocalPredictive(4, window=2), torch.randn(2, 3, 8), 3 * torch.randn(2, 3, 4)
    padded = torch.cat([torch.randn(2, 3, pads), scores], -1)
    weights = align(padded, torch.arange(8 + pads) >= pads, query=query).weights
    assert (weights[..., :pads] == 0).all()
    torch.testing.assert_close(weights[..., pads:], align(scores, query=query).weights)


def test_local_p_base_and_double_precision() -> None:
    align = LocalPredictive(4, window=3, base=Sparsemax()).double()
    scores, query = torch.zeros(1, 8, dtype=torch.float64), torch.randn(1, 4, dtype=torch.float64)
    centre = 8 * torch.sigmoid(align.to_centre(torch.tanh(align.to_hidden(query))))
    inside = (torch.arange(8) - centre).abs() <= 3
    gaussian = torch.exp(-(torch.arange(8) - centre).square() / (2 * 1.5**2))
    expected = sparsemax(scores, inside) * gaussian
    torch.testing.assert_close(align(scores, query=query).weights, expected, rtol=0, atol=1e-12)


def test_local_p_needs_the_query() -> None:
    with pytest.raises(ConfigError):
        LocalPredictive(4)(torch.zeros(1, 2, 3))


def test_a_window_beyond_all_numbers_is_none() -> None:
    huge, scores = 99999999999999999999, torch.randn(2, 3, 5)
    torch.testing.assert_close(LocalMonotonic(huge)(scores).weights, scores.softmax(-1))
    predicted = LocalPredictive(4, window=huge)(scores, query=torch.randn(2, 3, 4)).weights
    torch.testing.assert_close(predicted, scores.softmax(-1))
