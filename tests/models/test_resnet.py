"""The plain twin: sizes of the paper, shortcuts without weights, one label a picture."""

import pytest
import torch
import torch.nn.functional as F

from regard.base import ConfigError, ShapeError
from regard.models.resnet import ResidualBlock, ResNet, ResNetConfig, resnet20, resnet32, resnet56


def count(model: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize(
    ("config", "size"),
    [(resnet20(), 269_722), (resnet32(), 464_154), (resnet56(), 853_018), (ResNetConfig(depth=110), 1_727_962)],
)
def test_sizes_of_the_paper(config: ResNetConfig, size: int) -> None:
    model = ResNet(config)
    layers = [part for part in model.modules() if isinstance(part, torch.nn.Conv2d | torch.nn.Linear)]
    assert (count(model), len(layers)) == (size, config.depth)


def test_stages_have_the_published_shapes() -> None:
    model, shapes = ResNet(ResNetConfig(depth=8)), []
    for stage in model.stages:
        stage.register_forward_hook(lambda _, __, out: shapes.append(tuple(out.shape)))
    assert model(torch.randn(2, 3, 32, 32)).logits.shape == (2, 1, 10)
    assert shapes == [(2, 16, 32, 32), (2, 32, 16, 16), (2, 64, 8, 8)]


def test_other_pictures_and_widths() -> None:
    model = ResNet(ResNetConfig(classes=7, channels=1, depth=8, width=3))
    assert model(torch.randn(2, 1, 13, 9)).logits.shape == (2, 1, 7)


def test_a_block_adds_its_branch_to_what_came() -> None:
    block, x = ResidualBlock(4, 4).double().eval(), torch.randn(2, 4, 5, 5, dtype=torch.float64)
    branch = block.second_norm(block.second(F.relu(block.first_norm(block.first(x)))))
    torch.testing.assert_close(block(x), F.relu(x + branch))
    torch.nn.init.zeros_(block.second_norm.weight)
    torch.testing.assert_close(block(x), F.relu(x))


def test_a_shortcut_has_no_weights() -> None:
    block, x = ResidualBlock(4, 8), torch.randn(2, 4, 6, 5)
    small = block.shortcut(x)
    assert small.shape == (2, 8, 3, 3)
    assert torch.equal(small[:, 2:6], x[:, :, ::2, ::2])
    assert not small[:, [0, 1, 6, 7]].any()
    assert count(block) == 9 * (4 * 8 + 8 * 8) + 4 * 8


def test_published_start() -> None:
    model = ResNet(resnet20())
    for layer in (model.stages[2][1].first, model.stages[1][2].second):
        assert layer.weight.std().item() == pytest.approx((2 / (9 * layer.in_channels)) ** 0.5, rel=0.05)
        assert layer.bias is None


def test_channels_lie_last_all_the_way() -> None:
    model, kept = ResNet(ResNetConfig(depth=8)), []
    for block in (block for stage in model.stages for block in stage):
        block.register_forward_hook(
            lambda _, __, out: kept.append(out.is_contiguous(memory_format=torch.channels_last))
        )
    model(torch.randn(2, 3, 8, 8))
    assert kept == [True] * 3


def test_under_autocast() -> None:
    model, images = ResNet(ResNetConfig(depth=8)).eval(), torch.randn(2, 3, 8, 8)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = model(images).logits
    torch.testing.assert_close(mixed.float(), model(images).logits, atol=0.05, rtol=0.05)
    assert model.bfloat16()(images).logits.dtype == torch.bfloat16


def test_it_learns_a_few_pictures_by_heart() -> None:
    model, images, labels = ResNet(ResNetConfig(depth=8, width=8)), torch.randn(12, 3, 8, 8), torch.arange(12) % 10
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(15):
        loss = F.cross_entropy(model(images).logits[:, 0], labels)
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
    assert loss < 0.1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"depth": 21}, "depth: got 21; expected 6 n \\+ 2, such as 20, 32 or 56"),
        ({"depth": 2}, "depth: got 2"),
        ({"width": 0}, "width: got 0; expected 1 or more"),
    ],
)
def test_errors(settings: dict[str, int], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ResNet(ResNetConfig(**settings))


def test_grey_pictures_are_refused() -> None:
    with pytest.raises(ShapeError, match="wrong number of channels: got 1; expected 3"):
        ResNet(ResNetConfig(depth=8))(torch.ones(1, 1, 8, 8))
