"""Beam search over fixed shapes: `beam_search` as a fixed sequence of operations on the device, with no choice between.

Every sentence has `beams` prefixes from the start, all but one of them impossible. A sentence that is done stays in
its row, and nothing of it changes, until the rows are gathered into fewer.
"""

import math
from itertools import compress

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.decode.agreement import consensus_scores
from regard.decode.beam import CUT, FINISHED, MANY, NONE, NOWHERE, Candidates, Ends, Rules, covered, grown_by_groups
from regard.decode.fixed_board import Barred, Rows
from regard.decode.fixed_path import seen_by
from regard.decode.groups import best_in_one_pass
from regard.decode.hypothesis import Hypothesis, Seen, coverage_penalty, length_penalty, many
from regard.kernels import reasons_against_triton
from regard.kernels.limits import can_read_logits


class BeamBoard:
    """Prefixes and ends of up to `sentences` sentences and `steps` steps; `keys` is the width of `source_mask`."""

    def __init__(
        self,
        rules: Rules,
        *,
        sentences: int,
        steps: int,
        dtype: torch.dtype,
        device: torch.device,
        keys: int | None = None,
    ) -> None:
        self.rules, self.rows = rules, Rows(sentences, steps, device)
        beams, nbest = rules.beams, rules.nbest
        self.barred = Barred(rules.forbidden, rules.eos, rules.min_steps, device)
        add = self.rows.add
        add("tokens", torch.long, beams)
        add("log_prob", dtype, beams)
        add("longest", dtype)
        kinds = {"score": dtype, "log_prob": dtype, "origin": torch.long, "token": torch.long, "step": torch.long}
        for name, kind in kinds.items():
            add(f"end_{name}", kind, nbest, first=-math.inf if kind == dtype else 0.0, found=True)
        add("end_group", torch.long, nbest, first=float(NONE), found=True)
        if keys is not None:
            add("mask", torch.bool, keys)
        if rules.no_repeat:
            add("prefixes", torch.long, beams, steps)
        self.slots, self.words = self.rows.trellis(torch.long, beams), self.rows.trellis(torch.long, beams)
        penalties = [length_penalty(step, rules.length_penalty) for step in range(steps + 1)]
        self.penalties = torch.tensor(penalties, dtype=dtype, device=device)

    def start(self, last: Tensor, *, bos: int, mask: Bool[Tensor, "b k"] | None = None) -> None:
        """All from the beginning; `last` [b] is the last step of each sentence."""
        self.rows.start(last)
        now = self.rows.now
        now["tokens"].fill_(bos)
        now["log_prob"][:, 1:] = -math.inf
        now["longest"].fill_(1.0)
        now["longest"][: len(last)] = self.penalties[last]
        if "mask" in now:
            now["mask"].fill_(True)
            if mask is not None:
                now["mask"][: len(last)] = mask
        if "coverage" in now:
            now["coverage"].zero_()

    def advance(self, logits: Float[Tensor, "n v"], weights: Tensor | None, sentences: int) -> Int[Tensor, " n"]:
        """Takes a step of the first `sentences` sentences; gives the rows that live on."""
        rules, rows = self.rules, self.rows
        if rules.coverage_penalty and weights is not None and "coverage" not in rows.now:
            rows.add("coverage", weights.dtype, rules.beams, weights.shape[-1])
        now = {name: buffer[:sentences] for name, buffer in rows.now.items()}
        rows.time += 1
        coverage = self._covered(weights, now)
        first = torch.arange(0, sentences * rules.beams, rules.beams, device=logits.device).unsqueeze(1)
        grown = self._grown(logits, now, first)
        if rules.nbest == 1 and not (rules.coverage_penalty or rules.no_repeat) and can_read_logits(logits):
            from regard.kernels.beam_step import Standing, choose

            rows.look(weights, sentences)
            standing = Standing(*(now[name] for name in Standing._fields))
            return choose(
                grown, standing, self.slots, self.words, time=rows.time, penalties=self.penalties, eos=rules.eos
            )
        live = grown.unfinished(rules)
        going = ~now["done"].unsqueeze(1)

        cut = now["last"] <= rows.time
        stuck = ~grown.possible.any(1)
        stopped = Candidates(
            now["log_prob"], first + torch.arange(rules.beams, device=first.device),
            torch.full_like(now["tokens"], NOWHERE),
        )  # fmt: skip
        finished = grown.finished(rules).masked_fill(~going, NONE)
        was_cut = torch.where(cut.unsqueeze(1) & live.possible & going, CUT, NONE)
        was_stuck = torch.where(stuck.unsqueeze(1) & stopped.possible & going, CUT, NONE)
        ends = Ends(*(now[f"end_{name}"] for name in Ends._fields)).merge(
            _joined(
                self._scored(grown, finished, coverage, first, 0, now),
                self._scored(live, was_cut, coverage, first, 0, now),
                self._scored(stopped, was_stuck, now.get("coverage"), first, 1, now),
            )
        )
        for name, column in zip(Ends._fields, ends, strict=True):
            now[f"end_{name}"].copy_(column)

        attainable = live.log_prob.amax(1) / now["longest"]
        settled = (ends.group[:, -1] == FINISHED) & (ends.score[:, -1] >= attainable)
        rows.written(self.slots, live.origin - first)
        rows.written(self.words, live.token)
        rows.look(weights, sentences)
        now["done"] |= cut | settled | ~live.possible.any(1)
        now["log_prob"].copy_(live.log_prob)
        now["tokens"].copy_(live.token)
        origin = live.origin.flatten()
        if coverage is not None:
            now["coverage"].copy_(coverage.flatten(0, 1).index_select(0, origin).view_as(coverage))
        if "prefixes" in now:
            prefixes = now["prefixes"].flatten(0, 1).index_select(0, origin)
            places = (rows.time - 1).reshape(1)
            prefixes.index_copy_(1, places, live.token.reshape(-1, 1))
            now["prefixes"].copy_(prefixes.view_as(now["prefixes"]))
        return origin

    def results(
        self, batch: int, ran: int, *, sharpness: float | None = None, count: int | None = None
    ) -> list[list[Hypothesis]]:
        """The best of each sentence, read back along the trellis of `ran` steps; waits for the device.

        With a `sharpness` they are ordered by consensus. `count` is how many are given, all unless told.
        """
        ends = Ends(*(self.rows.found[f"end_{name}"][:batch] for name in Ends._fields))
        words, slots = self._paths(ends, ran)
        if sharpness is not None:
            lengths = ends.step - ((ends.token == self.rules.eos) | (ends.token == NOWHERE)).long()
            scores = consensus_scores(words, lengths, ends.log_prob, ends.group != NONE, sharpness=sharpness)
            order = scores.argsort(dim=1, descending=True, stable=True)
            ends = Ends(scores.gather(1, order), *(column.gather(1, order) for column in ends[1:]))
            words, slots = (each.gather(1, order.unsqueeze(-1).expand_as(each)) for each in (words, slots))
        kept = slice(self.rules.nbest if count is None else count)
        return self._read(Ends(*(column[:, kept] for column in ends)), words[:, kept], slots[:, kept])

    def _paths(self, ends: Ends, ran: int) -> tuple[Int[Tensor, "b h t"], Int[Tensor, "b h t"]]:
        """The tokens of every end, and the prefix that each of its steps continued."""
        batch, slot = len(ends.origin), ends.origin % self.rules.beams
        if not reasons_against_triton(slot.device):
            from regard.kernels.back_track import way_back

            return way_back(self.words, self.slots, slot, ends.token, ends.step, ran=ran)
        words = slot.new_zeros(batch, self.rules.nbest, ran + 1)
        slots = torch.zeros_like(words)
        for step in range(ran, 0, -1):
            word = self.words[step, :batch].gather(1, slot)
            slot = torch.where(ends.step > step, self.slots[step, :batch].gather(1, slot), slot)
            words[..., step] = torch.where(ends.step == step, ends.token, word)
            slots[..., step] = slot
        return words[..., 1:], slots[..., 1:]

    def _read(self, ends: Ends, words: Int[Tensor, "b h t"], slots: Int[Tensor, "b h t"]) -> list[list[Hypothesis]]:
        """The hypotheses of ends that are brought to the host."""
        count, finished = words.shape[1], ends.token == self.rules.eos
        steps = ends.step - (ends.token == NOWHERE).long()
        columns = (ends.score, ends.log_prob, steps - finished.long(), finished, ends.group)
        facts = torch.stack([column.flatten().double() for column in columns])
        seen = self._seen(slots, steps.flatten())
        self.rows.check()
        scores, log_probs, lengths, ended, groups = facts.tolist()
        lines = words.flatten(0, 1).tolist()
        tokens = [line[:length] for line, length in zip(lines, map(int, lengths), strict=True)]
        every = many(tokens, log_probs, scores, map(bool, ended), seen)
        found = [every[start : start + count] for start in range(0, len(every), count)]
        if NONE not in groups:
            return found
        kept = [[group != NONE for group in groups[start : start + count]] for start in range(0, len(groups), count)]
        return [list(compress(best, real)) for best, real in zip(found, kept, strict=True)]

    def _seen(self, slots: Int[Tensor, "b h t"], lengths: Int[Tensor, " e"]) -> Seen | None:
        """Where each hypothesis looked, at each of its steps."""
        if self.rows.looks is None:
            return None
        batch, count, steps = slots.shape
        times = torch.arange(1, steps + 1, device=slots.device)
        sentences = torch.arange(batch, device=slots.device).reshape(-1, 1, 1)
        places = (times * self.rows.sentences + sentences) * self.rules.beams + slots
        seen = self.rows.looks.flatten(0, 2).index_select(0, places.flatten()).view(batch * count, steps, -1)
        return seen_by(seen, lengths)

    def _barred(self, log_probs: Float[Tensor, "n v"], now: dict[str, Tensor]) -> Float[Tensor, "n v"]:
        log_probs = self.barred(log_probs, self.rows.time)
        if "prefixes" in now:
            again = _repeats(
                now["prefixes"].flatten(0, 1), self.rows.time - 1, self.rules.no_repeat, log_probs.shape[1]
            )
            log_probs = log_probs.masked_fill(again, -math.inf)
        return log_probs

    def _grown(self, logits: Float[Tensor, "n v"], now: dict[str, Tensor], first: Tensor) -> Candidates:
        """The best 2·beams continuations of each sentence, or all."""
        log_prob, size = now["log_prob"].flatten(), logits.shape[1]
        every = self.rules.beams * size
        wanted = min(2 * self.rules.beams, every)
        many = every >= max(MANY, 4 * wanted**2)
        if many and not self.rules.no_repeat and can_read_logits(logits):
            added = self.barred.added(size, self.rows.time)
            best, wrong = best_in_one_pass(log_prob, logits, first, wanted, added)
            self.rows.note(wrong, len(first))
            return Candidates(*best)
        log_probs = self._barred(self.rows.log_probs(logits, len(first)), now)
        if many:
            return grown_by_groups(log_prob, log_probs, first, wanted)
        top, where = (log_prob.unsqueeze(1) + log_probs).view(len(first), -1).topk(wanted, dim=1)
        return Candidates(top, first + where // size, where % size)

    def _scored(
        self,
        candidates: Candidates,
        group: Tensor,
        coverage: Tensor | None,
        first: Tensor,
        less: int,
        now: dict[str, Tensor],
    ) -> Ends:
        """Candidates as hypotheses of as many steps as there were, or `less`; those of group NONE do not count."""
        log_prob, origin, token = candidates
        length = self.rows.time - less
        score = log_prob / self.penalties.index_select(0, length.reshape(1))
        if coverage is not None:
            mask = now["mask"].unsqueeze(1) if "mask" in now else None
            slots = (origin - first).unsqueeze(-1).expand(-1, -1, coverage.shape[-1])
            penalty = coverage_penalty(coverage.gather(1, slots), self.rules.coverage_penalty, mask)
            score = score + penalty.where(length > 0, 0.0)  # before the first step there was nothing to look at
        score = score.masked_fill(group == NONE, -math.inf)
        return Ends(score, log_prob, origin, token, self.rows.time.expand_as(group), group)

    def _covered(self, weights: Tensor | None, now: dict[str, Tensor]) -> Tensor | None:
        weights = covered(None, weights, now.get("mask"), self.rules)
        return None if weights is None else now["coverage"] + weights.view_as(now["coverage"])


def _joined(*parts: Ends) -> Ends:
    return Ends(*(torch.cat(columns, 1) for columns in zip(*parts, strict=True)))


def _repeats(prefixes: Int[Tensor, "n t"], filled: Tensor, order: int, size: int) -> Bool[Tensor, "n v"]:
    """Tokens that would make an n-gram of `order` tokens that is in the first `filled` tokens already."""
    if prefixes.shape[1] < order:
        return torch.zeros(len(prefixes), size, dtype=torch.bool, device=prefixes.device)
    grams = prefixes.unfold(1, order, 1)
    last = (filled - order + 1 + torch.arange(order - 1, device=prefixes.device)).clamp(min=0)
    ending = prefixes.index_select(1, last).unsqueeze(1)
    starts = torch.arange(grams.shape[1], device=prefixes.device)
    again = (grams[..., :-1] == ending).all(-1) & (starts + order <= filled)
    token = torch.where(again, grams[..., -1], size)
    return torch.zeros(len(prefixes), size + 1, dtype=torch.bool, device=prefixes.device).scatter(1, token, True)[
        :, :-1
    ]
