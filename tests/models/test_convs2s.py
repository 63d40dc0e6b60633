import math

import pytest
import torch

from regard.attention import trace
from regard.base import ConfigError, ShapeError
from regard.models import ConvS2S, ConvS2SConfig, convs2s_base, convs2s_iwslt
from regard.models.convs2s import Block, scale_gradient

HALF = math.sqrt(0.5)
SMALL = {
    "embed_dim": 6, "dim": 8, "encoder_layers": 2, "decoder_layers": 2, "output_dim": 5, "max_positions": 16,
    "dropout": 0.0,
}  # fmt: skip


def small(**settings: object) -> ConvS2S:
    model = ConvS2S(ConvS2SConfig(11, 9, **(SMALL | settings))).double().eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return model


def batch() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return torch.randint(4, 11, (2, 6)), torch.tensor([6, 4]), torch.randint(4, 9, (2, 5))


def test_size_of_the_authors_models() -> None:
    with torch.device("meta"):
        model, base = ConvS2S(convs2s_iwslt(8848, 6632)), ConvS2S(convs2s_base(40_000, 40_000))
    count = sum(parameter.numel() for parameter in model.parameters())
    weights = (8848 + 6632 + 2 * 1024) * 256 + 7 * 3 * 256 * 512 + (4 + 2 * 3) * 256 * 256 + 256 * 6632
    channels = 7 * 512 + (4 + 2 * 3) * 256 + 6632  # of all layers: a length and a bias each
    assert count == weights + 2 * channels
    assert count == pytest.approx(9.6e6, rel=0.01)
    assert (len(base.encoder), len(base.decoder)) == (20, 20)
    assert base.encoder[0].linear.weight.shape == (1024, 1536)


def test_published_start() -> None:
    model = ConvS2S(ConvS2SConfig(400, 300, embed_dim=64, dim=96, output_dim=64, dropout=0.2, encoder_layers=1))
    for table in (model.source, model.target, model.source_place, model.target_place):
        assert table.weight.std().item() == pytest.approx(0.1, rel=0.05)
    expected = {
        model.source_in: 0.8 / 64, model.source_out: 1 / 96, model.encoder[0].linear: 4 * 0.8 / (3 * 96),
        model.decoder[0].to_query: 1 / 96, model.decoder[0].to_output: 1 / 64, model.to_logits: 0.8 / 64,
    }  # fmt: skip
    for layer, variance in expected.items():
        assert layer.weight.var().item() == pytest.approx(variance, rel=0.1)
        assert (layer.bias == 0).all()


def test_variance_goes_through_twenty_blocks() -> None:
    """For inputs as small as embeddings are: the gate is then near one half, which the gain of 4 makes up for."""
    torch.manual_seed(0)
    x = torch.randn(8, 40, 64) * math.sqrt(0.02)  # word and position, N(0, 0.1²) each
    start = x.var()
    for _ in range(20):
        x = (Block(64, 3)(torch.nn.functional.pad(x, (0, 0, 1, 1))) + x) * HALF
    assert 0.7 < x.var() / start < 1.4


def test_weight_normalisation_has_a_length_for_each_output() -> None:
    layer = small().encoder[0].linear
    lengths = layer.parametrizations.weight.original0
    assert lengths.shape == (16, 1)
    torch.testing.assert_close(layer.weight.norm(dim=1), lengths.abs().squeeze(1))


def test_a_block_is_a_gated_convolution() -> None:
    block, x = Block(4, 3).double(), torch.randn(2, 7, 4, dtype=torch.float64)
    kernel = block.linear.weight.unflatten(1, (3, 4)).mT  # [2d d k]
    value, gate = torch.nn.functional.conv1d(x.mT, kernel, block.linear.bias).mT.chunk(2, -1)
    torch.testing.assert_close(block(x), value * torch.sigmoid(gate))


def test_forward_is_the_same_and_gradients_are_scaled() -> None:
    x = torch.randn(50) * 1e3
    assert torch.equal(scale_gradient(x, 0.3), x)
    model, (source, lengths, _) = small(decoder_layers=3), batch()
    memory = model.encode(source, lengths)
    keys, values = torch.randn_like(memory.summary), torch.randn_like(memory.values)
    parts = (model.source_out.bias, model.source.weight)
    ours = torch.autograd.grad((memory.summary * keys).sum() + (memory.values * values).sum(), parts)
    real = (torch.arange(6) < lengths.unsqueeze(1)).unsqueeze(-1)
    into_z = ((keys + values * HALF) * real).sum((0, 1))
    torch.testing.assert_close(ours[0], into_z / (2 * 3))  # 1 / (2 L)
    direct = torch.zeros_like(model.source.weight).index_add(0, source.flatten(), (values * HALF).flatten(0, 1))
    model.source_out.parametrizations.weight.original0.data.zero_()  # closes the way through the convolutions
    again = model.encode(source, lengths)
    (alone,) = torch.autograd.grad((again.values * values).sum(), [model.source.weight])
    torch.testing.assert_close(alone, direct)  # the embeddings' own way is not scaled


def test_receptive_fields() -> None:
    model = small(encoder_layers=3, decoder_layers=2)
    source, lengths = torch.randint(4, 11, (1, 12)), torch.tensor([12])
    changed = source.clone()
    changed[0, 5] = (source[0, 5] - 3) % 7 + 4
    one, other = model.encode(source, lengths), model.encode(changed, lengths)
    moved = (one.summary != other.summary).any(-1).squeeze(0)
    assert moved.nonzero().squeeze(1).tolist() == list(range(2, 9))  # L (k − 1) / 2 = 3 on either side
    inputs = torch.randint(4, 9, (1, 10))
    altered = inputs.clone()
    altered[0, 2] = (inputs[0, 2] - 3) % 5 + 4
    whole, after = model(source, lengths, inputs).logits, model(source, lengths, altered).logits
    moved = (whole != after).any(-1).squeeze(0)
    assert moved.nonzero().squeeze(1).tolist() == list(range(2, 7))  # L (k − 1) = 4, to the right only


def test_one_word_by_the_equations() -> None:
    model, (source, lengths, inputs) = small(encoder_layers=1), batch()

    def gated(block: Block, *window: torch.Tensor) -> torch.Tensor:
        value, gate = block.linear(torch.cat(window, -1)).chunk(2, -1)
        return value * torch.sigmoid(gate)

    words, real = source[1, :4], 4  # the shorter sentence, alone
    e = model.source(words) + model.source_place.weight[:real]
    x = model.source_in(e)
    around = torch.cat([torch.zeros(1, 8), x, torch.zeros(1, 8)]).double()
    x = (gated(model.encoder[0], around[:-2], around[1:-1], around[2:]) + x) * HALF
    z = model.source_out(x)
    values = (z + e) * HALF
    nothing = torch.zeros(8, dtype=torch.float64)
    g = model.target(inputs[1, 0]) + model.target_place.weight[0]
    h, looks = model.target_in(g), []
    for layer in model.decoder:
        v = gated(layer.block, nothing, nothing, h)
        d = (layer.to_query(v) + g) * HALF  # (1)
        weights = (z @ d).softmax(-1)
        context = weights @ values * math.sqrt(real)  # (2)
        h = ((layer.to_output(context) + v) * HALF + h) * HALF
        looks.append(weights)
    logits = model.to_logits(model.target_out(h))
    step = model.step(inputs[:, 0], model.init_state(model.encode(source, lengths)))
    torch.testing.assert_close(step.logits[1], logits)
    torch.testing.assert_close(step.weights[1, :4], torch.stack(looks).mean(0))
    assert (step.weights[1, 4:] == 0).all()


def test_a_trace_has_all_layers() -> None:
    model, (source, lengths, inputs) = small(), batch()
    with trace(model) as seen:
        model(source, lengths, inputs)
    assert list(seen) == ["decoder.0.attention", "decoder.1.attention"]
    state = model.init_state(model.encode(source, lengths))
    for t in range(5):
        _, state, weights = model.step(inputs[:, t], state)
        mean = sum(torch.as_tensor(record.weights[:, t]) for record in seen.values()) / 2
        torch.testing.assert_close(weights, mean)


def test_the_encoder_does_not_ask_the_host() -> None:
    model, (source, lengths, _) = small().to("meta"), batch()
    assert model.encode(source.to("meta"), lengths.to("meta")).values.shape == (2, 6, 6)


def test_sentences_beyond_the_table_of_positions_are_refused() -> None:
    model = small(max_positions=4)
    source, lengths, inputs = batch()
    with pytest.raises(ShapeError, match=r"no vector for some position: got positions 0 to 5; expected 0 to 3"):
        model.encode(source, lengths)
    state = model.init_state(model.encode(source[:, :4], lengths.clamp(max=4)))
    for t in range(4):
        state = model.step(inputs[:, t], state).state
    with pytest.raises(ShapeError, match="got positions 4 to 4; expected 0 to 3"):
        model.step(inputs[:, 4], state)


@pytest.mark.parametrize("name", ["kernel", "encoder_layers", "decoder_layers"])
def test_bad_settings(name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name}: got 0; expected 1 or more"):
        small(**{name: 0})


def test_parameters_are_saved_and_loaded() -> None:
    model, other, (source, lengths, inputs) = small(), small(), batch()
    state = model.state_dict()
    assert len({tensor.data_ptr() for tensor in state.values()}) == len(state)  # nothing shared: any format will do
    other.load_state_dict(state)
    assert torch.equal(other(source, lengths, inputs).logits, model(source, lengths, inputs).logits)


def test_learns_to_copy() -> None:
    torch.manual_seed(0)
    sizes = SMALL | {"embed_dim": 32, "dim": 32, "output_dim": 32}
    model = ConvS2S(ConvS2SConfig(14, 14, **sizes))
    optimiser = torch.optim.Adam(model.parameters(), lr=0.005)
    for _ in range(60):
        words = torch.randint(4, 14, (32, 5))
        inputs = torch.cat([torch.ones(32, 1, dtype=torch.long), words[:, :-1]], 1)
        logits = model(words, torch.full((32,), 5), inputs).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), words.flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert loss < 0.2
