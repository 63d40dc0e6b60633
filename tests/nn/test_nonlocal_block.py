"""Every position sees all others: the paper's four pairwise functions by hand, and the block around them."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.align import Share, Softmax
from regard.attention import trace
from regard.base import ConfigError, ShapeError
from regard.nn.nonlocal_block import KINDS, NonLocal
from regard.score import Concatenation, Dot


def awake(channels: int = 6, **settings: object) -> NonLocal:
    """A block in float64 that changes something, the same for every picture: no statistics of the batch."""
    block = NonLocal(channels, **settings).double().eval()
    for parameter in block.parameters():
        nn.init.normal_(parameter, std=0.4)
    return block


def pairwise(block: NonLocal, kind: str, one: Tensor, other: Tensor) -> Tensor:
    """f(x_i, x_j) as it is printed."""
    if kind == "gaussian":
        return torch.exp(one @ other)
    query, key = block.to_query(one), block.to_keys(other)
    if kind == "concatenation":
        return F.relu(block.attention.score.weight.flatten() @ torch.cat([query, key]))
    return query @ key if kind == "dot" else torch.exp(query @ key)


@pytest.mark.parametrize("pool", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_the_equations_by_hand(kind: str, pool: int) -> None:
    block, x = awake(kind=kind, pool=pool), torch.randn(1, 6, 2, 4, dtype=torch.float64)
    keys = F.max_pool2d(x, pool).flatten(2)[0].T
    out = block(x).flatten(2)[0].T
    for z, here in zip(out, x.flatten(2)[0].T, strict=True):
        f = torch.stack([pairwise(block, kind, here, key) for key in keys])
        total = f.sum() if "gaussian" in kind else len(keys)
        y = sum(value * block.to_values(key) for value, key in zip(f, keys, strict=True)) / total
        torch.testing.assert_close(z, block.norm(block.to_output(y)[None])[0] + here)


@pytest.mark.parametrize("kind", KINDS)
def test_the_identity_at_the_start_and_a_way_out_of_it(kind: str) -> None:
    block, x = NonLocal(8, kind=kind), torch.randn(4, 8, 5, 5) * 30
    assert torch.equal(block(x), x)
    (block(x) * torch.randn(4, 8, 5, 5)).sum().backward()
    assert block.norm.weight.grad.abs().max() > 0
    assert block.to_output.weight.std().item() == pytest.approx(0.01, rel=0.5), "the scale alone is zero"
    torch.optim.SGD(block.parameters(), lr=0.1).step()
    block.zero_grad()
    block(x).square().sum().backward()
    # a bias before the normalisation, or the same for all keys of a softmax, changes nothing
    idle = ("to_output.bias", "to_keys.bias", "to_query.bias", "to_values.bias")
    assert all(p.grad.abs().max() > 0 for name, p in block.named_parameters() if name not in idle)


def test_size_of_the_paper() -> None:
    assert sum(parameter.numel() for parameter in NonLocal(1024).parameters()) == 2_101_760


@pytest.mark.parametrize("kind", KINDS)
def test_positions_have_no_place(kind: str) -> None:
    block, x, order = awake(kind=kind), torch.randn(2, 6, 3, 4, dtype=torch.float64), torch.randperm(12)
    moved = x.flatten(2)[..., order].reshape(x.shape)
    torch.testing.assert_close(block(moved).flatten(2), block(x).flatten(2)[..., order])


@pytest.mark.parametrize("kind", KINDS)
def test_two_of_each_position_change_nothing(kind: str) -> None:
    block, x = awake(kind=kind), torch.randn(2, 6, 3, 4, dtype=torch.float64)
    torch.testing.assert_close(block(torch.cat([x, x], -1)), block(x).repeat(1, 1, 1, 2))


@pytest.mark.parametrize("scaled", [True, False])
def test_embedded_gaussian_is_torch_attention(scaled: bool) -> None:
    block, x = awake(scaled=scaled), torch.randn(2, 6, 3, 4, dtype=torch.float64)
    flat = x.flatten(2).mT
    query, keys, values = block.to_query(flat), block.to_keys(flat), block.to_values(flat)
    y = F.scaled_dot_product_attention(query, keys, values, scale=3**-0.5 if scaled else 1.0)
    z = flat + block.norm(block.to_output(y).mT).mT
    torch.testing.assert_close(block(x), z.mT.reshape(x.shape))


@pytest.mark.parametrize("kind", KINDS)
def test_the_block_takes_its_parts_from_the_menus(kind: str) -> None:
    attention = NonLocal(8, kind=kind).attention
    assert type(attention.score) is (Concatenation if kind == "concatenation" else Dot)
    assert type(attention.align) is (Softmax if "gaussian" in kind else Share)


@pytest.mark.parametrize("kind", KINDS)
def test_huge_activations_stay_finite(kind: str) -> None:
    block, x = awake(kind=kind).float(), torch.randn(2, 6, 4, 4) * 1e4
    assert block(x).isfinite().all()


@pytest.mark.parametrize("kind", KINDS)
def test_clips(kind: str) -> None:
    """Three frames of 4×4 are one picture of 12×4: windows are 2×2 within a frame, and do not mix frames."""
    block, clip = awake(kind=kind, pool=2), torch.randn(2, 6, 3, 4, 4, dtype=torch.float64)
    torch.testing.assert_close(block(clip), block(clip.flatten(2, 3)).reshape(clip.shape))
    assert block.key_shape(3, 4, 4) == (3, 2, 2)


def test_windows_at_an_odd_edge_are_smaller() -> None:
    block, x = awake(pool=2), torch.randn(1, 6, 5, 3, dtype=torch.float64)
    with trace(block) as seen:
        assert block(x).shape == x.shape
    assert block.key_shape(5, 3) == (3, 2)
    assert seen["attention"].weights.shape == (1, 15, 6)
    corner = x[..., 4, 2]
    torch.testing.assert_close(block._pooled(x)[..., 2, 1], corner)


@pytest.mark.parametrize("kind", KINDS)
def test_a_trace_has_the_weights_of_one_position(kind: str) -> None:
    block, x = awake(kind=kind), torch.randn(2, 6, 3, 4, dtype=torch.float64)
    with trace(block) as seen:
        block(x)
    with trace(block, rows=[7]) as one:
        block(x)
    assert seen["attention"].weights.shape == (2, 12, 12)
    torch.testing.assert_close(one["attention"].weights[:, 0], seen["attention"].weights[:, 7])
    f = torch.stack([pairwise(block, kind, x[1, :, 1, 3], key) for key in x[1].flatten(1).T])
    expected = f / (f.sum() if "gaussian" in kind else 12)
    torch.testing.assert_close(torch.from_numpy(seen["attention"].weights[1, 7]), expected.detach())


def test_layout_and_types() -> None:
    block, x = NonLocal(8), torch.randn(2, 8, 4, 4).contiguous(memory_format=torch.channels_last)
    assert block(x).is_contiguous(memory_format=torch.channels_last)
    assert block.bfloat16()(x.bfloat16()).dtype == torch.bfloat16
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert NonLocal(8)(x).dtype == torch.float32
        assert NonLocal(8, kind="concatenation", pool=2)(x.bfloat16()).dtype == torch.bfloat16


def test_a_marked_pixel_finds_the_other_one() -> None:
    """Do the two marked pixels, anywhere, have one colour? Behind one block each of them knows, and looks at marks."""
    generator = torch.Generator().manual_seed(0)

    def pictures(count: int) -> tuple[Tensor, Tensor, Tensor]:
        colours = torch.randint(2, (count, 16), generator=generator)
        places = torch.rand(count, 16, generator=generator).argsort(-1)[:, :2]
        marks = torch.zeros(count, 16).scatter(1, places, 1.0)
        mine, other = colours.gather(1, places).unbind(1)
        return torch.stack([marks, 1.0 - colours, colours.float()], 1).reshape(-1, 3, 4, 4), mine == other, places

    def accuracy(between: nn.Module, steps: int) -> float:
        torch.manual_seed(0)
        before, after = nn.Conv2d(3, 8, 1), nn.Sequential(nn.Conv2d(8, 16, 1), nn.ReLU(), nn.Conv2d(16, 2, 1))
        net = nn.Sequential(before, nn.ReLU(), between, nn.ReLU(), after)
        optimiser = torch.optim.Adam(net.parameters(), lr=0.02)
        for _ in range(steps):
            x, same, places = pictures(64)
            F.cross_entropy(_at(net(x), places[:, 0]), same.long()).backward()
            optimiser.step()
            optimiser.zero_grad()
        net.eval()
        with torch.no_grad(), trace(net, may_be_empty=True) as seen:
            right = (_at(net(some[0]), some[2][:, 0]).argmax(-1) == some[1]).double().mean().item()
        if seen:
            weights = torch.from_numpy(seen[0].weights)[torch.arange(200), some[2][:, 0]]
            assert (weights.argmax(-1, keepdim=True) == some[2]).any(-1).double().mean() > 0.9, "the marks stand out"
        return right

    some = pictures(200)
    assert accuracy(nn.Identity(), 30) < 0.65
    assert accuracy(NonLocal(8), 100) > 0.95


def _at(maps: Tensor, place: Tensor) -> Tensor:
    return maps.flatten(2)[torch.arange(len(maps)), :, place]


def test_errors() -> None:
    with pytest.raises(ConfigError, match=r"NonLocal kind: got 'gausian'; expected one of gaussian, .*mean 'gaussian'"):
        NonLocal(8, kind="gausian")
    with pytest.raises(ConfigError, match="NonLocal pool: got 0; expected 1 or more"):
        NonLocal(8, pool=0)
    with pytest.raises(ConfigError, match="NonLocal scaled: got dot; expected a kind with a softmax"):
        NonLocal(8, kind="dot", scaled=True)
    with pytest.raises(
        ShapeError, match=r"pictures or clips: got \[2, 4, 3, 3\]; expected \[batch, 8, height, width\]"
    ):
        NonLocal(8)(torch.ones(2, 4, 3, 3))
    with pytest.raises(ShapeError, match=r"got \[2, 8, 3\]"):
        NonLocal(8)(torch.ones(2, 8, 3))
