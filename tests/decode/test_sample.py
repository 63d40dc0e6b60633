"""Sampling."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.base import ConfigError
from regard.decode import Hypothesis, Step, greedy, sample, truncate

BOS, EOS, SIZE = 0, 1, 5
LOGITS = torch.tensor([-2.0, 0.5, 1.0, 0.0, 2.0])


class Constant:
    def __init__(self, logits: Tensor) -> None:
        self.logits = logits

    def step(self, tokens: Tensor, state: Any) -> Step:
        return Step(self.logits.expand(len(tokens), -1), state, tokens.unsqueeze(1) / SIZE)


def run(batch: int = 1, logits: Tensor = LOGITS, **options: Any) -> list[Hypothesis]:
    return sample(Constant(logits), None, **{"batch": batch, "bos": BOS, "eos": EOS, "max_steps": 20, **options})


def firsts(found: list[Hypothesis]) -> Tensor:
    """How often each token came first."""
    tokens = [hypothesis.tokens[0] if hypothesis.tokens else EOS for hypothesis in found]
    return torch.bincount(torch.tensor(tokens), minlength=SIZE)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_frequencies_follow_the_model(temperature: float) -> None:
    counts = firsts(run(5000, max_steps=1, temperature=temperature))
    expected = 5000 * (LOGITS / temperature).softmax(-1)
    assert ((counts - expected).square() / expected).sum() < 28  # four degrees of freedom: one seed in 10⁵ is above


def test_later_steps_follow_it_too() -> None:
    lengths = torch.tensor([len(hypothesis.tokens) for hypothesis in run(2000, max_steps=200)], dtype=torch.float64)
    chance = LOGITS.softmax(-1)[EOS].item()
    assert lengths.mean().item() == pytest.approx((1 - chance) / chance, rel=0.1)  # geometric


def test_top_k_and_top_p_cut_the_tail() -> None:
    assert firsts(run(800, max_steps=1, top_k=2)).nonzero().flatten().tolist() == [2, 4]
    assert firsts(run(800, max_steps=1, top_p=0.75)).nonzero().flatten().tolist() == [2, 4]
    kept = firsts(run(5000, max_steps=1, top_k=3, temperature=2.0))
    expected = 5000 * (LOGITS[[1, 2, 4]] / 2).softmax(-1)
    assert ((kept[[1, 2, 4]] - expected).square() / expected).sum() < 24


def test_truncate() -> None:
    shares = torch.tensor([[0.1, 0.5, 0.25, 0.15], [0.25, 0.25, 0.25, 0.25]])

    def kept(**options: Any) -> list[list[int]]:
        return [row.nonzero().flatten().tolist() for row in truncate(shares.log(), **options).exp()]

    assert kept() == [[0, 1, 2, 3]] * 2
    assert kept(top_k=9) == [[0, 1, 2, 3]] * 2
    assert kept(top_k=1)[0] == [1]
    assert kept(top_p=1e-9)[0] == [1]
    assert kept(top_p=0.5) == [[1], [0, 1]]
    assert kept(top_p=0.51) == [[1, 2], [0, 1, 2]]
    assert kept(top_p=0.9)[0] == [1, 2, 3]
    assert kept(top_k=2, top_p=0.6)[0] == [1]  # 0.5 is two thirds of what top_k has left
    assert (truncate(torch.full((1, 3), -math.inf), top_k=2, top_p=0.5) == -math.inf).all()


@pytest.mark.parametrize(
    "options", [{"top_k": 1}, *({name: value} for name in ("top_p", "temperature") for value in (1e-6, 1e-42, 1e-300))]
)
def test_the_limit_is_greedy(options: dict[str, Any]) -> None:
    expected = greedy(Constant(LOGITS), None, batch=3, bos=BOS, eos=EOS, max_steps=4)
    assert run(3, max_steps=4, **options) == expected


def test_log_prob_is_the_models_own() -> None:
    log_probs = LOGITS.log_softmax(-1)
    for found in run(50, temperature=3.0, top_k=4, forbidden=[2]):
        tokens = found.tokens + [EOS] * found.finished
        assert 2 not in tokens
        assert found.log_prob == found.score == pytest.approx(log_probs[tokens].sum().item(), abs=1e-5)
        assert found.weights.shape == (found.length, 1)
        assert found.weights[1:, 0].tolist() == pytest.approx([token / SIZE for token in tokens[:-1]])


def test_a_generator_makes_it_reproducible() -> None:
    def seeded(seed: int) -> list[Hypothesis]:
        return run(20, generator=torch.Generator().manual_seed(seed))

    before = torch.get_rng_state()
    assert seeded(1) == seeded(1)
    assert seeded(1) != seeded(2)
    assert torch.equal(torch.get_rng_state(), before)


def test_min_steps_and_max_steps() -> None:
    found = run(200, min_steps=3, max_steps=torch.full((200,), 5))
    assert {hypothesis.length for hypothesis in found} == {3, 4, 5}
    assert all(hypothesis.finished or hypothesis.length == 5 for hypothesis in found)


def test_a_prefix_with_no_way_on_stops_there() -> None:
    for options in ({}, {"top_k": 2}, {"top_p": 0.5}):
        [found] = run(logits=torch.full((SIZE,), -math.inf), **options)
        assert (found.tokens, found.log_prob, found.finished) == ([], 0.0, False)
    closed = LOGITS.index_fill(0, torch.tensor([1, 3, 4]), -math.inf)
    assert set(run(logits=closed, max_steps=50)[0].tokens) == {0, 2}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"temperature": 0.0}, "temperature: got 0.0; expected more than 0. Try: greedy"),
        ({"top_k": -1}, "top_k: got -1"),
        ({"top_p": 0.0}, "top_p: got 0.0"),
        ({"top_p": 1.5}, "top_p: got 1.5"),
    ],
)
def test_bad_settings(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        run(**options)


def test_of_equal_tokens_the_first_are_kept() -> None:
    kept = truncate(torch.zeros(2, 1024), top_p=0.25) > -math.inf
    assert torch.equal(kept, (torch.arange(1024) < 256).expand(2, -1))


@pytest.mark.parametrize("options", [{"top_k": 3}, {"top_p": 0.6}, {"top_k": 4, "top_p": 0.8}], ids=str)
def test_rows_are_cut_alone_whatever_axes_come_first(options: dict[str, Any]) -> None:
    scores = torch.randn(2, 5, 7)
    cut = truncate(scores, **options)
    for sentence in range(2):
        assert torch.equal(truncate(scores[sentence], **options), cut[sentence])
        for row in range(5):
            assert torch.equal(truncate(scores[sentence, row], **options), cut[sentence, row])
