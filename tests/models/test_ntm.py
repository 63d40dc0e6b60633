"""The neural Turing machine: its equations by hand, steps beside the whole pass, and what its heads do."""

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention import trace
from regard.base import ConfigError
from regard.models import NTM, NTMLSTM, NTMConfig, NTMLSTMConfig, ntm_feed_forward, ntm_lstm
from regard.models.ntm import write

SMALL: dict[str, Any] = {"inputs": 5, "outputs": 4, "hidden_dim": 7, "slots": 6, "slot_dim": 3}
CASES: dict[str, dict[str, Any]] = {
    "lstm": {},
    "two layers": {"layers": 2, "memory": "random"},
    "feed-forward": {"controller": "feed_forward", "memory": "learned"},
    "many heads": {"read_heads": 2, "write_heads": 3, "reach": 2},
    "other mechanism": {"score": "general", "align": "sparsemax"},
}
every_case = pytest.mark.parametrize("case", CASES)


def small(case: str = "lstm") -> NTM:
    torch.manual_seed(0)
    return NTM(NTMConfig(**{**SMALL, **CASES[case]})).double()


def bits(batch: int = 3, steps: int = 8) -> Tensor:
    return (torch.rand(batch, steps, 5) < 0.5).double()


def plain_step(model: NTM, x: Tensor, state: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
    """One step of one sequence as the paper writes it, head after head and slot after slot."""
    config = model.config
    slots, width = config.slots, config.slot_dim
    hidden = torch.tanh(F.linear(torch.cat([x, state["reads"]]), model.controller.weight, model.controller.bias))
    emitted = F.linear(hidden, model.to_heads.weight, model.to_heads.bias).tolist()
    each = width + 5 + (2 * config.reach + 1 - 3) + 1
    weights = []
    for head in range(config.read_heads + config.write_heads):
        numbers = torch.tensor(emitted[head * each : (head + 1) * each], dtype=torch.float64)
        key, strength, gate = numbers[:width].tanh(), F.softplus(numbers[width]), torch.sigmoid(numbers[width + 1])
        shift, sharpness = numbers[width + 2 : -1].softmax(0), 1 + F.softplus(numbers[-1])
        likeness = torch.stack([key @ slot / (key.norm() * slot.norm()) for slot in state["memory"]])
        mixed = gate * (strength * likeness).softmax(0) + (1 - gate) * state["weights"][head]
        moved = torch.stack(
            [
                sum(shift[o + config.reach] * mixed[(i - o) % slots] for o in range(-config.reach, config.reach + 1))
                for i in range(slots)
            ]
        )
        weights.append(moved**sharpness / (moved**sharpness).sum())
    reads = torch.cat([weights[head] @ state["memory"] for head in range(config.read_heads)])
    rest = torch.tensor(emitted[each * len(weights) :], dtype=torch.float64)
    erases, adds = (part.reshape(config.write_heads, width) for part in rest.chunk(2))
    memory = state["memory"]
    for number in range(config.write_heads):
        memory = memory * (1 - torch.outer(weights[config.read_heads + number], torch.sigmoid(erases[number])))
    for number in range(config.write_heads):
        memory = memory + torch.outer(weights[config.read_heads + number], torch.tanh(adds[number]))
    output = F.linear(torch.cat([hidden, reads]), model.to_output.weight, model.to_output.bias)
    return output, {"memory": memory, "weights": torch.stack(weights), "reads": reads}


@pytest.mark.parametrize("heads", [{}, {"read_heads": 2, "write_heads": 2, "reach": 2}], ids=["one", "more"])
def test_equals_the_equations(heads: dict[str, int]) -> None:
    torch.manual_seed(0)
    model = NTM(NTMConfig(**SMALL, controller="feed_forward", memory="learned", **heads)).double()
    inputs = bits(1)
    with torch.no_grad():
        start = model.init_state(1)
        state = {"memory": start.memory[0], "weights": start.weights[0], "reads": start.reads[0]}
        expected = []
        for x in inputs[0]:
            output, state = plain_step(model, x, state)
            expected.append(output)
        torch.testing.assert_close(model(inputs).logits[0], torch.stack(expected))


@every_case
def test_steps_equal_the_whole_pass_with_gradients(case: str) -> None:
    model, inputs = small(case), bits()
    whole = model(inputs)
    of_whole = torch.autograd.grad(whole.logits.square().sum(), list(model.parameters()), allow_unused=True)
    state, logits = model.init_state(3), []
    for x in inputs.unbind(1):
        out, state = model.step(x, state)
        logits.append(out)
    stepped = torch.stack(logits, 1)
    torch.testing.assert_close(stepped, whole.logits)
    torch.testing.assert_close(whole.reads[:, -1], state.reads)
    of_steps = torch.autograd.grad(stepped.square().sum(), list(model.parameters()), allow_unused=True)
    for one, other in zip(of_whole, of_steps, strict=True):
        assert (one is None) == (other is None)
        assert one is None or torch.allclose(one, other)


@every_case
def test_batch_and_padding_change_nothing(case: str) -> None:
    model, inputs = small(case), bits()
    whole = model(inputs).logits
    torch.testing.assert_close(model(inputs[1:2]).logits, whole[1:2])
    longer = torch.cat([inputs, torch.ones(3, 4, 5, dtype=torch.float64)], 1)
    torch.testing.assert_close(model(longer).logits[:, :8], whole)


@every_case
def test_a_trace_sees_all_heads_at_all_steps(case: str) -> None:
    model, config = small(case), small(case).config
    with trace(model) as seen, torch.no_grad():
        out = model(bits())
    heads = config.read_heads + config.write_heads
    assert list(seen) == ["attention"]
    weights = torch.from_numpy(seen["attention"].weights)
    assert weights.shape == (3, heads, 8, config.slots)
    torch.testing.assert_close(weights.sum(-1), torch.ones(3, heads, 8, dtype=weights.dtype))
    assert out.adds.shape == (3, 8, config.write_heads * config.slot_dim)


def test_writing_with_full_force_sets_a_row_and_leaves_the_others() -> None:
    memory, row = torch.randn(2, 5, 3), torch.randn(2, 1, 3)
    one_hot = F.one_hot(torch.tensor([[1], [4]]), 5).float()
    written = write(memory, one_hot, torch.ones(2, 1, 3), row)
    for batch, place in enumerate((1, 4)):
        assert torch.equal(written[batch, place], row[batch, 0])
        others = [number for number in range(5) if number != place]
        assert torch.equal(written[batch, others], memory[batch, others])
    torch.testing.assert_close(one_hot @ written, row)


def test_all_heads_erase_before_any_adds() -> None:
    memory, weights = torch.ones(1, 2, 2), torch.tensor([[[1.0, 0.0], [1.0, 0.0]]])
    erase, add = torch.tensor([[[0.0, 0.0], [1.0, 1.0]]]), torch.tensor([[[5.0, 6.0], [1.0, 1.0]]])
    assert write(memory, weights, erase, add).tolist() == [[[6.0, 7.0], [1.0, 1.0]]]


def test_every_sequence_starts_anew() -> None:
    model, inputs = small(), bits()
    torch.testing.assert_close(model(inputs).logits, model(inputs).logits, rtol=0, atol=0)
    assert dict(model.named_buffers())["first_memory"].unique().numel() == 1


@pytest.mark.parametrize("memory", ["constant", "learned", "random"])
def test_everything_learns_from_every_kind_of_start(memory: str) -> None:
    torch.manual_seed(0)
    model = NTM(NTMConfig(**SMALL, memory=memory))
    model(bits().float()).logits.square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.abs().sum() > 0, name
    assert ("first_memory" in dict(model.named_parameters())) == (memory == "learned")


def test_extreme_emissions_stay_finite() -> None:
    model = NTM(NTMConfig(**SMALL))
    with torch.no_grad():
        model.to_heads.weight.mul_(1000)
    out = model(bits(steps=20).float())
    out.logits.sum().backward()
    assert out.logits.isfinite().all()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


def test_the_plain_lstm_has_the_same_interface() -> None:
    torch.manual_seed(0)
    model = NTMLSTM(NTMLSTMConfig(inputs=5, outputs=4, hidden_dim=6, layers=2)).double()
    inputs = bits()
    whole, state = model(inputs).logits, model.init_state(3)
    for number, x in enumerate(inputs.unbind(1)):
        out, state = model.step(x, state)
        torch.testing.assert_close(out, whole[:, number])
    longer = torch.cat([inputs, torch.ones(3, 4, 5, dtype=torch.float64)], 1)
    torch.testing.assert_close(model(longer).logits[:, :8], whole)
    reference, _ = torch.nn.LSTM.forward(
        model.layers, inputs, tuple(each.transpose(0, 1).contiguous() for each in model.init_state(3))
    )
    torch.testing.assert_close(F.linear(reference, model.to_output.weight, model.to_output.bias), whole)


def test_sizes() -> None:
    """Ours for the copy task; the paper counts 17,162, 67,561 and 1,352,969 with other biases and starts."""

    def count(model: torch.nn.Module) -> int:
        return sum(parameter.numel() for parameter in model.parameters())

    heads = (100 + 1) * (2 * (20 + 6) + 40) + 2 * 128 + 20 + (120 + 1) * 8
    assert count(NTM(ntm_feed_forward())) == (29 + 1) * 100 + heads
    assert count(NTM(ntm_lstm())) == 400 * (29 + 100 + 2) + 200 + heads
    layers = 4 * 256 * ((9 + 256 + 2) + 2 * (2 * 256 + 2))
    assert count(NTMLSTM(NTMLSTMConfig())) == layers + 2 * 3 * 256 + 257 * 8


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ConfigError, match="unknown score"):
        NTM(NTMConfig(**SMALL, score="cosin"))


def test_the_focus_starts_on_the_first_slot() -> None:
    focus = NTM(NTMConfig()).init_state(1).weights
    assert focus.argmax(-1).tolist() == [[0, 0]]
    assert focus[0, 0, 0].item() == pytest.approx(1 / (1 + 127 / (128 * math.exp(4))), abs=1e-4)
