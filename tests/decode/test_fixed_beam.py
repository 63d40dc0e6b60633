"""Beam search over fixed shapes, against the plain one, on random tables: every setting, and what ends early."""

from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from regard.base import ConfigError, RegardError, ShapeError
from regard.decode import Hypothesis, Step, beam, beam_search, consensus, greedy
from regard.decode.beam import Rules
from regard.decode.fixed_search import FixedSearch, fixed_beam_search, fixed_greedy

BOS, EOS = 0, 1


class State(NamedTuple):
    key: Tensor


class Hashed:
    """Random logits and weights for every prefix of every sentence; `dead` shares of tokens are impossible."""

    def __init__(self, size: int, seed: int, *, dead: float = 0.0) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.table = 2 * torch.randn(997, size, generator=generator, dtype=torch.float64)
        self.table[torch.rand(997, size, generator=generator) < dead] = -torch.inf
        self.looks = (3 * torch.randn(997, 4, generator=generator, dtype=torch.float64)).softmax(-1)

    def step(self, tokens: Tensor, state: State) -> Step:
        key = (state.key * 31 + tokens + 7) % 997
        return Step(self.table[key], State(key), self.looks[key])

    def fixed_state(self, state: State, *, steps: int) -> State:
        return state


def assert_same(found: list[Hypothesis], expected: list[Hypothesis]) -> None:
    assert [(one.tokens, one.finished) for one in found] == [(one.tokens, one.finished) for one in expected]
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.score == pytest.approx(theirs.score, abs=1e-9)
        assert ours.log_prob == pytest.approx(theirs.log_prob, abs=1e-9)
        assert (ours.weights is None) == (theirs.weights is None)
        if ours.weights is not None:
            torch.testing.assert_close(ours.weights, theirs.weights)


SETTINGS: list[dict[str, Any]] = [
    {},
    {"beams": 1, "no_repeat": 1},
    {"beams": 4, "nbest": 4, "length_penalty": 0.8},
    {"beams": 3, "nbest": 2, "coverage_penalty": 0.3, "source_mask": torch.tensor([[True, True, False, True]] * 5)},
    {"beams": 4, "no_repeat": 2, "min_steps": 3, "forbidden": (0, 2)},
    {"beams": 6, "nbest": 6, "max_steps": torch.tensor([1, 2, 7, 4, 3])},
]


@pytest.mark.parametrize("dead", [0.0, 0.6], ids=["all possible", "dead ends"])
@pytest.mark.parametrize("settings", SETTINGS, ids=lambda settings: ",".join(settings) or "plain")
def test_equals_the_plain_search(settings: dict[str, Any], dead: float) -> None:
    for seed in range(4):
        model, state = Hashed(3 + 2 * seed, seed, dead=dead), State(torch.arange(5) * 13 + seed)
        options = {"batch": 5, "bos": BOS, "eos": EOS, "max_steps": 7} | settings
        expected = beam_search(model, state, **options)
        for sizes in (None, [1, 2, 5]):
            for ours, theirs in zip(fixed_beam_search(model, state, sizes=sizes, **options), expected, strict=True):
                assert_same(ours, theirs)


@pytest.mark.parametrize("dead", [0.0, 0.6], ids=["all possible", "dead ends"])
def test_greedy_equals_the_plain_one(dead: float) -> None:
    for seed in range(4):
        model, state = Hashed(3 + 2 * seed, seed, dead=dead), State(torch.arange(5) * 13 + seed)
        for settings in ({}, {"min_steps": 3, "forbidden": (2,)}, {"max_steps": torch.tensor([1, 2, 7, 4, 3])}):
            options = {"batch": 5, "bos": BOS, "eos": EOS, "max_steps": 7} | settings
            expected = greedy(model, state, **options)
            for sizes in (None, [1, 2, 5]):
                assert_same(fixed_greedy(model, state, sizes=sizes, **options), expected)


def test_a_large_vocabulary_is_looked_through_in_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    model, state = Hashed(70, 1), State(torch.arange(3))
    options: dict[str, Any] = {"batch": 3, "bos": BOS, "eos": EOS, "max_steps": 7, "beams": 3, "nbest": 3}
    expected = beam_search(model, state, **options)
    monkeypatch.setattr("regard.decode.fixed_beam.MANY", 1)
    for ours, theirs in zip(fixed_beam_search(model, state, **options), expected, strict=True):
        assert_same(ours, theirs)


def test_the_best_by_consensus() -> None:
    model, state = Hashed(4, 2), State(torch.arange(5))
    options: dict[str, Any] = {"batch": 5, "bos": BOS, "eos": EOS, "max_steps": 7, "beams": 6, "nbest": 6}
    search = FixedSearch(model, Rules(EOS, 6, 6, 0, 0.0, 0.0, 0, frozenset()), state, sizes=[5], steps=7)
    found = search(state, batch=5, bos=BOS, last=torch.full((5,), 7), longest=7, read={"sharpness": 0.5, "count": 2})
    for ours, beams in zip(found, beam_search(model, state, **options), strict=True):
        assert_same(ours, consensus(beams, sharpness=0.5)[:2])


def test_one_search_serves_one_batch_after_the_other() -> None:
    model, rules = Hashed(5, 1), Rules(EOS, 3, 2, 0, 0.6, 0.0, 2, frozenset())
    search = FixedSearch(model, rules, State(torch.arange(4)), sizes=[1, 4], steps=8)
    for sentences in ([3, 1, 4, 1], [5], [9, 2]):
        state = State(torch.tensor(sentences))
        options: dict[str, Any] = {"beams": 3, "nbest": 2, "length_penalty": 0.6, "no_repeat": 2, "max_steps": 6}
        expected = beam_search(model, state, batch=len(sentences), bos=BOS, eos=EOS, **options)
        found = search(state, batch=len(sentences), bos=BOS, last=torch.full((len(sentences),), 6), longest=6)
        for ours, theirs in zip(found, expected, strict=True):
            assert_same(ours, theirs)


def test_errors_are_those_of_the_plain_search() -> None:
    model, state = Hashed(5, 1), State(torch.arange(2))
    options: dict[str, Any] = {"batch": 2, "bos": BOS, "eos": EOS, "max_steps": 4}
    with pytest.raises(ShapeError, match="source_mask"):
        fixed_beam_search(model, state, source_mask=torch.ones(1, 4, dtype=torch.bool), **options)
    mask = torch.ones(2, 3, dtype=torch.bool)
    with pytest.raises(ShapeError, match="source_mask"):
        fixed_beam_search(model, state, source_mask=mask, coverage_penalty=0.1, **options)
    with pytest.raises(ConfigError, match="beams"):
        fixed_beam_search(model, state, beams=0, **options)
    model.table[:] = torch.nan
    with pytest.raises(RegardError, match="not numbers"):
        fixed_beam_search(model, state, **options)
    assert fixed_beam_search(model, State(torch.arange(0)), **options | {"batch": 0}) == []
    assert beam.NONE > beam.CUT > beam.FINISHED  # which `Rows` begins with
