"""Non-local blocks in a residual network: where they stand, and maps for a pixel."""

import pytest
import torch

from regard.attention import trace
from regard.base import ConfigError, ShapeError
from regard.models.nonlocal_net import NonLocalConfig, NonLocalNet, nonlocal_resnet20, nonlocal_resnet56
from regard.models.resnet import ResNet, ResNetConfig, resnet20
from regard.nn.nonlocal_block import KINDS, NonLocal


def places(config: NonLocalConfig) -> list[str]:
    return [name for name, part in NonLocalNet(config).named_modules() if isinstance(part, NonLocal)]


@pytest.mark.parametrize(
    ("config", "names"),
    [
        (nonlocal_resnet20(), ["stages.1.3"]),  # after the third block of the second stage
        (nonlocal_resnet56(), ["stages.1.9"]),
        (NonLocalConfig(stages=()), []),
        (NonLocalConfig(depth=26, stages=(2, 3), blocks=2), ["stages.1.2", "stages.1.5", "stages.2.2", "stages.2.5"]),
        (NonLocalConfig(depth=38, stages=(3,), blocks=3), ["stages.2.2", "stages.2.5", "stages.2.8"]),
        (NonLocalConfig(depth=8, stages=(1,)), ["stages.0.1"]),
    ],
    ids=str,
)
def test_every_second_block_as_published(config: NonLocalConfig, names: list[str]) -> None:
    assert places(config) == names


def test_size_beside_the_plain_twin() -> None:
    size = {name: sum(p.numel() for p in net.parameters()) for name, net in _nets().items()}
    assert size["twin"] == size["plain"]
    assert size["nonlocal"] - size["plain"] == 4 * 32 * 16 + 3 * 16 + 32 + 2 * 32


def _nets() -> dict[str, torch.nn.Module]:
    twin = NonLocalNet(NonLocalConfig(stages=()))
    return {"plain": ResNet(resnet20()), "twin": twin, "nonlocal": NonLocalNet(nonlocal_resnet20())}


@pytest.mark.parametrize("kind", KINDS)
def test_it_begins_as_its_plain_twin(kind: str) -> None:
    model = NonLocalNet(NonLocalConfig(depth=8, width=4, stages=(1, 2), kind=kind, pool=2)).eval()
    twin = ResNet(ResNetConfig(depth=8, width=4)).eval()
    own, theirs = model.state_dict(), twin.state_dict()
    twin.load_state_dict({name: own[name] for name in theirs})
    images = torch.randn(2, 3, 8, 8)
    assert torch.equal(model(images).logits, twin(images).logits)
    for name, parameter in model.named_parameters():
        if name.endswith("1.norm.weight"):
            torch.nn.init.ones_(parameter)
    assert not torch.equal(model.train()(images).logits, twin.train()(images).logits)


@pytest.mark.parametrize("kind", KINDS)
def test_maps_of_pixels(kind: str) -> None:
    model, images = (
        NonLocalNet(NonLocalConfig(depth=8, width=4, stages=(2, 3), kind=kind, pool=2)),
        torch.randn(3, 3, 20, 12),
    )
    maps = model.maps(images, [(0, 0), (19, 11), (7, 4)])
    assert {name: list(weights.shape) for name, weights in maps.items()} == {
        "stages.1.1": [3, 3, 5, 3],
        "stages.2.1": [3, 3, 3, 2],
    }
    assert model.training
    model.eval()
    with trace(model, layers="stages.1.1.attention") as seen, torch.no_grad():
        model(images)
    row = torch.from_numpy(seen[0].weights[:, 3 * 6 + 2])  # pixel (7, 4) is in the cell (3, 2) of 10×6
    torch.testing.assert_close(maps["stages.1.1"][:, 2].flatten(1), row)
    if "gaussian" in kind:
        torch.testing.assert_close(maps["stages.2.1"].sum((-1, -2)), torch.ones(3, 3))


def test_errors() -> None:
    model = NonLocalNet(NonLocalConfig(depth=8, width=4))
    with pytest.raises(ShapeError, match=r"a place is outside the picture: got \(8, 0\); expected within 8 × 8"):
        model.maps(torch.ones(1, 3, 8, 8), [(0, 0), (8, 0)])
    with pytest.raises(ConfigError, match=r"blocks: got 0; expected 1 to 3, .*Try: set stages=\(\) for the plain twin"):
        NonLocalNet(NonLocalConfig(blocks=0))
    with pytest.raises(ConfigError, match="blocks: got 4; expected 1 to 3"):
        NonLocalNet(NonLocalConfig(blocks=4))
    with pytest.raises(ConfigError, match="stages: got 4; expected some of 1, 2, 3"):
        NonLocalNet(NonLocalConfig(stages=(2, 4)))
    with pytest.raises(ConfigError, match=r"model.kind: got 'cosine'; expected one of gaussian, "):
        NonLocalNet(NonLocalConfig(kind="cosine"))
