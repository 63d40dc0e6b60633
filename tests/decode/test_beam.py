"""Beam search, against exhaustive search and against a plain loop that never stops early."""

import itertools
import math
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from regard.base import ConfigError, ShapeError
from regard.decode import Hypothesis, Step, beam, beam_search, coverage_penalty, greedy, length_penalty

BOS, EOS = 0, 1


class State(NamedTuple):
    key: Tensor  # [n] a hash of the sentence and its prefix


class Hashed:
    """Random logits and weights for every prefix of every sentence. State: the number of the sentence."""

    def __init__(self, size: int, *, sharpness: float = 1.0, keys: int = 4, seed: int = 0) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.table = sharpness * torch.randn(997, size, generator=generator, dtype=torch.float64)
        self.looks = (3 * torch.randn(997, keys, generator=generator, dtype=torch.float64)).softmax(-1)

    def step(self, tokens: Tensor, state: State) -> Step:
        key = (state.key * 31 + tokens + 7) % 997
        return Step(self.table[key], State(key), self.looks[key])

    def force(self, sentence: int, tokens: list[int]) -> tuple[Tensor, Tensor]:
        """Log-probabilities [t v] and weights [t k] when the tokens are given."""
        state, log_probs, looks = State(torch.tensor([sentence])), [], []
        for token in [BOS, *tokens]:
            logits, state, weights = self.step(torch.tensor([token]), state)
            log_probs.append(logits.log_softmax(-1)[0])
            looks.append(weights[0])
        return torch.stack(log_probs), torch.stack(looks)


def search(model: Any, sentences: list[int], **options: Any) -> list[list[Hypothesis]]:
    options = {"bos": BOS, "eos": EOS, "max_steps": 6, **options}
    return beam_search(model, State(torch.tensor(sentences)), batch=len(sentences), **options)


def value(model: Hashed, sentence: int, tokens: list[int], alpha: float, beta: float) -> tuple[float, float]:
    """log P and the score of GNMT of a finished hypothesis, by its definition."""
    log_probs, looks = model.force(sentence, tokens)
    total = sum(row[token].item() for row, token in zip(log_probs, [*tokens, EOS], strict=True))
    penalty = coverage_penalty(looks.sum(0), beta).item() if beta else 0.0
    return total, total / length_penalty(len(tokens) + 1, alpha) + penalty


def plain(
    model: Hashed,
    sentence: int,
    *,
    beams: int,
    max_steps: int,
    alpha: float = 0.0,
    beta: float = 0.0,
    min_steps: int = 0,
    no_repeat: int = 0,
) -> list[tuple[list[int], float]]:
    """All that ends in the beam, sorted: one sentence, lists, no early stop."""
    live, ended = [([], 0.0)], []
    for step in range(1, max_steps + 1):
        candidates = []
        for tokens, total in live:
            row = model.force(sentence, tokens)[0][-1]
            for token in range(len(row)):
                grown = [*tokens, token]
                grams = [tuple(grown[start : start + no_repeat]) for start in range(len(grown) - no_repeat + 1)]
                if (token == EOS and step < min_steps) or (no_repeat and len(set(grams)) < len(grams)):
                    continue
                candidates.append((grown, total + row[token].item()))
        candidates.sort(key=lambda candidate: -candidate[1])
        for tokens, _ in candidates[:beams]:
            if tokens[-1] == EOS:
                ended.append((tokens[:-1], value(model, sentence, tokens[:-1], alpha, beta)[1]))
        live = [candidate for candidate in candidates if candidate[0][-1] != EOS][:beams]
    return sorted(ended, key=lambda end: -end[1])


PENALTIES = [(0.0, 0.0), (0.6, 0.0), (1.0, 0.2), (0.0, 0.4), (2.0, 1.0)]


@pytest.mark.parametrize(("alpha", "beta"), PENALTIES)
def test_full_width_finds_the_optimum(alpha: float, beta: float) -> None:
    model = Hashed(4)
    options = {"max_steps": 4, "length_penalty": alpha, "coverage_penalty": beta}
    for sentence, found in enumerate(search(model, [0, 1, 2], beams=200, nbest=3, **options)):
        every = [
            (value(model, sentence, list(tokens), alpha, beta)[1], list(tokens))
            for length in range(4)
            for tokens in itertools.product([0, 2, 3], repeat=length)
        ]
        for hypothesis, (score, tokens) in zip(found, sorted(every, reverse=True)[:3], strict=True):
            assert hypothesis.tokens == tokens
            assert hypothesis.score == pytest.approx(score)


@pytest.mark.parametrize(("alpha", "beta"), PENALTIES)
@pytest.mark.parametrize(("size", "beams"), [(3, 2), (6, 3), (9, 5)])
def test_equals_the_loop_that_never_stops_early(size: int, beams: int, alpha: float, beta: float) -> None:
    for seed in range(2):
        model, sentences = Hashed(size, sharpness=2.0, seed=seed), [5, 1, 4]
        options = {"beams": beams, "nbest": 3, "max_steps": 7}
        several = search(model, sentences, length_penalty=alpha, coverage_penalty=beta, **options)
        for sentence, found in zip(sentences, several, strict=True):
            expected = plain(model, sentence, beams=beams, max_steps=7, alpha=alpha, beta=beta)[:3]
            ended = [hypothesis for hypothesis in found if hypothesis.finished]
            assert [hypothesis.tokens for hypothesis in ended] == [tokens for tokens, _ in expected]
            assert [hypothesis.score for hypothesis in ended] == pytest.approx([score for _, score in expected])


@pytest.mark.parametrize("options", [{"no_repeat": 1}, {"no_repeat": 2}, {"no_repeat": 3}, {"min_steps": 4}])
def test_constraints_equal_the_loop(options: dict[str, int]) -> None:
    model = Hashed(4, sharpness=1.5, seed=3)
    for sentence, found in enumerate(search(model, [0, 1, 2, 3], beams=3, nbest=2, max_steps=9, **options)):
        expected = [tokens for tokens, _ in plain(model, sentence, beams=3, max_steps=9, **options)[:2]]
        assert [hypothesis.tokens for hypothesis in found if hypothesis.finished] == expected


@pytest.mark.parametrize("options", [{}, {"forbidden": [0, 2]}, {"min_steps": 3}, {"max_steps": torch.arange(1, 9)}])
def test_one_beam_is_greedy(options: dict[str, Any]) -> None:
    model, state = Hashed(6, sharpness=2.0), State(torch.arange(8))
    several = search(model, list(range(8)), **{"beams": 1, **options})
    expected = greedy(model, state, **{"batch": 8, "bos": BOS, "eos": EOS, "max_steps": 6, **options})
    for [found], hypothesis in zip(several, expected, strict=True):
        assert (found.tokens, found.finished) == (hypothesis.tokens, hypothesis.finished)
        assert found.log_prob == pytest.approx(hypothesis.log_prob)
        torch.testing.assert_close(found.weights, hypothesis.weights)


@pytest.mark.parametrize(("alpha", "beta"), PENALTIES)
def test_scores_are_those_of_teacher_forcing(alpha: float, beta: float) -> None:
    model = Hashed(8, sharpness=2.0)
    several = search(model, [3, 7, 11], nbest=5, length_penalty=alpha, coverage_penalty=beta, max_steps=9)
    for sentence, found in zip([3, 7, 11], several, strict=True):
        assert len(found) == 5
        for hypothesis in found:
            if hypothesis.finished:
                expected = value(model, sentence, hypothesis.tokens, alpha, beta)
                assert (hypothesis.log_prob, hypothesis.score) == pytest.approx(expected)
                torch.testing.assert_close(hypothesis.weights, model.force(sentence, hypothesis.tokens)[1])


def test_nbest_is_sorted_and_distinct() -> None:
    for found in search(Hashed(8), [1, 2, 3], beams=6, nbest=6, length_penalty=0.8, max_steps=10):
        scores = [hypothesis.score for hypothesis in found if hypothesis.finished]
        assert scores == sorted(scores, reverse=True)
        assert len({(tuple(hypothesis.tokens), hypothesis.finished) for hypothesis in found}) == len(found) == 6


def test_nbest_may_be_larger_than_the_beam() -> None:
    [found] = search(Hashed(5), [1], beams=2, nbest=7, max_steps=12)
    finished = [hypothesis.finished for hypothesis in found]
    assert finished == sorted(finished, reverse=True)
    expected = plain(Hashed(5), 1, beams=2, max_steps=12)[:7]
    assert [hypothesis.tokens for hypothesis in found if hypothesis.finished] == [tokens for tokens, _ in expected]


def test_batch_and_order_do_not_matter() -> None:
    model, sentences = Hashed(7, sharpness=2.0), [9, 4, 6, 2, 8]
    last = torch.tensor([7, 3, 9, 5, 8])
    mask = torch.rand(5, 4) < 0.7
    options = {"nbest": 3, "length_penalty": 0.6, "coverage_penalty": 0.2}
    whole = search(model, sentences, max_steps=last, source_mask=mask, **options)
    turned = search(model, sentences[::-1], max_steps=last.flip(0), source_mask=mask.flip(0), **options)[::-1]
    for place, sentence in enumerate(sentences):
        one = slice(place, place + 1)
        [alone] = search(model, [sentence], max_steps=last[one], source_mask=mask[one], **options)
        for other in (whole[place], turned[place]):
            assert other == alone
            for left, right in zip(other, alone, strict=True):
                assert torch.equal(left.weights, right.weights)


def test_padding_of_the_source_costs_nothing() -> None:
    class Padded(Hashed):
        def step(self, tokens: Tensor, state: State) -> Step:
            logits, state, weights = super().step(tokens, state)
            return Step(logits, state, torch.nn.functional.pad(weights, (0, 3)))

    options = {"coverage_penalty": 0.5, "nbest": 2}
    mask = (torch.arange(7) < 4).expand(2, 7)
    expected = search(Hashed(5), [1, 2], **options)
    assert search(Padded(5), [1, 2], source_mask=mask, **options) == expected
    unmasked = search(Padded(5), [1, 2], **options)
    assert all(math.isfinite(hypothesis.score) for found in unmasked for hypothesis in found)
    assert unmasked[0][0].score < expected[0][0].score - 1


class Historian:
    """Its weights are its own prefix: row t holds the tokens before it. The state is the prefix."""

    def __init__(self, model: Hashed) -> None:
        self.model = model

    def step(self, tokens: Tensor, state: dict[str, Any]) -> Step:
        logits, inner, _ = self.model.step(tokens, state["inner"])
        seen = torch.cat([state["seen"][:, 1:], tokens.unsqueeze(1)], 1)
        return Step(logits, {"inner": inner, "seen": seen}, seen.double())


def test_weights_are_those_of_the_winning_beam() -> None:
    state = {"inner": State(torch.arange(6)), "seen": torch.full((6, 9), -1)}
    options = {"batch": 6, "bos": BOS, "eos": EOS, "max_steps": 9, "nbest": 4, "length_penalty": 1.0}
    several = beam_search(Historian(Hashed(5)), state, **options)
    lengths = set()
    for hypothesis in itertools.chain(*several):
        assert hypothesis.weights.shape == (hypothesis.length, 9)
        for step, row in enumerate(hypothesis.weights.long().tolist()):
            assert row == ([-1] * 9 + [BOS] + hypothesis.tokens[:step])[-9:]
        lengths.add(hypothesis.length)
    assert len(lengths) > 2


class Markov:
    """Logits by the last token; no weights, no state; counts the rows it is asked for."""

    def __init__(self, table: Any) -> None:
        self.table, self.rows = torch.as_tensor(table, dtype=torch.float64), []

    def step(self, tokens: Tensor, state: Any) -> Step:
        self.rows.append(len(tokens))
        return Step(self.table[tokens], state)


def run(model: Any, batch: int = 1, **options: Any) -> list[list[Hypothesis]]:
    return beam_search(model, None, **{"batch": batch, "bos": BOS, "eos": EOS, "max_steps": 6, **options})


def test_more_beams_than_words() -> None:
    table = torch.tensor([[0.0, 0.5, 0.5], [0.0, 0.0, 0.0], [0.0, 0.6, 0.4]]).log()
    model = Markov(table)
    [found] = run(model, beams=50, nbest=50, max_steps=4)
    expected = {0: 0.5, 1: 0.5 * 0.6, 2: 0.5 * 0.4 * 0.6, 3: 0.5 * 0.4**2 * 0.6}
    ended = {len(hypothesis.tokens): math.exp(hypothesis.log_prob) for hypothesis in found if hypothesis.finished}
    assert ended == pytest.approx(expected)
    [cut] = [hypothesis for hypothesis in found if not hypothesis.finished]
    assert (cut.tokens, math.exp(cut.log_prob)) == ([2] * 4, pytest.approx(0.5 * 0.4**3))
    assert model.rows[0] == 1  # one prefix, before there is a choice


def test_only_eos_in_the_vocabulary() -> None:
    [[found]] = beam_search(Markov([[0.0]]), None, batch=1, bos=0, eos=0, max_steps=6, nbest=1)
    assert (found.tokens, found.log_prob, found.finished) == ([], 0.0, True)


def test_eos_at_once_and_nothing_else() -> None:
    table = torch.full((4, 4), -math.inf)
    table[:, EOS] = 0.0
    model = Markov(table)
    for found in run(model, batch=3, nbest=3, length_penalty=1.0):
        assert found == [Hypothesis([], 0.0, 0.0)]
    assert model.rows == [3]


def test_stops_as_soon_as_nothing_better_can_come() -> None:
    table = torch.tensor([[0.0, 0.9, 0.1], [0.0, 0.0, 0.0], [0.0, 0.5, 0.5]]).log()
    sure = Markov(table)
    run(sure, max_steps=50)
    assert len(sure.rows) == 1
    longer = Markov(torch.tensor([[0.0, 0.6, 0.4], [0.0, 0.0, 0.0], [0.0, 0.5, 0.5]]).log())
    run(longer, max_steps=50, length_penalty=1.0)
    assert 1 < len(longer.rows) < 50


def test_length_penalty_prefers_the_longer() -> None:
    table = torch.tensor([[0.0, 0.5, 0.5], [0.0, 0.0, 0.0], [0.0, 0.6, 0.4]]).log()
    assert run(Markov(table))[0][0].tokens == []
    assert len(run(Markov(table), length_penalty=4.0)[0][0].tokens) > 0


def test_cut_off_hypotheses_rank_behind_finished_ones() -> None:
    table = torch.full((4, 4), -9.0)
    table[:, 2] = 0.0  # for ever
    [found] = run(Markov(table), beams=4, nbest=4, max_steps=3)
    assert [hypothesis.finished for hypothesis in found] == sorted(
        (hypothesis.finished for hypothesis in found), reverse=True
    )
    assert found[0].finished
    [[cut]] = run(Markov(table), beams=1, max_steps=3)
    assert (cut.tokens, cut.finished, cut.length) == ([2, 2, 2], False, 3)
    assert cut.score == cut.log_prob


def test_a_limit_for_each_sentence() -> None:
    table = torch.full((4, 4), -9.0)
    table[:, 2] = 0.0
    several = run(Markov(table), 3, beams=1, max_steps=torch.tensor([4, 1, 2]))
    assert [found[0].tokens for found in several] == [[2] * 4, [2], [2] * 2]


def test_no_repeat() -> None:
    table = torch.zeros(6, 6)
    table[:, EOS], table[:, 2], table[2, 3] = -5.0, 3.0, 4.0
    for order in (1, 2, 3):
        for hypothesis in run(Markov(table), nbest=5, max_steps=12, no_repeat=order)[0]:
            tokens = hypothesis.tokens
            grams = [tuple(tokens[start : start + order]) for start in range(len(tokens) - order + 1)]
            assert len(set(grams)) == len(grams)
    [[free]] = run(Markov(table), max_steps=12, beams=1)
    assert free.tokens == [2, 3] * 6


def test_forbidden_tokens() -> None:
    model = Hashed(6)
    for sentence, found in enumerate(search(model, [0, 1, 2], nbest=5, forbidden=[0, 3])):
        assert found[0].finished
        for hypothesis in found:
            assert not {0, 3} & set(hypothesis.tokens)
            if hypothesis.finished:
                assert hypothesis.log_prob == pytest.approx(value(model, sentence, hypothesis.tokens, 0.0, 0.0)[0])


def test_min_and_max_steps() -> None:
    for hypothesis in itertools.chain(*search(Hashed(4), [0, 1, 2], nbest=5, min_steps=4, max_steps=5)):
        assert 4 <= hypothesis.length <= 5


def test_prefixes_with_no_way_on() -> None:
    table = torch.zeros(5, 5)
    table[2:] = -math.inf  # after any word there is nothing
    table[BOS] = torch.tensor([-math.inf, -math.inf, 3.0, 2.0, 1.0])
    [found] = run(Markov(table), nbest=2, length_penalty=1.0)
    log_probs = table[BOS].log_softmax(-1)
    assert [(hypothesis.tokens, hypothesis.finished) for hypothesis in found] == [([2], False), ([3], False)]
    assert [hypothesis.score for hypothesis in found] == pytest.approx(log_probs[2:4].tolist())
    [[empty]] = run(Markov(torch.full((5, 5), -math.inf)))
    assert (empty.tokens, empty.log_prob, empty.finished) == ([], 0.0, False)
    table[3, EOS] = 0.0  # one way on: it wins, and the other is given up
    [found] = run(Markov(table), nbest=2)
    assert [(hypothesis.tokens, hypothesis.finished) for hypothesis in found] == [([3], True)]


def test_weights_of_a_stuck_prefix_end_with_it() -> None:
    model = Hashed(5)
    model.table[:] = -math.inf
    model.table[(7 * 31 + BOS + 7) % 997, 2] = 0.0
    [[found]] = search(model, [7], coverage_penalty=0.2)
    assert (found.tokens, found.finished) == ([2], False)
    looks = model.force(7, [2])[1][:1]
    assert torch.equal(found.weights, looks)
    assert found.score == pytest.approx(coverage_penalty(looks.sum(0), 0.2).item())


def test_sentences_leave_the_batch_when_done() -> None:
    class Ends(Markov):
        def step(self, tokens: Tensor, state: Tensor) -> Step:
            self.rows.append(len(tokens))
            logits = torch.zeros(len(tokens), 5)
            logits[:, EOS] = torch.where(state[:, 0] == len(self.rows), 20.0, -20.0)
            return Step(logits, state)

    model = Ends([[0.0]])
    found = beam_search(model, torch.tensor([[1], [3], [2]]), batch=3, bos=BOS, eos=EOS, max_steps=9, beams=4)
    assert [len(best[0].tokens) for best in found] == [0, 2, 1]
    assert model.rows == [3, 2 * 4, 1 * 4]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_low_precision_logits(dtype: torch.dtype) -> None:
    class Low(Hashed):
        def step(self, tokens: Tensor, state: State) -> Step:
            logits, state, weights = super().step(tokens, state)
            return Step(logits.to(dtype), state, weights.to(dtype))

    for [found] in search(Low(6, sharpness=2.0), [1, 2, 3], length_penalty=0.6, coverage_penalty=0.2):
        assert math.isfinite(found.score)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"beams": 0}, "beams: got 0; expected 1 or more"),
        ({"nbest": 0}, "nbest: got 0; expected 1 or more"),
        ({"no_repeat": -1}, "no_repeat: got -1; expected 0 or more"),
        ({"length_penalty": -0.5}, "length_penalty: got -0.5; expected 0 to 10. Try: use 0.6 to 1"),
        ({"length_penalty": 1e300}, r"length_penalty: got 1e\+300; expected 0 to 10"),
        ({"length_penalty": math.nan}, "length_penalty: got nan; expected 0 to 10"),
        ({"coverage_penalty": math.inf}, "coverage_penalty: got inf; expected a finite number, 0 or more"),
        ({"beams": 10**20}, "beams: got 100000000000000000000; expected at most 10,000"),
        ({"coverage_penalty": -0.5}, "coverage_penalty: got -0.5; expected 0 or more"),
        ({"coverage_penalty": 0.2}, "coverage_penalty needs the weights of each step"),
    ],
)
def test_bad_settings(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        run(Markov(torch.zeros(3, 3)), **options)


def test_a_mask_of_another_size() -> None:
    with pytest.raises(ShapeError, match=r"source_mask: got \[1, 9\]; expected \[b 4\]"):
        search(Hashed(4), [0], coverage_penalty=0.2, source_mask=torch.ones(1, 9, dtype=torch.bool))
    with pytest.raises((ShapeError, TypeError)):  # the import hook may be faster
        search(Hashed(4), [0], source_mask=torch.ones(2, 4, dtype=torch.bool))
    with pytest.raises((ShapeError, TypeError)):
        search(Hashed(4), [0], source_mask=torch.ones(1, 4))
    with pytest.raises((ShapeError, TypeError)):
        search(Hashed(4), [0], source_mask=torch.ones(1, dtype=torch.bool))


@pytest.mark.parametrize("size", [12, 37, 64, 1000])
@pytest.mark.parametrize(("beams", "prefixes"), [(1, 1), (3, 1), (3, 3), (5, 5)])
def test_groups_have_the_best_of_all(size: int, beams: int, prefixes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rules = beam.Rules(EOS, beams, 1, 0, 0.0, 0.0, 0, frozenset())
    log_prob, log_probs = -5 * torch.rand(4 * prefixes), torch.randn(4 * prefixes, size).log_softmax(-1)
    log_probs[:, ::5] = -math.inf
    expected = beam._grown(log_prob, log_probs, 4, rules)
    first = torch.arange(0, 4 * prefixes, prefixes).unsqueeze(1)
    if prefixes * size >= 4 * (2 * beams) ** 2:
        monkeypatch.setattr(beam, "MANY", 1)
        assert all(map(torch.equal, beam._grown(log_prob, log_probs, 4, rules), expected))
        assert all(map(torch.equal, beam.grown_by_groups(log_prob, log_probs, first, 2 * beams), expected))


@pytest.mark.parametrize("options", [{}, {"forbidden": [0, 3]}, {"no_repeat": 1}, {"min_steps": 4}, {"nbest": 4}])
def test_a_large_vocabulary_is_searched_alike(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    model, sentences = Hashed(150, sharpness=4.0), [5, 1, 4]
    expected = search(model, sentences, beams=3, **options)
    monkeypatch.setattr(beam, "MANY", 1)
    calls, way = [], "grown_by_groups" if "no_repeat" in options else "best_of_logits"
    real = getattr(beam, way)
    monkeypatch.setattr(beam, way, lambda *args: calls.append(1) or real(*args))
    for found, others in zip(search(model, sentences, beams=3, **options), expected, strict=True):
        assert [one.tokens for one in found] == [one.tokens for one in others]
        assert [one.score for one in found] == pytest.approx([one.score for one in others], abs=1e-12)
    assert calls


@pytest.mark.parametrize("nbest", [3, 40])
def test_the_best_of_both_is_as_if_sorted(nbest: int) -> None:
    """By group, then by score; of equals the earlier one, which Python's sort keeps too."""

    def ends(count: int) -> beam.Ends:
        scores = torch.randint(3, (2, count)).double()
        numbers = [torch.randint(99, (2, count)) for _ in range(3)]
        return beam.Ends(scores, -scores, *numbers, torch.randint(3, (2, count)))

    def rows(some: beam.Ends, sentence: int) -> list[tuple[float, ...]]:
        return list(zip(*(part[sentence].tolist() for part in some), strict=True))

    old, new = ends(nbest), ends(50)
    merged = old.merge(new)
    for sentence in range(2):
        every = [end for some in (old, new) for end in rows(some, sentence)]
        assert rows(merged, sentence) == sorted(every, key=lambda end: (end[-1], -end[0]))[:nbest]


def test_candidates_that_go_on_keep_their_order() -> None:
    token = torch.randint(3, (4, 60))
    log_prob = -torch.arange(60.0).expand(4, 60)
    rules = beam.Rules(EOS, 30, 1, 0, 0.0, 0.0, 0, frozenset())
    live = beam.Candidates(log_prob, torch.arange(60).expand(4, 60), token).unfinished(rules)
    for row, places in zip(token.tolist(), live.origin.tolist(), strict=True):
        assert places == [place for place, word in enumerate(row) if word != EOS][:30]
    assert torch.equal(live.log_prob, -live.origin.float())
    assert (live.token != EOS).all()


@pytest.mark.parametrize("size", [65, 70, 79])
def test_the_last_token_of_the_last_group_counts_once(size: int) -> None:
    log_probs = torch.randn(3, size)
    log_probs[:, -1] = 9.0
    found = beam.grown_by_groups(torch.zeros(3), log_probs, torch.arange(3).unsqueeze(1), 4)
    expected = log_probs.topk(4, dim=1)
    assert torch.equal(found.log_prob, expected.values)
    assert torch.equal(found.token, expected.indices)


@pytest.mark.parametrize("dead", [[0], [1], [2], [0, 2], [0, 1, 2]], ids=str)
@pytest.mark.parametrize("beams", [1, 2, 3])
def test_a_stuck_sentence_stops_alone(dead: list[int], beams: int) -> None:
    class Stops(Hashed):
        """After one word there is nothing in the sentences that are dead."""

        def step(self, tokens: Tensor, state: dict[str, Any]) -> Step:
            logits, inner, weights = super().step(tokens, state["inner"])
            stops = torch.isin(state["sentence"], torch.tensor(dead)) & (tokens != BOS)
            return Step(logits.masked_fill(stops.unsqueeze(1), -math.inf), {**state, "inner": inner}, weights)

    def run_of(sentences: list[int]) -> list[list[Hypothesis]]:
        numbers = torch.tensor(sentences)
        state = {"inner": State(numbers), "sentence": numbers}
        options = {"bos": BOS, "eos": EOS, "max_steps": 5, "min_steps": 2, "beams": beams, "forbidden": [BOS]}
        return beam_search(Stops(5, sharpness=2.0), state, batch=len(sentences), nbest=2, **options)

    for sentence, hypotheses in enumerate(run_of([0, 1, 2])):
        assert run_of([sentence]) == [hypotheses]
        assert any(hypothesis.finished for hypothesis in hypotheses) or sentence in dead
        if sentence in dead:
            lengths = [(len(hypothesis.tokens), hypothesis.finished) for hypothesis in hypotheses]
            assert lengths == [(1, False)] * min(beams, 2)
