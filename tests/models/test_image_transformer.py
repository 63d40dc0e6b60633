"""The Image Transformer: what sees what, probabilities that sum to 1, and pictures drawn with and without a cache."""

import itertools
import math
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.base import ConfigError, ShapeError
from regard.models import (
    ImageTransformer,
    ImageTransformerConfig,
    image_transformer_cifar10,
    image_transformer_cifar10_dmol,
)

SMALL = ImageTransformerConfig(
    image_size=4, channels=3, classes=3, levels=7, dim=16, num_heads=2, hidden_dim=24, layers=2, mixtures=3,
    query_block=5, memory_block=3, block_size=(2, 2), memory_size=(1, 1), encoder_layers=1, dropout=0.0,
)  # fmt: skip
KINDS: dict[str, dict[str, Any]] = {
    "categorical": {},
    "2d": {"local": "2d", "pre_norm": True},
    "logistics": {"output": "logistics", "position": "learned"},
    "logistics 2d, class": {"output": "logistics", "local": "2d", "class_conditional": True},
    "small": {"small_size": 2, "pre_norm": True},
    "logistics, small, class": {"output": "logistics", "small_size": 2, "class_conditional": True},
}
EVERY = pytest.mark.parametrize("kind", KINDS)


def built(seed: int = 0, **settings: Any) -> ImageTransformer:
    torch.manual_seed(seed)
    model = ImageTransformer(replace(SMALL, **settings)).double().eval()
    torch.nn.init.normal_(model.to_output.weight, std=0.5)  # so that what was seen matters
    return model


def told(model: ImageTransformer, batch: int = 2) -> dict[str, Tensor]:
    chance, config = torch.Generator().manual_seed(5), model.config
    known = {}
    if config.class_conditional:
        known["classes"] = torch.randint(3, (batch,), generator=chance)
    if config.small_size:
        known["small"] = torch.randint(7, (batch, 3, 2, 2), generator=chance)
    return known


def pictures(batch: int = 2) -> Tensor:
    return torch.randint(7, (batch, 3, 4, 4), generator=torch.Generator().manual_seed(6))


@EVERY
def test_a_later_symbol_changes_nothing_and_an_earlier_one_what_it_reaches(kind: str) -> None:
    """Jacobians by perturbation: one layer reaches its block, two layers also what those places saw."""
    for layers in (1, 2):
        model = built(**KINDS[kind], layers=layers)
        images = pictures(1)
        condition = model.condition(*[told(model, 1).get(name) for name in ("classes", "small")], 1)
        values = model.values_of(images)
        allowed = model.local.mask().dense(model.config.places, model.config.places)
        reach = torch.linalg.matrix_power(allowed.double(), layers) > 0  # [query key]
        before = model.outputs(values, condition)[0]
        for place in range(0, model.config.places - 1, 5):
            changed = values.clone()
            changed[0, place] = (changed[0, place] + 3) % 7
            moved = (model.outputs(changed, condition)[0] - before).abs().amax(-1) > 1e-9
            assert moved.equal(reach[:, place + 1])  # the input of the place after it


@EVERY
def test_blocks_and_the_mask_are_one_model(kind: str) -> None:
    fast, slow = built(**KINDS[kind]), built(**KINDS[kind], by_mask=True)
    results = []
    for model in (fast, slow):
        nats = model(pictures(), **told(model))
        results.append((nats, torch.autograd.grad(nats.sum(), list(model.parameters()))))
    torch.testing.assert_close(*[nats for nats, _ in results], atol=1e-10, rtol=1e-10)
    for mine, other in zip(results[0][1], results[1][1], strict=True):
        torch.testing.assert_close(mine, other, atol=1e-9, rtol=1e-9)


@EVERY
@pytest.mark.bare  # the hook would take ten times as long
def test_generation_with_a_cache_equals_generation_without(kind: str) -> None:
    model = built(**KINDS[kind])
    for kept in (0, model.config.places // 2):
        drawn = [
            model.generate(2, images=pictures(), known=kept, generator=torch.Generator().manual_seed(1), cached=cached,
                           **told(model))
            for cached in (True, False)
        ]  # fmt: skip
        assert drawn[0].equal(drawn[1])
        assert model.values_of(drawn[0])[:, :kept].equal(model.values_of(pictures())[:, :kept])
    assert model.images_of(model.values_of(pictures())).equal(pictures())


@pytest.mark.parametrize("settings", [{}, {"output": "logistics"}, {"local": "2d", "block_size": (1, 2)}], ids=str)
def test_the_probabilities_of_all_pictures_sum_to_one(settings: dict[str, Any]) -> None:
    tiny = {"image_size": 2, "channels": 1, "levels": 2, "query_block": 2, "memory_block": 1, "memory_size": (1, 0)}
    model = built(**tiny, **settings)
    every = torch.tensor(list(itertools.product((0, 1), repeat=4))).view(16, 1, 2, 2)
    log_prob = -model(every).sum(1)
    assert log_prob.exp().sum().item() == pytest.approx(1, abs=1e-9)
    chance, count = torch.Generator().manual_seed(0), 4000
    drawn = model.generate(count, generator=chance).flatten(1) @ torch.tensor([8, 4, 2, 1])
    shares = torch.bincount(drawn, minlength=16) / count
    assert (shares - log_prob.exp()).abs().max() < 5 * 0.5 / math.sqrt(count)


def test_the_equations_by_hand() -> None:
    """One layer, post-norm, one head, a block as large as the picture: (1) and (2) with plain products."""
    model = built(layers=1, num_heads=1, query_block=48, memory_block=0)
    values = model.values_of(pictures())
    ids = values.flatten(1) + 7 * (torch.arange(48) % 3)
    place = torch.arange(16, dtype=torch.float64)

    def waves(position: Tensor) -> Tensor:
        angles = position.unsqueeze(-1) / 10000 ** (torch.arange(0, 8, 2) / 8)
        return torch.stack([angles.sin(), angles.cos()], -1).flatten(-2)

    position = torch.cat([waves(place[:4].repeat_interleave(12)), waves(place[:12].repeat(4))], -1)
    embedded = torch.cat([model.start.expand(2, 1, -1), model.symbols(ids[:, :-1])], 1)
    q = 4 * embedded + position  # √16
    [layer] = model.layers
    inner = layer.inner.inner
    scores = (inner.to_query(q) @ inner.to_keys(q).mT / 4).masked_fill(~torch.ones(48, 48).tril().bool(), -math.inf)
    q_a = F.layer_norm(q + inner.to_output(scores.softmax(-1) @ inner.to_values(q)), [16])
    out = F.layer_norm(q_a + layer.feed.narrow(torch.relu(layer.feed.widen(q_a))), [16])
    logits = model.to_output(out)
    exact = -logits.log_softmax(-1).take_along_dim(values, -1).squeeze(-1)
    torch.testing.assert_close(model(pictures()), exact, atol=1e-6, rtol=1e-6)  # sines are float32


def test_what_is_told_changes_the_bits() -> None:
    for kind in ("logistics 2d, class", "small"):
        model = built(**KINDS[kind])
        first = told(model)
        second = {name: (tensor + 1) % 3 for name, tensor in first.items()}
        assert (model(pictures(), **first) - model(pictures(), **second)).abs().amax(0).min() > 1e-9


def test_sizes_of_the_published_code() -> None:
    for make, millions in ((image_transformer_cifar10, 38.35), (image_transformer_cifar10_dmol, 6.556)):
        with torch.device("meta"):
            model = ImageTransformer(replace(make(), image_size=32, channels=3))
        assert sum(parameter.numel() for parameter in model.parameters()) / 1e6 == pytest.approx(millions, abs=0.005)


def test_any_alignment_and_half_precision() -> None:
    sparse = built(align="sparsemax")
    assert torch.isfinite(sparse(pictures())).all()
    for output in ("categorical", "logistics"):
        half = built(output=output).to(torch.bfloat16)
        nats = half(pictures())
        assert nats.dtype == torch.float32
        torch.testing.assert_close(nats.double().mean(), built(output=output)(pictures()).mean(), rtol=0.05, atol=0.05)


@pytest.mark.parametrize(("settings", "message"), [
    ({"image_size": 0}, "the size of the pictures is not known: got image_size=0"),
    ({"dim": 18}, "model.dim: got 18; expected a multiple of 4"),
    ({"score": "location"}, "the Image Transformer attends from all places at once: got score=location"),
    ({"small_size": 3}, "model.small_size: got 3 for pictures of 4; expected a number that divides 4"),
    ({"local": "2d", "block_size": (3, 2)}, "query blocks do not fill the grid: got blocks of 3 × 6 in 4 × 12"),
])  # fmt: skip
def test_wrong_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        built(**settings)


def test_wrong_pictures() -> None:
    with pytest.raises(ShapeError, match=r"pictures for this model: got \[2, 3, 5, 4\]; expected \['b', 3, 4, 4\]"):
        built()(torch.zeros(2, 3, 5, 4, dtype=torch.long))
    with pytest.raises(ConfigError, match="what this Image Transformer is told of a picture: got classes: True"):
        built()(pictures(), classes=torch.zeros(2, dtype=torch.long))
    with pytest.raises(ShapeError, match=r"small pictures for this model: got \[2, 3, 4, 4\]; expected \[2, 3, 2, 2\]"):
        built(small_size=2)(pictures(), small=pictures())
