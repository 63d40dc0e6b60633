"""DT-RAM: forced to stop or to go on it is RAM, its choices are a distribution, and what it saves is learnt."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from regard.attention import trace
from regard.base import ConfigError
from regard.models.dt_ram import DTRAM, DTRAMConfig, still_looking, stop_probabilities
from regard.models.ram import RAM, RAMConfig

TINY = RAMConfig(glimpses=4, size=4, part_dim=6, glimpse_dim=8, hidden_dim=8, sigma=0.2)


def dt_ram(bias: float = 0.0, frozen: bool = False, **settings: object) -> DTRAM:
    torch.manual_seed(0)
    model = DTRAM(DTRAMConfig(replace(TINY, **settings), stop_dim=8, frozen=frozen))
    with torch.no_grad():
        model.stop[2].bias.fill_(bias)
    return model


def images(batch: int = 3) -> Tensor:
    return torch.rand(batch, 1, 12, 12, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(("bias", "steps"), [(1e6, 1), (-1e6, 4)])
def test_forced_to_stop_or_to_go_on(bias: float, steps: int) -> None:
    model = dt_ram(bias).eval()
    out = model(images())
    assert out.active.sum(1).tolist() == [steps] * 3
    assert out.logits[:, 0].equal(model.ram(images()).logits_per_glimpse[:, steps - 1])  # bit by bit
    short = RAM(replace(TINY, glimpses=steps)).eval()
    short.load_state_dict(model.ram.state_dict())
    torch.testing.assert_close(out.logits, short(images()).logits)


def test_who_must_be_more_certain_looks_longer() -> None:
    steps = []
    for certainty in (0.01, 0.5, 0.9, 0.999):
        model = dt_ram().eval()
        model.config = replace(model.config, certainty=certainty)
        hidden = model.ram.replay(images(100)).hidden[:, :-1]
        with torch.no_grad():
            spread = model.stop_logits(hidden)
            model.stop[2].weight.mul_(3 / spread.std())
            model.stop[2].bias.sub_(3 * spread.mean() / spread.std())
        out, chances = model(images(100)), model.stop_logits(hidden).sigmoid()
        assert out.active[:, 1:].equal((chances <= certainty).cumprod(1).bool())
        steps.append(out.active.sum().item())
    assert steps == sorted(steps)
    assert len(set(steps)) == 4
    with pytest.raises(ConfigError, match=r"certainty: got 1.0; expected between 0 and 1"):
        DTRAM(DTRAMConfig(TINY, certainty=1.0))


def test_stops_are_a_distribution() -> None:
    logits = torch.randn(20, 5)
    found = stop_probabilities(logits)
    torch.testing.assert_close(found.sum(1), torch.ones(20))
    p = logits.sigmoid()
    torch.testing.assert_close(found[:, 2], (1 - p[:, 0]) * (1 - p[:, 1]) * p[:, 2])


def test_log_probabilities_are_those_of_the_stops() -> None:
    model = dt_ram(random=True)  # random places have no log-probability of their own
    out = model(images(200))
    walked = model.ram.replay(images(200), where=out.where)
    chances = stop_probabilities(model.stop_logits(walked.hidden[:, :-1]))
    last = out.active.sum(1, keepdim=True) - 1
    assert set(last.flatten().tolist()) == {0, 1, 2, 3}
    torch.testing.assert_close(
        out.log_probability.sum(1), chances.gather(1, last).log().squeeze(1), atol=1e-4, rtol=1e-4
    )
    frequencies = last.flatten().bincount() / 200
    torch.testing.assert_close(frequencies, chances.mean(0).detach(), atol=0.12, rtol=0)


def test_nothing_counts_after_the_stop() -> None:
    out = dt_ram()(images(100))
    taken = out.active.sum(1)
    assert 1 < taken.float().mean() < 4
    for row, steps in enumerate(taken.tolist()):
        assert out.drawn[row].tolist() == [False] + [True] * min(steps, 3) + [False] * max(0, 3 - steps)
        assert not out.log_probability[row, steps + 1 :].any()
        torch.testing.assert_close(out.logits[row, 0], out.logits_per_glimpse[row, steps - 1])
    stopped = taken < 4
    ends = out.log_probability[stopped].gather(1, taken[stopped].unsqueeze(1))
    assert (ends < 0).all()  # a stop is a choice; a density of places may be above one


def test_the_last_stop_is_no_choice() -> None:
    out = dt_ram(-1e6)(images())
    located = dt_ram(-1e6).ram.replay(images(), where=out.where)
    assert out.active.all()
    torch.testing.assert_close(out.entropy, torch.zeros(3, 4), atol=1e-3, rtol=0)
    difference = out.log_probability - located.log_probability
    assert difference.abs().max() < 1e-2  # log p(go on) is nearly 0, and there are three of them


def test_classification_does_not_train_the_decision() -> None:
    model = dt_ram()
    out = model(images())
    (out.logits.logsumexp(-1).sum() + out.logits_per_glimpse.logsumexp(-1).sum()).backward()
    assert all(parameter.grad is None for parameter in model.stop.parameters())
    assert all(parameter.grad is None for parameter in model.ram.location.parameters())
    model.zero_grad()
    model(images(50)).log_probability.sum().backward()
    assert model.stop[0].weight.grad.abs().sum() > 0
    assert model.ram.location.layers[0].weight.grad.abs().sum() > 0
    assert all(parameter.grad is None for parameter in model.ram.core.parameters())


def test_logits_are_limited() -> None:
    model = dt_ram(1e6)
    assert model.stop_logits(torch.zeros(1, 2, 8)).tolist() == [[10.0, 10.0]]


def test_frozen() -> None:
    free = {
        name for name, parameter in dt_ram(frozen=True, start="learned").named_parameters() if parameter.requires_grad
    }
    assert free == {
        "ram.baseline.weight", "ram.baseline.bias", "stop.0.weight", "stop.0.bias", "stop.2.weight", "stop.2.bias"
    }  # fmt: skip


def test_frozen_beside_weights_in_bfloat16() -> None:
    """What learns computes in bfloat16 then, and what does not in float32."""
    model = dt_ram(frozen=True, core="lstm")
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.bfloat16()
    out = model(images())
    (out.log_probability.sum() + out.baseline.sum()).backward()
    assert model.stop[0].weight.grad is not None
    assert model.ram.baseline.weight.grad.dtype == torch.bfloat16
    assert out.logits.dtype == torch.float32


def test_it_stops_at_once_where_only_the_first_step_is_rewarded() -> None:
    model = dt_ram()
    optimiser = torch.optim.Adam(model.stop.parameters(), lr=0.1)
    for _ in range(15):
        out = model(images(32))
        reward = (out.active.sum(1) == 1).float().unsqueeze(1)
        optimiser.zero_grad()
        (-(reward - reward.mean()) * out.log_probability).sum(1).mean().backward()
        optimiser.step()
    assert model.eval()(images(32)).active.sum(1).eq(1).all()


def test_still_looking() -> None:
    stops = torch.tensor([[True, False, True], [False, False, True]])
    assert still_looking(stops).int().tolist() == [[1, 0, 0, 0], [1, 1, 1, 0]]


def test_a_trace_sees_where_it_looked_and_when_it_stopped() -> None:
    model = dt_ram()
    with trace(model) as seen:
        out = model(images(20), sample=True)
    assert list(seen) == ["dtram"]  # one path, not that of the RAM inside as well
    assert torch.equal(torch.from_numpy(seen["dtram"].places), out.where)
    assert torch.equal(torch.from_numpy(seen["dtram"].active), out.active)
    taken = out.active.sum(1).tolist()
    assert len(set(taken)) > 1
    assert [len(seen["dtram"].item(number).places) for number in range(20)] == taken
