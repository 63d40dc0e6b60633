"""Gates in a residual network: how many weights more, where they stand, and what they say."""

import pytest
import torch
import torch.nn.functional as F

from regard.base import ConfigError
from regard.models.resnet import ResNet, ResNetConfig
from regard.models.senet import SENet, SENetConfig, se_resnet20, se_resnet32, se_resnet56

SMALL = SENetConfig(depth=8, width=4, reduction=2)


def count(model: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize(("config", "more"), [(se_resnet20(), 2373), (se_resnet32(), 3955), (se_resnet56(), 7119)])
def test_sizes_beside_the_plain_twin(config: SENetConfig, more: int) -> None:
    assert count(SENet(config)) - count(ResNet(ResNetConfig(depth=config.depth))) == more


def test_gates_stand_on_the_branch_before_the_addition() -> None:
    block = SENet(SMALL).double().eval().stages[1][0]
    x = torch.randn(2, 4, 6, 6, dtype=torch.float64)
    branch = block.second_norm(block.second(F.relu(block.first_norm(block.first(x)))))
    gates = block.gate.gates(branch)
    torch.testing.assert_close(block(x), F.relu(block.shortcut(x) + gates[:, :, None, None] * branch))


def test_open_gates_are_the_plain_twin() -> None:
    model, images = SENet(SMALL).eval(), torch.randn(2, 3, 8, 8)
    twin = ResNet(ResNetConfig(depth=8, width=4)).eval()
    missing = twin.load_state_dict({n: t for n, t in model.state_dict().items() if ".gate." not in n})
    assert not missing.missing_keys
    for name, parameter in model.named_parameters():
        if name.endswith("gate.widen.bias"):
            torch.nn.init.constant_(parameter, 40.0)
    torch.testing.assert_close(model(images).logits, twin(images).logits)


def test_gates_by_layer() -> None:
    model, images = SENet(SMALL), torch.randn(5, 3, 8, 8)
    before = {name: buffer.clone() for name, buffer in model.named_buffers()}
    gates = model.gates(images)
    assert {name: list(gate.shape) for name, gate in gates.items()} == {
        "stages.0.0": [5, 4],
        "stages.1.0": [5, 8],
        "stages.2.0": [5, 16],
    }
    assert all(((gate > 0) & (gate < 1)).all() for gate in gates.values())
    assert all(gate.std(0).max() > 1e-3 for gate in gates.values()), "they depend on the picture"
    assert model.training
    assert all(torch.equal(buffer, before[name]) for name, buffer in model.named_buffers())
    torch.testing.assert_close(model.eval().gates(images[:2])["stages.2.0"], gates["stages.2.0"][:2])


def test_errors() -> None:
    with pytest.raises(ConfigError, match="reduction: got 0; expected 1 or more"):
        SENet(SENetConfig(reduction=0))


def test_normalised_gates() -> None:
    model = SENet(SENetConfig(depth=8, normalised=True))
    assert sum(isinstance(module, torch.nn.BatchNorm1d) for module in model.modules()) == 3
    assert model(torch.randn(2, 3, 16, 16)).logits.isfinite().all()


def test_gates_may_begin_open() -> None:
    model = SENet(SENetConfig(depth=8, bias=2.0))
    images = torch.randn(4, 3, 16, 16)
    half, opened = (torch.cat([*each.gates(images).values()], 1) for each in (SENet(SENetConfig(depth=8)), model))
    assert 0.4 < half.mean() < 0.6
    assert opened.mean() > 0.8
