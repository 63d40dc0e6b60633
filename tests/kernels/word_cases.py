"""One pass over logits: the best word, and the bests of groups. `child.py` runs this file."""

import random

import pytest
import torch
from cases import DEVICE
from torch.testing import assert_close

from regard.kernels.limits import can_read_logits
from regard.kernels.next_words import best_words, group_bests

pytestmark = pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")  # of the interpreter: ∞ − ∞
INF = float("inf")


@pytest.mark.parametrize("seed", range(6))
def test_random_logits(seed: int) -> None:
    chance = random.Random(seed)
    torch.manual_seed(seed)
    dtype = chance.choice([torch.float32, torch.bfloat16, torch.float16])
    rows, size = chance.choice([1, 2, 9]), chance.choice([1, 5, 16, 1000, 1024, 1100])
    logits = (chance.choice([1, 30]) * torch.randn(rows, size + 3, device=DEVICE)).to(dtype)[:, :size]
    logits[torch.rand(rows, size, device=DEVICE) < chance.choice([0.0, 0.5])] = -INF
    if rows > 2:
        logits[1] = -INF
    added = None
    if chance.random() < 0.7:
        added = torch.where(torch.rand(size, device=DEVICE) < 0.3, -INF, 0.0)
    assert can_read_logits(logits)
    exact = logits.double().log_softmax(-1).nan_to_num(-INF) + (0.0 if added is None else added.double())
    found = best_words(logits, added)
    assert not found.wrong.any()
    assert_close(found.log_prob.double(), exact.amax(1), rtol=1e-5, atol=1e-5)
    possible = exact.amax(1) > -INF
    barred = logits.float() + (0.0 if added is None else added)
    assert torch.equal(found.token[possible], barred.argmax(1)[possible])  # the first of equals
    for width in (16, 64):
        groups = group_bests(logits, width, added)
        padded = torch.nn.functional.pad(barred, (0, -size % width), value=-INF)
        assert torch.equal(groups.best, padded.view(rows, -1, width).amax(-1))
        log_sum = logits.double().logsumexp(-1)
        right = torch.where(log_sum == -INF, 0.0, log_sum)
        assert_close(groups.log_sum.double(), right, rtol=1e-5, atol=1e-5)
        assert not groups.wrong.any()


@pytest.mark.parametrize("value", [INF, float("nan")])
@pytest.mark.parametrize("place", [0, 1023, 1024, 1500])
def test_what_is_no_number_is_told(value: float, place: int) -> None:
    logits = torch.zeros(3, 1501, device=DEVICE)
    logits[1, place] = value
    assert best_words(logits).wrong.tolist() == [False, True, False]
    assert group_bests(logits, 32).wrong.tolist() == [False, True, False]


def test_float64_goes_another_way() -> None:
    assert not can_read_logits(torch.zeros(2, 3, device=DEVICE, dtype=torch.float64))
