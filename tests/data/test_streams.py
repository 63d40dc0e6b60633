"""Streams: every token is predicted once, after the one before it, whatever the cut; a position is exact."""

import numpy as np
import pytest
import torch

from regard.base import RegardError
from regard.data import EOS, PAD, StreamBatch, StreamBatches, WindowBatches, stream_windows


def text(size: int) -> np.ndarray:
    return np.random.default_rng(size).integers(4, 99, size)


@pytest.mark.parametrize(
    ("size", "streams", "length"), [(1, 1, 1), (50, 1, 7), (50, 4, 7), (53, 8, 3), (5, 9, 2), (64, 8, 8)]
)
def test_each_token_once_after_the_one_before(size: int, streams: int, length: int) -> None:
    tokens = text(size)
    windows = list(stream_windows(tokens, streams=streams, length=length))
    inputs, targets = (torch.cat([getattr(window, name) for window in windows], 1) for name in ("inputs", "targets"))
    assert inputs.shape == targets.shape == (streams, len(windows) * length)
    part = -(-size // streams)
    before = np.concatenate([[EOS], tokens])
    for row in range(streams):
        real = targets[row] != PAD
        assert targets[row][real].tolist() == tokens[row * part : (row + 1) * part].tolist()
        assert inputs[row][real].tolist() == before[row * part : (row + 1) * part][: int(real.sum())].tolist()
    assert sum(window.count for window in windows) == size
    assert [bool(window.begins.all()) for window in windows] == [True] + [False] * (len(windows) - 1)
    assert not any(window.begins.any() for window in windows[1:])


def test_the_position_is_exact() -> None:
    batches = StreamBatches(text(100), streams=3, length=6)
    for _ in range(8):
        next(batches)
    state = batches.state_dict()
    expected = [next(batches) for _ in range(9)]
    again = StreamBatches(text(100), streams=3, length=6)
    again.load_state_dict(state)
    for one in expected:
        other = next(again)
        assert all(torch.equal(tensor, other.tensors()[name]) for name, tensor in one.tensors().items())
    assert state["epoch"] == 1


@pytest.mark.parametrize("seed", range(30))
def test_shifted_epochs_read_each_token_once_after_the_one_before(seed: int) -> None:
    """Sizes drawn at random: texts of one token, more streams than tokens, windows longer than streams."""
    chance = np.random.default_rng(seed)
    size, streams, length = (int(chance.integers(1, most)) for most in (60, 12, 15))
    tokens = chance.permutation(size) + 4
    previous = dict(zip(tokens.tolist(), [EOS, *tokens[:-1].tolist()], strict=True))
    batches, firsts = StreamBatches(tokens, streams=streams, length=length, shifted=True, seed=seed), set()
    for _ in range(6):
        windows = [next(batches) for _ in range(batches.epoch_length())]
        inputs, targets = (torch.cat([getattr(each, name) for each in windows], 1) for name in ("inputs", "targets"))
        real = targets != PAD
        assert sorted(targets[real].tolist()) == sorted(tokens.tolist())
        assert inputs[real].tolist() == [previous[token] for token in targets[real].tolist()]
        assert [bool(window.begins.all()) for window in windows] == [True] + [False] * (len(windows) - 1)
        assert not any(bool(window.begins.any()) for window in windows[1:])
        firsts.add(int(targets[0, 0]))
    assert len(firsts) > 1 or size < 3


def test_a_shifted_position_is_exact() -> None:
    batches, again = (StreamBatches(text(100), streams=3, length=6, shifted=True, seed=1) for _ in range(2))
    for _ in range(8):
        next(batches)
    again.load_state_dict(batches.state_dict())
    for _ in range(9):
        assert torch.equal(next(batches).targets, next(again).targets)
    with pytest.raises(RegardError, match="this state is of other batches"):
        StreamBatches(text(100), streams=3, length=6, seed=1).load_state_dict(batches.state_dict())


def test_a_position_of_another_text_is_refused() -> None:
    state = StreamBatches(text(100), streams=3, length=6).state_dict()
    for other in (StreamBatches(text(99), streams=3, length=6), StreamBatches(text(100), streams=2, length=6)):
        with pytest.raises(RegardError, match="this state is of other batches"):
            other.load_state_dict(state)


def test_ranks_share_the_streams() -> None:
    whole = StreamBatches(text(40), streams=4, length=5)
    shares = [StreamBatches(text(40), streams=4, length=5, rank=rank, world=2) for rank in range(2)]
    batch, parts = next(whole), [next(share) for share in shares]
    assert torch.equal(batch.inputs[0::2], parts[0].inputs)
    assert torch.equal(batch.inputs[1::2], parts[1].inputs)


def test_wrong_sizes() -> None:
    for settings in ({"streams": 0, "length": 3}, {"streams": 3, "length": 0}, {"streams": 1, "length": 3, "world": 2}):
        with pytest.raises(RegardError, match="StreamBatches"):
            StreamBatches(text(10), **settings)
    with pytest.raises(RegardError, match="no tokens"):
        StreamBatches(text(0), streams=1, length=1)


def test_tensors_elsewhere_keep_the_count() -> None:
    batch = next(StreamBatches(text(40), streams=4, length=5))
    other = batch.with_tensors({name: tensor.clone() for name, tensor in batch.tensors().items()})
    assert other.count == batch.count == 20
    assert other.to("cpu").inputs.equal(batch.inputs)


@pytest.mark.parametrize(
    ("size", "windows", "length", "before"), [(1, 1, 1, 0), (50, 7, 1, 9), (53, 8, 3, 5), (9, 16, 2, 30), (64, 8, 8, 1)]
)
def test_windows_come_from_all_over_the_text(size: int, windows: int, length: int, before: int) -> None:
    """Each token once in an epoch, after the words before it; another order in the next epoch."""
    tokens = text(size)
    batches = WindowBatches(tokens, windows=windows, length=length, before=before, seed=3)
    padded = np.concatenate([np.full(before, PAD), [EOS], tokens])
    orders = []
    for _ in range(2):
        rows = [row for _ in range(batches.epoch_length()) for row in zip(*_read(next(batches)), strict=True)]
        starts = []
        for inputs, targets, words in rows:
            real = int((targets != PAD).sum())
            assert not inputs[real:].any()
            context = np.concatenate([words, inputs[:real], targets[real - 1 : real]])
            places = [
                p
                for p in range(0, size, length)
                if real and padded[p : p + before + real + 1].tolist() == context.tolist()
            ]
            assert bool(places) == (real > 0)
            starts.append((tuple(targets[:real]), real))
        assert sum(real for _, real in starts) == size
        assert sorted(token for told, _ in starts for token in told) == sorted(tokens.tolist())
        orders.append(starts)
    assert size < 9 or orders[0] != orders[1]


def _read(batch: StreamBatch) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    assert batch.before is not None
    assert not batch.begins.any()
    return batch.inputs.numpy(), batch.targets.numpy(), batch.before.numpy()


def test_windows_that_cannot_be() -> None:
    for settings in ({"windows": 0}, {"length": 0}, {"before": -1}, {"rank": 1, "world": 2}):
        with pytest.raises(RegardError, match="WindowBatches"):
            WindowBatches(text(10), **{"windows": 1, "length": 1, "before": 2, **settings})
    with pytest.raises(RegardError, match="there are no tokens"):
        WindowBatches(text(0), windows=1, length=1, before=0)
