"""DRAM: what and where are multiplied and kept apart, and each label has its glimpses."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from regard.attention import trace
from regard.base import ConfigError
from regard.models.dram import DRAM, DRAMConfig, dram_pairs, dram_svhn

TINY = DRAMConfig(
    classes=5, labels=3, glimpses=2, size=4, scales=2, filters=(3, 3, 3), glimpse_dim=6, hidden_dim=7, coarse=8
)


def dram(**settings: object) -> DRAM:
    torch.manual_seed(0)
    return DRAM(replace(TINY, **settings))


def images(batch: int = 3) -> Tensor:
    return torch.rand(batch, 1, 20, 20, generator=torch.Generator().manual_seed(1))


def test_shapes() -> None:
    out = dram()(images())
    assert out.logits.shape == (3, 3, 5)
    assert out.where.shape == (3, 6, 2)
    assert out.label_of_glimpse.tolist() == [0, 0, 1, 1, 2, 2]
    assert out.drawn.all()
    assert out.active.all()
    assert DRAM(dram_pairs())(torch.rand(1, 1, 100, 100)).where.shape == (1, 8, 2)
    assert DRAM(dram_svhn())(torch.rand(1, 3, 54, 54)).logits.shape == (1, 6, 11)


def test_one_object_has_the_shapes_of_ram() -> None:
    out = dram(labels=1)(images())
    assert out.logits.shape == (3, 1, 5)
    assert not out.label_of_glimpse.any()


def test_zero_where_either_factor_is() -> None:
    model = dram()
    patch, place = torch.rand(2, 2, 4, 4), torch.rand(2, 2)
    assert model.glimpse(patch, place).abs().sum() > 0
    for part in (model.what.out, model.where):
        kept = [parameter.detach().clone() for parameter in part.parameters()]
        for parameter in part.parameters():
            parameter.data.zero_()
        assert not model.glimpse(patch, place).any()
        for parameter, before in zip(part.parameters(), kept, strict=True):
            parameter.data.copy_(before)


def plain(model: DRAM, pictures: Tensor, where: Tensor) -> tuple[Tensor, Tensor]:
    """Logits and means of where to look, one glimpse after the other."""
    from regard.nn.retina import retina

    state = model.init_state(pictures)
    what, direct, logits, means = state.what, state.where, [], []
    for step in range(where.shape[1]):
        means.append(model.location(direct[0]))
        seen = retina(pictures, where[:, step], size=model.config.size, scales=model.config.scales)
        factors = model.what(seen), model.where(where[:, step]).relu()
        what = model.recognise.step(factors[0] * factors[1], what)
        direct = model.direct.step(what[0].detach(), direct)
        if step % model.config.glimpses == model.config.glimpses - 1:
            logits.append(model.action(what[0]))
    return torch.stack(logits, 1), torch.stack(means, 1)


def test_equals_the_plain_loop() -> None:
    model = dram().eval()
    out = model(images())
    logits, means = plain(model, images(), out.where)
    torch.testing.assert_close(out.logits, logits, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(out.where, means, atol=1e-5, rtol=1e-4)


def test_context_reaches_where_but_not_what() -> None:
    """A change that no glimpse sees moves the eye, and does not move the answer."""
    model = dram().eval()
    where = torch.full((3, 6, 2), -0.8)  # all glimpses are in the upper left corner
    before, changed = images(), images()
    changed[..., 14:, 14:] = 1.0
    first, second = model(before, where=where), model(changed, where=where)
    assert first.logits.equal(second.logits)
    assert not torch.allclose(first.log_probability, second.log_probability)
    without = dram(context=False).eval()
    assert without(before, where=where).log_probability.equal(without(changed, where=where).log_probability)


def gradients(model: DRAM, loss: Tensor) -> set[str]:
    model.zero_grad()
    loss.backward()
    named = ((name.split(".")[0], parameter.grad) for name, parameter in model.named_parameters())
    return {name for name, gradient in named if gradient is not None and gradient.abs().sum() > 0}


def test_which_gradient_goes_where() -> None:
    model = dram()
    assert gradients(model, model(images()).logits.logsumexp(-1).sum()) == {"what", "where", "recognise", "action"}
    assert gradients(model, model(images()).log_probability.sum()) == {"context", "direct", "location"}
    assert gradients(model, model(images()).baseline.sum()) == {"baseline"}
    joint = dram(joint=True)
    trained = {"context", "direct", "location", "what", "where", "recognise"}
    assert gradients(joint, joint(images()).log_probability.sum()) == trained


def test_states_go_on_from_object_to_object() -> None:
    model = dram().eval()
    where = torch.rand(3, 6, 2, generator=torch.Generator().manual_seed(2)) - 0.5
    moved = where.clone()
    moved[:, :2] *= -1  # the glimpses of the first object
    first, second = model(images(), where=where).logits, model(images(), where=moved).logits
    assert not torch.allclose(first[:, 0], second[:, 0])
    assert not torch.allclose(first[:, 2], second[:, 2])  # remembered


def test_evaluation_is_the_same_each_time() -> None:
    model = dram()
    assert not model(images()).where.equal(model(images()).where)
    assert model.eval()(images()).where.equal(model(images()).where)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        (
            {"size": 3},
            "model.size: got 3; expected 4 or more. Try: use 4 pixels or more, which three convolutions need",
        ),
        ({"labels": 0}, "model.labels: got 0; expected 1 or more"),
        ({"sigma": -1.0}, "model.sigma: got -1.0; expected more than 0"),
    ],
)
def test_wrong_settings(settings: dict[str, float], text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        replace(TINY, **settings)
    assert text in str(caught.value)


def test_features_are_as_large_as_pictures() -> None:
    """With He's weights, in front of what and of where; torch's shrink them in each of four layers."""
    torch.manual_seed(0)
    patches, coarse = torch.randn(64, 9, 14, 14), torch.randn(64, 3, 24, 24)
    found = {}
    for he in (False, True):
        model = DRAM(replace(dram_svhn(), he=he))
        assert model.context is not None
        found[he] = [model.what(patches).std(0).mean().item(), model.context(coarse).std(0).mean().item()]
    assert max(found[False]) < 0.03
    assert min(found[True]) > 0.2
    assert max(found[True]) < 2


def test_a_trace_sees_where_it_looked() -> None:
    model = dram()
    with trace(model) as seen:
        out = model(images())
    assert list(seen) == ["dram"]
    assert torch.equal(torch.from_numpy(seen["dram"].places), out.where)
    assert seen["dram"].active.shape == (3, 6)
