"""Sequences of bits made by algorithms (Graves 2014): copy, repeat copy, associative recall, dynamic N-grams, sort.

Each problem draws a batch on any device in tensors of one fixed shape, so that a captured graph may hold it: sequences
have lengths of their own, and `scored` says at which steps the output counts. Noise comes from `generator`, or from
torch's own one, which the trainer seeds anew at every step.
"""

import math
import re
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.data.parallel import DataError

VECTORS = 3  # of an item of associative recall
CONTEXT = 5  # bits that decide on the chance of the next one: 6-grams
LONGEST_TYPED = 1000  # vectors that a user may type


class Sequences(NamedTuple):
    """A batch: what comes in and what should go out at each step, and which steps count."""

    inputs: Float[Tensor, "b t i"]
    targets: Float[Tensor, "b t o"]  # 0 or 1
    scored: Bool[Tensor, "b t"]  # False while the input comes in, and after the end
    lengths: Int[Tensor, " b"]  # vectors, or items, of each sequence

    def take(self, rows: Any) -> "Sequences":
        """Selects some of the sequences, as an index selects rows."""
        return Sequences(*(tensor[rows] for tensor in self))


@dataclass(frozen=True)
class Copy:
    """Vectors of bits, a delimiter on a channel of its own, and then the same vectors go out (section 4.1)."""

    bits: int = 8
    shortest: int = 1
    longest: int = 20
    example = "01101001 11110000 00110101"

    @property
    def inputs(self) -> int:
        """Channels that come in: the bits, and the delimiter."""
        return self.bits + 1

    @property
    def outputs(self) -> int:
        """Bits that go out at each step."""
        return self.bits

    def draw(
        self, batch: int, *, length: int | None = None, generator: torch.Generator | None = None, device: Any = "cpu"
    ) -> Sequences:
        """A random batch; `length` is that of all sequences, in place of random ones."""
        lengths = _lengths(self, batch, length, generator, device)
        return self.arrange(_bits(batch, length or self.longest, self.bits, generator, device), lengths)

    def arrange(self, vectors: Float[Tensor, "b n w"], lengths: Int[Tensor, " b"]) -> Sequences:
        """The steps of sequences with these vectors, of which the first `lengths` count."""
        longest = vectors.shape[1]
        time = torch.arange(2 * longest + 1, device=vectors.device)
        ends = lengths.unsqueeze(1)
        scored = (time > ends) & (time <= 2 * ends)
        channels = [_masked(_at(vectors, time), time < ends), _flag(time == ends)]
        return Sequences(torch.cat(channels, -1), _masked(_at(vectors, time - ends - 1), scored), scored, lengths)

    def read(self, text: str) -> Sequences:
        """The sequence of a text such as "0110 1100": vectors of bits."""
        vectors = _read_vectors(text.split(), self.bits)
        return self.arrange(vectors, torch.tensor([vectors.shape[1]]))


@dataclass(frozen=True)
class RepeatCopy:
    """Vectors of bits and a number; the vectors go out as often as it says, and then an end marker (section 4.2).

    The number stands beside the delimiter, on a channel of its own, with mean 0 and variance 1 over those of training.
    """

    bits: int = 8
    shortest: int = 1
    longest: int = 10
    repeats: int = 10
    example = "01101001 11110000 x3"

    @property
    def inputs(self) -> int:
        """Channels that come in: the bits, the delimiter, and the number of repeats."""
        return self.bits + 2

    @property
    def outputs(self) -> int:
        """Bits that go out at each step, and the end marker."""
        return self.bits + 1

    def draw(
        self, batch: int, *, length: int | None = None, generator: torch.Generator | None = None, device: Any = "cpu"
    ) -> Sequences:
        """A random batch; `length` is that of all sequences, in place of random ones."""
        lengths = _lengths(self, batch, length, generator, device)
        repeats = torch.randint(1, self.repeats + 1, (batch,), generator=generator, device=device)
        vectors = _bits(batch, length or self.longest, self.bits, generator, device)
        return self.arrange(vectors, lengths, repeats, most=self.repeats)

    def arrange(
        self, vectors: Float[Tensor, "b n w"], lengths: Int[Tensor, " b"], repeats: Int[Tensor, " b"], *, most: int
    ) -> Sequences:
        """The steps of sequences with these vectors; `most` is the largest number of repeats that has room."""
        longest = vectors.shape[1]
        time = torch.arange(longest + 2 + longest * most, device=vectors.device)
        ends = lengths.unsqueeze(1)
        last = ends + 1 + ends * repeats.unsqueeze(1)  # the step of the end marker
        copying, marker = (time > ends) & (time < last), _flag(time == last)
        spread = math.sqrt((self.repeats**2 - 1) / 12) or 1.0
        number = ((repeats - (1 + self.repeats) / 2) / spread).reshape(-1, 1, 1)
        delimiter = _flag(time == ends)
        inputs = torch.cat([_masked(_at(vectors, time), time < ends), delimiter, delimiter * number], -1)
        copies = _masked(_at(vectors, torch.remainder(time - ends - 1, ends)), copying)
        return Sequences(inputs, torch.cat([copies, marker], -1), (time > ends) & (time <= last), lengths)

    def read(self, text: str) -> Sequences:
        """The sequence of a text such as "0110 1100 x3"."""
        *words, last = text.split() or [""]
        if not re.fullmatch(r"x[1-9][0-9]{0,2}", last):
            raise DataError("how often to repeat", got=repr(last), expected=f"vectors and a number, as {self.example}")
        vectors, repeats = _read_vectors(words, self.bits), int(last[1:])
        if vectors.shape[1] * repeats > LONGEST_TYPED:
            raise DataError("the copies are too long", got=vectors.shape[1] * repeats, expected=f"≤ {LONGEST_TYPED}")
        return self.arrange(vectors, torch.tensor([vectors.shape[1]]), torch.tensor([repeats]), most=repeats)


@dataclass(frozen=True)
class Recall:
    """Items of three vectors, each after a delimiter; then one of them as a query, and the next goes out (4.3)."""

    bits: int = 6
    shortest: int = 2
    longest: int = 6
    example = "011010 110011 000111 | 101010 111000 010101 ? 011010 110011 000111"

    @property
    def inputs(self) -> int:
        """Channels that come in: the bits, the delimiter of items, and that of the query."""
        return self.bits + 2

    @property
    def outputs(self) -> int:
        """Bits that go out at each step."""
        return self.bits

    def draw(
        self, batch: int, *, length: int | None = None, generator: torch.Generator | None = None, device: Any = "cpu"
    ) -> Sequences:
        """A random batch; `length` is the number of items of all sequences, in place of random ones."""
        lengths = _lengths(self, batch, length, generator, device)
        vectors = _bits(batch, (length or self.longest) * VECTORS, self.bits, generator, device)
        chance = torch.rand(batch, generator=generator, device=device)
        return self.arrange(vectors, lengths, (chance * (lengths - 1)).long().minimum(lengths - 2))

    def arrange(
        self, vectors: Float[Tensor, "b n w"], lengths: Int[Tensor, " b"], asked: Int[Tensor, " b"]
    ) -> Sequences:
        """The steps of sequences with these items, three vectors each; `asked` is the number of the query item."""
        span = VECTORS + 1
        time = torch.arange(vectors.shape[1] // VECTORS * span + 2 + 2 * VECTORS, device=vectors.device)
        query = lengths.unsqueeze(1) * span  # the step of the first delimiter of the query
        place, first = torch.remainder(time, span), asked.unsqueeze(1) * VECTORS
        listed = (time < query) & (place > 0)
        asking = (time > query) & (time <= query + VECTORS)
        scored = (time > query + span) & (time <= query + span + VECTORS)
        items = _masked(_at(vectors, time // span * VECTORS + place - 1), listed)
        question = _masked(_at(vectors, first + time - query - 1), asking)
        closing = _flag((time == query) | (time == query + span))
        inputs = torch.cat([items + question, _flag((time < query) & (place == 0)), closing], -1)
        answer = _masked(_at(vectors, first + VECTORS + time - query - span - 1), scored)
        return Sequences(inputs, answer, scored, lengths)

    def read(self, text: str) -> Sequences:
        """The sequence of a text such as the example: items with | between them, then ? and one of them."""
        listed, mark, query = text.partition("?")
        items = [_read_vectors(words.split(), self.bits) for words in listed.split("|")]
        if not mark or any(item.shape[1] != VECTORS for item in items) or len(items) < 2:
            got, expected = repr(text), f"items of {VECTORS} vectors, | between them, then ? and an item"
            raise DataError("this cannot be asked", got=got, expected=expected, cure=self.example)
        wanted = _read_vectors(query.split(), self.bits)
        known = [number for number, item in enumerate(items[:-1]) if torch.equal(item, wanted)]
        if not known:
            raise DataError("the query must be one of the items but the last", got=query.strip(), cure=self.example)
        return self.arrange(torch.cat(items, 1), torch.tensor([len(items)]), torch.tensor(known[:1]))


@dataclass(frozen=True)
class NGrams:
    """Bits, each drawn with a chance that depends on the five before it; the next bit goes out (section 4.4).

    The 32 chances of a sequence come from Beta(½, ½). The first five bits are fair, and nobody is asked for them.
    """

    bits: int = 1
    shortest: int = 200
    longest: int = 200
    example = "0110111011101110111"
    inputs = 1
    outputs = 1

    def draw(
        self, batch: int, *, length: int | None = None, generator: torch.Generator | None = None, device: Any = "cpu"
    ) -> Sequences:
        """A random batch; `length` is that of all sequences."""
        length = length or self.longest
        uniform = torch.rand(batch, 2**CONTEXT, generator=generator, device=device)
        table = torch.sin(uniform * (math.pi / 2)).square()  # Beta(½, ½) by its inverse
        noise = torch.rand(batch, length, generator=generator, device=device)
        bits = [(noise[:, step] < 0.5).long() for step in range(min(CONTEXT, length))]
        context = sum((bit << (CONTEXT - 1 - place) for place, bit in enumerate(bits)), torch.zeros_like(bits[0]))
        for step in range(CONTEXT, length):
            bit = (noise[:, step] < table.gather(1, context.unsqueeze(1)).squeeze(1)).long()
            context = (context * 2) % 2**CONTEXT + bit
            bits.append(bit)
        return self.arrange(torch.stack(bits, 1))

    def arrange(self, bits: Int[Tensor, "b n"]) -> Sequences:
        """The steps of these bits: each comes in, and the one after it should go out."""
        series, time = bits.float().unsqueeze(-1), torch.arange(bits.shape[1] - 1, device=bits.device)
        scored = (time >= CONTEXT - 1).expand(len(bits), -1)
        lengths = torch.full((len(bits),), bits.shape[1], device=bits.device)
        return Sequences(series[:, :-1], _masked(series[:, 1:], scored), scored, lengths)

    def read(self, text: str) -> Sequences:
        """The sequence of a text such as "011011"."""
        vectors = _read_vectors(list("".join(text.split())), 1)
        if vectors.shape[1] <= CONTEXT:
            raise DataError("too few bits", got=vectors.shape[1], expected=f"more than {CONTEXT}", cure=self.example)
        return self.arrange(vectors.squeeze(-1).long())


@dataclass(frozen=True)
class Sort:
    """Vectors, each with a priority from −1 to 1; those of highest priority go out, highest first (section 4.5)."""

    bits: int = 8
    shortest: int = 20
    longest: int = 20
    kept: int = 16
    example = "01101001:0.5 11110000:-0.2 00110101:0.9"

    @property
    def inputs(self) -> int:
        """Channels that come in: the bits, the priority, and the delimiter."""
        return self.bits + 2

    @property
    def outputs(self) -> int:
        """Bits that go out at each step."""
        return self.bits

    def draw(
        self, batch: int, *, length: int | None = None, generator: torch.Generator | None = None, device: Any = "cpu"
    ) -> Sequences:
        """A random batch; `length` is the number of vectors of all sequences, in place of random ones."""
        lengths = _lengths(self, batch, length, generator, device)
        vectors = _bits(batch, length or self.longest, self.bits, generator, device)
        chance = torch.rand(vectors.shape[:2], generator=generator, device=device)
        return self.arrange(vectors, 2 * chance - 1, lengths)

    def arrange(
        self, vectors: Float[Tensor, "b n w"], priorities: Float[Tensor, "b n"], lengths: Int[Tensor, " b"]
    ) -> Sequences:
        """The steps of sequences with these vectors and priorities."""
        longest = vectors.shape[1]
        time, ends = torch.arange(longest + 1 + min(self.kept, longest), device=vectors.device), lengths.unsqueeze(1)
        present = torch.arange(longest, device=vectors.device) < ends
        order = priorities.masked_fill(~present, -2.0).argsort(dim=1, descending=True, stable=True)
        ranked = vectors.gather(1, order.unsqueeze(-1).expand_as(vectors))
        scored = (time > ends) & (time <= ends + lengths.clamp(max=self.kept).unsqueeze(1))
        channels = torch.cat([vectors, priorities.unsqueeze(-1)], -1)
        inputs = torch.cat([_masked(_at(channels, time), time < ends), _flag(time == ends)], -1)
        return Sequences(inputs, _masked(_at(ranked, time - ends - 1), scored), scored, lengths)

    def read(self, text: str) -> Sequences:
        """The sequence of a text such as "0110:0.5 1100:-0.2": vectors with their priorities."""
        pairs = [word.partition(":") for word in text.split()]
        vectors = _read_vectors([word for word, _, _ in pairs], self.bits)
        try:
            priorities = [float(number) for _, _, number in pairs]
        except ValueError as error:
            raise DataError("every vector needs a priority", got=repr(text), cure=self.example) from error
        if not all(-1 <= number <= 1 for number in priorities):
            raise DataError("priorities", got=priorities, expected="numbers from -1 to 1", cure=self.example)
        return self.arrange(vectors, torch.tensor([priorities]), torch.tensor([vectors.shape[1]]))


Problem = Copy | RepeatCopy | Recall | NGrams | Sort
PROBLEMS: dict[str, type[Problem]] = {
    "copy": Copy, "repeat_copy": RepeatCopy, "recall": Recall, "ngrams": NGrams, "sort": Sort
}  # fmt: skip


def optimal_bits(sequences: Sequences) -> Float[Tensor, " b"]:
    """The cost in bits of N-gram sequences under the best estimate from the counts so far, (N₁ + ½) / (N₀ + N₁ + 1).

    It is the mean of the chance of a one, given how often ones and zeros followed the same five bits before.
    """
    bits = torch.cat([sequences.inputs[..., 0], sequences.targets[:, -1:, 0]], 1).double()
    places = 2.0 ** torch.arange(CONTEXT - 1, -1, -1, device=bits.device)
    contexts = (bits[:, :-1].unfold(1, CONTEXT, 1) * places).sum(-1).long()  # of the bit after them
    following = bits[:, CONTEXT:]
    seen = torch.nn.functional.one_hot(contexts, 2**CONTEXT).double()
    ones, all_ = (
        ((counts.cumsum(1) - counts) * seen).sum(-1) for counts in (seen * following.unsqueeze(-1), seen)
    )  # before this bit, after the same context
    chance = (ones + 0.5) / (all_ + 1)
    return -(following * chance.log2() + (1 - following) * (1 - chance).log2()).sum(1)


def _lengths(problem: Any, batch: int, length: int | None, generator: torch.Generator | None, device: Any) -> Tensor:
    """A length for each sequence: from the shortest to the longest alike, or the one that is asked for."""
    if length is not None:
        return torch.full((batch,), length, device=device)
    return torch.randint(problem.shortest, problem.longest + 1, (batch,), generator=generator, device=device)


def _bits(batch: int, count: int, width: int, generator: torch.Generator | None, device: Any) -> Tensor:
    return (torch.rand(batch, count, width, generator=generator, device=device) < 0.5).float()


def _at(vectors: Float[Tensor, "b n w"], index: Tensor) -> Float[Tensor, "b t w"]:
    """The vectors at places [t] or [b t]; places outside get some vector, which the caller masks."""
    index = index.clamp(0, vectors.shape[1] - 1).expand(len(vectors), -1)
    return vectors.gather(1, index.unsqueeze(-1).expand(-1, -1, vectors.shape[-1]))


def _masked(vectors: Float[Tensor, "b t w"], real: Bool[Tensor, "b t"]) -> Float[Tensor, "b t w"]:
    return vectors.masked_fill(~real.unsqueeze(-1), 0.0)


def _flag(where: Bool[Tensor, "b t"]) -> Float[Tensor, "b t 1"]:
    return where.float().unsqueeze(-1)


def _read_vectors(words: list[str], width: int) -> Float[Tensor, "1 n w"]:
    """Words of zeros and ones as vectors."""
    if not words or len(words) > LONGEST_TYPED:
        raise DataError("a sequence of bits", got=f"{len(words)} vectors", expected=f"1 to {LONGEST_TYPED}")
    for word in words:
        if len(word) != width or set(word) - set("01"):
            raise DataError("this is not a vector of bits", got=repr(word), expected=f"{width} times 0 or 1")
    return torch.tensor([[[float(bit) for bit in word] for word in words]])
