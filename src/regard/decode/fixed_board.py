"""What every search over fixed shapes keeps on the device: rows of the sentences that go on, and what they found."""

import math
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.base import ConfigError, RegardError
from regard.decode.protocol import tensors


class Rows:
    """Buffers with a row for each sentence, in the order in which the sentences stand now, and their results.

    `now["tokens"]` and others follow the order; `found[name]` has a copy by the number of the sentence, which `flush`
    brings up to date. `done` says which sentences have ended: nothing of them changes any more.
    """

    def __init__(self, sentences: int, steps: int, device: torch.device) -> None:
        self.sentences, self.steps, self.device = sentences, steps, device
        self.time = torch.zeros((), dtype=torch.long, device=device)  # the number of the last step
        self.bad = torch.zeros((), dtype=torch.bool, device=device)  # whether there were logits that are not numbers
        self.now: dict[str, Tensor] = {}
        self.found: dict[str, Tensor] = {}
        self._first: dict[str, float] = {}
        self.add("done", torch.bool)
        self.add("sentence", torch.long)
        self.add("last", torch.long)
        self.looks: Tensor | None = None  # [t b …]: where every step looked, by the number of the sentence

    def add(self, name: str, dtype: torch.dtype, *shape: int, first: float = 0.0, found: bool = False) -> Tensor:
        """One more buffer [b …] that begins with `first`; `found` if it is a result."""
        self.now[name] = torch.full((self.sentences, *shape), first, dtype=dtype, device=self.device)
        self._first[name] = first
        if found:
            self.found[name] = self.now[name].clone()
        return self.now[name]

    def start(self, last: Tensor) -> None:
        """All from the beginning, for as many sentences as there are last steps."""
        for name, buffer in self.now.items():
            buffer.fill_(self._first[name])
        for name, buffer in self.found.items():
            buffer.fill_(self._first[name])
        self.now["sentence"].copy_(torch.arange(self.sentences, device=self.device))
        self.now["done"][len(last) :] = True
        self.now["last"][: len(last)].copy_(last)
        self.time.zero_()
        self.bad.zero_()

    def flush(self, sentences: int) -> None:
        """Copies what the first `sentences` rows found to its place."""
        here = self.now["sentence"][:sentences]
        for name, buffer in self.found.items():
            buffer.index_copy_(0, here, self.now[name][:sentences])

    def gather(self, sentences: int, fewer: int) -> Tensor:
        """Brings those of the first `sentences` rows that go on to the first `fewer` places; gives the old rows."""
        self.flush(sentences)
        order = self.now["done"][:sentences].byte().argsort(stable=True)[:fewer]
        for buffer in self.now.values():
            buffer[:fewer].copy_(buffer.index_select(0, order))
        return order

    def written(self, buffer: Tensor, entries: Tensor) -> None:
        """Writes entries [m …] of this step into a buffer [t b …], each at the number of its sentence."""
        places = self.time * self.sentences + self.now["sentence"][: len(entries)]
        buffer.flatten(0, 1).index_copy_(0, places, entries.to(buffer.dtype))

    def trellis(self, dtype: torch.dtype, *shape: int) -> Tensor:
        """A buffer with an entry for each step (from 1 on) and sentence."""
        return torch.zeros(self.steps + 1, self.sentences, *shape, dtype=dtype, device=self.device)

    def look(self, weights: Tensor | None, sentences: int) -> None:
        """Keeps the weights [m·w k] of this step."""
        if weights is not None and (looks := self.looks_for(weights, sentences)) is not None:
            self.written(looks, weights.view(sentences, *looks.shape[2:]))

    def looks_for(self, weights: Tensor | None, sentences: int) -> Tensor | None:
        """The buffer of all weights; it is made with the first ones [m·w k]."""
        if weights is not None and self.looks is None:
            self.looks = self.trellis(weights.dtype, len(weights) // sentences, weights.shape[-1])
        return None if weights is None else self.looks

    def check(self) -> None:
        """An error if there were logits that are not numbers; waits for the device."""
        if self.bad.item():
            cure = "look for NaN in the weights of the model"
            raise RegardError("the logits of a step are not numbers", got="NaN or +∞", cure=cure)

    def log_probs(self, logits: Float[Tensor, "n v"], sentences: int) -> Float[Tensor, "n v"]:
        """As `advance` of the plain search, but an error is remembered until `check`, so that nobody waits for it."""
        wide = torch.promote_types(logits.dtype, torch.float32)
        empty = logits.amax(-1, keepdim=True) == -math.inf
        log_probs = logits.log_softmax(-1, dtype=wide).masked_fill_(empty, -math.inf)
        self.note(log_probs[:, 0].isnan(), sentences)
        return log_probs

    def note(self, wrong: Bool[Tensor, " n"], sentences: int) -> None:
        """Remembers whether a row that goes on had logits that are not numbers."""
        self.bad |= (wrong.view(sentences, -1).any(1) & ~self.now["done"][:sentences]).any()


class Barred:
    """Tokens that may not be taken: some never, EOS not before `min_steps`."""

    def __init__(self, forbidden: frozenset[int], eos: int, min_steps: int, device: torch.device) -> None:
        self.tokens = torch.tensor(sorted(forbidden), device=device) if forbidden else None
        self.eos, self.min_steps, self.largest = eos, min_steps, max({eos, *forbidden})
        self._added: tuple[Tensor, Tensor] | None = None  # before `min_steps`, and after

    def added(self, size: int, time: Tensor) -> Float[Tensor, " v"] | None:
        """−∞ for the tokens of a vocabulary that may not be taken, and 0 for others; None where all may."""
        self._check(size)
        if self.tokens is None and self.min_steps <= 1:
            return None
        if self._added is None:
            later = torch.zeros(size, device=time.device)
            if self.tokens is not None:
                later[self.tokens] = -math.inf
            sooner = later.clone()
            sooner[self.eos] = -math.inf
            self._added = sooner, later
        sooner, later = self._added
        return torch.where(time < self.min_steps, sooner, later) if self.min_steps > 1 else later

    def __call__(self, log_probs: Float[Tensor, "n v"], time: Tensor) -> Float[Tensor, "n v"]:
        """Sets the log-probabilities of tokens that may not be taken to −∞, in place."""
        self._check(log_probs.shape[1])
        if self.tokens is not None:
            log_probs.index_fill_(1, self.tokens, -math.inf)
        if self.min_steps > 1:
            log_probs.select(1, self.eos).masked_fill_(time < self.min_steps, -math.inf)
        return log_probs

    def _check(self, size: int) -> None:
        if self.largest >= size:
            got, expected = self.largest, f"tokens of the vocabulary: 0 to {size - 1}"
            raise ConfigError("eos or forbidden tokens", got=got, expected=expected)


def type_of(state: Any) -> torch.dtype:
    """The type of log-probabilities: float32, or float64 where the state has it or has no real numbers at all."""
    kinds = {tensor.dtype for tensor in tensors(state) if tensor.is_floating_point()}
    return torch.float64 if torch.float64 in kinds or not kinds else torch.float32
