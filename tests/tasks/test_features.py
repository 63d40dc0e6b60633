"""Features: made once, kept under a name that says all, found again, the same on every way."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from regard.base import ConfigError, RegardError
from regard.data.captions import Captions
from regard.data.images import read_image
from regard.datasets.shapes import shapes
from regard.nn.efficientnet import Backbone, EfficientNetLite0
from regard.tasks.features import EncoderConfig, FeatureCache

CPU = torch.device("cpu")
PATCHES = EncoderConfig(name="patches", size=56)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "features"


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A file with the published names, made from a net of three stages."""
    names = {"stem": "_conv_stem", "stem_norm": "_bn0", "expand": "_expand_conv", "expand_norm": "_bn0",
             "depthwise": "_depthwise_conv", "depthwise_norm": "_bn1", "project": "_project_conv",
             "project_norm": "_bn2"}  # fmt: skip
    torch.manual_seed(0)
    stored = {
        ".".join(names.get(part, part.replace("blocks", "_blocks")) for part in name.split(".")): tensor
        for name, tensor in EfficientNetLite0(3).state_dict().items()
    }
    path = tmp_path_factory.mktemp("weights") / "lite0.pth"
    torch.save(stored, path)
    return str(path)


def some(count: int = 3) -> Captions:
    return shapes((count, 1, 1))["train"]


def test_features_of_a_split(cache: Path) -> None:
    captions, seen = some(), []
    viewer = FeatureCache(PATCHES, progress=lambda *facts: seen.append(facts))
    found = viewer.features(captions, mirrored=True, device=CPU)
    assert found.shape == (6, 49, viewer.encoder.channels)
    assert found.dtype == torch.float16
    assert viewer.grid == (7, 7)
    image = torch.from_numpy(viewer.view(read_image(captions.read(captions.names[1]))))[None]
    assert torch.equal(found[1], viewer.encode(image)[0])
    assert torch.equal(found[4], viewer.encode(image.flip(-1))[0])
    pixels = slice(0, 192)
    assert not torch.equal(found[1, :, pixels], found[4, :, pixels])
    assert seen == [("encoding pictures", 3, 3)]


def test_they_are_kept_and_found(cache: Path) -> None:
    captions = some()
    first = FeatureCache(PATCHES).features(captions, mirrored=False, device=CPU)
    assert len(list(cache.iterdir())) == 1  # nothing half written beside it

    def unread(name: str) -> bytes:
        raise AssertionError("the pictures are read again")

    again = Captions(captions.names, captions.captions, unread, captions.signature)
    assert torch.equal(FeatureCache(PATCHES).features(again, mirrored=False, device=CPU), first)
    other = Captions(captions.names, captions.captions, unread, "other pictures")
    with pytest.raises(AssertionError, match="read again"):
        FeatureCache(PATCHES).features(other, mirrored=False, device=CPU)
    assert len(list(cache.iterdir())) == 1  # a failure leaves nothing


@pytest.mark.parametrize("change", [{"size": 64}, {"whole": True}, {"patch": 4}])
def test_every_setting_is_in_the_name(cache: Path, change: dict[str, Any]) -> None:
    captions = some(1)
    FeatureCache(PATCHES).features(captions, mirrored=False, device=CPU)
    FeatureCache(EncoderConfig(**{"name": "patches", "size": 56} | change)).features(
        captions, mirrored=False, device=CPU
    )
    FeatureCache(PATCHES).features(captions, mirrored=True, device=CPU)
    assert len(list(cache.iterdir())) == 3


def test_nothing_is_kept_on_demand(cache: Path) -> None:
    viewer = FeatureCache(EncoderConfig(name="patches", size=56, keep=False))
    viewer.features(some(1), mirrored=False, device=CPU)
    own = FeatureCache(PATCHES, module=Backbone(nn.Conv2d(3, 4, 8, stride=8), channels=4).eval())
    assert own.features(some(1), mirrored=False, device=CPU).shape == (1, 49, 4)
    assert own.identity is None  # nobody knows what it is, so nothing is kept
    assert not cache.exists()


def test_a_cache_that_cannot_be_written(cache: Path) -> None:
    cache.parent.mkdir(parents=True)
    cache.write_text("a file")
    with pytest.raises(RegardError, match=r"features cannot be kept.*REGARD_CACHE"):
        FeatureCache(PATCHES).features(some(1), mirrored=False, device=CPU)


def test_published_weights_and_the_run_folder(cache: Path, tmp_path: Path, weights: str) -> None:
    config = EncoderConfig(weights=weights, stage=3, size=32)
    viewer = FeatureCache(config)
    assert viewer.encoder.channels == 40
    assert viewer.grid == (4, 4)
    assert not any(parameter.requires_grad for parameter in viewer.encoder.parameters())
    views = torch.randint(0, 256, (2, 3, 32, 32), dtype=torch.uint8)
    viewer.save(tmp_path / "run")
    loaded = FeatureCache(EncoderConfig(weights="gone.pth", stage=3, size=32), folder=tmp_path / "run")
    assert torch.equal(loaded.encode(views), viewer.encode(views))
    assert loaded.identity == viewer.identity
    assert str(viewer.identity).startswith("efficientnet_lite0 ")
    before = viewer.features(some(1), mirrored=False, device=CPU)
    assert torch.equal(loaded.features(some(1), mirrored=False, device=CPU), before)
    assert len(list(cache.iterdir())) == 1  # the same features under the same name


def test_views_for_fine_tuning(cache: Path) -> None:
    captions = some(2)
    viewer = FeatureCache(PATCHES)
    views = viewer.views(captions, margin=8, device=CPU)
    assert views.shape == (2, 3, 64, 64)
    assert views.dtype == torch.uint8
    plain = viewer.views(captions, device=CPU)
    np.testing.assert_array_equal(plain[1].permute(1, 2, 0).numpy(), read_image(captions.read(captions.names[1])))


def test_a_broken_picture_is_named(cache: Path) -> None:
    broken = Captions(("torn.png",), (("a dog",),), lambda name: b"no picture", "x")
    with pytest.raises(RegardError, match=r"torn\.png: this is no picture"):
        FeatureCache(PATCHES).features(broken, mirrored=False, device=CPU)


def test_wrong_settings() -> None:
    with pytest.raises(ConfigError, match=r"task\.encoder\.size: got 0"):
        FeatureCache(EncoderConfig(size=0))


@pytest.mark.bare
def test_unknown_encoders() -> None:
    with pytest.raises(ConfigError, match=r"task\.encoder\.name: got 'efficientnet'.*Did you mean"):
        FeatureCache(EncoderConfig(name="efficientnet"))  # type: ignore[arg-type]


def test_an_encoder_does_not_say_itself_what_it_is(cache: Path, tmp_path: Path, weights: str) -> None:
    """A stranger's encoder with the name of another in its file would fill the cache with features of its own."""
    honest = FeatureCache(EncoderConfig(weights=weights, stage=3, size=32))
    tensors = {name: tensor.contiguous().clone() for name, tensor in honest.encoder.state_dict().items()}
    first = next(name for name, tensor in tensors.items() if tensor.is_floating_point())
    tensors[first] += 1
    (tmp_path / "run").mkdir()
    save_file(tensors, tmp_path / "run" / "encoder.safetensors", metadata={"identity": str(honest.identity)})
    other = FeatureCache(EncoderConfig(weights=weights, stage=3, size=32), folder=tmp_path / "run")
    assert other.identity != honest.identity
    for viewer in (other, honest):
        viewer.features(some(1), mirrored=False, device=CPU)
    assert len(list(cache.iterdir())) == 2
