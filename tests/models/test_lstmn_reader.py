"""The LSTMN as a classifier: the mean of its tape, both texts of a pair, and what padding leaves alone."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from regard.attention import trace
from regard.base import ConfigError, override
from regard.data import PAD, text_batch
from regard.models import LSTMN, LSTMNReader, LSTMNReaderConfig, lstmn_pairs, lstmn_sentiment

SMALL = LSTMNReaderConfig(
    vocabulary=30, classes=3, embed_dim=6, hidden_dim=5, align_dim=7, mlp_dim=8, dropout=0.4, max_words=20
)
LENGTHS = (9, 1, 4, 13)
CASES: list[tuple[int, dict[str, Any]]] = [
    (1, {}),
    (1, {"layers": 2, "tape": 3}),
    (2, {"fusion": "none"}),
    (2, {"fusion": "shallow", "layers": 2}),
    (2, {"fusion": "deep", "layers": 2}),
    (2, {"fusion": "deep", "inter_score": "dot", "inter_align": "sparsemax", "score": "cosine"}),
]
EVERY = pytest.mark.parametrize(("texts", "changes"), CASES, ids=str)


def build(texts: int = 1, **changes: Any) -> LSTMNReader:
    torch.manual_seed(0)
    return LSTMNReader(replace(SMALL, texts=texts, **changes)).double().eval()


def examples(texts: int = 1) -> list[tuple[list[int], ...]]:
    random = np.random.default_rng(1)
    return [tuple(random.integers(4, 30, length + side).tolist() for side in range(texts)) for length in LENGTHS]


# ── the equations ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_mean_of_the_tape_and_two_rectified_layers() -> None:
    model, data = build(), examples()
    batch = text_batch(data)
    logits = model(batch.texts, batch.lengths).logits
    assert logits.shape == (4, 1, 3)
    layer, classifier = model.first[0], model.classifier
    assert isinstance(layer, LSTMN)
    for row, (words,) in enumerate(data):
        mean = layer(model.words(torch.tensor([words]))).hidden.mean(1)
        hidden = (mean @ classifier.hidden.weight.T + classifier.hidden.bias).clamp(min=0)
        hidden = (hidden @ classifier.deeper.weight.T + classifier.deeper.bias).clamp(min=0)
        expected = hidden @ classifier.output.weight.T + classifier.output.bias
        torch.testing.assert_close(logits[row], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("fusion", ["none", "shallow", "deep"])
def test_the_second_text_reads_the_tapes_of_the_first(fusion: Any) -> None:
    model, data = build(2, fusion=fusion, layers=2), examples(2)
    batch = text_batch(data)
    logits = model(batch.texts, batch.lengths).logits
    for row, (premise, hypothesis) in enumerate(data):
        words, means, below = [model.words(torch.tensor([side])) for side in (premise, hypothesis)], [], []
        for layers, entry in ((model.first, words[0]), (model.second, words[1])):
            x = entry
            for number, layer in enumerate(layers):
                assert isinstance(layer, LSTMN)
                if layer.fusion == "none":
                    tapes: Any = layer(x)
                else:
                    source = layer.source_tapes(*below[number], torch.tensor([len(premise)]))
                    tapes = layer.fused(x, source)
                if layers is model.first:
                    below.append((tapes.hidden, tapes.memory))
                x = torch.cat([entry, tapes.hidden], -1)
            means.append(tapes.hidden.mean(1))
        torch.testing.assert_close(logits[row], model.classifier(torch.cat(means, -1)), rtol=0, atol=1e-12)
    turned = model(batch.texts.flip(1), batch.lengths.flip(1)).logits
    assert not torch.allclose(turned, logits), "what follows from what matters"


def test_only_fusion_brings_the_first_text_into_the_second() -> None:
    batch = text_batch(examples(2))
    other = batch.texts.clone()
    other[:, 0, 0] = 4 + (other[:, 0, 0] - 3) % 26  # the first word of the first text
    for fusion in ("none", "shallow", "deep"):
        model = build(2, fusion=fusion)
        one, changed = (model.read(texts, batch.lengths)[1][-1].hidden for texts in (batch.texts, other))
        assert torch.equal(one, changed) == (fusion == "none")


# ── padding, batches, gradients ─────────────────────────────────────────────────────────────────────────────────────


@EVERY
def test_padding_and_company_change_nothing(texts: int, changes: dict[str, Any]) -> None:
    model, data = build(texts, **changes), examples(texts)
    together = text_batch(data)
    logits = model(together.texts, together.lengths).logits
    for row, example in enumerate(data):
        alone = text_batch([example])
        torch.testing.assert_close(model(alone.texts, alone.lengths).logits[0], logits[row], rtol=0, atol=1e-12)
    wide = together.fitted(rows=6, multiple=16)
    torch.testing.assert_close(model(wide.texts, wide.lengths).logits[:4], logits, rtol=0, atol=1e-12)
    rubbish = wide.texts.masked_fill(wide.texts == PAD, 7)
    torch.testing.assert_close(model(rubbish, wide.lengths).logits[:4], logits, rtol=0, atol=1e-12)


@EVERY
def test_every_parameter_learns(texts: int, changes: dict[str, Any]) -> None:
    model, batch = build(texts, **changes).train(), text_batch(examples(texts))
    model(batch.texts, batch.lengths).logits.square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name


@pytest.mark.parametrize("fusion", ["shallow", "deep"])
def test_gradients(fusion: Any) -> None:
    """Of the logits to the word vectors, by finite differences."""
    model = build(2, fusion=fusion, hidden_dim=2, align_dim=2, embed_dim=2, mlp_dim=3, vocabulary=7)
    batch = text_batch([([4, 5, 6], [6, 4]), ([5], [6, 5, 4])])
    table = model.words.weight.detach().clone().requires_grad_()

    def logits(table: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(model, {"words.weight": table}, (batch.texts, batch.lengths)).logits

    def real(rows: torch.Tensor) -> torch.Tensor:  # the vector of <pad> has no gradient by design
        return logits(torch.cat([table[:4].detach(), rows]))

    assert torch.autograd.gradcheck(real, table[4:].detach().requires_grad_())


@pytest.mark.parametrize("fusion", ["none", "shallow", "deep"])
def test_under_autocast(fusion: Any) -> None:
    model, batch = build(2, fusion=fusion, layers=2).float(), text_batch(examples(2))
    with torch.autocast("cpu", torch.bfloat16):
        logits = model(batch.texts, batch.lengths).logits
    assert logits.dtype == torch.bfloat16
    logits.float().square().sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    assert all(parameter.grad.dtype == torch.float32 for parameter in model.parameters())  # type: ignore[union-attr]
    torch.testing.assert_close(logits.float(), model(batch.texts, batch.lengths).logits, rtol=0.05, atol=0.05)


@pytest.mark.parametrize("texts", [1, 2])
def test_a_text_without_words_is_no_accident(texts: int) -> None:
    model = build(texts)
    logits = model(torch.zeros(1, texts, 3, dtype=torch.long), torch.zeros(1, texts, dtype=torch.long)).logits
    assert torch.isfinite(logits).all()
    logits.sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)


# ── what is seen, learnt and refused ────────────────────────────────────────────────────────────────────────────────


def test_a_trace_tells_the_attentions_apart() -> None:
    model, batch = build(2, layers=2), text_batch(examples(2))
    with trace(model) as seen:
        model(batch.texts, batch.lengths)
    names = [f"first.{n}.attention" for n in range(2)]
    names += [f"second.{n}.{kind}" for n in range(2) for kind in ("attention", "inter_attention")]
    assert sorted(seen) == sorted(names)
    for name in seen:
        weights = torch.from_numpy(seen[name].weights)
        assert weights.shape == ((4, 14, 14) if "inter" in name else (4, 14, 13))
        if "inter" in name:
            for row, length in enumerate(LENGTHS):
                assert (weights[row, :, length:] == 0).all()
            torch.testing.assert_close(weights.sum(-1), torch.ones(4, 14, dtype=weights.dtype))
        else:
            assert (weights[:, 0] == 0).all()
            assert (weights.triu() == 0).all(), "no word attends to itself or to later ones"


def test_words_become_unknown_in_training_only() -> None:
    model, batch = build(word_dropout=0.5, dropout=0.0), text_batch(examples())
    assert torch.equal(model(batch.texts, batch.lengths).logits, model(batch.texts, batch.lengths).logits)
    model.train()
    torch.manual_seed(0)
    first = model(batch.texts, batch.lengths).logits
    assert not torch.equal(first, model(batch.texts, batch.lengths).logits)


def test_word_vectors_learn_at_their_own_rate() -> None:
    model = build(embed_rate=0.0)
    assert model.rates == {"words.": 0.0}
    assert (model.words.weight[PAD] == 0).all()


def test_sizes_of_the_paper() -> None:
    with torch.device("meta"):
        text = LSTMNReader(replace(lstmn_sentiment(), vocabulary=10))
        pair = LSTMNReader(replace(lstmn_pairs(), vocabulary=10))
    e, d = 300, 168
    reader = 4 * d * (e + d) + 4 * d + d * (e + 2 * d) + d  # W with its bias (7); W_x, W_h̃, W_h and v (4)
    classifier = 2 * (d * d + d) + 2 * (d + 1)
    assert sum(parameter.numel() for parameter in text.parameters()) == reader + classifier + 10 * e
    d = 450
    attention = d * (e + 2 * d) + d
    more = attention + d * (e + d) + d  # of fusion: W_x, W_γ̃, W_γ and u (10), W_r with its bias (13)
    readers = 2 * (4 * d * (e + d) + 4 * d + attention) + more
    classifier = d * 2 * d + d + d * d + d + 3 * (d + 1)
    assert sum(parameter.numel() for parameter in pair.parameters()) == readers + classifier + 10 * e


@pytest.mark.slow
def test_fusion_learns_whether_a_word_was_in_the_first_text() -> None:
    """A guess is right in about half of the cases."""
    torch.manual_seed(0)
    config = LSTMNReaderConfig(10, 2, 2, embed_dim=16, hidden_dim=16, align_dim=16, mlp_dim=32, dropout=0.0)
    model, lengths = LSTMNReader(config), torch.tensor([[2, 1]]).expand(64, 2)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
    accuracies = []
    for _ in range(130):
        texts = torch.randint(4, 10, (64, 2, 2))
        one_of_both = texts[torch.arange(64), 0, torch.randint(0, 2, (64,))]
        texts[:, 1, 0] = torch.where(torch.rand(64) < 0.3, one_of_both, texts[:, 1, 0])
        labels = (texts[:, 0] == texts[:, 1, :1]).any(1).long()
        logits = model(texts, lengths).logits.squeeze(1)
        accuracies.append((logits.argmax(1) == labels).float().mean().item())
        loss = nn.functional.cross_entropy(logits, labels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert sum(accuracies[-20:]) / 20 > 0.85


def test_settings_that_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"unknown inter_score.*dott"):
        replace(SMALL, inter_score="dott")
    with pytest.raises(ConfigError, match=r"unknown align"):
        replace(SMALL, align="softmaxx")
    with pytest.raises(ConfigError, match=r"fusion.*both.*none"):
        override(SMALL, ["fusion=both"])
    with pytest.raises(ConfigError, match=r"model\.texts"):
        replace(SMALL, texts=3)
