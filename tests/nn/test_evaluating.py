import pytest
import torch
from torch import nn

from regard.nn import device_of, evaluating


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5))


def test_a_model_leaves_no_trace_while_it_evaluates() -> None:
    model, x = network(), torch.randn(3, 4)
    before = {name: buffer.clone() for name, buffer in model.named_buffers()}
    with evaluating(model):
        first, second = model(x), model(x)
        assert not first.requires_grad
    assert torch.equal(first, second)  # no dropout
    assert all(torch.equal(buffer, before[name]) for name, buffer in model.named_buffers())
    assert model(x).requires_grad


@pytest.mark.parametrize("fails", [False, True])
def test_every_layer_returns_to_the_mode_that_it_had(fails: bool) -> None:
    model = network()
    model[1].eval()  # frozen statistics
    try:
        with evaluating(model):
            assert not any(module.training for module in model.modules())
            if fails:
                raise InterruptedError
    except InterruptedError:
        assert fails
    assert [module.training for module in model] == [True, False, True]
    assert model.training
    model.eval()
    with evaluating(model):
        pass
    assert not model.training


def test_a_seed_makes_chance_repeatable_and_leaves_that_of_others_alone() -> None:
    model = network()
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    drawn = []
    for seed in (5, 5, 6):
        with evaluating(model, seed=seed):
            drawn.append(torch.rand(3))
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])
    assert torch.equal(torch.rand(3), expected)
    torch.manual_seed(1)
    with evaluating(model):
        assert torch.equal(torch.rand(3), expected), "without a seed, chance goes on as it would have"


def test_the_device_of_a_model_without_weights() -> None:
    assert device_of(nn.Dropout(0.5)) == torch.device("cpu")
    assert device_of(network().to("meta")) == torch.device("meta")
