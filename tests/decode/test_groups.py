"""The best continuations straight from logits, beside log_softmax and a sort of everything."""

import math

import pytest
import torch
from torch import Tensor

from regard.decode.groups import Barred, best_by_groups, best_of_logits


def barred(tokens: set[int], size: int) -> Barred:
    added = torch.zeros(size, dtype=torch.float64)
    added[sorted(tokens)] = -math.inf
    return Barred(frozenset(tokens), added)


def expected(log_prob: Tensor, logits: Tensor, sentences: int, wanted: int, added: Tensor | None) -> tuple[Tensor, ...]:
    log_probs = logits.log_softmax(-1)
    total = log_prob.unsqueeze(1) + (log_probs if added is None else log_probs + added)
    top, where = total.view(sentences, -1).topk(wanted, dim=1)
    rows, size = len(logits) // sentences, logits.shape[1]
    return top, torch.arange(sentences).unsqueeze(1) * rows + where // size, where % size


@pytest.mark.parametrize("seed", range(12))
def test_the_best_of_random_logits(seed: int) -> None:
    chance = torch.Generator().manual_seed(seed)

    def number(low: int, high: int) -> int:
        return int(torch.randint(low, high, (), generator=chance))

    sentences, prefixes, size = number(1, 8), number(1, 9), number(40, 400)
    wanted = number(1, max(2, math.isqrt(prefixes * size) // 2))  # groups are made for far more than are wanted
    logits = 4 * torch.randn(sentences * prefixes, size, generator=chance, dtype=torch.float64)
    log_prob = -5 * torch.rand(sentences * prefixes, generator=chance, dtype=torch.float64)
    log_prob[1::prefixes] = -math.inf if prefixes > 1 else -1.0  # a prefix that cannot go on
    forbidden = barred({number(0, size) for _ in range(number(0, 5))}, size) if seed % 3 else None
    before = logits.clone()
    first = torch.arange(0, sentences * prefixes, prefixes).unsqueeze(1)
    found = best_of_logits(log_prob, logits, first, wanted, forbidden)
    assert found is not None
    top, row, token = expected(log_prob, logits, sentences, wanted, forbidden and forbidden.added)
    torch.testing.assert_close(found.log_prob, top)
    assert torch.equal(found.row, row)
    assert torch.equal(found.token, token)
    assert torch.equal(logits, before)  # they may belong to the model


@pytest.mark.parametrize("spoilt", [math.nan, math.inf, 61.0, 1e30])
def test_what_cannot_simply_be_summed(spoilt: float) -> None:
    logits = torch.randn(2, 100)
    logits[1, 7] = spoilt
    assert best_of_logits(torch.zeros(2), logits, torch.tensor([[0], [1]]), 3) is None


def test_a_row_without_a_way_on() -> None:
    logits = torch.randn(2, 100)
    logits[1] = -math.inf
    assert best_of_logits(torch.zeros(2), logits, torch.tensor([[0], [1]]), 3) is None
    logits[1] = -70.0
    assert best_of_logits(torch.zeros(2), logits, torch.tensor([[0], [1]]), 3) is None


def test_logits_far_from_zero_that_can_be_summed() -> None:
    logits, first = torch.linspace(-59.0, 59.0, 300).view(3, 100), torch.arange(3).unsqueeze(1)
    found = best_of_logits(torch.zeros(3), logits, first, 4)
    assert found is not None
    torch.testing.assert_close(found.log_prob, logits.log_softmax(-1).topk(4, dim=1).values)


def test_ties_are_all_found() -> None:
    found = best_by_groups(torch.zeros(1), torch.zeros(1, 150), torch.tensor([[0]]), 6)
    assert len(set(found.token[0].tolist())) == 6
    assert found.log_prob.tolist() == [[0.0] * 6]
