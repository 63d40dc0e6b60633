"""RAM: published sizes, the equations one glimpse after the other, and which gradient goes where."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.distributions import Normal

from regard.attention import trace
from regard.base import ConfigError
from regard.models.glimpse import Glimpsed
from regard.models.ram import RAM, RAMConfig, ram_28, ram_60, ram_100
from regard.nn.retina import retina

TINY = RAMConfig(glimpses=4, size=4, scales=2, part_dim=6, glimpse_dim=8, hidden_dim=8, sigma=0.2)


def ram(**settings: object) -> RAM:
    torch.manual_seed(0)
    return RAM(replace(TINY, **settings))


def images(batch: int = 3) -> Tensor:
    return torch.rand(batch, 1, 12, 12, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(("config", "size"), [(ram_28(), 209_677), (ram_60(), 256_781), (ram_100(), 275_213)])
def test_published_sizes(config: RAMConfig, size: int) -> None:
    assert sum(parameter.numel() for parameter in RAM(config).parameters()) == size


def one_by_one(model: RAM, pictures: Tensor, noise: Tensor) -> Glimpsed:
    """The paper's loop in the plainest way: each glimpse in turn, gradients through time, cut where the paper cuts."""
    config, batch = model.config, len(pictures)
    state = model.core.init_state(batch)
    point = torch.zeros(batch, 2)
    where, log_probability, baseline = [], [torch.zeros(batch)], []
    for step in range(config.glimpses):
        baseline.append(model.baseline(state[0].detach()).squeeze(1))
        if step > 0:
            mean = model.location(state[0].detach())
            point = (mean + config.sigma * noise[:, step]).detach()
            log_probability.append(Normal(mean, config.sigma).log_prob(point).sum(1))
        where.append(point.clamp(-1, 1))
        seen = retina(pictures, where[-1], size=config.size, scales=config.scales)
        state = model.core.step(model.glimpse(seen, where[-1]), state)
    logits = model.action(state[0]).view(batch, config.labels, -1)
    parts = [torch.stack(part, 1) for part in (where, log_probability, baseline)]
    return Glimpsed(
        logits, parts[0], parts[1], parts[1] * 0, parts[2], *[torch.ones(batch, config.glimpses) > 0] * 2, parts[0]
    )


@pytest.mark.parametrize("core", ["rnn", "lstm"])
@pytest.mark.parametrize("labels", [1, 2])
def test_equals_the_plain_loop(core: str, labels: int) -> None:
    """Values and gradients of the walk that is taken in at once are those of one glimpse after the other."""
    model = ram(core=core, labels=labels)
    torch.manual_seed(5)
    found = model(images())
    torch.manual_seed(5)
    expected = one_by_one(model, images(), torch.randn(3, 4, 2))
    for name in ("logits", "where", "log_probability", "baseline"):
        torch.testing.assert_close(getattr(found, name), getattr(expected, name), atol=1e-4, rtol=1e-4)
    grads = []
    for out in (found, expected):
        model.zero_grad()
        total = out.logits.logsumexp(-1).sum() + (out.log_probability * torch.arange(4)).sum() + out.baseline.sum()
        total.backward()
        grads.append([parameter.grad.clone() for parameter in model.parameters()])
    for ours, theirs in zip(*grads, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-3, rtol=1e-3)


def gradients(model: RAM, loss: Tensor) -> dict[str, float]:
    model.zero_grad()
    loss.backward()
    found: dict[str, float] = {}
    for name, parameter in model.named_parameters():
        part = name.split(".")[0]
        found[part] = found.get(part, 0.0) + (0.0 if parameter.grad is None else parameter.grad.abs().sum().item())
    return found


def test_which_gradient_goes_where() -> None:
    model = ram(core="lstm", start="learned")
    out = model(images())
    by_label = gradients(model, out.logits.logsumexp(-1).sum())
    assert by_label["location"] == by_label["first"] == by_label["baseline"] == 0  # exactly
    assert min(by_label[part] for part in ("glimpse", "core", "action")) > 0
    by_reward = gradients(model, model(images()).log_probability.sum())
    assert by_reward["glimpse"] == by_reward["core"] == by_reward["action"] == by_reward["baseline"] == 0
    assert min(by_reward[part] for part in ("location", "first")) > 0
    by_baseline = gradients(model, model(images()).baseline.sum())
    assert [part for part, size in by_baseline.items() if size] == ["baseline"]


def test_the_score_has_zero_mean() -> None:
    """With a constant reward and no baseline the gradient of the locations is zero on average, though not each time."""
    model = ram()
    torch.manual_seed(0)
    out = model(images(1).expand(20_000, -1, -1, -1))
    last = model.location.layers[0].bias
    (mean,) = torch.autograd.grad(out.log_probability[:, 1].mean(), last)
    around = model(images(1), where=out.where[:1]).log_probability  # a draw of its own
    (once,) = torch.autograd.grad(around[0, 1], last)
    assert mean.abs().max() < 0.15  # 5 / σ / √20,000 is 0.18
    assert once.abs().max() > 0.3


def test_in_evaluation_locations_are_means() -> None:
    model = ram(start="random").eval()
    first, second = model(images()), model(images())
    assert first.where.equal(second.where)
    assert not first.where[:, 0].any()  # the centre
    constant = -math.log(2 * math.pi * model.config.sigma**2)
    torch.testing.assert_close(first.log_probability[:, 1:], torch.full((3, 3), constant), atol=1e-4, rtol=1e-4)
    drawn = model(images(), sample=True)
    assert not drawn.where.equal(first.where)
    assert drawn.where[:, 0].any()


def test_in_training_locations_are_drawn() -> None:
    model = ram()
    first, second = model(images()), model(images())
    assert not first.where[:, 1:].equal(second.where[:, 1:])
    assert model(images(), sample=False).where.equal(model(images(), sample=False).where)


@pytest.mark.parametrize(("start", "drawn"), [("centre", 3), ("random", 3), ("learned", 4)])
def test_starts(start: str, drawn: int) -> None:
    out = ram(start=start)(images(50))
    assert out.drawn.sum(1).tolist() == [drawn] * 50
    assert out.log_probability.masked_select(~out.drawn).eq(0).all()
    spread = out.where[:, 0].std(0)
    assert {"centre": spread.max() == 0, "random": spread.min() > 0.4, "learned": 0.1 < spread.mean() < 0.3}[start]


def test_random_glimpses_learn_nothing_of_where() -> None:
    model = ram(random=True)
    out = model(images(200))
    assert not out.drawn.any()
    assert not out.log_probability.any()
    assert 0.5 < out.where.std() < 0.65  # uniform: 0.577
    assert not model.eval()(images()).where.equal(model(images()).where)  # in evaluation too


def test_beyond_the_border_the_density_is_that_of_the_draw() -> None:
    model = ram(sigma=5.0)
    torch.manual_seed(3)
    out = model(images())
    assert out.where.abs().max() == 1
    torch.manual_seed(3)
    noise = torch.randn(3, 4, 2)
    expected = Normal(0.0, 1.0).log_prob(noise).sum(-1) - 2 * math.log(5.0)
    torch.testing.assert_close(out.log_probability[:, 1:], expected[:, 1:], atol=1e-4, rtol=1e-4)


def test_forced_places() -> None:
    model = ram().eval()
    own = model(images())
    forced = model(images(), where=own.where)
    torch.testing.assert_close(forced.logits, own.logits)
    torch.testing.assert_close(forced.log_probability, own.log_probability, atol=1e-4, rtol=1e-4)
    other = model(images(), where=-own.where + 0.3)
    assert not torch.allclose(other.logits, own.logits)


def test_answers_after_each_glimpse() -> None:
    model = ram().eval()
    out = model(images())
    assert out.logits_per_glimpse.shape == (3, 4, 10)
    assert out.logits_per_glimpse[:, -1:].equal(out.logits)
    short = RAM(replace(model.config, glimpses=2)).eval()
    short.load_state_dict(model.state_dict())
    torch.testing.assert_close(short(images()).logits, out.logits_per_glimpse[:, 1:2])
    assert ram(labels=2)(images()).logits_per_glimpse is None


def test_bfloat16_weights() -> None:
    out = ram(core="lstm").bfloat16()(images())
    assert out.where.dtype == out.log_probability.dtype == torch.float32
    assert out.logits.isfinite().all()


@pytest.mark.parametrize("settings", [{"glimpses": 0}, {"scales": 0}, {"sigma": 0.0}])
def test_wrong_settings(settings: dict[str, float]) -> None:
    (name,) = settings
    with pytest.raises(ConfigError, match=f"model.{name}: got 0"):
        RAMConfig(**settings)


def test_where_to_look_may_learn_at_a_rate_of_its_own() -> None:
    model = ram(start="learned", location_rate=0.3)
    slow = {name for name, _ in model.named_parameters() if name.startswith(tuple(model.rates))}
    assert slow == {"location.layers.0.weight", "location.layers.0.bias", "first"}
    assert set(model.rates.values()) == {0.3}


def test_a_trace_sees_where_it_looked() -> None:
    model = ram()
    for sample in (True, False):
        with trace(model) as seen:
            out = model(images(), sample=sample)
        assert list(seen) == ["ram"]
        assert torch.equal(torch.from_numpy(seen["ram"].places), out.where)
        assert seen["ram"].active.all()
