"""Batches: what is in them, how little is padding, and where they go on."""

import os
import subprocess
import sys
from collections import Counter
from itertools import islice

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.base import ConfigError
from regard.data.parallel import DataError
from regard.data.text import BOS, EOS, PAD
from regard.data.tokens import Pair, TokenBatch, TokenBatches, collate, evaluation_batches
from regard.models import MODELS
from regard.nn import token_loss


def realistic(size: int, *, mean: float = 20.0, seed: int = 0) -> list[Pair]:
    """Log-normal lengths up to 100; source and target differ by a fifth. Each target tells which pair it is."""
    random = np.random.default_rng(seed)
    target = np.clip(mean * np.exp(random.normal(0, 0.5, size)), 1, 99).astype(int)
    source = np.clip(target * np.exp(random.normal(0, 0.2, size)), 1, 99).astype(int)
    return [([4] * s, [10 + i] * t) for i, (s, t) in enumerate(zip(source.tolist(), target.tolist(), strict=True))]


def one_epoch(batches: TokenBatches) -> list[TokenBatch]:
    return list(islice(batches, batches.epoch_length()))


def test_golden_batch() -> None:
    batch = collate([([5, 6, 7], [8]), ([9], [])])
    assert batch.source.tolist() == [[5, 6, 7, EOS], [9, EOS, PAD, PAD]]
    assert batch.source_lengths.tolist() == [4, 2]
    assert batch.inputs.tolist() == [[BOS, 8], [BOS, PAD]]
    assert batch.targets.tolist() == [[8, EOS], [EOS, PAD]]
    assert batch.target_lengths.tolist() == [2, 1]
    assert (batch.indices, batch.num_tokens, len(batch)) == ([0, 1], 3, 2)
    assert batch.padding_efficiency == 9 / 12
    assert {batch.source.dtype, batch.inputs.dtype, batch.targets.dtype, batch.source_lengths.dtype} == {torch.long}


def test_source_without_eos() -> None:
    batch = collate([([5, 6], [8]), ([9], [8])], source_eos=False)
    assert batch.source.tolist() == [[5, 6], [9, PAD]]
    assert batch.source_lengths.tolist() == [2, 1]
    with pytest.raises(DataError, match="an empty source sentence: got pair 1 without source tokens"):
        collate([([5], [8]), ([], [8])], source_eos=False)
    assert collate([([], [])]).source.tolist() == [[EOS]]


def test_moving_keeps_everything() -> None:
    batch = collate([([5, 6], [8]), ([9], [8])])
    moved = batch.to("meta")
    assert {moved.source.device.type, moved.inputs.device.type, moved.target_lengths.device.type} == {"meta"}
    assert (moved.num_tokens, moved.indices) == (4, [0, 1])  # without asking the device
    assert torch.equal(batch.to(torch.device("cpu")).targets, batch.targets)


def test_tensors_by_name() -> None:
    batch = collate([([5, 6], [8]), ([9], [8, 7])])
    names = ["source", "source_lengths", "inputs", "targets", "target_lengths"]
    assert list(batch.tensors()) == names
    assert batch.count == batch.num_tokens == 5
    places = {name: torch.full_like(tensor, 77) for name, tensor in batch.tensors().items()}
    other = batch.with_tensors(places)
    assert all(other.tensors()[name] is places[name] for name in names)
    assert (other.count, other.indices) == (5, [0, 1])  # counted before, so no device is asked


def test_golden_fit() -> None:
    batch = collate([([5, 6, 7], [8]), ([9], [])]).fitted(rows=3, multiple=3)
    assert batch.source.tolist() == [[5, 6, 7, EOS, PAD, PAD], [9, EOS, PAD, PAD, PAD, PAD], [EOS] + [PAD] * 5]
    assert batch.source_lengths.tolist() == [4, 2, 1]
    assert batch.inputs.tolist() == [[BOS, 8, PAD], [BOS, PAD, PAD], [BOS, PAD, PAD]]
    assert batch.targets.tolist() == [[8, EOS, PAD], [EOS, PAD, PAD], [PAD, PAD, PAD]]
    assert batch.target_lengths.tolist() == [2, 1, 0]
    assert (batch.count, len(batch), batch.indices) == (3, 2, [0, 1])


def test_what_fits_stays() -> None:
    batch = collate([([5, 6, 7], [8, 8, 8]), ([9], [])])
    fitted = batch.fitted(rows=2, multiple=4)
    assert all(torch.equal(tensor, fitted.tensors()[name]) for name, tensor in batch.tensors().items())
    again = batch.fitted(rows=4, multiple=8)
    assert batch.source.shape == (2, 4)  # the batch itself is not touched
    twice = again.fitted(rows=4, multiple=8)
    assert all(torch.equal(tensor, twice.tensors()[name]) for name, tensor in again.tensors().items())


SMALL = {"embed_dim": 8, "hidden_dim": 8, "align_dim": 8, "maxout_dim": 8, "layers": 2, "dim": 8, "num_heads": 2,
         "encoder_layers": 1, "decoder_layers": 1, "dropout": 0.0}  # fmt: skip


@pytest.mark.parametrize("name", ["cho", "bahdanau", "luong", "gnmt", "convs2s", "transformer"])
def test_fitting_changes_neither_loss_nor_gradient(name: str) -> None:
    paper = MODELS[name]
    sizes = {key: value for key, value in SMALL.items() if key in paper.config.__dataclass_fields__}
    model = paper.model(paper.config(12, 12, **sizes)).double()
    batch = collate([([4, 5, 6, 7], [8, 9]), ([5], [11, 4, 5]), ([10, 9], [7])])
    sums, gradients = [], []
    for each in (batch, batch.fitted(rows=8, multiple=8)):
        model.zero_grad()
        loss = token_loss(model(each.source, each.source_lengths, each.inputs).logits, each.targets, smoothing=0.1)
        loss.backward()
        sums.append(loss.detach())
        gradients.append([p.grad.clone() for p in model.parameters() if p.grad is not None])
    torch.testing.assert_close(sums[1], sums[0], rtol=1e-12, atol=0)
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(other, one, rtol=1e-9, atol=1e-12)


def test_batches_that_fit() -> None:
    pairs = realistic(100)
    plain, fitted = (TokenBatches(pairs, batch_size=16, seed=2, fit=fit) for fit in (None, (16, 8)))
    for one, other in zip(one_epoch(plain), one_epoch(fitted), strict=True):
        assert (one.indices, one.count) == (other.indices, other.count)
        assert len(other.source) == 16
        assert other.source.shape[1] % 8 == other.targets.shape[1] % 8 == 0
        assert torch.equal(other.targets[: len(one), : one.targets.shape[1]], one.targets)
    assert fitted.state_dict() == plain.state_dict()
    for fit in ((0, 8), (8, 0)):
        with pytest.raises(ConfigError, match=r"TokenBatches fit: got \(\d, \d\); expected 1 or more"):
            TokenBatches(pairs, batch_size=16, fit=fit)


ids = st.lists(st.integers(4, 2**31 - 1), max_size=12)


@given(pairs=st.lists(st.tuples(ids, ids), min_size=1, max_size=30), max_tokens=st.integers(1, 60))
@settings(max_examples=25, deadline=None)
def test_evaluation_gives_each_pair_once_and_whole(pairs: list[Pair], max_tokens: int) -> None:
    batches = evaluation_batches(pairs, max_tokens=max_tokens)
    assert sorted(index for batch in batches for index in batch.indices) == list(range(len(pairs)))
    for batch in batches:
        assert len(batch) == 1 or max(batch.source.numel(), batch.targets.numel()) <= max_tokens
        for row, index in enumerate(batch.indices):
            source, target = pairs[index]
            n, m = int(batch.source_lengths[row]), int(batch.target_lengths[row])
            assert batch.source[row, :n].tolist() == [*source, EOS]
            assert batch.inputs[row, :m].tolist() == [BOS, *target]
            assert batch.targets[row, :m].tolist() == [*target, EOS]
            assert (batch.source[row, n:] == PAD).all()
            assert (batch.inputs[row, m:] == PAD).all()
            assert (batch.targets[row, m:] == PAD).all()
    widths = [batch.source.shape[1] for batch in batches]
    assert widths == sorted(widths)


@pytest.mark.parametrize("limits", [{"max_tokens": 500}, {"batch_size": 7}, {"max_tokens": 300, "batch_size": 7}])
@pytest.mark.parametrize("world", [1, 2, 5])
def test_limits_hold_and_an_epoch_has_each_pair_once(limits: dict[str, int], world: int) -> None:
    pairs = realistic(301, mean=10)
    pairs = [pair for pair in pairs if max(map(len, pair)) < 55]
    ranks = [TokenBatches(pairs, **limits, rank=rank, world=world) for rank in range(world)]
    for _ in range(2):
        epochs = [one_epoch(rank) for rank in ranks]
        assert len({len(epoch) for epoch in epochs}) == 1
        seen = Counter(index for epoch in epochs for batch in epoch for index in batch.indices)
        assert set(seen.values()) == {1}
        assert len(pairs) - world < len(seen) <= len(pairs)
        if "batch_size" not in limits or world == 1:
            assert len(seen) == len(pairs)
        for step in zip(*epochs, strict=True):
            rows = sum(map(len, step))
            assert all(len(batch) >= 1 for batch in step)
            assert max(map(len, step)) - min(map(len, step)) <= 1
            assert rows <= limits.get("batch_size", rows)
            width = max(max(batch.source.shape[1], batch.targets.shape[1]) for batch in step)
            assert rows * width <= limits.get("max_tokens", rows * width)


@pytest.mark.parametrize("world", [2, 3, 4])
def test_a_step_of_all_ranks_is_a_step_of_one(world: int) -> None:
    pairs = realistic(500)
    limits = {"max_tokens": 1000, "seed": 5}
    alone = TokenBatches(pairs, **limits)
    ranks = [TokenBatches(pairs, **limits, rank=rank, world=world) for rank in range(world)]
    for _ in range(2):
        assert {rank.epoch_length() for rank in ranks} == {alone.epoch_length()}
        for _ in range(alone.epoch_length()):
            shares = [next(rank).indices for rank in ranks]
            whole = next(alone).indices
            assert shares == [whole[rank::world] for rank in range(world)]


def test_no_batch_is_tiny() -> None:
    pairs: list[Pair] = [([5], [6])] * 101
    assert sorted(len(batch) for batch in one_epoch(TokenBatches(pairs, batch_size=20))) == [10, 11, 20, 20, 20, 20]
    long_tail: list[Pair] = [([5] * 3, [6] * 9)] * 4 + [([5] * 39, [6])]  # too long to take half of those before
    assert sorted(len(batch) for batch in one_epoch(TokenBatches(long_tail, max_tokens=60))) == [1, 4]


def test_the_last_pairs_are_shared_or_wait() -> None:
    pairs: list[Pair] = [([5], [6])] * 9
    ranks = [TokenBatches(pairs, batch_size=8, rank=rank, world=4) for rank in range(4)]
    assert sorted(len(batch) for rank in ranks for batch in one_epoch(rank)) == [1] * 7 + [2]
    ranks = [TokenBatches(pairs, batch_size=4, rank=rank, world=4) for rank in range(4)]
    seen: set[int] = set()
    for _ in range(20):
        epoch = [batch for rank in ranks for batch in one_epoch(rank)]
        assert [len(batch) for batch in epoch] == [1] * 8
        seen |= {index for batch in epoch for index in batch.indices}
    assert seen == set(range(9))  # who waits changes


@pytest.mark.parametrize("limits", [{"max_tokens": 4096}, {"batch_size": 80}])
def test_padding_is_small(limits: dict[str, int]) -> None:
    pairs = realistic(20_000)
    epoch = one_epoch(TokenBatches(pairs, **limits))
    real = sum(batch.num_tokens + int(batch.source_lengths.sum()) for batch in epoch)
    places = sum(batch.targets.numel() + batch.source.numel() for batch in epoch)
    target = sum(batch.num_tokens for batch in epoch) / sum(batch.targets.numel() for batch in epoch)
    assert real / places > 0.91
    assert target > 0.9
    if "max_tokens" in limits:  # and batches are full
        assert np.mean([max(batch.targets.numel(), batch.source.numel()) for batch in epoch]) > 0.9 * 4096


def test_epochs_differ_and_seeds_decide() -> None:
    pairs = realistic(300)
    batches = TokenBatches(pairs, max_tokens=500, seed=1)
    first, second = one_epoch(batches), one_epoch(batches)
    assert [batch.indices for batch in first] != [batch.indices for batch in second]
    assert {frozenset(batch.indices) for batch in first} != {frozenset(batch.indices) for batch in second}
    widths = [batch.targets.shape[1] for batch in first]
    assert widths not in (sorted(widths), sorted(widths, reverse=True))  # batches are shuffled too
    again, other = (one_epoch(TokenBatches(pairs, max_tokens=500, seed=seed)) for seed in (1, 2))
    assert [batch.indices for batch in again] == [batch.indices for batch in first]
    assert [batch.indices for batch in other] != [batch.indices for batch in first]


def test_global_random_numbers_are_left_alone() -> None:
    numpy_state = np.random.mtrand._rand
    before = torch.get_rng_state(), numpy_state.get_state()[1].copy()
    one_epoch(TokenBatches(realistic(50), max_tokens=200))
    assert torch.equal(before[0], torch.get_rng_state())
    assert (before[1] == numpy_state.get_state()[1]).all()


@given(stop=st.integers(0, 60), world=st.sampled_from([1, 2]))
@settings(max_examples=20, deadline=None)
def test_resuming_is_exact(stop: int, world: int) -> None:
    pairs = realistic(120)
    batches = TokenBatches(pairs, max_tokens=300, seed=3, rank=world - 1, world=world)
    assert batches.epoch_length() < 40  # so that some stops are in the second epoch
    list(islice(batches, stop))
    state = batches.state_dict()
    expected = list(islice(batches, 45))
    resumed = TokenBatches(pairs, max_tokens=300, seed=99, rank=world - 1, world=world)
    resumed.load_state_dict(state)
    assert resumed.state_dict() == state
    for one, other in zip(expected, islice(resumed, 45), strict=True):
        assert one.indices == other.indices
        assert torch.equal(one.source, other.source)
        assert torch.equal(one.targets, other.targets)


def test_state_at_the_end_of_an_epoch() -> None:
    batches = TokenBatches(realistic(50), max_tokens=200, seed=4)
    length = len(one_epoch(batches))
    assert batches.state_dict().items() >= {"epoch": 0, "position": length, "seed": 4}.items()
    next(batches)
    assert batches.state_dict().items() >= {"epoch": 1, "position": 1, "seed": 4}.items()
    assert iter(batches) is batches


def test_state_of_other_data_is_refused() -> None:
    batches = TokenBatches(realistic(50), max_tokens=200)
    with pytest.raises(DataError, match="this state is of other batches: got position 500; expected 0 to"):
        batches.load_state_dict({"epoch": 0, "position": 500, "seed": 0})
    with pytest.raises(
        DataError, match=r"not the state of TokenBatches: got \['step'\]; expected epoch, position, seed"
    ):
        batches.load_state_dict({"step": 3})


def test_batches_are_the_same_in_every_process() -> None:
    code = (
        "from regard.data.tokens import TokenBatches; from itertools import islice;"
        "pairs = [([4] * (i * 7 % 23 + 1), [5] * (i * 5 % 19 + 1)) for i in range(60)];"
        "print([batch.indices for batch in islice(TokenBatches(pairs, max_tokens=80, seed=6), 30)])"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONHASHSEED": "77"},
    )
    pairs: list[Pair] = [([4] * (i * 7 % 23 + 1), [5] * (i * 5 % 19 + 1)) for i in range(60)]
    assert run.stdout == f"{[batch.indices for batch in islice(TokenBatches(pairs, max_tokens=80, seed=6), 30)]}\n"


def test_long_pairs_are_errors_or_dropped() -> None:
    pairs: list[Pair] = [([5] * 3, [6]), ([5], [6] * 10), ([5] * 4, [6] * 4)]
    with pytest.raises(DataError) as caught:
        TokenBatches(pairs, max_tokens=10)
    assert str(caught.value) == (
        "pair 1 is too long for a batch: got 11 tokens (1 such pairs); expected at most 10."
        " Try: raise max_tokens, or pass on_long='drop'."
    )
    batches = TokenBatches(pairs, max_tokens=10, on_long="drop")
    assert batches.dropped == 1
    assert sorted(index for batch in one_epoch(batches) for index in batch.indices) == [0, 2]
    assert TokenBatches(pairs, max_tokens=11).dropped == 0
    with pytest.raises(DataError, match=r"got 11 tokens .* expected at most 10, max_tokens for each of 2 ranks"):
        TokenBatches(pairs, max_tokens=20, world=2)
    with pytest.raises(DataError, match="too few pairs to make batches of: got 0 pairs and 1 ranks, 3 dropped"):
        TokenBatches(pairs, max_tokens=2, on_long="drop")


def test_wrong_settings() -> None:
    pairs: list[Pair] = [([5], [6])] * 4
    with pytest.raises(ConfigError, match="the size of a batch: got neither max_tokens nor batch_size"):
        TokenBatches(pairs)
    with pytest.raises(ConfigError, match="max_tokens: got 0; expected 1 or more"):
        evaluation_batches(pairs, max_tokens=0)
    with pytest.raises(ConfigError, match="rank: got rank 2 of 2"):
        TokenBatches(pairs, batch_size=2, rank=2, world=2)
    with pytest.raises(ConfigError, match="batch_size: got 1; expected at least world, 2"):
        TokenBatches(pairs, batch_size=1, world=2)
    with pytest.raises(ConfigError, match="seed: got -1"):
        TokenBatches(pairs, batch_size=1, seed=-1)
    with pytest.raises(DataError, match="too few pairs to make batches of: got 0 pairs and 1 ranks; expected"):
        TokenBatches([], batch_size=1)


def test_a_state_of_other_data_is_refused() -> None:
    pairs = [([5] * n, [6] * n) for n in range(1, 9)]
    state = TokenBatches(pairs, batch_size=4).state_dict()
    TokenBatches(pairs, batch_size=4).load_state_dict(state)
    swapped = TokenBatches([(target, source) for source, target in pairs], batch_size=4)
    with pytest.raises(DataError, match=r"other batches \(data\): got .* Try: resume with the text"):
        swapped.load_state_dict(state)
