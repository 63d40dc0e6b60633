"""Greedy search and sampling over fixed shapes: one path for each sentence, all of it on the device."""

from dataclasses import dataclass
from itertools import accumulate

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.decode.fixed_board import Barred, Rows
from regard.decode.hypothesis import Hypothesis, Seen, many
from regard.decode.sample import truncate
from regard.kernels.limits import can_read_logits

MOST_PINNED = 2**26  # bytes that are copied to the host by way of pinned memory


@dataclass(frozen=True)
class PathRules:
    """The settings. `temperature` None is greedy."""

    eos: int
    min_steps: int = 0
    forbidden: frozenset[int] = frozenset()
    temperature: float | None = None
    top_k: int = 0
    top_p: float = 1.0


class PathBoard:
    """The paths of up to `sentences` sentences and `steps` steps.

    Sampling takes the token at which the distribution function exceeds a number of `chance` [t b], which is drawn
    before the first step: what a sentence becomes depends on its own numbers, and not on the other ones.
    """

    def __init__(
        self, rules: PathRules, *, sentences: int, steps: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        self.rules, self.rows = rules, Rows(sentences, steps, device)
        self.barred = Barred(rules.forbidden, rules.eos, rules.min_steps, device)
        self.rows.add("tokens", torch.long)
        self.rows.add("length", torch.long, found=True)
        self.rows.add("finished", torch.bool, found=True)
        self.path, self.gains = self.rows.trellis(torch.long), self.rows.trellis(dtype)
        self.chance = None if rules.temperature is None else self.rows.trellis(torch.float64)

    def start(self, last: Tensor, *, bos: int, generator: torch.Generator | None = None) -> None:
        """All from the beginning; `last` [b] is the last step of each sentence."""
        self.rows.start(last)
        self.rows.now["tokens"].fill_(bos)
        if self.chance is not None:
            device = self.chance.device if generator is None else generator.device
            shape = (len(last), self.rows.steps)  # in this order: more steps at the end change nothing before
            drawn = torch.rand(*shape, generator=generator, dtype=torch.float64, device=device)
            self.chance[1:, : len(last)] = drawn.T.to(self.chance.device)

    def advance(self, logits: Float[Tensor, "m v"], weights: Tensor | None, sentences: int) -> None:
        """Takes a step of the first `sentences` sentences; all rows stay where they are."""
        rows, eos = self.rows, self.rules.eos
        rows.time += 1
        if self.chance is None and can_read_logits(logits):
            self._advance_in_one(logits, weights, sentences)
            return
        now = {name: buffer[:sentences] for name, buffer in rows.now.items()}
        open_ = self.barred(rows.log_probs(logits, len(logits)), rows.time)
        tokens = self._chosen(open_, now["sentence"])
        gained = open_.gather(1, tokens.unsqueeze(1)).squeeze(1)
        moved, ended, going = gained > -torch.inf, tokens == eos, ~now["done"]
        rows.written(self.path, tokens)
        rows.written(self.gains, gained.where(moved, 0.0))
        rows.look(weights, sentences)
        now["length"] += moved & going
        now["finished"] |= moved & ended & going
        now["done"] |= ~moved | ended | (rows.time >= now["last"])
        now["tokens"].copy_(tokens)

    def results(self, batch: int, ran: int) -> list[list[Hypothesis]]:
        """One hypothesis for each sentence, after `ran` steps; waits for the device."""
        length, finished = (self.rows.found[name][:batch] for name in ("length", "finished"))
        taken = torch.arange(1, ran + 1, device=length.device).unsqueeze(1) <= length
        gained = (self.gains[1 : ran + 1, :batch].double() * taken).sum(0)
        facts = torch.stack([gained, (length - finished.long()).double(), finished.double()])
        words = self.path[1 : ran + 1, :batch].T.contiguous()  # all of this is sent before anybody waits
        seen = None
        if self.rows.looks is not None:
            seen = seen_by(self.rows.looks[1 : ran + 1, :batch, 0].transpose(0, 1), length)
        self.rows.check()
        gains, counts, ended = facts.tolist()
        tokens = [line[:count] for line, count in zip(words.tolist(), map(int, counts), strict=True)]
        return [[one] for one in many(tokens, gains, gains, map(bool, ended), seen)]

    def _advance_in_one(self, logits: Float[Tensor, "m v"], weights: Tensor | None, sentences: int) -> None:
        """Takes the step in one kernel."""
        from regard.kernels.path_step import path_step

        rows, added = self.rows, self.barred.added(logits.shape[1], self.rows.time)
        looks = rows.looks_for(weights, sentences)
        path_step(
            logits, added, rows.now, path=self.path, gains=self.gains, looks=looks, weights=weights,
            time=rows.time, bad=rows.bad, eos=self.rules.eos,
        )  # fmt: skip

    def _chosen(self, log_probs: Float[Tensor, "m v"], sentence: Tensor) -> Tensor:
        if self.chance is None or self.rules.temperature is None:
            return log_probs.argmax(-1)
        best = log_probs.amax(-1, keepdim=True).clamp(min=torch.finfo(log_probs.dtype).min)
        scores = (log_probs - best) / max(self.rules.temperature, 1e-30)
        below = truncate(scores, top_k=self.rules.top_k, top_p=self.rules.top_p).exp().cumsum(-1, dtype=torch.float64)
        chance = self.chance.flatten(0, 1).index_select(0, self.rows.time * self.rows.sentences + sentence)
        return (below <= chance.unsqueeze(1) * below[:, -1:]).sum(-1).clamp(max=log_probs.shape[1] - 1)


def seen_by(weights: Float[Tensor, "b t k"], lengths: Int[Tensor, " b"]) -> Seen:
    """The first `lengths` rows of each sentence: copied to the host at once."""
    steps = torch.arange(weights.shape[1], device=weights.device)
    chosen = (steps < lengths.unsqueeze(1)).flatten().nonzero().squeeze(1)
    picked = on_host(weights.flatten(0, 1).index_select(0, chosen))
    ends = list(accumulate(lengths.tolist()))
    return Seen(picked, [0, *ends[:-1]], ends)


def on_host(tensor: Tensor) -> Tensor:
    """A copy on the host, by way of pinned memory, which torch keeps for the next one."""
    if tensor.device.type != "cuda" or tensor.nbytes > MOST_PINNED:
        return tensor.cpu()
    place = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
    place.copy_(tensor)
    return place.clone()
