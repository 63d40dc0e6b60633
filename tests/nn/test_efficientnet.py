"""EfficientNet-Lite0: shapes, counts, TensorFlow's padding, published names; and any other backbone."""

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn.functional import conv2d, pad

from regard.base import ConfigError, RegardError, ShapeError
from regard.nn.efficientnet import (
    STAGES,
    TOP,
    Backbone,
    EfficientNetLite0,
    Encoder,
    InvertedBlock,
    Patches,
    SameConv,
    efficientnet_lite0,
    load_published,
    sha256_of,
)


def published(module: EfficientNetLite0) -> dict[str, torch.Tensor]:
    """Weights under the names of EfficientNet-PyTorch, written out once more by hand."""
    norms = {"stem_norm": "_bn0", "head_norm": "_bn1"}
    inner = {
        "expand": "_expand_conv", "expand_norm": "_bn0", "depthwise": "_depthwise_conv", "depthwise_norm": "_bn1",
        "project": "_project_conv", "project_norm": "_bn2",
    }  # fmt: skip
    outer = {"stem": "_conv_stem", "head": "_conv_head", "classifier": "_fc", **norms}
    stored = {}
    for name, tensor in module.state_dict().items():
        parts = name.split(".")
        if parts[0] == "blocks":
            stored[f"_blocks.{parts[1]}.{inner[parts[2]]}.{parts[3]}"] = tensor
        else:
            stored[f"{outer[parts[0]]}.{parts[1]}"] = tensor
    return stored


def count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def test_as_large_as_published() -> None:
    whole = EfficientNetLite0(classes=1000)
    assert count(whole) == 4_652_008
    assert sum(part.numel() for part in whole.state_dict().values() if part.is_floating_point()) == 4_694_024
    assert len(whole.blocks) == sum(stage[2] for stage in STAGES) == 16


@pytest.mark.parametrize(("stage", "channels", "stride"), [(1, 16, 2), (4, 80, 16), (5, 112, 16), (7, 320, 32),
                                                           (8, 1280, 32)])  # fmt: skip
def test_stages(stage: int, channels: int, stride: int) -> None:
    encoder = efficientnet_lite0(stage=stage).eval()
    values, grid = encoder(torch.rand(2, 3, 64, 65))
    assert grid == (-(-64 // stride), -(-65 // stride))
    assert values.shape == (2, grid[0] * grid[1], channels)
    assert encoder.channels == channels
    assert isinstance(encoder, Encoder)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("kernel", [1, 3, 5])
@pytest.mark.parametrize("size", [7, 8])
def test_padding_of_tensorflow(kernel: int, stride: int, size: int) -> None:
    layer, x = SameConv(2, 3, kernel, stride=stride), torch.randn(1, 2, size, size)
    out = layer(x)
    assert out.shape[-1] == -(-size // stride)
    total = max((out.shape[-1] - 1) * stride + kernel - size, 0)
    before, after = total // 2, total - total // 2
    torch.testing.assert_close(out, conv2d(pad(x, (before, after) * 2), layer.weight, stride=stride))
    if (kernel, stride, size) == (3, 2, 8):
        assert (before, after) == (0, 1)  # not torch's 1 and 1


def test_blocks_add_where_shapes_allow() -> None:
    block = InvertedBlock(4, 4, expansion=6, stride=1, kernel=3).eval()
    nn.init.zeros_(block.project_norm.weight)
    x = torch.randn(1, 4, 5, 5)
    assert torch.equal(block(x), x)
    assert not InvertedBlock(4, 4, expansion=6, stride=2, kernel=3).adds
    assert not InvertedBlock(4, 6, expansion=6, stride=1, kernel=3).adds
    assert InvertedBlock(4, 4, expansion=1, stride=1, kernel=3).expand is None


def test_published_weights_are_read(tmp_path: Path) -> None:
    model = EfficientNetLite0(classes=10).eval()
    for buffer in model.buffers():
        if buffer.is_floating_point():
            buffer.uniform_(0.5, 1.5)
    torch.save(published(model), tmp_path / "lite0.pth")
    images = torch.rand(1, 3, 32, 32)
    again = EfficientNetLite0(classes=10).eval()
    load_published(again, tmp_path / "lite0.pth")
    assert torch.equal(again(images), model(images))
    middle = EfficientNetLite0(3).eval()  # only what it has
    load_published(middle, tmp_path / "lite0.pth")
    assert torch.equal(middle.blocks[2].project.weight, model.blocks[2].project.weight)  # type: ignore[union-attr]
    assert len(sha256_of(tmp_path / "lite0.pth")) == 64


def test_other_weights_are_refused(tmp_path: Path) -> None:
    stored = published(EfficientNetLite0(2))
    torch.save(stored, tmp_path / "short.pth")
    with pytest.raises(RegardError, match=r"short\.pth: these weights are of another network: got no blocks\.3"):
        load_published(EfficientNetLite0(3), tmp_path / "short.pth")
    torch.save(stored | {"_conv_stem.weight": torch.zeros(8, 3, 3, 3)}, tmp_path / "thin.pth")
    with pytest.raises(RegardError, match=r"got stem\.weight \[8, 3, 3, 3\]; expected \[32, 3, 3, 3\]"):
        load_published(EfficientNetLite0(2), tmp_path / "thin.pth")
    (tmp_path / "text.pth").write_text("hello")
    for name in ("text.pth", "none.pth"):
        with pytest.raises(RegardError, match=f"{name}: no weights of EfficientNet-Lite0"):
            load_published(EfficientNetLite0(2), tmp_path / name)


def test_normalisation_of_the_lite_series() -> None:
    encoder = efficientnet_lite0(stage=1).eval()
    seen = []
    encoder.module.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))  # type: ignore[union-attr]
    encoder(torch.full((1, 3, 8, 8), 255 / 255))
    torch.testing.assert_close(seen[0], torch.ones(1, 3, 8, 8))  # (255 − 127) / 128


# ── any other ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_places_go_row_by_row() -> None:
    values, grid = Backbone(nn.Identity(), channels=3, mean=0.0, scale=1.0)(torch.arange(18.0).view(1, 3, 2, 3))
    assert grid == (2, 3)
    assert values[0, 1].tolist() == [1, 7, 13]  # the first row's second place
    assert values[0, 3].tolist() == [3, 9, 15]


def test_any_backbone_with_frozen_statistics() -> None:
    module = nn.Sequential(nn.Conv2d(3, 4, 2, stride=2), nn.BatchNorm2d(4), nn.Dropout(0.5))
    encoder = Backbone(module, channels=4).train()
    before = module[1].running_mean.clone()
    encoder(torch.rand(2, 3, 4, 4))
    assert torch.equal(module[1].running_mean, before)
    assert module[2].training
    assert not module[1].training
    assert "mean" not in encoder.state_dict()


def test_a_classifier_is_no_backbone() -> None:
    with pytest.raises(ShapeError, match=r"no map of features: got \[2, 5\]; expected \[b 4 h w\]"):
        Backbone(nn.Sequential(nn.Flatten(), nn.Linear(12, 5)), channels=4)(torch.rand(2, 3, 2, 2))
    with pytest.raises(ShapeError, match=r"expected \[b 7 h w\]"):
        Backbone(nn.Conv2d(3, 4, 1), channels=7)(torch.rand(2, 3, 2, 2))


def test_patches() -> None:
    patches = Patches(2)
    out = patches(torch.rand(1, 3, 4, 6))
    assert out.shape == (1, patches.channels, 2, 3) == (1, 14, 2, 3)
    assert out[0, -2, :, 0].tolist() == [-4, 4]
    assert out[0, -1, 0].tolist() == [-4, 0, 4]


def test_wrong_settings() -> None:
    with pytest.raises(ConfigError, match="stage: got 9; expected 1 to 8"):
        EfficientNetLite0(9)
    with pytest.raises(ConfigError, match=f"classes: got stage 3; expected stage {TOP}"):
        EfficientNetLite0(3, classes=10)
