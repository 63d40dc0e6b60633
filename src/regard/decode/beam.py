"""Beam search: the best few prefixes at every step, of many sentences in one tensor.

prefixes [a·w] ─ model.step ─→ log P of all continuations [a w·v] ─ the best 2·beams ─┬─ by EOS: finished, scored
of the a sentences that go on, w = `beams` of each                                    └─ others: the next a·w prefixes
"""

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.base import ConfigError, ShapeError, check_settings
from regard.base.ranges import Natural
from regard.decode.groups import Barred, best_by_groups, best_of_logits
from regard.decode.hypothesis import Beams, CoveragePenalty, Hypothesis, LengthPenalty, coverage_penalty, length_penalty
from regard.decode.protocol import Decodable, bar, checked_step, log_probs_of, pick, start

FINISHED, CUT, NONE = 0, 1, 2  # groups of hypotheses; a lower one ranks first, whatever the scores
MANY = 4096  # continuations of a sentence, from which on a CPU looks at the best of groups first
NOWHERE = -1  # the last token of a prefix that had no way on


@torch.no_grad()
def beam_search(
    model: Decodable,
    state: Any,
    *,
    batch: int,
    bos: int,
    eos: int,
    beams: int = 5,
    nbest: int = 1,
    max_steps: int | Int[Tensor, " b"],
    min_steps: int = 0,
    length_penalty: float = 0.0,
    coverage_penalty: float = 0.0,
    no_repeat: int = 0,
    forbidden: Collection[int] = (),
    source_mask: Bool[Tensor, "b k"] | None = None,
) -> list[list[Hypothesis]]:
    """The `nbest` best hypotheses of each sentence, best first, by the score of GNMT (Wu et al. 2016, eq. 14).

    s(Y) = log P(Y) / lp(Y) + cp(X; Y), with α = `length_penalty` and β = `coverage_penalty` over the positions of
    `source_mask` (True = real). |Y| and the coverage count the step of EOS. Prefixes are ranked by log P, and EOS ends
    one where it is among the best `beams` continuations; the penalties choose among what has ended. A sentence is done
    when no prefix can overtake its `nbest` any more, whatever comes; so stopping early loses nothing.

    A hypothesis takes `min_steps` to `max_steps` steps (one number, or one for each sentence), EOS included. Prefixes
    that are cut off there, or where no prefix has a possible token left, rank behind all finished ones: they fill the
    list where fewer than `nbest` have finished. It may still be shorter. `no_repeat` n lets no n-gram occur twice,
    `forbidden` tokens are never taken; log P stays the model's own. Sentences that are done leave the batch.

    >>> from regard.decode import Step
    >>> class Coin:  # heads 0.6, end 0.4; after heads it always ends
    ...     def step(self, tokens, state):
    ...         chances = torch.tensor([[0.4, 0.6, 0.0], [1.0, 0.0, 0.0], [0.4, 0.6, 0.0]])
    ...         return Step(chances[tokens].log(), state)
    >>> [found] = beam_search(Coin(), None, batch=1, bos=2, eos=0, max_steps=5, nbest=2)
    >>> [(hypothesis.tokens, round(math.exp(hypothesis.score), 4)) for hypothesis in found]
    [([1], 0.6), ([], 0.4)]
    """
    rules = Rules(eos, beams, nbest, min_steps, length_penalty, coverage_penalty, no_repeat, frozenset(forbidden))
    tokens, last = start(model, state, batch=batch, bos=bos, max_steps=max_steps, min_steps=min_steps)
    mask = checked_mask(source_mask, batch, tokens.device)
    shortest = int(last.min()) if batch else 0
    longest = rules.length_penalties(last)  # [a] by which a prefix can be divided at most
    active = torch.arange(batch, device=tokens.device)  # [a] sentences that go on
    log_prob = torch.zeros(batch, device=tokens.device)  # [n] of the prefixes, n = a·w
    prefixes = tokens.new_empty(batch, 0) if no_repeat else None  # [n t]
    coverage: Tensor | None = None  # [n k]
    best, trellis, step = Ends.none(batch, nbest, tokens.device), [_Column(active, tokens, None)], 0
    ends, some_ended = best, False  # of those that go on
    grow = _Growing(rules)
    while len(active):
        step += 1
        logits, state, weights = checked_step(model, tokens, state, eos=eos, sentences=len(active))
        before, coverage = coverage, covered(coverage, weights, mask, rules)
        grown = grow(log_prob, logits, prefixes, step, sentences=len(active))
        has_end = bool((grown.token == eos).any())
        live = grown.unfinished(rules) if has_end else Candidates(*(column[:, :beams] for column in grown))
        some_ended, count = some_ended or has_end or step >= shortest, len(active)
        if has_end:
            ends = ends.merge(_scored(grown, grown.finished(rules), coverage, mask, step, rules))
        going = live.log_prob[:, 0] > -math.inf  # the first is the best
        if some_ended or not going.all():
            cut = last == step
            if step >= shortest:
                group = torch.where(cut.unsqueeze(1) & live.possible, CUT, NONE)
                ends = ends.merge(_scored(live, group, coverage, mask, step, rules))
            stuck = grown.log_prob[:, 0] == -math.inf
            if stuck.any():
                stopped = _stopped(log_prob, len(active))
                group = torch.where(stuck.unsqueeze(1) & stopped.possible, CUT, NONE)
                ends = ends.merge(_scored(stopped, group, before, mask, step - 1, rules))
            attainable = live.log_prob[:, 0] / longest  # log P only falls, and no penalty is above 0
            settled = (ends.group[:, -1] == FINISHED) & (ends.score[:, -1] >= attainable)
            going &= ~(cut | settled)
            count = int(going.sum())
        if count < len(active):
            gone, stay = (~going).nonzero().squeeze(1), _moved_up(going, count)
            best = best.put(active[gone], ends.pick(gone))
            active, last, longest, ends = active[stay], last[stay], longest[stay], ends.pick(stay)
            mask = None if mask is None else mask[stay]
            live = Candidates(*(column[stay] for column in live))
        else:
            stay = None
        log_prob, origin, tokens = (column.flatten() for column in live)
        trellis.append(_Column(origin, tokens, weights))
        if count:
            every = torch.arange(count, device=origin.device) if stay is None else stay
            state = pick(state, origin, sentences=every)
            coverage = None if coverage is None else coverage[origin]
            if prefixes is not None:
                prefixes = torch.cat([prefixes[origin], tokens.unsqueeze(1)], 1)
    return _read(best, trellis, eos)


def _moved_up(going: Bool[Tensor, " a"], count: int) -> Int[Tensor, " m"]:
    """The `count` sentences that go on: the last ones take the places of those that have ended, the others stay."""
    order = torch.arange(count, device=going.device)
    order[~going[:count]] = going[count:].nonzero().squeeze(1) + count
    return order


class _Growing:
    """Finds the best continuations of prefixes at every step of a search."""

    def __init__(self, rules: "Rules") -> None:
        self.rules = rules
        self._barred: dict[frozenset[int], Barred] = {}

    def __call__(
        self,
        log_prob: Float[Tensor, " n"],
        logits: Float[Tensor, "n v"],
        prefixes: Tensor | None,
        step: int,
        *,
        sentences: int,
    ) -> "Candidates":
        """The best 2·beams continuations of each sentence, or all."""
        rules = self.rules
        if not rules.no_repeat and _by_groups(logits, sentences, rules):
            wanted, barred = 2 * rules.beams, self._bars(logits, step)
            found = best_of_logits(log_prob, logits, _first_rows(logits, sentences), wanted, barred)
            if found is not None:
                return Candidates(*found)
        return _grown(log_prob, _barred(log_probs_of(logits), prefixes, step, rules), sentences, rules)

    def _bars(self, logits: Tensor, step: int) -> Barred | None:
        """What may not come next; None where all may."""
        tokens = self.rules.never(step)
        if tokens and tokens not in self._barred:
            self._barred[tokens] = Barred(tokens, bar(logits.new_zeros(1, logits.shape[1]), tokens)[0])
        return self._barred[tokens] if tokens else None


@dataclass(frozen=True)
class Rules:
    """The settings, after every range was checked."""

    eos: int
    beams: Beams
    nbest: Beams
    min_steps: Natural
    length_penalty: LengthPenalty  # α
    coverage_penalty: CoveragePenalty  # β
    no_repeat: Natural
    forbidden: frozenset[int]

    def __post_init__(self) -> None:
        check_settings(self)

    def never(self, step: int) -> frozenset[int]:
        """Tokens that may not be taken at this step, whatever the prefix."""
        return self.forbidden | {self.eos} if step < self.min_steps else self.forbidden

    def length_penalties(self, lengths: Tensor) -> Tensor:
        """Gives the length penalty of each length."""
        return torch.tensor(
            [length_penalty(length, self.length_penalty) for length in lengths.tolist()], device=lengths.device
        )


class Candidates(NamedTuple):
    """Continuations of the a active sentences, [a m] each, best first."""

    log_prob: Tensor
    origin: Tensor  # the row of the prefix, in [n]
    token: Tensor

    @property
    def possible(self) -> Tensor:
        """Which of them the model allows at all."""
        return self.log_prob > -math.inf

    def finished(self, rules: Rules) -> Tensor:
        """The group of each: EOS finishes where it is among the best `beams`."""
        near = torch.arange(self.token.shape[1], device=self.token.device) < rules.beams
        return torch.where((self.token == rules.eos) & near & self.possible, FINISHED, NONE)

    def unfinished(self, rules: Rules) -> "Candidates":
        """The best `beams` that are not EOS. There are enough: each prefix has one EOS, and m = 2·beams if it can."""
        order = (self.token == rules.eos).byte().argsort(dim=1, stable=True)[:, : rules.beams]
        log_prob, origin, token = (column.gather(1, order) for column in self)
        return Candidates(log_prob.masked_fill(token == rules.eos, -math.inf), origin, token)


class Ends(NamedTuple):
    """The best hypotheses of each sentence so far, [b nbest] each, best first."""

    score: Tensor
    log_prob: Tensor
    origin: Tensor  # the row of the prefix before the last token
    token: Tensor  # the last one: EOS if finished
    step: Tensor  # of the last token
    group: Tensor

    @staticmethod
    def none(batch: int, nbest: int, device: torch.device) -> "Ends":
        """Before the first step there is none."""
        low = torch.full((batch, nbest), -math.inf, device=device)
        zero = torch.zeros(batch, nbest, dtype=torch.long, device=device)
        return Ends(low, low, zero, zero, zero, zero + NONE)

    def pick(self, rows: Tensor) -> "Ends":
        """Those of some sentences."""
        return Ends(*(column[rows] for column in self))

    def put(self, rows: Tensor, ends: "Ends") -> "Ends":
        """With those of some sentences replaced."""
        return Ends(*(column.to(new.dtype).index_copy(0, rows, new) for column, new in zip(self, ends, strict=True)))

    def merge(self, new: "Ends") -> "Ends":
        """The best of both, as many as there are here: by group, then by score; of equals the earlier one."""
        both = Ends(*(torch.cat([old, more], 1) for old, more in zip(self, new, strict=True)))
        order = both.score.argsort(dim=1, descending=True, stable=True)
        order = order.gather(1, both.group.gather(1, order).argsort(dim=1, stable=True))
        return Ends(*(column.gather(1, order[:, : self.score.shape[1]]) for column in both))


class _Column(NamedTuple):
    """The n prefixes after one step, and where the step looked."""

    origin: Tensor  # [n] rows in the column before
    tokens: Tensor  # [n]
    weights: Tensor | None  # [rows of the column before, k]


def _barred(
    log_probs: Float[Tensor, "n v"], prefixes: Int[Tensor, "n t"] | None, step: int, rules: Rules
) -> Float[Tensor, "n v"]:
    """−∞ for what may not come next."""
    log_probs = bar(log_probs, rules.never(step))
    if prefixes is not None and 0 < rules.no_repeat <= prefixes.shape[1]:
        log_probs = log_probs.masked_fill(_repeats(prefixes, rules.no_repeat, log_probs.shape[1]), -math.inf)
    return log_probs


def _repeats(prefixes: Int[Tensor, "n t"], order: int, size: int) -> Bool[Tensor, "n v"]:
    """Tokens that would make an n-gram of `order` tokens that is in the prefix already."""
    grams = prefixes.unfold(1, order, 1)  # [n t−order+1 order]
    ending = prefixes[:, prefixes.shape[1] - order + 1 :].unsqueeze(1)
    again = (grams[..., :-1] == ending).all(-1)
    token = torch.where(again, grams[..., -1], size)  # `size`: a column for nothing
    return torch.zeros(len(prefixes), size + 1, dtype=torch.bool, device=prefixes.device).scatter(1, token, True)[
        :, :-1
    ]


def _grown(log_prob: Float[Tensor, " n"], log_probs: Float[Tensor, "n v"], sentences: int, rules: Rules) -> Candidates:
    """The best 2·beams continuations of each sentence, or all."""
    size, first = log_probs.shape[1], _first_rows(log_probs, sentences)
    if _by_groups(log_probs, sentences, rules):
        return grown_by_groups(log_prob, log_probs, first, 2 * rules.beams)
    total = (log_prob.unsqueeze(1) + log_probs).view(sentences, -1)  # [a w·v]
    top, where = total.topk(min(2 * rules.beams, total.shape[1]), dim=1)
    return Candidates(top, first + where // size, where % size)


def _by_groups(scores: Float[Tensor, "n v"], sentences: int, rules: Rules) -> bool:
    """Whether there are so many continuations that looking at the best of groups first is quicker."""
    return scores.device.type == "cpu" and scores.numel() // sentences >= max(MANY, 4 * (2 * rules.beams) ** 2)


def _first_rows(scores: Float[Tensor, "n v"], sentences: int) -> Int[Tensor, "a 1"]:
    """The row of the first prefix of each sentence."""
    return torch.arange(0, len(scores), len(scores) // sentences, device=scores.device).unsqueeze(1)


def grown_by_groups(
    log_prob: Float[Tensor, " n"], log_probs: Float[Tensor, "n v"], first: Int[Tensor, "a 1"], wanted: int
) -> Candidates:
    """The best `wanted` continuations of each sentence, from one quick pass over all of them."""
    return Candidates(*best_by_groups(log_prob, log_probs, first, wanted))


def _stopped(log_prob: Float[Tensor, " n"], sentences: int) -> Candidates:
    """The prefixes themselves, with no token after them."""
    rows = torch.arange(len(log_prob), device=log_prob.device).view(sentences, -1)
    return Candidates(log_prob.view(sentences, -1), rows, torch.full_like(rows, NOWHERE))


def _scored(
    candidates: Candidates, group: Tensor, coverage: Tensor | None, mask: Tensor | None, length: int, rules: Rules
) -> Ends:
    """Candidates as hypotheses of `length` steps; those of group `NONE` do not count."""
    log_prob, origin, token = candidates
    score = log_prob / length_penalty(length, rules.length_penalty)
    if coverage is not None:
        score = score + coverage_penalty(
            coverage[origin], rules.coverage_penalty, None if mask is None else mask.unsqueeze(1)
        )
    score = score.masked_fill(group == NONE, -math.inf)
    step = length + (token == NOWHERE).long()
    return Ends(score, log_prob, origin, token, step, group)


def covered(coverage: Tensor | None, weights: Tensor | None, mask: Tensor | None, rules: Rules) -> Tensor | None:
    """The weight that each source position has received, this step included; None where nobody asks."""
    if rules.coverage_penalty == 0:
        return None
    if weights is None:
        raise ConfigError(
            "coverage_penalty needs the weights of each step",
            got="weights=None from the model",
            cure="set coverage_penalty=0",
        )
    if mask is not None and mask.shape[1] != weights.shape[1]:
        raise ShapeError("source_mask", got=list(mask.shape), expected=f"[b {weights.shape[1]}], as the weights")
    return weights if coverage is None else coverage + weights


def checked_mask(mask: Tensor | None, batch: int, device: torch.device) -> Tensor | None:
    """The mask [b k] on the device, or an error."""
    if mask is None:
        return None
    if mask.dtype != torch.bool or mask.ndim != 2 or mask.shape[0] != batch:
        raise ShapeError("source_mask", got=f"{mask.dtype} {list(mask.shape)}", expected=f"torch.bool [{batch} k]")
    return mask.to(device)


def _read(best: Ends, trellis: list[_Column], eos: int) -> list[list[Hypothesis]]:
    """The hypotheses, each read from its last token back to the first along the trellis."""
    origins, tokens = [column.origin.tolist() for column in trellis], [column.tokens.tolist() for column in trellis]

    def read(score: float, log_prob: float, row: int, token: int, step: int) -> Hypothesis:
        words, looks = [token], [trellis[step].weights]
        rows = [row]
        for time in range(step - 1, 0, -1):
            words.append(tokens[time][rows[-1]])
            looks.append(trellis[time].weights)
            rows.append(origins[time][rows[-1]])
        seen = [look[place] for look, place in zip(looks, rows, strict=True) if look is not None]
        if token in (eos, NOWHERE):
            words = words[1:]
        if token == NOWHERE:
            seen = seen[1:]
        weights = torch.stack(seen[::-1]) if seen else None
        return Hypothesis(words[::-1], log_prob, score, weights, finished=token == eos)

    return [
        [read(*end) for *end, group in zip(*sentence, strict=True) if group != NONE]
        for sentence in zip(*(field.tolist() for field in best), strict=True)
    ]
