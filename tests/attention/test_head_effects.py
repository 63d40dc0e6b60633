"""The effect of each head: the same as a loop that zeroes columns of the output projection."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention import head_effects
from regard.base import ConfigError


def loss_of(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    return F.mse_loss(model(batch[0]), batch[1])


def test_effects_against_a_loop_by_hand() -> None:
    layer = nn.TransformerEncoderLayer(8, 4, 16, dropout=0.5, batch_first=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)  # in training: dropout is off meanwhile
    model.layers[1].linear1.eval()
    batches = [(torch.randn(2, length, 8), torch.randn(2, length, 8)) for length in (3, 5)]
    modes = [module.training for module in model.modules()]
    result = head_effects(model, iter(batches), loss_of)
    assert [module.training for module in model.modules()] == modes
    assert list(result.effects) == ["layers.0.self_attn", "layers.1.self_attn"]
    model.eval()
    with torch.no_grad():
        baseline = sum(float(loss_of(model, batch)) for batch in batches) / 2
        assert result.baseline == pytest.approx(baseline, abs=1e-6)
        for number, effects in enumerate(result.effects.values()):
            weight = model.layers[number].self_attn.out_proj.weight
            for head in range(4):
                columns = slice(2 * head, 2 * head + 2)
                kept = weight[:, columns].clone()
                weight[:, columns] = 0.0
                loss = sum(float(loss_of(model, batch)) for batch in batches) / 2
                weight[:, columns] = kept
                assert effects[head] == pytest.approx(loss - baseline, abs=1e-6)
    every = sorted((value for each in result.effects.values() for value in each), reverse=True)
    assert [value for _, _, value in result.largest(3)] == pytest.approx(every[:3])
    lines = str(result).splitlines()
    assert lines[0].split() == ["loss", f"{result.baseline:.6g}"]
    assert lines[2].split()[0] == "layers.1.self_attn"
    assert lines[2].split()[1] == f"{result.effects['layers.1.self_attn'][0]:+.4f}"


def test_some_layers_and_mistakes() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    model, batches = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), [(torch.randn(2, 3, 8),) * 2]
    assert list(head_effects(model, batches, loss_of, layers="layers.1.*").effects) == ["layers.1.self_attn"]
    with pytest.raises(
        ConfigError, match=r"heads can be switched off: got 'decoder\.\*'; expected layers\.0\.self_attn"
    ):
        head_effects(model, batches, loss_of, layers="decoder.*")
    with pytest.raises(ConfigError, match="the model attends nowhere"):
        head_effects(nn.Linear(8, 8), batches, loss_of)
    with pytest.raises(ConfigError, match="without batches"):
        head_effects(model, [], loss_of)
