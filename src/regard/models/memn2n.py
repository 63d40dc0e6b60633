"""End-to-end memory networks: Sukhbaatar, Szlam, Weston & Fergus 2015, arXiv 1503.08895. Section numbers are its own.

A sentence is a weighted bag of words: Σ_j l_j ∘ A x_ij = (Σ_j α_j x_ij) A + γ ∘ (Σ_j β_j x_ij) A, with α_j = 1 − j/J,
β_j = 1 − 2j/J and γ_k = −k/d. So the bags are made once for all tables of embeddings, and every table is used, and gets
its gradient, by a product. The authors' code has other weights: l_kj = 1 + 4 (k − (d + 1)/2) (j − (J + 1)/2) / (dJ),
around 1 and about twice as large, which `encoding="centred"` takes. As in that code, the age of a sentence is one more
word of it, which has rows of its own at the end of the tables; it has the weight 1.
"""

import math
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention import Mask
from regard.base import ShapeError, check_settings
from regard.base.ranges import Few, Range, Share, Vocabulary, Width
from regard.nn import MemoryHops

Slots = Annotated[int, Range(least=1, most=100_000)]


@dataclass(frozen=True)
class MemN2NConfig:
    """Sizes of the paper for one task (section 4.2); 50 wide for all tasks together."""

    vocabulary: Vocabulary = 0  # words and answers; the data decide
    memories: Slots = 50  # sentences that a story has at most; the data decide
    width: Width = 20  # of the embeddings, d
    hops: Few = 3  # how often the memory is looked at, K
    tying: Literal["adjacent", "layerwise"] = "adjacent"  # which tables are one: A^{k+1} = C^k, or the same in all hops
    encoding: Literal["position", "centred", "bag"] = "position"  # of words: by place, as the code has it, or all alike
    time: bool = True  # whether a memory holds the age of its sentence
    noise: Share = 0.1  # random noise: up to this share of empty memories between the sentences, in training
    empty: bool = False  # whether empty memories take part with scores of 0, as in the authors' code, or are masked
    score: str = "dot"  # name of the score, of SCORES
    align: str = "softmax"  # name of the alignment, of ALIGNS

    def __post_init__(self) -> None:
        check_settings(self, "model")


def memn2n_alone() -> MemN2NConfig:
    """One task by itself, as in the authors' code: d = 20, three hops, adjacent tying."""
    return MemN2NConfig(encoding="centred", empty=True)


def memn2n_joint() -> MemN2NConfig:
    """All tasks together, as in the authors' code: d = 50."""
    return MemN2NConfig(width=50, encoding="centred", empty=True)


class MemN2N(nn.Module):
    """A question looks at a memory of sentences, some hops one after the other, and becomes an answer of one word."""

    def __init__(self, config: MemN2NConfig) -> None:
        super().__init__()
        self.config = config
        adjacent = config.tying == "adjacent"
        rows = config.vocabulary + (config.memories if config.time else 0)
        count = config.hops + 1 if adjacent else 2
        self.tables = nn.ParameterList(torch.empty(rows, config.width) for _ in range(count))
        self.question = None if adjacent else nn.Parameter(torch.empty(rows, config.width))  # B
        self.answer = None if adjacent else nn.Parameter(torch.empty(config.vocabulary, config.width))  # W
        self.hops = MemoryHops(
            config.hops,
            config.width,
            score=config.score,
            align=config.align,
            recurrent=not adjacent,
            max_keys=config.memories,
        )
        for name, parameter in self.named_parameters():
            if not name.startswith("hops.attentions"):
                nn.init.normal_(parameter, std=0.1)

    def key_table(self, hop: int) -> Tensor:
        """A^k, hops from 0: words and ages [v + m, d]."""
        table: Tensor = self.tables[self._key_place(hop)]
        return table

    def value_table(self, hop: int) -> Tensor:
        """C^k, hops from 0; with adjacent tying it is the A^{k+1} of the next hop."""
        table: Tensor = self.tables[self._key_place(hop) + 1]
        return table

    def _key_place(self, hop: int) -> int:
        """Which table is A^k; the next one is C^k."""
        return hop if self.config.tying == "adjacent" else 0

    @property
    def question_table(self) -> Tensor:
        """B, which is A^1 with adjacent tying."""
        return self.key_table(0) if self.question is None else self.question

    @property
    def answer_table(self) -> Tensor:
        """W [v d], which is the words of C^K with adjacent tying."""
        last = self.value_table(self.config.hops - 1)[: self.config.vocabulary]
        return last if self.answer is None else self.answer

    def forward(
        self,
        story: Int[Tensor, "b m w"],
        lengths: Int[Tensor, " b"],
        question: Int[Tensor, "b j"],
        *,
        linear: bool = False,
    ) -> Float[Tensor, "b v"]:
        """Logits of the answer, for stories of so many sentences, oldest first, and padded with 0.

        `linear` is the linear start: attention without its softmax (section 4.2).
        """
        state = self._encode(self._bags(question), [self.question_table])[0]  # u^1
        encoded = self._encode(self._story_bags(story, lengths), list(self.tables))  # one memory a table
        keys = [encoded[self._key_place(hop)] for hop in range(self.config.hops)]  # m_i
        values = [encoded[self._key_place(hop) + 1] for hop in range(self.config.hops)]  # c_i
        if self.config.empty:
            state = self._hops_with_empty(state, keys, values, lengths, linear)
        else:
            state = self.hops(state, keys, values, mask=Mask.padding(lengths), linear=linear)
        return F.linear(state, self.answer_table)  # â = softmax(W u^{K+1})

    def _hops_with_empty(
        self,
        state: Float[Tensor, "b d"],
        keys: list[Tensor],
        values: list[Tensor],
        lengths: Int[Tensor, " b"],
        linear: bool,
    ) -> Float[Tensor, "b d"]:
        """The hops over `memories` slots, those without a sentence being zeros: one slot at the end stands for all n of
        them, with log n added to its score, since n slots with a score of 0 weigh as much as one with log n.
        """
        slots = keys[0].shape[1]
        count = (self.config.memories - lengths).clamp(min=0)
        allowed = torch.arange(slots + 1, device=lengths.device) < lengths.unsqueeze(1)
        allowed = torch.cat([allowed[:, :slots], (count > 0).unsqueeze(1)], 1)
        bias = F.pad(count.clamp(min=1).to(state.dtype).log()[:, None, None], (slots, 0))
        padded = [[F.pad(memory, (0, 0, 0, 1)) for memory in part] for part in (keys, values)]
        answered: Tensor = self.hops(state, *padded, mask=Mask.of(allowed.unsqueeze(1)), bias=bias, linear=linear)
        return answered

    def _encode(self, bags: Float[Tensor, "*b c r"], tables: list[Tensor]) -> list[Tensor]:
        """Vectors [*b d] of the bags, by each of the tables; all tables are one product."""
        sums = (bags @ torch.cat(tables, 1)).view(*bags.shape[:-1], len(tables), -1)  # [*b c t d]
        if self.config.encoding == "bag":
            return list(sums.squeeze(-3).unbind(-2))
        unit, width = torch.arange(1, self.config.width + 1, device=bags.device), self.config.width
        gamma = -unit / width if self.config.encoding == "position" else 4 * (unit - (width + 1) / 2) / width
        alpha, beta = sums.unbind(-3)
        return list((alpha + gamma.to(sums.dtype) * beta).unbind(-2))

    def _bags(self, words: Int[Tensor, "*b w"]) -> Float[Tensor, "*b c r"]:
        """Weighted counts of the words of each sentence; the word 0 is padding and counts nothing."""
        real = words != 0
        table = self.tables[0]
        if self.config.encoding == "bag":
            weights = real.to(table.dtype).unsqueeze(-2)
        else:
            place = torch.arange(1, words.shape[-1] + 1, device=words.device, dtype=table.dtype)
            size = real.sum(-1, keepdim=True).clamp(min=1)  # J
            alpha, beta = 1 - place / size, 1 - 2 * place / size
            if self.config.encoding == "centred":
                alpha, beta = torch.ones_like(alpha), (place - (size + 1) / 2) / size
            weights = torch.stack([alpha, beta], -2) * real.unsqueeze(-2)  # [*b 2 w]
        empty = weights.new_zeros(*weights.shape[:-1], len(table))
        return empty.scatter_add(-1, words.unsqueeze(-2).expand_as(weights), weights)

    def _story_bags(self, story: Int[Tensor, "b m w"], lengths: Int[Tensor, " b"]) -> Float[Tensor, "b m c r"]:
        """The bags of sentences with their ages among the words: the latest sentence has the first age."""
        bags = self._bags(story)
        if not self.config.time:
            return bags
        slots = story.shape[1]
        if slots > self.config.memories:
            cure = "keep the last sentences, or raise task.memories"
            raise ShapeError("the story is too long", got=slots, expected=f"at most {self.config.memories}", cure=cure)
        ages = (lengths.unsqueeze(1) - 1 - torch.arange(slots, device=story.device)).clamp(min=0)
        if self.training and self.config.noise:
            ages = noisy_ages(ages, lengths, self.config.noise).clamp(max=self.config.memories - 1)
        where = (self.config.vocabulary + ages).unsqueeze(-1)  # the column of the age, with weight 1
        bags[:, :, 0].scatter_(-1, where, 1.0)  # bags have no gradient, so they may be written to
        return bags


def noisy_ages(ages: Int[Tensor, "b m"], lengths: Int[Tensor, " b"], share: float) -> Int[Tensor, "b m"]:
    """Ages as if empty memories stood between the sentences: up to `share` of their number, at random places.

    Nothing waits for the device, and a captured graph may hold it.

    >>> noisy_ages(torch.tensor([[2, 1, 0]]), torch.tensor([3]), 0.0)
    tensor([[2, 1, 0]])
    """
    most = math.ceil(share * ages.shape[1])
    places = torch.arange(ages.shape[1] + most, device=ages.device)
    limit = lengths.unsqueeze(1)
    blanks = (torch.rand_like(limit, dtype=torch.float32) * ((share * limit - 1e-4).ceil() + 1)).long()
    chance = torch.rand(len(ages), len(places), device=ages.device).masked_fill(places >= limit + blanks, 2.0)
    kept = chance.argsort(-1).argsort(-1) < limit  # as many of the first places as there are sentences
    return places.where(kept, len(places)).sort(-1).values.gather(1, ages)
