"""Sampling over fixed shapes: by the quantiles of the distribution, and for each sentence by its own numbers."""

from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from regard.base import ConfigError
from regard.decode import Step, truncate
from regard.decode.fixed_path import PathBoard, PathRules, seen_by
from regard.decode.fixed_search import fixed_sample

BOS, EOS = 0, 1


class State(NamedTuple):
    key: Tensor


class Hashed:
    """Random logits for every prefix of every sentence."""

    def __init__(self) -> None:
        self.table = torch.randn(997, 6, generator=torch.Generator().manual_seed(3), dtype=torch.float64)

    def step(self, tokens: Tensor, state: State) -> Step:
        key = (state.key * 31 + tokens + 7) % 997
        return Step(self.table[key], State(key))

    def fixed_state(self, state: State, *, steps: int) -> State:
        return state


def drawn(sentences: list[int], **options: Any) -> list[Any]:
    options = {"bos": BOS, "eos": EOS, "max_steps": 6, "generator": torch.Generator().manual_seed(5)} | options
    return fixed_sample(Hashed(), State(torch.tensor(sentences)), batch=len(sentences), **options)


def test_a_sample_is_the_quantile_of_its_chance() -> None:
    """Of evenly spread chances each token gets its share, to one part in their number."""
    count, logits = 1000, torch.randn(8, dtype=torch.float64)
    rules = PathRules(EOS, temperature=0.7, top_k=6, top_p=0.9)
    board = PathBoard(rules, sentences=count, steps=1, dtype=torch.float64, device=torch.device("cpu"))
    board.start(torch.ones(count, dtype=torch.long), bos=BOS)
    board.chance[1] = (torch.arange(count) + 0.5) / count
    board.advance(logits.expand(count, -1), None, count)
    scores = (logits.log_softmax(-1) - logits.log_softmax(-1).max()) / 0.7
    expected = truncate(scores, top_k=6, top_p=0.9).softmax(-1)
    shares = board.path[1].bincount(minlength=8) / count
    assert (shares - expected).abs().max() <= 1 / count
    assert (shares[expected == 0] == 0).all()


def test_samples_do_not_depend_on_the_others_or_on_buckets() -> None:
    alone = drawn([5])
    together = drawn([5, 8, 2, 9, 4, 7, 1])
    assert together[0] == alone[0]
    assert drawn([5, 8, 2, 9, 4, 7, 1], sizes=[1, 2, 8]) == together
    assert len({tuple(one.tokens) for one in together}) > 1


def test_scores_are_those_of_the_model() -> None:
    model, [one] = Hashed(), drawn([5], temperature=1.7)
    state, total = State(torch.tensor([5])), 0.0
    for before, token in zip([BOS, *one.tokens], [*one.tokens, EOS][: one.length], strict=True):
        logits, state, _ = model.step(torch.tensor([before]), state)
        total += logits.log_softmax(-1)[0, token].item()
    assert one.log_prob == pytest.approx(total)


def test_a_cold_sample_is_greedy_and_a_bad_temperature_is_refused() -> None:
    from regard.decode import greedy

    state = State(torch.tensor([5, 8, 2]))
    expected = greedy(Hashed(), state, batch=3, bos=BOS, eos=EOS, max_steps=6)
    assert drawn([5, 8, 2], temperature=1e-9) == expected
    with pytest.raises(ConfigError, match="temperature"):
        drawn([5], temperature=0.0)


def test_rows_of_each_sentence() -> None:
    seen = seen_by(torch.arange(12.0).view(2, 3, 2), torch.tensor([1, 3]))
    assert seen.rows.tolist() == [[0, 1], [6, 7], [8, 9], [10, 11]]
    assert (seen.starts, seen.ends) == ([0, 1], [1, 4])
