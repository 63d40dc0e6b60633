"""Structured self-attention: the equations by hand, the penalty, the gated encoder, and what padding leaves alone."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from regard.align import ALIGNS
from regard.attention import trace
from regard.base import ConfigError, RegardError
from regard.data import PAD, text_batch
from regard.models import SelfAttentive, SelfAttentiveConfig, self_attentive_pairs, self_attentive_reviews
from regard.models.self_attentive import Gated, batched_dot, hop_penalty
from regard.score import SCORES
from regard.train.checkpoint import start_from, weights

SMALL = SelfAttentiveConfig(
    vocabulary=30, classes=3, embed_dim=6, hidden_dim=5, attention_dim=7, hops=4, mlp_dim=8, gate_dim=3, row_units=2,
    column_units=3, max_words=40,
)  # fmt: skip
TWINS = [{}, {"hops": 1}, {"pooling": "max"}, {"pooling": "mean"}, {"classifier": "pruned"}]
LENGTHS = (9, 1, 4, 13)


def build(texts: int = 1, **changes: object) -> SelfAttentive:
    torch.manual_seed(0)
    return SelfAttentive(replace(SMALL, texts=texts, **changes)).double().eval()


def examples(texts: int = 1) -> list[tuple[list[int], ...]]:
    random = np.random.default_rng(1)
    return [tuple(random.integers(4, 30, length + side).tolist() for side in range(texts)) for length in LENGTHS]


# ── the equations ───────────────────────────────────────────────────────────────────────────────────────────────────


def by_hand(model: SelfAttentive, words: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """A and M of one text, word by word, in numpy."""

    def numbers(tensor: Tensor) -> np.ndarray:
        return tensor.detach().numpy()

    def sigmoid(x: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(-x))

    def run(layer: torch.nn.LSTM, inputs: list[np.ndarray]) -> list[np.ndarray]:
        hidden = cell = np.zeros(layer.hidden_size)
        states = []
        for x in inputs:
            gates = numbers(layer.weight_ih_l0) @ x + numbers(layer.bias_ih_l0)
            gates = gates + numbers(layer.weight_hh_l0) @ hidden + numbers(layer.bias_hh_l0)
            into, keep, new, out = np.split(gates, 4)
            cell = sigmoid(keep) * cell + sigmoid(into) * np.tanh(new)
            hidden = sigmoid(out) * np.tanh(cell)
            states.append(hidden)
        return states

    inputs = [numbers(model.words.weight)[word] for word in words]
    ahead, back = run(model.encoder.forwards, inputs), run(model.encoder.backwards, inputs[::-1])[::-1]
    states = np.array([np.concatenate(pair) for pair in zip(ahead, back, strict=True)])  # H
    scores = numbers(model.queries) @ np.tanh(numbers(model.to_keys.weight) @ states.T)  # W_s2 tanh(W_s1 Hᵀ)
    weights = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    return weights, weights @ states


def test_the_equations_of_the_paper() -> None:
    model, data = build(), examples()
    batch = text_batch(data)
    matrix, weights = model.embed(batch.texts.flatten(0, 1), batch.lengths.flatten())
    assert weights is not None
    for row, (words,) in enumerate(data):
        attention, embedding = by_hand(model, words)
        assert np.allclose(weights[row, :, : len(words)].detach(), attention, atol=1e-12)
        assert np.allclose(matrix[row].detach(), embedding, atol=1e-12)


def test_rows_sum_to_one_over_words_and_are_zero_on_padding() -> None:
    model, batch = build(), text_batch(examples())
    with trace(model, layers=model.hop_layers) as seen:
        model(batch.texts, batch.lengths)
    [record] = seen.values()
    weights = torch.from_numpy(record.weights)
    assert weights.shape == (4, 4, 13)
    assert torch.allclose(weights.sum(-1), torch.ones(4, 4, dtype=weights.dtype))
    for row, length in enumerate(LENGTHS):
        assert (weights[row, :, length:] == 0).all()


def test_twins_pool_over_real_words() -> None:
    batch = text_batch(examples())
    for pooling in ("max", "mean"):
        model = build(pooling=pooling)
        matrix, weights = model.embed(batch.texts.flatten(0, 1), batch.lengths.flatten())
        states = model.encoder(model.words(batch.texts.flatten(0, 1)), batch.lengths.flatten())
        assert weights is None
        assert model.hop_layers == ""
        for row, length in enumerate(LENGTHS):
            real = states[row, :length]
            assert torch.allclose(matrix[row, 0], real.amax(0) if pooling == "max" else real.mean(0))


# ── the penalty ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("r", [1, 2, 5])
def test_the_penalty_of_one_hot_rows(r: int) -> None:
    distinct = torch.eye(r, 7, dtype=torch.float64)[:, torch.randperm(7, generator=torch.Generator().manual_seed(r))]
    same = torch.zeros(r, 7, dtype=torch.float64)
    same[:, 3] = 1.0
    assert hop_penalty(distinct).item() == 0.0
    assert hop_penalty(same).item() == r * (r - 1)
    uniform = torch.full((r, 10), 0.1, dtype=torch.float64)
    assert hop_penalty(uniform).item() == pytest.approx(r * (r - 1) * 0.01 + r * 0.81)


def test_the_penalty_is_zero_for_nothing_else() -> None:
    weights = torch.from_numpy(np.random.default_rng(0).dirichlet(np.ones(6), (50, 3)))
    assert (hop_penalty(weights) > 0).all()
    almost = torch.eye(3, 6, dtype=torch.float64).lerp(torch.full((3, 6), 1 / 6, dtype=torch.float64), 0.01)
    assert hop_penalty(almost).item() > 0


def test_the_penalty_by_hand_and_whatever_the_order() -> None:
    weights = torch.from_numpy(np.random.default_rng(0).dirichlet(np.ones(6), 4))
    expected = sum(
        (float((weights[i] * weights[j]).sum()) - (i == j)) ** 2 for i, j in itertools.product(range(4), repeat=2)
    )
    assert hop_penalty(weights).item() == pytest.approx(expected, rel=1e-12)
    assert hop_penalty(weights[[2, 0, 3, 1]]).item() == pytest.approx(expected, rel=1e-12)
    assert hop_penalty(weights[:, [5, 1, 0, 2, 4, 3]]).item() == pytest.approx(expected, rel=1e-12)


def test_the_model_adds_its_penalty_for_every_text_of_an_example() -> None:
    for texts in (1, 2):
        model, batch = build(texts, penalty=0.3), text_batch(examples(texts))
        out = model(batch.texts, batch.lengths)
        _, weights = model.embed(batch.texts.flatten(0, 1), batch.lengths.flatten())
        assert out.penalty is not None
        assert weights is not None
        assert torch.allclose(out.penalty, 0.3 * hop_penalty(weights).view(4, texts).sum(1))
        assert model.queries.grad is None
        out.penalty.sum().backward()
        assert model.queries.grad is not None
    assert build(penalty=0.0)(batch.texts[:, :1], batch.lengths[:, :1]).penalty is None
    assert build(pooling="max")(batch.texts[:, :1], batch.lengths[:, :1]).penalty is None


# ── pairs ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_each_hop_has_its_own_matrix() -> None:
    matrix = torch.randn(2, 4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    scaled = 3.0 * torch.eye(5, dtype=torch.float64).expand(4, 5, 5)
    assert torch.allclose(batched_dot(matrix, scaled), 3.0 * matrix)
    gated = Gated(4, 5, 3).double()
    out = gated(matrix, matrix)
    for row in range(4):
        expected = (matrix[:, row] @ gated.first[row]) * (matrix[:, row] @ gated.second[row])
        assert torch.allclose(out[:, row], expected)
    swapped = gated(matrix[:, [1, 0, 2, 3]], matrix[:, [1, 0, 2, 3]])
    assert not torch.allclose(swapped[:, [1, 0, 2, 3]], out), "with one matrix for all rows it would be"


@pytest.mark.parametrize("pair", ["gated", "features"])
@pytest.mark.parametrize("changes", TWINS, ids=str)
def test_one_encoder_reads_both_texts(pair: str, changes: dict[str, object]) -> None:
    model, data = build(2, pair=pair, **changes), examples(2)
    batch = text_batch(data)
    out = model(batch.texts, batch.lengths)
    assert out.logits.shape == (4, 1, 3)
    sides = [text_batch([(example[side],) for example in data]) for side in range(2)]
    first, second = (model.embed(side.texts.squeeze(1), side.lengths.squeeze(1))[0] for side in sides)
    assert torch.allclose(model.classifier(model.pair(first, second)), out.logits.squeeze(1), atol=1e-12)
    turned = model(batch.texts.flip(1), batch.lengths.flip(1)).logits
    assert not torch.allclose(turned, out.logits), "what follows from what matters"


# ── padding, batches, settings ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("texts", [1, 2])
@pytest.mark.parametrize("changes", TWINS, ids=str)
def test_padding_and_company_change_nothing(texts: int, changes: dict[str, object]) -> None:
    model, data = build(texts, **changes), examples(texts)
    together = text_batch(data)
    out = model(together.texts, together.lengths)
    for row, example in enumerate(data):
        alone = text_batch([example])
        single = model(alone.texts, alone.lengths)
        assert torch.allclose(single.logits[0], out.logits[row], atol=1e-13, rtol=0)
        if out.penalty is not None:
            assert torch.allclose(single.penalty[0], out.penalty[row], atol=1e-13, rtol=0)
    wide = together.fitted(rows=6, multiple=25)
    padded = model(wide.texts, wide.lengths)
    assert torch.allclose(padded.logits[:4], out.logits, atol=1e-13, rtol=0)
    rubbish = wide.texts.masked_fill(wide.texts == PAD, 7)
    assert torch.allclose(model(rubbish, wide.lengths).logits[:4], out.logits, atol=1e-13, rtol=0), (
        "what pads is not read"
    )


@pytest.mark.parametrize("changes", TWINS, ids=str)
def test_a_text_without_words_is_no_accident(changes: dict[str, object]) -> None:
    model = build(**changes)
    texts, lengths = torch.zeros(1, 1, 3, dtype=torch.long), torch.zeros(1, 1, dtype=torch.long)
    logits = model(texts, lengths).logits
    assert torch.isfinite(logits).all()
    logits.sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)


@pytest.mark.parametrize("score", [name for name in SCORES if name != "projected"])
def test_any_score(score: str) -> None:
    model, batch = build(score=score), text_batch(examples())
    assert torch.isfinite(model(batch.texts, batch.lengths).logits).all()


@pytest.mark.parametrize("align", ALIGNS)
def test_any_alignment(align: str) -> None:
    model, batch = build(align=align), text_batch(examples())
    out = model(batch.texts, batch.lengths)
    assert torch.isfinite(out.logits).all()
    out.logits.sum().backward()


def test_sizes_of_the_paper() -> None:
    config = replace(self_attentive_reviews(), vocabulary=10, classes=5)
    with torch.device("meta"):
        dense, pruned = SelfAttentive(config), SelfAttentive(replace(config, classifier="pruned"))
        pairs = SelfAttentive(replace(self_attentive_pairs(), vocabulary=10))
    assert dense.to_keys.weight.numel() + dense.queries.numel() == 220_500
    assert dense.classifier.hidden.weight.numel() == 54_000_000
    assert pruned.classifier.of_rows.numel() + pruned.classifier.of_columns.numel() == 30 * 600 * 25 + 600 * 30 * 5
    assert pairs.pair.first.shape == (30, 600, 150)
    assert not any("bias" in name for name, _ in dense.named_parameters() if "to_keys" in name)


def test_the_pruned_layer_by_hand() -> None:
    model = build(classifier="pruned").classifier
    matrix = torch.randn(2, 4, 10, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    rows = [matrix[:, i] @ model.of_rows[i] for i in range(4)]
    columns = [matrix[:, :, j] @ model.of_columns[j] for j in range(10)]
    hidden = torch.relu(torch.cat([*rows, *columns], 1) + model.bias)
    assert torch.allclose(model(matrix), model.output(hidden))


def test_words_become_unknown_in_training_only() -> None:
    model, batch = build(word_dropout=0.5, dropout=0.0), text_batch(examples())
    assert torch.equal(model(batch.texts, batch.lengths).logits, model(batch.texts, batch.lengths).logits)
    model.train()
    torch.manual_seed(0)
    first = model(batch.texts, batch.lengths).logits
    assert not torch.equal(first, model(batch.texts, batch.lengths).logits)


def test_words_predict_their_neighbours_in_training_only() -> None:
    model, batch = build(language=0.5, penalty=0.0), text_batch(examples())
    assert model(batch.texts, batch.lengths).penalty is None
    model.train()
    added = model(batch.texts, batch.lengths).penalty
    assert added is not None
    assert added.shape == (len(batch.texts),)
    chance = 2 * 0.5 * np.log(SMALL.vocabulary)  # both directions of a model that knows nothing
    assert added[batch.lengths[:, 0] > 1].mean().item() == pytest.approx(chance, rel=0.1)
    added.sum().backward()
    assert model.words.weight.grad is not None
    assert model.words.weight.grad.abs().sum() > 0


def test_a_reader_begins_with_what_another_has_read() -> None:
    """Words and LSTM come from a run without labels; hops and classes are new."""
    first, second = build(language=1.0, pooling="max", classifier="dense"), build()
    began = start_from(second, dict(weights(first)))
    assert torch.equal(second.words.weight, first.words.weight)
    assert torch.equal(second.encoder.forwards.weight_hh_l0, first.encoder.forwards.weight_hh_l0)
    assert all(name.startswith(("classifier.", "neighbours.")) for name in began.new)
    with pytest.raises(RegardError, match="fit neither the model nor a part of it"):
        start_from(second, {**weights(first), "other.weight": torch.zeros(1)})


def test_settings_that_are_refused() -> None:
    with pytest.raises(ConfigError, match="unknown score"):
        replace(SMALL, score="dott")
    with pytest.raises(ConfigError, match=r"model\.texts"):
        replace(SMALL, texts=3)
