"""Local attention: blocks equal the mask, the mask equals its rule place by place, and a step equals the whole pass."""

import pytest
import torch
from torch import Tensor

from regard.attention import Local, Local1D, Local2D, LocalSelfAttention, Mask, attend, trace
from regard.base import ConfigError, ShapeError


def causal(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    return attend(query, keys, values, mask=Mask.causal(), need_weights=False, impl="reference").context


def drawn(seed: int) -> tuple[Local, int]:
    """A pattern of random sizes, and how many places it is for: lengths that blocks do not fill, too."""
    chance = torch.Generator().manual_seed(seed)

    def number(low: int, high: int) -> int:
        return int(torch.randint(low, high + 1, (), generator=chance))

    if seed % 2:
        return Local1D(number(1, 9), number(0, 20)), number(1, 40)
    block = number(1, 3), number(1, 4)
    size = block[0] * number(1, 4), block[1] * number(1, 4)
    return Local2D(size, block, (number(0, 4), number(0, 5))), size[0] * size[1]


def by_rule(local: Local, length: int) -> list[list[bool]]:
    """The mask from the words of the paper, pair by pair."""
    allowed = []
    for query in range(length):
        if isinstance(local, Local1D):
            start = query - query % local.block
            allowed.append([start - local.memory <= key <= query for key in range(length)])
            continue
        assert isinstance(local, Local2D)
        order = local.order().tolist()
        (_, columns), (high, wide), (above, beside) = local.size, local.block, local.memory
        row, column = divmod(order[query], columns)
        top, left = row - row % high, column - column % wide
        rows, across = range(top - above, top + high), range(left - beside, left + wide + beside)
        places = [divmod(order[key], columns) for key in range(length)]
        allowed.append([key <= query and r in rows and c in across for key, (r, c) in enumerate(places)])
    return allowed


@pytest.mark.parametrize("seed", range(16))
def test_blocks_equal_the_mask(seed: int) -> None:
    """Outputs and gradients in float64; the mask itself equals the rule, and so does what a single place sees."""
    local, length = drawn(seed)
    allowed = local.mask().dense(length, length)
    assert allowed.tolist() == by_rule(local, length)
    for place in range(length):
        seen = local.visible(place)
        numbers = list(range(length))[seen] if isinstance(seen, slice) else list(seen)
        assert sorted(numbers) == allowed[place].nonzero().flatten().tolist()
        assert numbers[-1] == place
    torch.manual_seed(seed)
    sides = [torch.randn(2, 3, length, width, dtype=torch.float64, requires_grad=True) for width in (4, 4, 5)]
    grad = torch.randn(2, 3, length, 5, dtype=torch.float64)
    context = local.attend(*sides, causal)
    exact = attend(*sides, mask=local.mask(), need_weights=False, impl="reference").context
    torch.testing.assert_close(context, exact, atol=1e-12, rtol=1e-12)
    ours, theirs = (torch.autograd.grad(out, sides, grad) for out in (context, exact))
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("local", [Local1D(12, 0), Local1D(50, 3), Local1D(2, 50), Local2D((3, 4), (3, 4), (0, 0)),
                                   Local2D((3, 4), (1, 4), (2, 0))], ids=str)  # fmt: skip
def test_a_large_block_is_full_causal_attention(local: Local) -> None:
    torch.manual_seed(0)
    sides = [torch.randn(2, 12, 4, dtype=torch.float64) for _ in range(3)]
    torch.testing.assert_close(local.attend(*sides, causal), causal(*sides), atol=1e-12, rtol=1e-12)


def test_the_cost_is_linear() -> None:
    """No block sees more than its own places and its memory, however long the sequence is."""
    pairs = []

    def counting(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        pairs.append(query[..., 0].numel() * keys.shape[-2])
        return query

    for length in (64, 128, 256):
        sides = [torch.zeros(1, length, 2) for _ in range(3)]
        pairs.clear()
        Local1D(8, 8).attend(*sides, counting)
        assert sum(pairs) == length * 16  # eight own places and eight before


def test_rows_and_the_last_queries_of_a_mask() -> None:
    for local, length in (drawn(3), drawn(4)):
        whole, mask = local.mask().dense(length, length), local.mask()
        rows = torch.tensor([length - 1, 0])
        assert mask.dense(length, length, rows=rows).equal(whole[rows])
        assert mask.dense(1, length).equal(whole[-1:])  # one query is the last place
    with pytest.raises(
        ShapeError, match="places do not fit the grid of local attention: got 9 keys; expected at most 8"
    ):
        Local2D((2, 4), (1, 2), (1, 1)).mask().dense(9, 9)


@pytest.mark.parametrize("seed", [1, 2, 4])
def test_a_layer_in_blocks_by_mask_step_by_step_and_traced(seed: int) -> None:
    local, length = drawn(seed)
    torch.manual_seed(seed)
    layer = LocalSelfAttention(8, num_heads=2, local=local).double()
    x = torch.randn(2, length, 8, dtype=torch.float64)
    exact = layer.inner(x, mask=local.mask()).context
    torch.testing.assert_close(layer(x), exact, atol=1e-12, rtol=1e-12)
    with trace(layer, rows=[length - 1]) as seen:
        torch.testing.assert_close(layer(x), exact, atol=1e-12, rtol=1e-12)
    weights = torch.from_numpy(seen["inner"].weights)
    assert weights.shape == (2, 2, 1, length)
    assert (weights[..., ~local.mask().dense(length, length)[-1]] == 0).all()
    cache = layer.empty_cache(2, length)
    steps = [layer.step(x[:, place : place + 1], cache, place) for place in range(length)]
    torch.testing.assert_close(torch.cat(steps, 1), exact, atol=1e-12, rtol=1e-12)
    layer.by_mask = True
    torch.testing.assert_close(layer(x), exact, atol=1e-12, rtol=1e-12)


def test_wrong_sizes() -> None:
    with pytest.raises(ConfigError, match="the blocks of local attention: got block=0, memory=1"):
        Local1D(0, 1)
    with pytest.raises(ConfigError, match="the blocks of local attention: got size"):
        Local2D((2, 2), (1, 1), (-1, 0))
    with pytest.raises(ConfigError, match="query blocks do not fill the grid: got blocks of 2 × 3 in 4 × 4"):
        Local2D((4, 4), (2, 3), (0, 0))
    with pytest.raises(ShapeError, match="places do not fill the grid of local attention: got 5; expected 2 × 2"):
        Local2D((2, 2), (1, 1), (1, 1)).attend(*[torch.zeros(1, 5, 2)] * 3, causal)
