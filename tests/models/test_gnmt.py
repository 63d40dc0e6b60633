import pytest
import torch

from regard.base import ConfigError
from regard.models import GNMT, GNMTConfig, gnmt_base

SMALL = {"embed_dim": 6, "hidden_dim": 8, "align_dim": 7, "encoder_layers": 4, "decoder_layers": 4}


def small(**settings: object) -> GNMT:
    model = GNMT(GNMTConfig(11, 9, **(SMALL | settings))).double().eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return model


def batch() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return torch.randint(4, 11, (2, 6)), torch.tensor([6, 4]), torch.randint(4, 9, (2, 5))


def silence(layer: torch.nn.Module) -> None:
    for parameter in layer.parameters():  # all gates one half, candidate 0: the layer says 0 whatever it hears
        torch.nn.init.zeros_(parameter)


def test_widths_of_the_paper() -> None:
    with torch.device("meta"):
        model = GNMT(gnmt_base(32_000, 32_000))
    assert len(model.encoder) == len(model.upper) == 7
    assert model.encoder[0].weight_ih_l0.shape == (4096, 2048)  # both directions of the first layer
    assert model.encoder[1].weight_ih_l0.shape == (4096, 1024)
    assert all(layer.weight_ih_l0.shape == (4096, 2048) for layer in model.upper)  # the layer below, and the context
    assert model.bottom.weight_ih.shape == (4096, 2048)
    words, attention, softmax = 2 * 32_000 * 1024, 2 * 1024 * 1024 + 1024, 32_000 * 1025
    narrow, wide = 4096 * 2048 + 8192, 4096 * 3072 + 8192
    assert sum(p.numel() for p in model.parameters()) == words + 8 * narrow + 9 * wide + attention + softmax


def test_published_start() -> None:
    model = GNMT(GNMTConfig(11, 9, **SMALL))
    assert all(parameter.abs().max() <= 0.04 for parameter in model.parameters())
    assert model.bottom.weight_hh.abs().max() > 0.03
    other = GNMT(GNMTConfig(11, 9, **SMALL, published_start=False))
    assert other.bottom.weight_hh.abs().max() > 0.04


def test_state_gain_raises_what_layers_above_the_first_read() -> None:
    models = []
    for gain in (1.0, 8.0):
        torch.manual_seed(0)
        models.append(GNMT(GNMTConfig(11, 9, **SMALL, published_start=False, state_gain=gain)))
    for (name, plain), raised in zip(models[0].named_parameters(), models[1].parameters(), strict=True):
        is_above = name.startswith(("encoder.", "upper.")) and "weight_ih" in name
        assert torch.equal(raised, 8 * plain if is_above else plain), name


def test_weights_depend_on_the_bottom_layer_of_the_word_before_alone() -> None:
    model, (source, lengths, inputs) = small(), batch()
    state = model.step(inputs[:, 0], model.init_state(model.encode(source, lengths))).state
    weights = model.step(inputs[:, 1], state).weights
    noisy = tuple(type(s)(torch.randn_like(s.hidden), torch.randn_like(s.cell)) for s in state.upper)
    bottom = state.bottom._replace(cell=torch.randn_like(state.bottom.cell))
    other = model.step(inputs[:, 2], state._replace(upper=noisy, bottom=bottom))  # another word, too
    assert torch.equal(other.weights, weights)
    bottom = state.bottom._replace(hidden=torch.randn_like(state.bottom.hidden))
    assert not torch.allclose(model.step(inputs[:, 1], state._replace(bottom=bottom)).weights, weights)


def test_silent_layers_with_residuals_pass_on_what_they_hear() -> None:
    model, (source, lengths, inputs) = small(), batch()
    shallow = small(encoder_layers=2, decoder_layers=2)
    shallow.load_state_dict({name: value for name, value in model.state_dict().items() if name in shallow.state_dict()})
    for layer in (*model.encoder[1:], *model.upper[1:]):  # the third layer and the fourth
        silence(layer)
    torch.testing.assert_close(model.encode(source, lengths).values, shallow.encode(source, lengths).values)
    torch.testing.assert_close(model(source, lengths, inputs).logits, shallow(source, lengths, inputs).logits)
    plain = small(residual_from=5)
    silence(plain.upper[-1])
    assert (plain(source, lengths, inputs).logits == plain.to_logits.bias).all()  # without residuals nothing passes


@pytest.mark.parametrize("first", [3, 4, 5])
def test_residuals_begin_where_told(first: int) -> None:
    model, (source, lengths, _) = small(residual_from=first), batch()
    for layer in model.encoder:
        silence(layer)
    silence(model.first)
    bias = model.encoder[1].bias_ih_l0.data  # layer 3 says something; layer 4 hands it on if it has a residual
    bias.normal_()
    values = model.encode(source, lengths).values
    assert bool((values == 0).all()) == (first == 5)


def test_every_layer_above_gets_the_context() -> None:
    model, (source, lengths, _) = small(), batch()
    state = model.init_state(model.encode(source, lengths))
    x = torch.randn(2, 1, 8, dtype=torch.float64)
    here, there = (torch.randn(2, 1, 8, dtype=torch.float64) for _ in range(2))
    for number in range(3):
        alone = small()
        alone.load_state_dict(model.state_dict())
        for other, layer in enumerate(alone.upper):
            if other != number:
                layer.weight_ih_l0.data[:, 8:] = 0  # deaf to the context
        first, second = (alone._rise(x, context, state.upper)[0] for context in (here, there))
        assert not torch.allclose(first, second)
    for layer in model.upper:
        layer.weight_ih_l0.data[:, 8:] = 0
    first, second = (model._rise(x, context, state.upper)[0] for context in (here, there))
    assert torch.equal(first, second)  # residuals do not carry it


def test_one_step_by_the_equations() -> None:
    model, (source, lengths, inputs) = small(decoder_layers=3), batch()
    memory = model.encode(source, lengths)
    state = model.step(inputs[:, 0], model.init_state(memory)).state
    score, query = model.attention.score, state.bottom.hidden
    energies = torch.tanh(score.to_query(query).unsqueeze(1) + score.to_keys(memory.values)) @ score.v
    weights = energies.masked_fill(torch.arange(6) >= lengths.unsqueeze(1), -torch.inf).softmax(-1)
    context = torch.einsum("bk,bkd->bd", weights, memory.values)
    x, _ = model.bottom(torch.cat([model.target(inputs[:, 1]), context], -1), tuple(state.bottom))
    for number, (layer, before) in enumerate(zip(model.upper, state.upper, strict=True), start=2):
        cell = torch.nn.LSTMCell(16, 8).double()
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
            getattr(cell, name).data.copy_(getattr(layer, f"{name}_l0"))
        output, _ = cell(torch.cat([x, context], -1), (before.hidden[:, 0], before.cell[:, 0]))
        x = output + x if number == 3 else output
    step = model.step(inputs[:, 1], state)
    torch.testing.assert_close(step.weights, weights)
    torch.testing.assert_close(step.logits, model.to_logits(x))


def test_eight_layers_run() -> None:
    model, (source, lengths, inputs) = small(encoder_layers=8, decoder_layers=8), batch()
    assert torch.isfinite(model(source, lengths, inputs).logits).all()


def test_the_encoder_does_not_ask_the_host() -> None:
    model, (source, lengths, _) = small().to("meta"), batch()
    assert model.encode(source.to("meta"), lengths.to("meta")).values.shape == (2, 6, 8)


@pytest.mark.parametrize(("settings", "text"), [
    ({"residual_from": 2}, "residual_from: got 2; expected 3 or more"),
    ({"encoder_layers": 0}, "encoder_layers: got 0; expected 1 or more"),
    ({"decoder_layers": 0}, "decoder_layers: got 0; expected 1 or more"),
])  # fmt: skip
def test_bad_settings(settings: dict[str, object], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        small(**settings)


@pytest.mark.slow
def test_learns_to_copy() -> None:
    torch.manual_seed(0)
    sizes = {"embed_dim": 16, "hidden_dim": 32, "align_dim": 16, "encoder_layers": 3, "decoder_layers": 3}
    model = GNMT(GNMTConfig(14, 14, **sizes, dropout=0.0, published_start=False))
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(110):
        words = torch.randint(4, 14, (32, 3))
        inputs = torch.cat([torch.ones(32, 1, dtype=torch.long), words[:, :-1]], 1)
        logits = model(words, torch.full((32,), 3), inputs).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), words.flatten())
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
    assert loss < 0.2
