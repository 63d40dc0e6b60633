"""What attention returns, and what it carries from step to step."""

import torch

from regard.attention import AttentionOutput, Cache, Memory
from regard.score import Prepared


def test_output_needs_only_a_context() -> None:
    context = torch.randn(2, 3)
    assert AttentionOutput(context) == (context, None, None, None, None)


def test_memory_reorder() -> None:
    memory = Memory(Prepared(torch.randn(3, 2, 5, 4)), torch.randn(3, 2, 5, 6))
    index = torch.tensor([2, 0, 0, 1])
    picked = memory.reorder(index)
    assert isinstance(picked, Memory)
    assert torch.equal(picked.keys.keys, memory.keys.keys[index])
    assert torch.equal(picked.values, memory.values[index])


def test_cache_grows_and_leaves_the_old_one_alone() -> None:
    keys, values = torch.randn(2, 2, 5, 4), torch.randn(2, 2, 5, 6)
    start = Cache()
    assert start.length == 0
    first = start.append(keys[..., :2, :], values[..., :2, :])
    second = first.append(keys[..., 2:, :], values[..., 2:, :])
    assert (start.length, first.length, second.length) == (0, 2, 5)
    assert torch.equal(second.keys, keys)
    assert torch.equal(second.values, values)


def test_cache_reorder() -> None:
    index = torch.tensor([1, 1, 0])
    assert Cache().reorder(index) == Cache()
    cache = Cache(torch.randn(2, 2, 5, 4), torch.randn(2, 2, 5, 6))
    picked = cache.reorder(index)
    assert isinstance(picked, Cache)
    assert torch.equal(picked.keys, cache.keys[index])
    assert torch.equal(picked.values, cache.values[index])
