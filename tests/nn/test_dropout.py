"""Dropout with cheap chance: its rate, its mean, its independence."""

import pytest
import torch
from torch import nn

from regard.models import Transformer, TransformerConfig
from regard.nn import Dropout

SMALL = {"dim": 8, "hidden_dim": 12, "num_heads": 2, "encoder_layers": 2, "decoder_layers": 2}


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5])
def test_dropout_has_its_rate_and_keeps_the_mean(rate: float) -> None:
    torch.manual_seed(0)
    x = torch.ones(401, 499, requires_grad=True)
    y = Dropout(rate).train()(x)
    assert (y == 0).float().mean().item() == pytest.approx(rate, abs=0.005)
    for lane in range(4):  # all quarters of a random number are fair
        assert (y.flatten()[lane::4] == 0).float().mean().item() == pytest.approx(rate, abs=0.01)
    assert y.mean().item() == pytest.approx(1.0, abs=0.01)
    assert y[y != 0].unique().tolist() == pytest.approx([1 / (1 - rate)], abs=1e-4)
    y.sum().backward()
    assert torch.equal(x.grad, y)


def test_neighbours_are_dropped_independently() -> None:
    torch.manual_seed(0)
    zero = (Dropout(0.5).train()(torch.ones(400_000)) == 0).float() - 0.5
    for apart in (1, 2, 3, 4, 8):
        assert (zero[:-apart] * zero[apart:]).mean().abs() < 0.003


def test_locked_is_the_same_at_every_step_and_another_in_each_text() -> None:
    torch.manual_seed(0)
    dropout = Dropout(0.5, locked=True).train()
    y = dropout(torch.ones(3, 7, 400))
    assert torch.equal(y, y[:, :1].expand_as(y))
    assert not torch.equal(y[0], y[1])
    assert (y == 0).float().mean().item() == pytest.approx(0.5, abs=0.05)
    assert y.unique().tolist() == [0.0, 2.0]
    assert torch.equal(dropout.eval()(y), y)
    assert torch.equal(Dropout(0.0, locked=True).train()(y), y)


@pytest.mark.parametrize("locked", [True, False])
def test_a_hook_sees_one_call_and_keeps_kernels_away(locked: bool) -> None:
    dropout, seen = Dropout(0.5, locked=locked), []
    assert dropout.is_unwatched()
    handle = dropout.register_forward_hook(lambda _module, _inputs, out: seen.append(out))
    assert not dropout.is_unwatched()
    out = dropout(torch.ones(2, 3, 4))
    assert len(seen) == 1
    assert seen[0] is out
    handle.remove()
    assert dropout.is_unwatched()
    assert not type("Other", (Dropout,), {})(0.5, locked=locked).is_unwatched()


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
@pytest.mark.parametrize("shape", [(), (0, 3), (7,), (2, 3, 5)])
def test_dropout_of_any_shape_and_dtype(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    y = Dropout(0.5).train()(torch.ones(shape, dtype=dtype))
    assert y.shape == shape
    assert y.dtype == dtype
    assert set(y.flatten().tolist()) <= {0.0, 2.0}


def test_dropout_follows_the_seed_and_stops_in_evaluation() -> None:
    layer, x = Dropout(0.5), torch.randn(9, 9)
    torch.manual_seed(3)
    first = layer(x)
    assert not torch.equal(layer(x), first)
    torch.manual_seed(3)
    assert torch.equal(layer(x), first)
    assert layer.eval()(x) is x
    assert torch.equal(Dropout(0.0).train()(x), x)
    assert torch.equal(Dropout(1.0).train()(x), torch.zeros(9, 9))


def test_all_dropout_of_the_transformer_is_quick() -> None:
    model = Transformer(TransformerConfig(11, 11, **SMALL, dropout=0.2))
    found = [module for module in model.modules() if isinstance(module, nn.Dropout)]
    assert len(found) == 1 + 2 * 3 + 2 * 4
    assert all(type(module) is Dropout and module.p == 0.2 for module in found)
