import pytest
import torch

from regard.align import ALIGNS
from regard.models import Luong, LuongConfig, luong_global, luong_local_p


def small(**settings: object) -> Luong:
    sizes = {"embed_dim": 6, "hidden_dim": 8, "layers": 2, "window": 1, "max_source": 12}
    model = Luong(LuongConfig(11, 9, **(sizes | settings))).double().eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return model


def batch() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return torch.randint(4, 11, (2, 6)), torch.tensor([6, 4]), torch.randint(4, 9, (2, 5))


def test_widths_of_the_paper() -> None:
    with torch.device("meta"):
        model = Luong(luong_local_p(50_000, 50_000))
    assert model.decoder.layers.weight_ih_l0.shape == (4000, 2000)  # input feeding doubles the first layer's input
    assert model.combine.weight.shape == (1000, 2000)
    assert model.attention.score.weight.shape == (1000, 1000)
    assert model.attention.align.window == 10
    assert luong_global(9, 9).score == "dot"
    assert luong_global(9, 9).reverse_source  # as the paper's systems with attention
    assert luong_local_p(9, 9).reverse_source
    assert list(small(score="dot").attention.parameters()) == []  # nothing is learnt in the paper's dot score


def test_one_step_by_the_equations() -> None:
    model = small(score="general", layers=1)
    source, lengths, inputs = batch()
    memory = model.encode(source, lengths)
    state = model.init_state(memory)
    entry = torch.cat([model.target(inputs[:, 0]), torch.zeros(2, 8, dtype=torch.float64)], -1)
    cell = torch.nn.LSTMCell(14, 8).double()
    for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
        getattr(cell, name).data.copy_(getattr(model.decoder.layers, f"{name}_l0"))
    hidden, _ = cell(entry, (memory.summary[:, 0, 0], memory.summary[:, 1, 0]))
    energies = torch.einsum("bd,de,bke->bk", hidden, model.attention.score.weight, memory.values)
    energies = energies.masked_fill(torch.arange(6) >= lengths.unsqueeze(1), -torch.inf)
    weights = energies.softmax(-1)
    context = torch.einsum("bk,bkd->bd", weights, memory.values)
    attentional = torch.tanh(torch.cat([context, hidden], -1) @ model.combine.weight.T)
    step = model.step(inputs[:, 0], state)
    torch.testing.assert_close(step.weights, weights)
    torch.testing.assert_close(step.logits, attentional @ model.to_logits.weight.T)


@pytest.mark.parametrize("align", ALIGNS)
@pytest.mark.parametrize("score", ["dot", "general", "concat", "location"])
def test_every_variant_steps_as_it_passes(score: str, align: str) -> None:
    model, (source, lengths, inputs) = small(score=score, align=align), batch()
    whole = model(source, lengths, inputs, need_weights=True)
    state = model.init_state(model.encode(source, lengths))
    for t in range(5):
        logits, state, weights = model.step(inputs[:, t], state)
        torch.testing.assert_close(logits, whole.logits[:, t])
        torch.testing.assert_close(weights, whole.weights[:, t])


def test_local_windows() -> None:
    source, lengths, inputs = batch()
    near = small(align="local_monotonic")(source, lengths, inputs, need_weights=True).weights[0]
    assert all((near[t, [k for k in range(6) if abs(k - t) > 1]] == 0).all() for t in range(5))
    predicted = small(align="local_predictive")(source, lengths, inputs, need_weights=True).weights
    assert (predicted.sum(-1) <= 1).all()
    assert ((predicted > 0).sum(-1) <= 3).all()


def test_input_feeding_is_what_makes_steps_wait() -> None:
    source, lengths, inputs = batch()
    model = small(input_feeding=False)
    assert model.decoder.layers.input_size == 6
    state = model.init_state(model.encode(source, lengths))
    other = state._replace(fed=torch.randn_like(state.fed))
    assert torch.equal(model.step(inputs[:, 0], other).logits, model.step(inputs[:, 0], state).logits)


def test_a_reversed_source_keeps_the_order_of_its_weights() -> None:
    model = small(reverse_source=True, align="local_monotonic")
    source, lengths, _ = batch()
    memory = model.encode(source, lengths)
    backwards, _ = model.encoder.layers(model.source(source[1:, :4].flip(1)))
    torch.testing.assert_close(memory.values[1:, :4], backwards.flip(1))


def test_the_score_may_learn_at_a_rate_of_its_own() -> None:
    model = small(score="general", score_rate=0.05)
    slow = {name for name, _ in model.named_parameters() if name.startswith(tuple(model.rates))}
    assert slow == {"attention.score.weight"}
    assert set(model.rates.values()) == {0.05}


@pytest.mark.parametrize(("score_rate", "frozen"), [(1.0, True), (0.05, False)])
def test_one_update_of_adam_may_decide_every_softmax_unless_the_score_learns_slowly(
    score_rate: float, frozen: bool
) -> None:
    torch.manual_seed(0)
    model = Luong(LuongConfig(11, 9, embed_dim=8, hidden_dim=512, layers=1, published_start=False, score="general"))
    weight, hidden, keys = model.attention.score.weight, torch.rand(512) - 0.2, torch.rand(6, 512) - 0.2
    chosen = 3  # the key that this update asks for
    optimiser = torch.optim.Adam([weight], lr=1e-3 * score_rate)
    torch.log_softmax(keys @ weight.mT @ hidden, 0)[chosen].neg().backward()
    before = torch.softmax(keys @ weight.mT @ hidden, 0).max()
    optimiser.step()
    after = torch.softmax(keys @ weight.mT @ hidden, 0).max()
    assert (after > 0.99) == frozen
    assert after > before
