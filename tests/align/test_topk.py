"""Top-k."""

import pytest
import torch

from regard.align import Hard, Sparsemax, TopK, softmax, sparsemax, top_k


@pytest.mark.parametrize("k", [1, 2, 5, 9])
def test_keeps_the_best_keys(k: int) -> None:
    scores = torch.randn(4, 5)
    kept = top_k(scores, k=k)
    for row, keep in zip(scores, kept, strict=True):
        best = sorted(range(5), key=lambda j: -row[j].item())[:k]
        assert keep.nonzero().flatten().tolist() == sorted(best)


def test_ties_keep_exactly_k() -> None:
    assert top_k(torch.zeros(3, 6), k=2).sum(-1).tolist() == [2, 2, 2]


def test_fewer_allowed_keys_than_k() -> None:
    mask = torch.tensor([[True, False, True, False], [False] * 4])
    assert torch.equal(top_k(torch.randn(2, 4), mask, k=3), mask)


def test_aligns_the_kept_keys_with_the_base() -> None:
    scores = torch.randn(2, 3, 6)
    kept = top_k(scores, k=3)
    torch.testing.assert_close(TopK(3)(scores).weights, softmax(scores, kept))
    torch.testing.assert_close(TopK(3, base=Sparsemax())(scores).weights, sparsemax(scores, kept))
    torch.testing.assert_close(TopK(6)(scores).weights, softmax(scores))


def test_one_key_is_the_hard_alignment() -> None:
    scores = torch.randn(2, 3, 6)
    torch.testing.assert_close(TopK(1)(scores).weights, Hard()(scores).weights)


def test_dropped_keys_get_no_gradient() -> None:
    scores = torch.randn(1, 6, requires_grad=True)
    TopK(3)(scores).weights.square().sum().backward()
    assert torch.equal(scores.grad != 0, top_k(scores, k=3))
