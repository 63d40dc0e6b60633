"""Batches of texts: each example once an epoch, little padding, exact positions, few shapes."""

import json

import numpy as np
import pytest
import torch

from regard.base import ConfigError
from regard.data import DataError, TextBatches, evaluation_text_batches, text_batch
from regard.data.pictures import IGNORE
from regard.data.text import PAD, UNK

RANDOM = np.random.default_rng(0)
PAIRS = [tuple(RANDOM.integers(4, 50, RANDOM.integers(1, 30)).tolist() for _ in range(2)) for _ in range(103)]
LABELS = [number % 3 for number in range(103)]


def test_what_is_in_a_batch() -> None:
    batch = text_batch(PAIRS, LABELS)
    assert batch.texts.shape[:2] == (103, 2)
    for row, pair in enumerate(PAIRS):
        for side, words in enumerate(pair):
            assert batch.texts[row, side, : len(words)].tolist() == words
            assert (batch.texts[row, side, len(words) :] == PAD).all()
            assert batch.lengths[row, side] == len(words)
    assert batch.labels.squeeze(1).tolist() == LABELS
    assert batch.count == len(batch) == 103
    assert text_batch([([],)]).texts.shape == (1, 1, 1)
    assert text_batch([([5],)]).labels.tolist() == [[IGNORE]]


def test_every_example_once_an_epoch() -> None:
    batches = TextBatches(PAIRS, LABELS, batch_size=10, seed=3)
    for _ in range(2):
        epoch = [next(batches) for _ in range(batches.epoch_length())]
        assert sorted(number for batch in epoch for number in batch.indices) == list(range(103))
        assert max(len(batch) for batch in epoch) == 10
    other = TextBatches(PAIRS, LABELS, batch_size=10, seed=4)
    assert [next(other).indices for _ in range(3)] != [batch.indices for batch in epoch[:3]]


def test_examples_of_like_length_share_a_batch() -> None:
    batches = TextBatches(PAIRS, LABELS, batch_size=10)
    epoch = [next(batches) for _ in range(batches.epoch_length())]
    widest = sum(batch.texts.shape[2] * len(batch) for batch in epoch)
    longest = np.array([max(map(len, pair)) for pair in PAIRS])
    assert longest.sum() <= widest < 1.15 * longest.sum() < 103 * longest.max()


@pytest.mark.parametrize("after", [1, 7, 11, 15])
def test_the_position_is_exact(after: int) -> None:
    batches = TextBatches(PAIRS, LABELS, batch_size=10, seed=1)
    for _ in range(after):
        next(batches)
    state = json.loads(json.dumps(batches.state_dict()))
    follows = [next(batches).indices for _ in range(9)]
    again = TextBatches(PAIRS, LABELS, batch_size=10, seed=1)
    again.load_state_dict(state)
    assert [next(again).indices for _ in range(9)] == follows
    with pytest.raises(DataError, match=r"of other batches \(data\)"):
        TextBatches(PAIRS, LABELS[::-1], batch_size=10, seed=1).load_state_dict(state)
    with pytest.raises(DataError, match=r"of other batches \(batch_size\)"):
        TextBatches(PAIRS, LABELS, batch_size=11, seed=1).load_state_dict(state)


@pytest.mark.parametrize("size", [101, 102, 103])
def test_ranks_share_every_batch(size: int) -> None:
    whole = TextBatches(PAIRS[:size], LABELS[:size], batch_size=10, seed=2)
    ranks = [TextBatches(PAIRS[:size], LABELS[:size], batch_size=10, seed=2, rank=rank, world=3) for rank in range(3)]
    parts = []
    for _ in range(ranks[0].epoch_length()):
        shares = [next(rank).indices for rank in ranks]
        assert all(shares)
        parts += [number for share in shares for number in share]
    assert sorted(parts) == list(range(size))
    assert whole.epoch_length() == ranks[0].epoch_length()


def test_few_shapes() -> None:
    batches = TextBatches(PAIRS, LABELS, batch_size=10, fit=8)
    for _ in range(batches.epoch_length()):
        batch = next(batches)
        assert batch.texts.shape[0] == 10
        assert batch.texts.shape[2] % 8 == 0
        filling = slice(batch.count, None)
        assert (batch.labels[filling] == IGNORE).all()
        assert (batch.labels[: batch.count] != IGNORE).all()
        assert (batch.lengths >= 1).all()
        assert (batch.texts[filling, :, 0] == UNK).all()
        assert (batch.texts[filling, :, 1:] == PAD).all()
    moved = batch.with_tensors({name: tensor + 0 for name, tensor in batch.tensors().items()})
    assert moved.count == batch.count
    assert torch.equal(moved.to("cpu").texts, batch.texts)


def test_evaluation_has_all_in_order_of_length() -> None:
    batches = evaluation_text_batches(PAIRS, LABELS, batch_size=16)
    assert sorted(number for batch in batches for number in batch.indices) == list(range(103))
    widths = [batch.texts.shape[2] for batch in batches]
    assert widths == sorted(widths)
    assert evaluation_text_batches([]) == []


def test_what_is_refused() -> None:
    with pytest.raises(DataError, match="got 103 examples and 2 labels"):
        TextBatches(PAIRS, [0, 1], batch_size=4)
    with pytest.raises(DataError, match="every example has as many texts: got 1 texts in example 1; expected 2"):
        text_batch([([5], [6]), ([5],)])
    with pytest.raises(ConfigError, match="TextBatches batch_size: got 2; expected at least world, 3"):
        TextBatches(PAIRS, LABELS, batch_size=2, world=3)
    with pytest.raises(ConfigError, match="TextBatches fit"):
        TextBatches(PAIRS, LABELS, batch_size=2, fit=0)
    with pytest.raises(DataError, match="too few examples"):
        TextBatches([([5],)], [0], batch_size=4, world=2)
