"""The memory network as a language model: the equations position by position, and what the carried words must not do.

What every model of running text keeps to, such as one call or many, is in test_language_model.py.
"""

from typing import Any

import pytest
import torch
from torch import Tensor

from regard import trace
from regard.align import ALIGNS
from regard.models import MemN2NLanguageModel, MemN2NLanguageModelConfig
from regard.models import memn2n_language_model as file
from regard.score import SCORES

SCORE_NAMES = [name for name in SCORES if name != "projected"]


def model(**settings: Any) -> MemN2NLanguageModel:
    """A small model in float64 with large weights, so that the weights of attention differ from each other."""
    torch.manual_seed(0)
    sizes = {"vocabulary": 11, "memories": 4, "width": 6, "hops": 3} | settings
    built = MemN2NLanguageModel(MemN2NLanguageModelConfig(**sizes)).double()
    with torch.no_grad():
        for parameter in built.parameters():
            parameter.copy_(torch.randn_like(parameter) / 2)
    return built


def tokens(*shape: int, seed: int = 5) -> Tensor:
    return torch.randint(1, 11, shape, generator=torch.Generator().manual_seed(seed))


def by_hand(model: MemN2NLanguageModel, text: list[int]) -> tuple[Tensor, list[list[Tensor]]]:
    """The equations of the file, one position after the other, with the words in lists: logits, weights by hop."""
    half, size = round(model.config.rectified * model.config.width), model.config.memories
    logits, weights_by_hop = [], []
    for place in range(len(text)):
        ages = [age for age in range(size) if place - age >= 0 and text[place - age] != 0]
        words = [text[place - age] for age in ages]
        state = torch.full((model.config.width,), 0.1, dtype=torch.float64)
        seen = []
        for _ in range(model.config.hops):
            context = torch.zeros_like(state)
            if ages:
                keys = [model.key_words.weight[w] + model.key_ages[a] for w, a in zip(words, ages, strict=True)]
                weights = torch.stack([state @ key for key in keys]).softmax(0)
                values = [model.value_words.weight[w] + model.value_ages[a] for w, a in zip(words, ages, strict=True)]
                context = sum(p * value for p, value in zip(weights, values, strict=True))  # type: ignore[assignment]
                seen.append(weights)
            state = model.hops.across.weight @ state + context  # type: ignore[union-attr]
            state = torch.cat([state[:half].clamp(min=0), state[half:]])
        logits.append(model.output.weight @ state)
        weights_by_hop.append(seen)
    return torch.stack(logits), weights_by_hop


@pytest.mark.parametrize("memories", [1, 4, 20])
def test_the_equations_and_their_gradients(memories: int) -> None:
    ours, text = model(memories=memories), tokens(2, 9)
    text[1, 6:] = 0  # padding
    logits = ours(text).logits
    expected = torch.stack([by_hand(ours, row)[0] for row in text.tolist()])
    torch.testing.assert_close(logits, expected, rtol=0, atol=1e-12)
    target, parameters = torch.randn_like(logits), list(ours.parameters())
    gradients = torch.autograd.grad((logits * target).sum(), parameters)
    plain = torch.autograd.grad((expected * target).sum(), parameters)
    for one, other in zip(gradients, plain, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)


def test_gradients() -> None:
    ours, text = model(hops=2, width=3), tokens(1, 4)
    names = ["key_words.weight", "key_ages", "value_ages", "hops.across.weight"]
    start = [dict(ours.named_parameters())[name].detach().clone().requires_grad_() for name in names]

    def logits(*values: Tensor) -> Tensor:
        replaced = dict(zip(names, values, strict=True))
        return torch.func.functional_call(ours, replaced, (text, tokens(1, 3, seed=6))).logits

    assert torch.autograd.gradcheck(logits, start)


@pytest.mark.parametrize(("score", "align"), [*((s, "softmax") for s in SCORE_NAMES), *(("dot", a) for a in ALIGNS)])
def test_any_score_and_any_alignment(score: str, align: str) -> None:
    """In stretches, and with neighbours: the same logits; and finite gradients from the first word on."""
    ours, text = model(score=score, align=align), tokens(2, 7)
    logits = ours(text).logits
    logits.square().sum().backward()
    assert all(parameter.grad is None or parameter.grad.isfinite().all() for parameter in ours.parameters())
    assert ours.value_ages.grad.abs().sum() > 0  # type: ignore[union-attr]
    logits = ours.eval()(text).logits  # some alignments draw in training
    first, state = ours(text[:, :2])
    second, _ = ours(text[:, 2:], state)
    torch.testing.assert_close(torch.cat([first, second], 1), logits, rtol=0, atol=1e-10)
    torch.testing.assert_close(ours(text[1:]).logits, logits[1:], rtol=0, atol=1e-10)


@pytest.mark.parametrize("score", ["dot", "scaled_dot", "general"])
@pytest.mark.parametrize("align", [name for name in ALIGNS if not ALIGNS[name].needs])
def test_by_place_and_by_age_agree(score: str, align: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, text = model(score=score, align=align).eval(), tokens(3, 6)
    text[2, 4:] = 0
    target = torch.randn(3, 6, 11, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    results, names = [], ["key_words", "key_ages", "value_words", "value_ages", "hops.across"]
    parameters = [parameter for name, parameter in ours.named_parameters() if name.startswith(tuple(names))]
    for linear in (file.LINEAR_IN_THE_KEY, ()):
        monkeypatch.setattr(file, "LINEAR_IN_THE_KEY", linear)
        with trace(ours) as seen:
            logits = ours(text).logits
        gradients = torch.autograd.grad((logits * target).sum(), parameters, materialize_grads=True)
        results.append([logits, *gradients, *(torch.from_numpy(each.weights) for each in seen.values())])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-11)


def test_a_trace_has_the_weights_of_each_hop() -> None:
    ours, text = model(), tokens(1, 7)
    with trace(ours) as seen:
        logits, state = ours(text)
    assert list(seen) == [f"hops.attentions.{hop}" for hop in range(3)]
    expected = by_hand(ours, text[0].tolist())[1]
    for hop, record in enumerate(seen.values()):
        assert record.weights.shape == (1, 7, 7)
        for place in range(7):
            oldest = max(0, place - 3)
            row = torch.from_numpy(record.weights[0, place])
            torch.testing.assert_close(row[oldest : place + 1].flip(0), expected[place][hop], rtol=0, atol=1e-6)
            assert (row[:oldest] == 0).all()
            assert (row[place + 1 :] == 0).all()
    torch.testing.assert_close(ours(text).logits, logits, rtol=0, atol=0)
    with trace(ours) as seen:
        ours(text, state)
    assert seen[0].weights.shape == (1, 7, 10)  # three carried words, then the new ones
    assert seen[0].weights[0, 0, :4].min() > 0


def test_long_texts_are_read_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, text = model(), tokens(2, 23)
    expected, last = ours(text)
    monkeypatch.setattr(file, "SHORTEST_PIECE", 5)
    sizes: list[int] = []
    hop = ours._hop
    monkeypatch.setattr(ours, "_hop", lambda words, count: (sizes.append(words.shape[1]), hop(words, count))[1])
    for state in (None, ours.initial_state(2)):
        sizes.clear()
        logits, after = ours(text, state)
        torch.testing.assert_close(logits, expected, rtol=0, atol=1e-12)
        assert after.equal(last)
        assert len(sizes) == 5
        assert max(sizes) == 5 + 3  # the words of a piece, and those before it


def test_a_text_without_words() -> None:
    ours = model()
    logits, state = ours(torch.zeros(2, 3, dtype=torch.long))
    assert logits.isfinite().all()
    logits.sum().backward()
    assert all(parameter.grad is None or parameter.grad.isfinite().all() for parameter in ours.parameters())
    assert state.equal(ours.initial_state(2))
    assert ours(tokens(2, 0), tokens(2, 3)).logits.shape == (2, 0, 11)
    assert ours(tokens(2, 0), tokens(2, 3)).state.equal(tokens(2, 3))


def test_words_beyond_the_memory_are_forgotten() -> None:
    ours, text = model(), tokens(1, 8)
    other = text.clone()
    other[0, 3] = text[0, 3] % 10 + 1
    difference = (ours(text).logits - ours(other).logits).abs().amax(-1)[0]
    assert (difference[:3] == 0).all()
    assert (difference[3:7] > 1e-6).all()  # ages 0 to 3
    assert (difference[7:] == 0).all()


def test_the_order_of_the_words_counts_by_their_ages_alone() -> None:
    ours = model()
    swapped, text = tokens(1, 4)[:, [1, 0, 2, 3]], tokens(1, 4)
    assert not torch.allclose(ours(text).logits[0, -1], ours(swapped).logits[0, -1])
    with torch.no_grad():
        ours.key_ages.zero_()
        ours.value_ages.zero_()
    torch.testing.assert_close(ours(text).logits[0, -1], ours(swapped).logits[0, -1], rtol=0, atol=1e-12)


def test_parameters_of_the_papers_size() -> None:
    """A, C and W of 10,000 words, T_A and T_C of 150 ages, and H; all drawn from N(0, 0.05²)."""
    torch.manual_seed(0)
    built = MemN2NLanguageModel(MemN2NLanguageModelConfig(vocabulary=10_000))
    assert sum(parameter.numel() for parameter in built.parameters()) == 3 * 10_000 * 150 + 2 * 150 * 150 + 150 * 150
    for parameter in built.parameters():
        assert parameter.std().item() == pytest.approx(0.05, rel=0.02)
    assert built.hops.rectified == 75


def test_dropout_is_of_training_alone_and_keeps_the_mean() -> None:
    """Without training nothing is dropped; in training the mean over many passes of a linear model is that of none."""
    text, plain = tokens(2, 7), model(hops=1, rectified=0.0)
    dropped = model(hops=1, rectified=0.0, dropout=0.4)
    assert torch.equal(dropped.eval()(text).logits, plain.eval()(text).logits)
    torch.manual_seed(1)
    passes = torch.stack([dropped.train()(text).logits.detach() for _ in range(600)])
    error = (passes.mean(0) - plain(text).logits).abs() / (passes.std(0) / 600**0.5)
    assert passes.std(0).min() > 0
    assert error.max() < 5
    words = model(embed_dropout=0.4)
    assert torch.equal(words.eval()(text).logits, model().eval()(text).logits)
    assert not torch.allclose(words.train()(text).logits, words(text).logits)


def test_a_tied_output_is_the_table_of_values() -> None:
    """One tensor, with the sum of both gradients."""
    apart, tied = model(), model(tied=True)
    assert tied.output.weight is tied.value_words.weight
    with torch.no_grad():
        for name, parameter in tied.named_parameters():
            parameter.copy_(apart.get_parameter(name))
        apart.output.weight.copy_(apart.value_words.weight)
    text = tokens(2, 7)
    for one in (apart, tied):
        one(text).logits.logsumexp(-1).sum().backward()
    assert torch.equal(apart(text).logits, tied(text).logits)
    assert apart.output.weight.grad is not None
    assert apart.value_words.weight.grad is not None
    both = apart.output.weight.grad + apart.value_words.weight.grad
    torch.testing.assert_close(tied.value_words.weight.grad, both)
