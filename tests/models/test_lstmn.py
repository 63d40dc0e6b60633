"""LSTMN: the equations by hand, an ordinary LSTM as its limit, and what its tapes must not do."""

import math
from typing import Any

import pytest
import torch
from table import cases
from torch import Tensor, nn

from regard.align import ALIGNS
from regard.attention import trace
from regard.base import ConfigError
from regard.models import LSTMN, LSTMNConfig, LSTMNLanguageModel
from regard.models.lstmn import Cells, SourceTapes
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
@cases("align", ALIGNS)
def test_any_score_and_any_alignment(score: str, align: str) -> None:
    torch.manual_seed(0)
    model = LSTMN(5, 4, score=score, align=align, tape=3)
    x = words(2, 4, 5).float()
    hidden = model(x).hidden
    hidden.sum().backward()
    assert torch.isfinite(hidden).all()
    assert model.to_gates.weight.grad is not None
    placed = {"location", "location_aware", "local_monotonic", "local_predictive", "monotonic", "shift"}
    if align != "hard" and not {score, align} & placed:  # the first draws, the others count places on the tape
        cells = model(x[:, :2], model.initial_cells(2)).cells
        torch.testing.assert_close(model(x[:, 2:], cells).hidden, hidden[:, 2:], rtol=1e-4, atol=1e-5)


# ── fusion with another text ────────────────────────────────────────────────────────────────────────────────────────

FUSIONS = pytest.mark.parametrize("fusion", ["shallow", "deep"])


def source(model: LSTMN, *lengths: int) -> SourceTapes:
    """Tapes of other texts, as a first layer might have written them."""
    torch.manual_seed(2)
    shape = (len(lengths), max(lengths), model.hidden_dim)
    hidden, memory = torch.randn(2, *shape, dtype=torch.float64)
    return model.source_tapes(hidden, memory, torch.tensor(lengths))


def no_cells(model: LSTMN, batch: int) -> Cells:
    """The start of a text whose tape grows word by word."""
    empty = torch.zeros(batch, 0, model.hidden_dim, dtype=torch.float64)
    return Cells(empty, empty, torch.zeros(batch, 0, dtype=torch.bool), empty.new_zeros(batch, model.hidden_dim))


def fused_by_hand(model: LSTMN, x: Tensor, hidden: Tensor, memory: Tensor) -> Tensor:
    """h of one text beside another one, without padding: equations (4) to (15), with all cells in lists."""
    intra: Any = model.attention.score
    inter: Any = model.inter_attention.score  # type: ignore[union-attr]
    zero = torch.zeros(model.hidden_dim, dtype=x.dtype)
    hs, cs, summary, read = [], [], zero, zero

    def attend(score: Any, query: Tensor, keys: list[Tensor], values: list[Tensor]) -> Tensor:
        scores = [score.v @ torch.tanh(score.to_keys.weight @ key + score.to_query.weight @ query) for key in keys]
        weights = torch.stack(scores).softmax(0)
        return sum(w * value for w, value in zip(weights, values, strict=True))  # type: ignore[return-value]

    for word in x:
        late = read if model.fusion == "deep" else (hs[-1] if hs else zero)
        read, read_memory = attend(
            inter, torch.cat([word, late]), list(hidden), list(torch.cat([hidden, memory], -1))
        ).split(model.hidden_dim)
        before, summary, recalled = summary, zero, zero
        if hs:
            cells = [torch.cat(cell) for cell in zip(hs, cs, strict=True)]
            summary, recalled = attend(intra, torch.cat([word, before]), hs, cells).split(model.hidden_dim)
        entry = [word, summary, read] if model.fusion == "shallow" else [word, summary]
        into, keep, new, out = (model.to_gates.weight @ torch.cat(entry) + model.to_gates.bias).chunk(4)
        memory_now = torch.sigmoid(keep) * recalled + torch.sigmoid(into) * torch.tanh(new)
        if model.to_read_gate is not None:
            gate = model.to_read_gate.weight @ torch.cat([word, read]) + model.to_read_gate.bias
            memory_now = memory_now + torch.sigmoid(gate) * read_memory
        cs.append(memory_now)
        hs.append(torch.sigmoid(out) * torch.tanh(memory_now))
    return torch.stack(hs)


@FUSIONS
def test_the_equations_of_fusion(fusion: Any) -> None:
    model, x = layer(align_dim=3, fusion=fusion), words(2, 6, 5)
    hidden, memory = words(2, 4, 4).tanh(), words(2, 4, 4)
    lengths = torch.tensor([4, 3])
    ours = model.fused(x, model.source_tapes(hidden, memory, lengths)).hidden
    rows = [fused_by_hand(model, x[row], hidden[row, :n], memory[row, :n]) for row, n in enumerate(lengths.tolist())]
    torch.testing.assert_close(ours, torch.stack(rows), rtol=0, atol=1e-12)
    target, parameters = torch.randn_like(ours), list(model.parameters())
    gradients = torch.autograd.grad((ours * target).sum(), parameters)
    expected = torch.autograd.grad((torch.stack(rows) * target).sum(), parameters)
    torch.testing.assert_close(gradients, expected, rtol=1e-9, atol=1e-12)
    assert all(gradient.abs().sum() > 0 for gradient in gradients)


@FUSIONS
@pytest.mark.parametrize("score", ["additive", pytest.param("general", marks=pytest.mark.slow)])
def test_gradients_of_fusion(fusion: Any, score: str) -> None:
    model = layer(2, 2, fusion=fusion, score=score, inter_score=score)
    x, hidden, memory = (words(2, steps, 2).requires_grad_() for steps in (3, 2, 2))

    def read(x: Tensor, hidden: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        tapes = model.fused(x, model.source_tapes(hidden, memory, torch.tensor([2, 1])))
        return tapes.hidden, tapes.memory

    assert torch.autograd.gradcheck(read, (x, hidden, memory))


def test_deep_fusion_with_a_shut_gate_reads_one_text() -> None:
    model, plain, x = layer(fusion="deep"), layer(), words(2, 6, 5)
    for name, parameter in plain.named_parameters():
        parameter.data = dict(model.named_parameters())[name].data
    beside = source(model, 4, 2)
    assert not torch.allclose(model.fused(x, beside).hidden, plain(x).hidden)
    assert model.to_read_gate is not None
    with torch.no_grad():
        model.to_read_gate.weight.zero_()
        model.to_read_gate.bias.fill_(-1e4)  # r = 0
    torch.testing.assert_close(model.fused(x, beside).hidden, plain(x).hidden, rtol=0, atol=1e-12)


def test_shallow_fusion_reads_the_hidden_tape_alone() -> None:
    hidden, memory, lengths = words(1, 4, 4), words(1, 4, 4), torch.tensor([4])
    x = words(1, 5, 5)
    for fusion in ("shallow", "deep"):
        model = layer(fusion=fusion)
        one = model.fused(x, model.source_tapes(hidden, memory, lengths)).hidden
        other = model.fused(x, model.source_tapes(hidden, memory + 1, lengths)).hidden
        assert torch.equal(one, other) == (fusion == "shallow")
        order = torch.tensor([2, 0, 3, 1])  # the order of the cells says nothing; which c belongs to which h does
        turned = model.fused(x, model.source_tapes(hidden[:, order], memory[:, order], lengths)).hidden
        torch.testing.assert_close(turned, one, rtol=0, atol=1e-12)


@FUSIONS
def test_fusion_with_all_weight_on_the_latest_cell_is_an_lstm_with_more_inputs(fusion: Any) -> None:
    """Where all source words are alike, what is read does not depend on weights: a constant input, or addend of c."""
    model, x = layer(fusion=fusion), words(2, 7, 5)
    model.attention.align = OnlyTheLast()
    hidden, memory = words(2, 1, 4).expand(2, 3, 4), words(2, 1, 4).add(1).expand(2, 3, 4)
    found = model.fused(x, model.source_tapes(hidden, memory, torch.tensor([3, 2]))).hidden
    h = c = torch.zeros(2, 4, dtype=x.dtype)
    cell = nn.LSTMCell(9 if fusion == "shallow" else 5, 4).double()
    with torch.no_grad():
        weight = model.to_gates.weight
        cell.weight_ih.copy_(torch.cat([weight[:, :5], weight[:, 9:]], 1))
        cell.weight_hh.copy_(weight[:, 5:9])
        cell.bias_ih.copy_(model.to_gates.bias)
        cell.bias_hh.zero_()
    for t in range(7):
        if model.to_read_gate is None:
            h, c = cell(torch.cat([x[:, t], hidden[:, 0]], -1), (h, c))
        else:
            _, kept = cell(x[:, t], (h, c))
            out = (x[:, t] @ cell.weight_ih.T + h @ cell.weight_hh.T + cell.bias_ih).chunk(4, -1)[3]
            c = kept + torch.sigmoid(model.to_read_gate(torch.cat([x[:, t], hidden[:, 0]], -1))) * memory[:, 0]
            h = torch.sigmoid(out) * torch.tanh(c)
        torch.testing.assert_close(found[:, t], h, rtol=0, atol=1e-12)


@FUSIONS
def test_padding_of_either_text_changes_nothing(fusion: Any) -> None:
    model, x, lengths = layer(fusion=fusion), words(3, 6, 5), torch.tensor([6, 2, 4])
    hidden, memory = words(3, 5, 4), words(3, 5, 4)
    of_source = torch.tensor([5, 3, 0])  # of the last one nothing can be read
    beside = model.source_tapes(hidden, memory, of_source)
    together = model.fused(torch.cat([x, 9 + x[:, :2]], 1), beside, lengths=lengths, need_weights=True)
    assert together.weights is not None
    assert together.weights.shape == (3, 8, 5)
    assert (together.weights[1, :, 3:] == 0).all()
    assert (together.weights[2] == 0).all()
    assert torch.isfinite(together.hidden).all()
    assert (together.hidden[1, 2:] == 0).all()
    for row, (n, m) in enumerate(zip(lengths.tolist(), of_source.tolist(), strict=True)):
        some = slice(row, row + 1)
        alone = model.source_tapes(hidden[some, : max(m, 1)], memory[some, : max(m, 1)], of_source[some])
        torch.testing.assert_close(model.fused(x[some, :n], alone).hidden[0], together.hidden[row, :n])


@FUSIONS
@pytest.mark.parametrize("score", ["additive", "location_aware"])
@pytest.mark.parametrize("align", ["softmax", "monotonic", "local_monotonic"])
def test_word_by_word_equals_the_whole_text(fusion: Any, score: str, align: str) -> None:
    """With scores and alignments that look at earlier weights, and at places, in both attentions."""
    model = layer(fusion=fusion, score=score, align=align, inter_score=score, inter_align=align, tape=4).eval()
    x, beside = words(2, 7, 5), source(model, 5, 3)
    whole = model.fused(x, beside, need_weights=True)
    cells, gazes = no_cells(model, 2), None
    for t in range(7):
        tapes = model.fused(x[:, t : t + 1], beside, cells, gazes=gazes, need_weights=True)
        cells, gazes = tapes.cells, tapes.gazes
        torch.testing.assert_close(tapes.hidden[:, 0], whole.hidden[:, t], rtol=0, atol=1e-12)
        assert tapes.weights is not None
        assert whole.weights is not None
        torch.testing.assert_close(tapes.weights[:, 0], whole.weights[:, t], rtol=0, atol=1e-12)
    assert cells.hidden.shape == (2, 4, 4)


@FUSIONS
def test_a_trace_sees_both_attentions(fusion: Any) -> None:
    model, x = layer(fusion=fusion), words(2, 6, 5)
    beside = source(model, 4, 2)
    with trace(model) as seen:
        traced = model.fused(x, beside).hidden
    plain = model.fused(x, beside, need_weights=True)
    assert model.fused(x, beside).weights is None
    torch.testing.assert_close(traced, plain.hidden, rtol=0, atol=1e-12)
    assert set(seen) == {"attention", "inter_attention"}
    assert seen["attention"].weights.shape == (2, 6, 5)
    weights = torch.from_numpy(seen["inter_attention"].weights)
    torch.testing.assert_close(weights, plain.weights)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 6, dtype=weights.dtype))


@pytest.mark.parametrize(
    ("score", "align"),
    [(name, "softmax") for name in SCORES if SCORES[name] is not Projected] + [("dot", name) for name in ALIGNS],
)
def test_any_attention_to_another_text(score: str, align: str) -> None:
    for fusion in ("shallow", "deep"):
        model: LSTMN = layer(fusion=fusion, inter_score=score, inter_align=align)  # type: ignore[arg-type]
        hidden = model.fused(words(2, 4, 5), source(model, 3, 2)).hidden
        hidden.sum().backward()
        assert torch.isfinite(hidden).all()
        gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
        assert all(torch.isfinite(gradient).all() for gradient in gradients)
        assert model.to_gates.weight.grad is not None


def test_layers_that_are_called_in_the_wrong_way() -> None:
    with pytest.raises(ConfigError, match=r"reads beside another text.*layer\.fused"):
        layer(fusion="deep")(words(1, 2, 5))
    with pytest.raises(ConfigError, match=r"this LSTMN reads one text.*fusion="):
        layer().source_tapes(words(1, 2, 4), words(1, 2, 4), torch.tensor([2]))


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
