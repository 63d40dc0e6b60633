"""LSTMN: the equations by hand, an ordinary LSTM as its limit, and what its tapes must not do."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.align import ALIGNS
from regard.attention import trace
from regard.models import LSTMN, LSTMNConfig, LSTMNLanguageModel
from regard.score import SCORES, Projected


class OnlyTheLast(nn.Module):
    """All weight on the latest cell."""

    def forward(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        weights = torch.zeros_like(scores)
        weights[..., -1:] = 1
        return weights


def layer(input_dim: int = 5, hidden_dim: int = 4, **options: Any) -> LSTMN:
    torch.manual_seed(0)
    return LSTMN(input_dim, hidden_dim, **options).double()


def words(*shape: int) -> Tensor:
    torch.manual_seed(1)
    return torch.randn(*shape, dtype=torch.float64)


def by_hand(model: LSTMN, x: Tensor) -> tuple[Tensor, Tensor]:
    """Equations (4) to (9), one sentence and one step after the other, with all cells in lists."""
    score: Any = model.attention.score
    of_x, of_summary = score.to_query.weight.split([model.input_dim, model.hidden_dim], 1)
    hidden_tape, memory_tape = [], []
    for sentence in x:
        hs, cs, summary = [], [], torch.zeros(model.hidden_dim, dtype=x.dtype)
        for word in sentence:
            recalled = torch.zeros(model.hidden_dim, dtype=x.dtype)
            before, summary = summary, torch.zeros(model.hidden_dim, dtype=x.dtype)
            if hs:
                scores = [
                    score.v @ torch.tanh(score.to_keys.weight @ h + of_x @ word + of_summary @ before) for h in hs
                ]
                weights = torch.stack(scores).softmax(0)
                summary = sum(w * h for w, h in zip(weights, hs, strict=True))  # type: ignore[assignment]
                recalled = sum(w * c for w, c in zip(weights, cs, strict=True))  # type: ignore[assignment]
            into, keep, new, out = (model.to_gates.weight @ torch.cat([word, summary]) + model.to_gates.bias).chunk(4)
            cs.append(torch.sigmoid(keep) * recalled + torch.sigmoid(into) * torch.tanh(new))
            hs.append(torch.sigmoid(out) * torch.tanh(cs[-1]))
        hidden_tape.append(torch.stack(hs))
        memory_tape.append(torch.stack(cs))
    return torch.stack(hidden_tape), torch.stack(memory_tape)


def test_the_equations() -> None:
    model, x = layer(align_dim=3), words(3, 7, 5)
    hidden, memory, _ = model(x)
    expected = by_hand(model, x)
    torch.testing.assert_close(hidden, expected[0], rtol=0, atol=1e-12)
    torch.testing.assert_close(memory, expected[1], rtol=0, atol=1e-12)
    target = torch.randn_like(hidden)
    parameters = list(model.parameters())
    ours = torch.autograd.grad((hidden * target).sum(), parameters)
    plain = torch.autograd.grad((expected[0] * target).sum(), parameters)
    for one, other in zip(ours, plain, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)


def test_with_all_weight_on_the_latest_cell_it_is_an_lstm() -> None:
    model, x = layer(), words(3, 9, 5)
    model.attention.align = OnlyTheLast()
    lstm = nn.LSTM(5, 4, batch_first=True).double()
    with torch.no_grad():
        lstm.weight_ih_l0.copy_(model.to_gates.weight[:, :5])
        lstm.weight_hh_l0.copy_(model.to_gates.weight[:, 5:])
        lstm.bias_ih_l0.copy_(model.to_gates.bias)
        lstm.bias_hh_l0.zero_()
    expected, (_, memory) = lstm(x)
    found = model(x)
    torch.testing.assert_close(found.hidden, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(found.memory[:, -1], memory[0], rtol=0, atol=1e-12)
    assert not torch.allclose(layer()(x).hidden, expected)


def test_gradients() -> None:
    model = layer(2, 2, tape=3)
    x = words(2, 4, 2).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: model(x)[:2], x)
    cells = model(words(2, 3, 2)).cells
    start = [tensor.detach().requires_grad_() for tensor in (cells.hidden, cells.memory, cells.summary)]

    def continued(x: Tensor, hidden: Tensor, memory: Tensor, summary: Tensor) -> Tensor:
        return model(x, cells._replace(hidden=hidden, memory=memory, summary=summary)).hidden

    assert torch.autograd.gradcheck(continued, (x, *start))


def test_permuting_the_tapes_together_changes_nothing() -> None:
    model, x = layer(tape=6), words(2, 1, 5)
    cells = model(words(2, 6, 5)).cells
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    together = cells._replace(hidden=cells.hidden[:, order], memory=cells.memory[:, order])
    apart = cells._replace(hidden=cells.hidden[:, order])
    expected = model(x, cells).hidden
    torch.testing.assert_close(model(x, together).hidden, expected)
    assert not torch.allclose(model(x, apart).hidden, expected)


def test_later_words_do_not_change_earlier_ones() -> None:
    model, x = layer(), words(2, 8, 5)
    other = x.clone()
    other[:, 5:] += 1
    torch.testing.assert_close(model(other).hidden[:, :5], model(x).hidden[:, :5], rtol=0, atol=0)
    assert not torch.allclose(model(other).hidden[:, 5:], model(x).hidden[:, 5:])


@pytest.mark.parametrize("tape", [3, 20])
@pytest.mark.parametrize("score", ["additive", "cosine"])
def test_stretches_of_text_with_cells_handed_on(tape: int, score: str) -> None:
    model, x = layer(tape=tape, score=score), words(2, 9, 5)
    expected, cells, parts = model(x), model.initial_cells(2), []
    for start, end in ((0, 1), (1, 5), (5, 9)):
        hidden, _, cells = model(x[:, start:end], cells)
        parts.append(hidden)
    torch.testing.assert_close(torch.cat(parts, 1), expected.hidden, rtol=0, atol=1e-12)
    for one, other in zip(cells, expected.cells, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)
        assert one.shape[0] == 2
    assert cells.hidden.shape == (2, tape, 4)


def test_padding_and_neighbours_change_nothing() -> None:
    model, x, lengths = layer(), words(3, 6, 5), torch.tensor([6, 2, 0])
    padded = model(torch.cat([x, 9 * torch.ones(3, 3, 5, dtype=x.dtype)], 1), lengths=lengths)
    assert (padded.hidden[1, 2:] == 0).all()
    assert (padded.memory[2] == 0).all()
    for row, length in enumerate(lengths.tolist()):
        alone = model(x[row : row + 1, :length])
        torch.testing.assert_close(padded.hidden[row, :length], alone.hidden[0], rtol=0, atol=1e-12)
        more = words(1, 3, 5)
        after = model(more, type(padded.cells)(*(part[row : row + 1] for part in padded.cells))).hidden
        torch.testing.assert_close(after, model(more, alone.cells).hidden, rtol=0, atol=1e-12)


def test_a_short_tape_forgets() -> None:
    model, x = layer(tape=2), words(1, 6, 5)
    with trace(model) as seen:
        traced = model(x).hidden
    torch.testing.assert_close(traced, model(x).hidden, rtol=0, atol=1e-12)
    weights = torch.from_numpy(seen["attention"].weights)[0]
    assert weights.shape == (6, 5)
    assert (weights[0] == 0).all()  # nothing to attend to
    torch.testing.assert_close(weights[1:].sum(1), torch.ones(5, dtype=weights.dtype))
    rows, columns = torch.meshgrid(torch.arange(6), torch.arange(5), indexing="ij")
    assert ((weights > 0) == ((columns < rows) & (columns >= rows - 2))).all()


@pytest.mark.parametrize("score", [name for name in SCORES if SCORES[name] is not Projected])
@pytest.mark.parametrize("align", ALIGNS)
def test_any_score_and_any_alignment(score: str, align: str) -> None:
    torch.manual_seed(0)
    model = LSTMN(5, 4, score=score, align=align, tape=3)
    x = words(2, 6, 5).float()
    hidden = model(x).hidden
    hidden.sum().backward()
    assert torch.isfinite(hidden).all()
    assert model.to_gates.weight.grad is not None
    placed = {"location", "location_aware", "local_monotonic", "local_predictive", "monotonic", "shift"}
    if align != "hard" and not {score, align} & placed:  # the first draws, the others count places on the tape
        cells = model(x[:, :2], model.initial_cells(2)).cells
        torch.testing.assert_close(model(x[:, 2:], cells).hidden, hidden[:, 2:], rtol=1e-4, atol=1e-5)


# ── the language model ──────────────────────────────────────────────────────────────────────────────────────────────


def test_layers_read_the_embedding_too() -> None:
    torch.manual_seed(0)
    config = LSTMNConfig(11, embed_dim=6, hidden_dim=4, align_dim=3, layers=3)
    model = LSTMNLanguageModel(config).double()
    assert [each.input_dim for each in model._layers()] == [6, 10, 10]
    tokens = torch.randint(4, 11, (2, 8))
    logits, state = model(tokens, None)
    assert len(state) == 3
    with trace(model) as seen:
        model(tokens, None)
    assert list(seen) == [f"layers.{number}.attention" for number in range(3)]
    first, middle = model(tokens[:, :3], model.initial_state(2))
    second, _ = model(tokens[:, 3:], middle)
    torch.testing.assert_close(torch.cat([first, second], 1), logits, rtol=0, atol=1e-12)


def test_parameters_of_the_papers_size() -> None:
    """W (7) with one bias, W_h, W_x, W_h̃ and v (4); the embedding, and an output with bias."""
    with torch.device("meta"):
        model = LSTMNLanguageModel(LSTMNConfig(10_000))
    d = 300
    layers = 4 * d * 2 * d + 4 * d + 3 * d * d + d
    assert sum(each.numel() for each in model.parameters()) == layers + 10_000 * d + (d + 1) * 10_000


def test_it_learns_to_recall_the_first_token() -> None:
    """The last token repeats the first: a uniform guess among eight has log 8 nats."""
    torch.manual_seed(0)
    model = LSTMNLanguageModel(LSTMNConfig(12, embed_dim=16, hidden_dim=16, align_dim=16))
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(110):
        tokens = torch.randint(4, 12, (32, 6))
        loss = nn.functional.cross_entropy(model(tokens, None).logits[:, -1], tokens[:, 0])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert loss.item() < math.log(8) / 4
