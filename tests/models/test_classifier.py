"""The two baselines of the RAM paper."""

import pytest
import torch
from torch import nn

from regard.base import ConfigError
from regard.models.classifier import Convolutional, ConvolutionalConfig, FullyConnected, FullyConnectedConfig


def size(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def test_sizes_by_hand() -> None:
    assert size(FullyConnected(FullyConnectedConfig())) == 785 * 256 + 257 * 256 + 257 * 10
    assert size(FullyConnected(FullyConnectedConfig(image_size=60, hidden_dim=64))) == 3601 * 64 + 65 * 64 + 65 * 10
    assert size(Convolutional(ConvolutionalConfig())) == 101 * 8 + (8 * 11**2 + 1) * 256 + 257 * 10
    assert size(Convolutional(ConvolutionalConfig(image_size=100))) == 101 * 8 + (8 * 19**2 + 1) * 256 + 257 * 10


@pytest.mark.parametrize("labels", [1, 3])
def test_logits(labels: int) -> None:
    images = torch.rand(4, 2, 20, 20)
    plain = FullyConnected(FullyConnectedConfig(classes=7, labels=labels, channels=2, image_size=20, hidden_dim=8))
    shared = Convolutional(ConvolutionalConfig(classes=7, labels=labels, channels=2, image_size=20, hidden_dim=8))
    for model in (plain, shared):
        assert model(images).logits.shape == (4, labels, 7)


def test_the_equations() -> None:
    model = FullyConnected(FullyConnectedConfig(image_size=3, hidden_dim=4))
    x = torch.rand(2, 1, 3, 3)
    hidden = (model.hidden[0](x.flatten(1))).relu()
    expected = model.output(model.hidden[2](hidden).relu())
    torch.testing.assert_close(model(x).logits.squeeze(1), expected)


def test_filters_must_fit() -> None:
    with pytest.raises(ConfigError, match="wider than the pictures: got width=10, image_size=8"):
        ConvolutionalConfig(image_size=8)
