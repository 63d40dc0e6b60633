import pytest
import torch

from regard.models import Bahdanau, BahdanauConfig, bahdanau_base

SMALL = {"embed_dim": 6, "hidden_dim": 8, "align_dim": 7, "maxout_dim": 5}


def test_published_start() -> None:
    model = Bahdanau(BahdanauConfig(11, 9, embed_dim=64, hidden_dim=64, align_dim=64, maxout_dim=32))
    recurrent = model.cell.weight_hh[:64]
    torch.testing.assert_close(recurrent @ recurrent.T, torch.eye(64))
    assert model.target.weight.std().item() == pytest.approx(0.01, rel=0.1)
    assert model.attention.score.to_keys.weight.std().item() == pytest.approx(0.001, rel=0.1)
    assert model.attention.score.v.abs().max() > 0
    assert (model.cell.bias_hh == 0).all()


def small(**settings: str) -> Bahdanau:
    return Bahdanau(BahdanauConfig(11, 9, **SMALL, **settings)).double().eval()


def batch() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return torch.randint(4, 11, (2, 6)), torch.tensor([6, 4]), torch.randint(4, 9, (2, 5))


def test_size_of_the_paper() -> None:
    """80,401,000 parameters without biases at 30,000 words each side."""
    with torch.device("meta"):
        model = Bahdanau(bahdanau_base(30_000, 30_000))
    assert sum(p.numel() for name, p in model.named_parameters() if "bias" not in name) == 80_401_000


def test_weights_are_a_distribution_over_real_words() -> None:
    source, lengths, inputs = batch()
    weights = small()(source, lengths, inputs, need_weights=True).weights
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 5, dtype=torch.float64))
    assert (weights[1, :, 4:] == 0).all()


def test_attention_does_not_see_the_order_of_annotations() -> None:
    model = small()
    source, lengths, inputs = torch.randint(4, 11, (1, 6)), torch.tensor([6]), torch.randint(4, 9, (1,))
    memory = model.encode(source, lengths)
    order = torch.randperm(6)
    mixed = memory._replace(values=memory.values[:, order])
    plain, other = (model.step(inputs, model.init_state(m)) for m in (memory, mixed))
    torch.testing.assert_close(other.logits, plain.logits)
    torch.testing.assert_close(other.weights, plain.weights[:, order])


def test_first_state_comes_from_the_first_backward_state() -> None:
    model = small()
    source, lengths, _ = batch()
    memory = model.encode(source, lengths)
    backward, _ = model.encoder.backwards(model.source(source[1:, :4].flip(1)))
    torch.testing.assert_close(memory.summary[1:], backward[:, -1])
    torch.testing.assert_close(model.init_state(memory).hidden, torch.tanh(model.start(memory.summary)))


def test_all_weight_on_one_annotation_is_a_decoder_fed_with_it() -> None:
    model = small()
    source, lengths, inputs = batch()
    memory = model.encode(source, lengths)
    state = model.init_state(memory)
    only = state._replace(allowed=torch.zeros_like(state.allowed))
    only.allowed[..., 2] = True
    word = model.target(inputs[:, 0])
    hidden = model.cell(torch.cat([word, memory.values[:, 2]], -1), state.hidden)
    torch.testing.assert_close(model.step(inputs[:, 0], only).state.hidden, hidden)


@pytest.mark.bare
def test_learns_to_copy_and_looks_where_it_copies() -> None:
    torch.manual_seed(1)
    sizes = {"embed_dim": 16, "hidden_dim": 32, "align_dim": 16, "maxout_dim": 16}
    model = Bahdanau(BahdanauConfig(14, 14, **sizes, published_start=False))
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(250):
        words = torch.randint(4, 14, (32, 5))
        inputs = torch.cat([torch.ones(32, 1, dtype=torch.long), words[:, :-1]], 1)
        loss = torch.nn.functional.cross_entropy(
            model(words, torch.full((32,), 5), inputs).logits.flatten(0, 1), words.flatten()
        )
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
    assert loss < 0.1
    out = model(words, torch.full((32,), 5), inputs, need_weights=True)
    away = (out.weights.argmax(-1) - torch.arange(5)).abs()  # a neighbour will do: annotations know what is beside them
    assert (away <= 1).float().mean() > 0.95
