"""Greedy search."""

import itertools
import math
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

from regard.decode import Step, greedy

BOS, EOS, SIZE = 0, 1, 7


class GRU(nn.Module):
    """A tiny decoder; its weights look at the memory."""

    class State(NamedTuple):
        hidden: Tensor
        memory: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.cell, self.out = nn.Embedding(SIZE, 8), nn.GRUCell(16, 8), nn.Linear(8, SIZE)
        self.double()
        with torch.no_grad():
            self.out.weight.mul_(4)
            self.out.bias[EOS] = 1.0

    def init_state(self, memory: Tensor) -> "GRU.State":
        return self.State(memory.mean(1), memory)

    def step(self, tokens: Tensor, state: "GRU.State") -> Step:
        weights = torch.einsum("nd,nkd->nk", state.hidden, state.memory).softmax(-1)
        context = torch.einsum("nk,nkd->nd", weights, state.memory)
        hidden = self.cell(torch.cat([self.embed(tokens), context], -1), state.hidden)
        return Step(self.out(hidden), self.State(hidden, state.memory), weights)


class Markov:
    """Log-probabilities by the last token alone; counts the rows it is asked for."""

    def __init__(self, table: Tensor) -> None:
        self.table, self.rows = table, []

    def step(self, tokens: Tensor, state: Any) -> Step:
        self.rows.append(len(tokens))
        return Step(self.table[tokens], state)


def chain(*path: int) -> Tensor:
    """A table that goes along `path`."""
    table = torch.full((SIZE, SIZE), -1.0)
    for token, then in itertools.pairwise(path):
        table[token, then] = 3.0
    return table


@pytest.fixture
def model() -> GRU:
    return GRU()


@pytest.fixture
def memory() -> Tensor:
    return torch.randn(9, 5, 8, dtype=torch.float64)


def run(model: Any, state: Any, batch: int, **options: Any) -> list:
    return greedy(model, state, **{"batch": batch, "bos": BOS, "eos": EOS, "max_steps": 12, **options})


def test_follows_the_chain() -> None:
    table = chain(BOS, 4, 2, 5, EOS)
    [found] = run(Markov(table), None, 1)
    assert (found.tokens, found.finished, found.weights) == ([4, 2, 5], True, None)
    expected = sum(table.log_softmax(-1)[pair].item() for pair in [(BOS, 4), (4, 2), (2, 5), (5, EOS)])
    assert found.log_prob == found.score == pytest.approx(expected)


def test_equals_the_plain_loop(model: GRU, memory: Tensor) -> None:
    lengths = set()
    for sentence, found in enumerate(run(model, model.init_state(memory), 9)):
        state, token, words, total, looks = model.init_state(memory[sentence : sentence + 1]), BOS, [], 0.0, []
        for _ in range(12):
            logits, state, weights = model.step(torch.tensor([token]), state)
            token = logits[0].argmax().item()
            total += logits[0].log_softmax(-1)[token].item()
            looks.append(weights[0])
            if token == EOS:
                break
            words.append(token)
        assert found.tokens == words
        assert found.finished == (token == EOS)
        assert found.log_prob == pytest.approx(total)
        torch.testing.assert_close(found.weights, torch.stack(looks))
        assert found.length == len(found.weights)
        lengths.add(found.length)
    assert len(lengths) > 2  # or the test says little


def test_batch_and_order_do_not_matter(model: GRU, memory: Tensor) -> None:
    whole = run(model, model.init_state(memory), 9)
    turned = run(model, model.init_state(memory.flip(0)), 9)[::-1]
    for sentence in range(9):
        [alone] = run(model, model.init_state(memory[sentence : sentence + 1]), 1)
        for other in (whole[sentence], turned[sentence]):
            assert (other.tokens, other.finished) == (alone.tokens, alone.finished)
            assert other.log_prob == pytest.approx(alone.log_prob)
            torch.testing.assert_close(other.weights, alone.weights)


def test_finished_sentences_leave_the_batch() -> None:
    model = Markov(chain(BOS, 2, 3, 4, EOS))

    class Starts:
        def step(self, tokens: Tensor, state: Tensor) -> Step:
            first = tokens == BOS
            return Step(model.step(torch.where(first, state, tokens), None).logits, state)

    found = run(Starts(), torch.tensor([0, 4, 3, 2]), 4)
    assert [hypothesis.tokens for hypothesis in found] == [[2, 3, 4], [], [4], [3, 4]]
    assert model.rows == [4, 3, 2, 1]


def test_cut_off_at_max_steps() -> None:
    table = chain(BOS, 2, 3, 2)
    [found] = run(Markov(table), None, 1, max_steps=5)
    assert (found.tokens, found.finished) == ([2, 3, 2, 3, 2], False)
    several = run(Markov(table), None, 3, max_steps=torch.tensor([2, 1, 4]))
    assert [hypothesis.tokens for hypothesis in several] == [[2, 3], [2], [2, 3, 2, 3]]
    assert several[0].log_prob == pytest.approx(2 * table[2].log_softmax(-1)[3].item())


def test_eos_in_the_last_step_finishes() -> None:
    [found] = run(Markov(chain(BOS, 2, EOS)), None, 1, max_steps=2)
    assert (found.tokens, found.finished) == ([2], True)


def test_eos_at_once() -> None:
    model = Markov(chain(BOS, EOS))
    found = run(model, None, 3)
    assert [(hypothesis.tokens, hypothesis.finished, hypothesis.length) for hypothesis in found] == [([], True, 1)] * 3
    assert model.rows == [3]


def test_min_steps_bars_eos() -> None:
    table = torch.zeros(SIZE, SIZE)
    table[:, EOS], table[:, 3] = 5.0, 1.0
    for steps in range(5):
        [found] = run(Markov(table), None, 1, min_steps=steps)
        assert found.tokens == [3] * max(steps - 1, 0)
        assert found.length == max(steps, 1)


def test_forbidden_tokens_are_not_taken() -> None:
    table = chain(BOS, 2, EOS)
    table[BOS, 5] = 1.0
    [found] = run(Markov(table), None, 1, forbidden=[2], max_steps=1)
    assert found.tokens == [5]
    assert found.log_prob == pytest.approx(table[BOS].log_softmax(-1)[5].item())


def test_a_prefix_with_no_way_on_stops_there() -> None:
    table = chain(BOS, 4, 2, 5, EOS)
    table[2] = -math.inf
    found = run(Markov(table), None, 2)
    for hypothesis in found:
        assert (hypothesis.tokens, hypothesis.finished) == ([4, 2], False)
        assert math.isfinite(hypothesis.log_prob)
    [empty] = run(Markov(torch.full((SIZE, SIZE), -math.inf)), None, 1)
    assert (empty.tokens, empty.log_prob, empty.finished) == ([], 0.0, False)


def test_no_gradient_and_half_precision(model: GRU, memory: Tensor) -> None:
    state = model.init_state(memory.requires_grad_())
    assert not any(hypothesis.weights.requires_grad for hypothesis in run(model, state, 9))
    [found] = run(Markov(chain(BOS, 2, EOS).bfloat16()), None, 1)
    assert found.log_prob == pytest.approx(2 * chain(BOS, 2)[BOS].log_softmax(-1)[2].item())
