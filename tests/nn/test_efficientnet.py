"""EfficientNet-Lite0: shapes, counts, TensorFlow's padding, published names; and any other backbone."""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, pad

from regard.base import ConfigError, RegardError, ShapeError
from regard.nn.efficientnet import (
    STAGES,
    TOP,
    WEIGHTS,
    Backbone,
    EfficientNetLite0,
    Encoder,
    InvertedBlock,
    Patches,
    SameConv,
    efficientnet_lite0,
    load_published,
    normalised,
    published_weights,
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


def test_the_package_has_weights_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("REGARD_DATA", raising=False)
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path))
    path = published_weights()
    assert path.suffix == ".safetensors"
    model = EfficientNetLite0(4).eval()
    load_published(model, path)
    assert all(parameter.dtype == torch.float32 for parameter in model.parameters())
    assert all(bool(tensor.isfinite().all()) for tensor in model.state_dict().values())
    with torch.no_grad():
        first, second = model(torch.zeros(1, 3, 64, 64)), model(torch.rand(1, 3, 64, 64))
    assert 0.1 < float(second.std()) < 100
    assert not torch.allclose(first, second)
    with pytest.raises(RegardError, match="another network: got no classifier"):
        load_published(EfficientNetLite0(classes=1000), path)


def test_the_published_file_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / WEIGHTS.name).parent.mkdir()
    (tmp_path / WEIGHTS.name).write_bytes(b"cut off")
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    with pytest.raises(RegardError, match="has the wrong size"):  # it is not passed over in silence
        published_weights()


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


# ── fixed statistics, early stages ──────────────────────────────────────────────────────────────────────────────────


def scattered(module: nn.Module) -> nn.Module:
    """In float64, with statistics and normalisations that are far from the start."""
    random = torch.Generator().manual_seed(0)
    for part in module.double().modules():
        if isinstance(part, nn.BatchNorm2d):
            for tensor, low in ((part.running_var, 0.3), (part.running_mean, -1), (part.weight, 0.5), (part.bias, -1)):
                assert tensor is not None
                with torch.no_grad():
                    tensor.uniform_(low, 1.5, generator=random)
    return module


def apart(x: Tensor, conv: SameConv, norm: nn.BatchNorm2d) -> Tensor:
    """What is folded, one after the other, in a form of its own."""
    shape = (-1, 1, 1)
    assert norm.running_mean is not None
    assert norm.running_var is not None
    centred = (conv(x) - norm.running_mean.view(shape)) / (norm.running_var + norm.eps).sqrt().view(shape)
    return centred * norm.weight.view(shape) + norm.bias.view(shape)


def test_fixed_statistics_are_part_of_the_convolution(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = scattered(efficientnet_lite0(stage=3)).train()
    images = torch.rand(2, 3, 17, 24, dtype=torch.double).contiguous(memory_format=torch.channels_last)
    calls: list[str] = []
    for part in encoder.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.register_forward_hook(lambda *_: calls.append("normalised apart"))
    found, gradients = [], []
    for way in (normalised, apart):
        monkeypatch.setattr("regard.nn.efficientnet.normalised", way)
        encoder.zero_grad()
        values = encoder(images).values
        (values * torch.linspace(-1, 1, values.numel(), dtype=torch.double).view_as(values)).sum().backward()
        found.append(values.detach())
        gradients.append(
            {name: part.grad.clone() for name, part in encoder.named_parameters() if part.grad is not None}
        )
    assert calls == []
    assert found[1].abs().max() > 0.1
    torch.testing.assert_close(found[0], found[1], atol=1e-12, rtol=0)
    assert set(gradients[0]) == {name for name, _ in encoder.named_parameters()}
    for name, gradient in gradients[1].items():
        torch.testing.assert_close(gradients[0][name], gradient, atol=1e-10 * (1 + gradient.abs().max().item()), rtol=0)


def test_statistics_of_the_batch_are_not_folded() -> None:
    conv, norm, x = SameConv(3, 4, 3), nn.BatchNorm2d(4), torch.randn(2, 3, 5, 5)
    out = normalised(x, conv, norm.train())
    torch.testing.assert_close(out.mean((0, 2, 3)), torch.zeros(4), atol=1e-5, rtol=0)
    assert norm.num_batches_tracked == 1
    torch.testing.assert_close(normalised(x, conv, norm.eval()), norm(conv(x)))
    assert norm.num_batches_tracked == 1


def test_channels_stay_last_and_half_precision_runs() -> None:
    encoder = efficientnet_lite0(stage=2).train()
    maps: list[Tensor] = []
    for block in encoder.module.blocks:  # type: ignore[union-attr]
        block.register_forward_hook(lambda module, given, out: maps.append(out))  # type: ignore[union-attr]
    images = torch.rand(2, 3, 16, 16).contiguous(memory_format=torch.channels_last)
    encoder(images)
    with torch.autocast("cpu", torch.bfloat16):
        encoder(images).values.float().sum().backward()
    assert [out.dtype for out in maps] == [torch.float32] * 3 + [torch.bfloat16] * 3
    assert all(out.is_contiguous(memory_format=torch.channels_last) for out in maps)
    torch.testing.assert_close(maps[5].float(), maps[2], atol=0.05, rtol=0.05)
    assert all(part.grad is not None and part.grad.dtype == torch.float32 for part in encoder.parameters())


@pytest.mark.parametrize(("frozen", "still"), [(0, []), (1, ["stem"]), (3, ["stem", "0", "1", "2"])])
def test_early_stages_are_left_as_they_are(frozen: int, still: list[str]) -> None:
    encoder = scattered(efficientnet_lite0(stage=3, frozen=frozen)).train()
    learns = {name: part.requires_grad for name, part in encoder.module.named_parameters()}  # type: ignore[union-attr]
    for name, does in learns.items():
        place = name.split(".")[1] if name.startswith("blocks") else name.partition(".")[0].removesuffix("_norm")
        assert does == (place not in still), name
    images = torch.rand(1, 3, 16, 16, dtype=torch.double, requires_grad=True)
    values = encoder(images).values
    values.sum().backward()
    assert {n for n, p in encoder.module.named_parameters() if p.grad is not None} == {n for n in learns if learns[n]}  # type: ignore[union-attr]
    assert (images.grad is None) == (frozen > 0)
    whole = efficientnet_lite0(stage=3).double()
    whole.load_state_dict(encoder.state_dict())  # every name is there
    torch.testing.assert_close(whole(images).values, values)
    with torch.no_grad():
        assert not encoder(images).values.requires_grad


# ── any other ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_places_go_row_by_row() -> None:
    values, grid = Backbone(nn.Identity(), channels=3, mean=0.0, scale=1.0)(torch.arange(18.0).view(1, 3, 2, 3))
    assert grid == (2, 3)
    assert values[0, 1].tolist() == [1, 7, 13]  # the first row's second place
    assert values[0, 3].tolist() == [3, 9, 15]


def test_any_backbone_with_frozen_statistics() -> None:
    module = nn.Sequential(nn.Conv2d(3, 4, 2, stride=2), nn.BatchNorm2d(4), nn.Dropout(0.5))
    before = module[1].running_mean.clone()
    encoder = Backbone(module, channels=4)
    encoder(torch.rand(2, 3, 4, 4))
    encoder.train()(torch.rand(2, 3, 4, 4))
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
    with pytest.raises(ConfigError, match="frozen: got 4; expected 0 to 3, the stage"):
        EfficientNetLite0(3, frozen=4)
    with pytest.raises(ConfigError, match=f"classes: got stage 3; expected stage {TOP}"):
        EfficientNetLite0(3, classes=10)
