"""The memory network as a language model: Sukhbaatar, Szlam, Weston & Fergus 2015, arXiv 1503.08895, section 5.

The memory of a position of the text is the last M words up to it, x_0 the word itself, x_a the word a places before:

m_a = A x_a + T_A(a),   c_a = C x_a + T_C(a)        the same tables in every hop (layer-wise tying)
u¹ = 0.1                                            every number of it: there is no question
p_a = softmax(u^kᵀ m_a),   o^k = Σ_a p_a c_a
u^{k+1} = f(H u^k + o^k)                            f is a ReLU on one half of the numbers, and nothing on the other
next word ~ softmax(W u^{K+1})

A stretch of text is predicted at all its positions at once. The words of a batch are embedded once, [b n d], and the
positions attend to them under a mask that is a band, so no tensor [b t M d] of memories is made. A score that is linear
in the key gives u·m_a = u·A x_a + u·T_A(a): the second addend depends on the age alone, [b t M], and is moved to the
places of the words. In the same way Σ_a p_a c_a is Σ_a p_a C x_a, by place, and Σ_a p_a T_C(a), by age. Other scores
need every m_a by itself; their keys, and only these, are laid out as [b t M d].
"""

from dataclasses import dataclass
from typing import Annotated

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention import Attention, Mask
from regard.attention.output import CallOptions
from regard.attention.tracing import record, untraced, watched
from regard.base import check_settings
from regard.base.ranges import Few, Range, Share, UpToOne, Vocabulary, Width
from regard.models.language_model import Continued
from regard.nn import MemoryHops
from regard.score import Dot, General, ScaledDot

LINEAR_IN_THE_KEY = (Dot, ScaledDot, General)
SHORTEST_PIECE = 128  # positions; a text that is longer than this and than the memory is read in pieces
PAD = 0  # the word that stands for no word

Slots = Annotated[int, Range(least=1, most=100_000)]


@dataclass(frozen=True)
class MemN2NLanguageModelConfig:
    """Sizes of the paper's best model of the Penn Treebank: 6 hops over 150 words, 150 numbers wide."""

    vocabulary: Vocabulary = 0  # tokens; the data decide
    memories: Slots = 150  # words that are remembered, M
    width: Width = 150  # of the embeddings, d
    hops: Few = 6  # how often the memory is looked at, K
    rectified: UpToOne = 0.5  # share of the state that passes a ReLU after each hop; the rest stays linear
    score: str = "dot"  # name of the score, of SCORES
    align: str = "softmax"  # name of the alignment, of ALIGNS
    dropout: Share = 0.0  # share of the numbers of a context and of the last state that are zero in training
    embed_dropout: Share = 0.0  # share of the numbers of the word vectors A x and C x that are zero in training
    tied: bool = False  # whether the output layer W is the table C; the paper has a table of its own

    def __post_init__(self) -> None:
        check_settings(self, "model")


class MemN2NLanguageModel(nn.Module):
    """Looks at the last `memories` words, some hops one after the other, and predicts the next word.

    The state that is carried from one stretch of text to the next is the last words themselves [b M−1], 0 where there
    is none: the first word of a stretch, which is not among them, completes its own memory. A trace sees hop k as the
    layer `hops.attentions.k`, with weights [b t n] of the n carried and new words.
    """

    def __init__(self, config: MemN2NLanguageModelConfig) -> None:
        super().__init__()
        self.config = config
        self.key_words, self.value_words = (nn.Embedding(config.vocabulary, config.width) for _ in range(2))  # A, C
        self.key_ages = nn.Parameter(torch.empty(config.memories, config.width))  # T_A
        self.value_ages = nn.Parameter(torch.empty(config.memories, config.width))  # T_C
        self.hops = MemoryHops(
            config.hops,
            config.width,
            score=config.score,
            align=config.align,
            recurrent=True,
            rectified=round(config.rectified * config.width),
            max_keys=config.memories,
        )
        for attention in self.hops.attentions:
            assert isinstance(attention, Attention)
            attention.impl = "reference"  # weights are needed in every pass, and have gradients
        self.output = nn.Linear(config.width, config.vocabulary, bias=False)  # W
        for name, parameter in self.named_parameters():
            if not name.startswith("hops.attentions"):
                nn.init.normal_(parameter, std=0.05)
        if config.tied:
            self.output.weight = self.value_words.weight

    def initial_state(self, batch: int) -> Int[Tensor, "b m"]:
        """The memory before the first word of `batch` texts: no words."""
        return torch.full((batch, self.config.memories - 1), PAD, dtype=torch.long, device=self.key_ages.device)

    def state_after(self, tokens: Int[Tensor, "b n"]) -> Int[Tensor, "b m"]:
        """The memory after some words: the last of them."""
        missing = self.config.memories - 1 - tokens.shape[1]
        return F.pad(tokens, (missing, 0), value=PAD)  # a negative number of places cuts the oldest words off

    def forward(self, tokens: Int[Tensor, "b t"], state: Int[Tensor, "b m"] | None = None) -> Continued:
        """Logits [b t v] of the token after each of `tokens`, and the last words; None is the start of a text."""
        carried = tokens[:, :0] if state is None else state
        text = torch.cat([carried, tokens], 1)
        hidden = self._read(text, tokens.shape[1])
        return Continued(self.output(self._drop(hidden)), self.state_after(text))

    def _read(self, text: Int[Tensor, "b n"], count: int) -> Float[Tensor, "b t d"]:
        """The state u^{K+1} at each of the last `count` words of a text; long texts are read piece by piece."""
        piece, words = max(self.config.memories, SHORTEST_PIECE), text.shape[1]
        if count == 0:
            return self.key_ages.new_zeros(len(text), 0, self.config.width)
        if count <= piece or any(watched(attention) for attention in self.hops.attentions):
            return self._hop(text, count)
        states = []
        for start in range(words - count, words, piece):
            end = min(start + piece, words)
            oldest = max(0, start - self.config.memories + 1)
            states.append(self._hop(text[:, oldest:end], end - start))
        return torch.cat(states, 1)

    def _hop(self, text: Int[Tensor, "b n"], count: int) -> Float[Tensor, "b t d"]:
        """All hops of the last `count` words, each over the words up to it."""
        memory = _Memory(self, text, count)
        state = self.key_ages.new_full((len(text), count, self.config.width), 0.1)  # u¹
        previous: Tensor | None = None
        for number, attention in enumerate(self.hops.attentions):
            assert isinstance(attention, Attention)
            if isinstance(attention.score, LINEAR_IN_THE_KEY) and not getattr(attention.align, "needs", ()):
                context = memory.look_by_place(attention, state)  # o^k
            else:
                context, previous = memory.look_by_age(attention, state, previous, number)
            state = self.hops.take_in(state, self._drop(context))
        return state

    def _drop(self, numbers: Tensor) -> Tensor:
        """Sets `dropout` of the numbers to zero, in training."""
        return F.dropout(numbers, self.config.dropout, self.training)


class _Memory:
    """The words of a stretch of text as keys and values of the positions that look at them.

    Weights of a position are by place, over the n words of the text, or by age, over the M words up to it, oldest
    first; `_to_places` and `_to_ages` go from one to the other.
    """

    def __init__(self, model: MemN2NLanguageModel, text: Int[Tensor, "b n"], count: int) -> None:
        self.model, self.text, self.count = model, text, count
        self.size = model.config.memories
        self.missing = self.size - 1 - (text.shape[1] - count)  # words that the first position lacks
        share, training = model.config.embed_dropout, model.training
        self.words = F.dropout(model.key_words(text), share, training)  # A x
        self.values = F.dropout(model.value_words(text), share, training)  # C x
        self.key_ages, self.value_ages = model.key_ages.flip(0), model.value_ages.flip(0)  # the oldest first
        self.mask = Mask.window(self.size - 1, 0) & Mask.of((text != PAD).unsqueeze(1))

    def look_by_place(self, attention: Attention, state: Float[Tensor, "b t d"]) -> Float[Tensor, "b t d"]:
        """o^k, for a score that is linear in the key, and an alignment that does not look at places."""
        assert isinstance(attention.score, LINEAR_IN_THE_KEY)
        bias = self._to_places(attention.score(state, self.key_ages))  # u·T_A(a)
        options = CallOptions(self.mask, bias, None, 0, 0.0)
        seen = attention.run(state, self.words, self.values, options, need_weights=True, trace_as=attention)
        assert seen.weights is not None
        return seen.context + self._to_ages(seen.weights) @ self.value_ages

    def look_by_age(
        self, attention: Attention, state: Float[Tensor, "b t d"], previous: Tensor | None, hop: int
    ) -> tuple[Float[Tensor, "b t d"], Float[Tensor, "b t m"]]:
        """o^k and the weights by age, for any score and alignment: each position has a row of M keys of its own.

        `previous` is the weights of the hop before; before the first one, all words are alike.
        """
        by_age = (len(self.text), self.count, self.size)
        windows = self._windows(self.text.unsqueeze(-1)).squeeze(-1)  # [b t M]
        keys = self._windows(self.words) + self.key_ages  # m_a [b t M d]
        previous = state.new_full(by_age, 1 / self.size) if previous is None else previous
        options = CallOptions(Mask.of((windows != PAD).unsqueeze(-2)), None, previous, hop, 0.0)
        ages = self.value_ages.expand(*by_age, -1)
        with untraced():
            seen = attention.run(state.unsqueeze(-2), keys, ages, options, need_weights=True, trace_as=attention)
        assert seen.weights is not None
        weights = seen.weights.squeeze(-2)
        by_place = self._to_places(weights)
        if watched(attention):
            record(attention, by_place)
        return seen.context.squeeze(-2) + by_place @ self.values, weights

    def _windows(self, words: Tensor) -> Tensor:
        """For each position the words up to it, oldest first: [b n d] → [b t M d], zeros where there is none."""
        return F.pad(words, (0, 0, self.missing, 0)).unfold(1, self.size, 1).movedim(-1, 2)

    def _to_places(self, by_age: Float[Tensor, "b t m"]) -> Float[Tensor, "b t n"]:
        """Row i moves i places to the right: [b t M] → [b t M + t − 1], then the places of real words are kept."""
        batch, rows, size = by_age.shape
        width = size + rows - 1
        flat = F.pad(by_age, (0, rows)).reshape(batch, rows * (width + 1))
        return flat[:, : rows * width].view(batch, rows, width)[..., self.missing :]

    def _to_ages(self, by_place: Float[Tensor, "b t n"]) -> Float[Tensor, "b t m"]:
        """The reverse of `_to_places`."""
        batch, rows = by_place.shape[:2]
        padded = F.pad(by_place, (self.missing, 0))
        flat = F.pad(padded.reshape(batch, -1), (0, rows))
        return flat.view(batch, rows, -1)[..., : self.size]
