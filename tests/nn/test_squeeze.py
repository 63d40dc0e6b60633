"""Gates on channels: the paper's equations, and what follows from them."""

import pytest
import torch
from torch import nn

from regard.attention import trace
from regard.base import ConfigError, ShapeError
from regard.nn.squeeze import SqueezeExcitation, squeeze


def test_the_equations_by_hand() -> None:
    block, x = SqueezeExcitation(8, reduction=2).double(), torch.randn(3, 8, 5, 4, dtype=torch.float64)
    for parameter in block.parameters():
        nn.init.normal_(parameter)
    for item, out, gates in zip(x, block(x), block.gates(x), strict=True):
        z = torch.stack([plane.sum() / 20 for plane in item])
        s = 1 / (1 + torch.exp(-(block.widen.weight @ (block.narrow.weight @ z + block.narrow.bias).clamp(min=0))))
        s = 1 / (1 / s - 1) * block.widen.bias.exp()  # the odds, with the second bias
        s = s / (1 + s)
        torch.testing.assert_close(gates, s)
        torch.testing.assert_close(out, torch.stack([plane * gate for plane, gate in zip(item, s, strict=True)]))


def test_closed_weights_halve_and_a_large_bias_opens() -> None:
    block, x = SqueezeExcitation(32), torch.randn(2, 32, 3, 3)
    nn.init.zeros_(block.widen.weight)
    assert torch.equal(block(x), x / 2)
    nn.init.constant_(block.widen.bias, 40.0)
    assert torch.equal(block(x), x)
    nearly = SqueezeExcitation(32, bias=4.0)
    nn.init.zeros_(nearly.widen.weight)
    torch.testing.assert_close(nearly.gates(x), torch.full((2, 32), 0.982), atol=1e-3, rtol=0)


@pytest.mark.parametrize(
    ("channels", "reduction", "units"), [(64, 16, 4), (16, 16, 1), (8, 16, 1), (3, 2, 1), (6, 1, 6)]
)
def test_one_unit_is_left(channels: int, reduction: int, units: int) -> None:
    block = SqueezeExcitation(channels, reduction)
    assert (block.narrow.out_features, block.widen.in_features) == (units, units)
    count = sum(parameter.numel() for parameter in block.parameters())
    assert count == 2 * channels * units + units + channels


def test_positions_change_places_and_gates_do_not() -> None:
    block, x, order = SqueezeExcitation(8, 2).double(), torch.randn(2, 8, 12, dtype=torch.float64), torch.randperm(12)
    pixels = x[..., order].reshape(2, 8, 3, 4)
    torch.testing.assert_close(block.gates(pixels), block.gates(x))
    torch.testing.assert_close(block(pixels), block(x)[..., order].reshape(2, 8, 3, 4))


def test_gates_depend_on_the_picture_and_learn_to() -> None:
    block, x = SqueezeExcitation(8, 2), torch.randn(4, 8, 3, 3)
    gates = block.gates(x)
    assert ((gates > 0) & (gates < 1)).all()
    assert gates.std(0).min() > 1e-3, "not one scale for all pictures"
    block(x).square().sum().backward()
    assert all(parameter.grad.abs().sum() > 0 for parameter in block.parameters())


def test_clips_and_sequences_too() -> None:
    block, clip = SqueezeExcitation(4, 2), torch.randn(2, 4, 3, 2, 2)
    torch.testing.assert_close(block(clip), block(clip.flatten(2)).reshape(clip.shape))
    torch.testing.assert_close(squeeze(clip), clip.flatten(2).mean(-1))


def test_behind_any_convolution_and_in_its_layout() -> None:
    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), SqueezeExcitation(8, 4), nn.ReLU())
    x = torch.randn(2, 3, 6, 6).contiguous(memory_format=torch.channels_last)
    assert net(x).is_contiguous(memory_format=torch.channels_last)
    assert net[2](torch.randn(2, 8, 4, 4)).is_contiguous()


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_any_type_in_the_same_out(dtype: torch.dtype) -> None:
    block, x = SqueezeExcitation(8, 2), torch.randn(2, 8, 3, 3)
    out = block.to(dtype)(x.to(dtype))
    assert out.dtype == dtype
    torch.testing.assert_close(out.float(), block.float()(x), atol=0.02, rtol=0.02)


def test_under_autocast_the_type_of_x_stays() -> None:
    block, x = SqueezeExcitation(8, 2), torch.randn(2, 8, 3, 3)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert block(x).dtype == torch.float32
        assert block(x.bfloat16()).dtype == torch.bfloat16


def test_a_trace_sees_the_gates() -> None:
    net = nn.Sequential(nn.Conv2d(3, 8, 1), SqueezeExcitation(8, 2))
    x = torch.randn(2, 3, 4, 4)
    with trace(net, columns=[f"channel {number}" for number in range(8)]) as seen:
        net(x)
    assert list(seen) == ["1"]
    assert seen["1"].axes == ("b", "q", "k")
    torch.testing.assert_close(torch.from_numpy(seen["1"].weights[:, 0]), net[1].gates(net[0](x)).detach())
    assert seen["1"].item(1).columns[7] == "channel 7"


def test_errors() -> None:
    with pytest.raises(ShapeError, match=r"channels with positions: got \[2, 4, 3, 3\]; expected \[batch, 8, height"):
        SqueezeExcitation(8)(torch.ones(2, 4, 3, 3))
    with pytest.raises(ShapeError, match=r"got \[2, 8\]"):
        SqueezeExcitation(8).gates(torch.ones(2, 8))
    with pytest.raises(ConfigError, match="SqueezeExcitation reduction: got 0; expected 1 or more"):
        SqueezeExcitation(8, 0)


def test_normalised_gates_see_small_differences() -> None:
    """Channels that hardly differ from picture to picture: gates of means alone are all but alike."""
    torch.manual_seed(0)
    x = 0.1 * torch.randn(64, 16, 4, 4) + 1
    plain, normal = (SqueezeExcitation(16, 4, normalised=normalised) for normalised in (False, True))
    assert 4 * plain.gates(x).std(0).max() < normal.gates(x).std(0).min()
    before = normal.gates(x)
    torch.testing.assert_close(normal.gates(100 * x), before, atol=2e-2, rtol=0)  # but for ε
    assert not torch.equal(normal.eval().gates(x[:1]), before[:1])  # statistics of training, for one picture too
