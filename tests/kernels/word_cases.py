"""One pass over logits: a step of a greedy search, and the bests of groups. `child.py` runs this file."""

import random

import pytest
import torch
from cases import DEVICE
from torch.testing import assert_close

from regard.decode import fixed_path
from regard.decode.fixed_path import PathBoard, PathRules
from regard.kernels.limits import can_read_logits
from regard.kernels.next_words import group_bests

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
    barred = logits.float() + (0.0 if added is None else added)
    for width in (16, 64):
        groups = group_bests(logits, width, added)
        padded = torch.nn.functional.pad(barred, (0, -size % width), value=-INF)
        assert torch.equal(groups.best, padded.view(rows, -1, width).amax(-1))
        log_sum = logits.double().logsumexp(-1)
        right = torch.where(log_sum == -INF, 0.0, log_sum)
        assert_close(groups.log_sum.double(), right, rtol=1e-5, atol=1e-5)
        assert not groups.wrong.any()


@pytest.mark.parametrize("seed", range(8))
def test_a_path_in_one_kernel_is_that_of_plain_operations(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps of random logits: words that are possible or not, equal ones, ends early and late, any order."""
    chance = random.Random(seed)
    torch.manual_seed(seed)
    dtype, size = (
        chance.choice([torch.float32, torch.bfloat16, torch.float16]),
        chance.choice([5, 16, 1000, 1024, 1100]),
    )
    sentences, rows, steps = 5, chance.choice([1, 4, 5]), 4
    device, keys = torch.device(DEVICE), chance.choice([1, 7, 1030])
    rules = PathRules(2, chance.choice([0, 3]), frozenset(chance.sample([0, 1, 3], 2)))
    boards = [PathBoard(rules, sentences=sentences, steps=steps, dtype=torch.float32, device=device) for _ in range(2)]
    last = torch.randint(1, steps + 1, (sentences,), device=DEVICE)
    for board in boards:
        board.start(last, bos=1)
        board.rows.now["sentence"].copy_(torch.arange(sentences - 1, -1, -1))
    for _ in range(steps):
        logits = (chance.choice([1, 30]) * torch.randn(rows, size + 3, device=DEVICE)).round(decimals=1).to(dtype)
        logits[torch.rand(rows, size + 3, device=DEVICE) < chance.choice([0.0, 0.5])] = -INF
        logits[:, 2] += chance.choice([0, 3])
        if rows > 2:
            logits[1] = -INF
        weights = torch.rand(rows, 2, keys + 1, device=DEVICE).to(dtype)[:, 1, :keys] if chance.random() < 0.8 else None
        for board, kernel in zip(boards, (True, False), strict=True):
            monkeypatch.setattr(fixed_path, "can_read_logits", lambda _, kernel=kernel: kernel)
            board.advance(logits[:, :size], weights, rows)
    ours, right = (board.rows for board in boards)
    for name, buffer in right.now.items():
        going = ~right.now["done"] if name == "tokens" else slice(None)  # what follows the end is not read
        assert torch.equal(ours.now[name][going], buffer[going]), name
    assert bool(ours.bad) is bool(right.bad) is False
    assert_close(boards[0].gains, boards[1].gains, rtol=1e-5, atol=1e-5)
    assert torch.equal(boards[0].path, boards[1].path)
    assert (ours.looks is None) is (right.looks is None)
    if ours.looks is not None:
        assert torch.equal(ours.looks, right.looks)


@pytest.mark.parametrize("value", [INF, float("nan")])
@pytest.mark.parametrize("place", [0, 1023, 1024, 1500])
def test_what_is_no_number_is_told(value: float, place: int) -> None:
    logits = torch.zeros(3, 1501, device=DEVICE)
    logits[1, place] = value
    for done in (False, True):
        board = PathBoard(PathRules(2), sentences=3, steps=2, dtype=torch.float32, device=torch.device(DEVICE))
        board.start(torch.full((3,), 2, device=DEVICE), bos=1)
        board.rows.now["done"][1] = done  # of a sentence that has ended, nobody wants to know
        board.advance(logits, None, 3)
        assert bool(board.rows.bad) is not done
    assert group_bests(logits, 32).wrong.tolist() == [False, True, False]


def test_float64_goes_another_way() -> None:
    assert not can_read_logits(torch.zeros(2, 3, device=DEVICE, dtype=torch.float64))
