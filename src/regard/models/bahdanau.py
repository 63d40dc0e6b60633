"""RNNsearch: Bahdanau, Cho & Bengio 2015, arXiv 1409.0473. Equation numbers are those of the paper and its appendix.

Two choices where the paper leaves room: the deep output reads s_i (section 3.1; the appendix writes s_{i−1}), and gates
follow torch's GRU, in which z keeps the old state and the reset gate acts after the recurrent product.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention import Mask
from regard.base import check_settings
from regard.base.ranges import Share, Vocabulary, Width
from regard.decode import Step
from regard.models.translator import EncodedSource, Translated, Translator
from regard.nn import Bidirectional, DeepOutput, Dropout, StepAttention, StepGRU, build_attention, query_weight
from regard.score import Additive

Write = Callable[[Tensor, Tensor], Tensor]  # c_i [n c] and s_{i−1} [n d] → s_i [n d]


@dataclass(frozen=True)
class BahdanauConfig:
    """Sizes of the paper (A.2.3); any score and any alignment."""

    source_vocabulary: Vocabulary  # words or sub-words of the source; the data decide
    target_vocabulary: Vocabulary  # of the target; the data decide
    embed_dim: Width = 620  # m
    hidden_dim: Width = 1000  # n
    align_dim: Width = 1000  # n'
    maxout_dim: Width = 500  # l
    score: str = "additive"  # name of the score, of SCORES
    align: str = "softmax"  # name of the alignment, of ALIGNS
    dropout: Share = 0.0  # share of the numbers that are set to zero in training
    published_start: bool = True  # N(0, 0.01²); small models learn faster from torch's own start

    def __post_init__(self) -> None:
        check_settings(self, "model")


def bahdanau_base(source_vocabulary: int, target_vocabulary: int) -> BahdanauConfig:
    """RNNsearch-50 as published."""
    return BahdanauConfig(source_vocabulary, target_vocabulary)


class State(NamedTuple):
    """What goes from word to word."""

    hidden: Tensor  # s_{i−1} [n d]
    keys: Tensor  # U_a h_j [n k a], prepared once
    values: Tensor  # h_j [n k 2d]
    allowed: Tensor  # [n 1 k], True = may attend
    previous: Tensor  # α_{i−1} [n k]
    time: Tensor | int  # i [n], or one number for all


class Bahdanau(Translator):
    """A bidirectional GRU reads, a GRU writes, and before each word it looks for where to look."""

    source_layers = "attention"

    def __init__(self, config: BahdanauConfig) -> None:
        super().__init__()
        self.config = config
        embed, hidden = config.embed_dim, config.hidden_dim
        self.source = nn.Embedding(config.source_vocabulary, embed, padding_idx=0)
        self.target = nn.Embedding(config.target_vocabulary, embed, padding_idx=0)
        self.encoder = Bidirectional(embed, hidden)
        self.attention = build_attention(
            config.score, config.align, query_dim=hidden, key_dim=2 * hidden, hidden_dim=config.align_dim
        )
        self.start = nn.Linear(hidden, hidden)  # W_s
        self.cell = nn.GRUCell(embed + 2 * hidden, hidden)
        self.output = DeepOutput(
            hidden, embed, 2 * hidden, maxout_dim=config.maxout_dim, vocabulary=config.target_vocabulary
        )
        self.dropout = Dropout(config.dropout)
        if config.published_start:
            self._initialise()

    def _initialise(self) -> None:
        """As in B.1 of the paper, but for v_a and the score's other parameters, which keep a non-zero start."""
        for name, parameter in self.named_parameters():
            if name.startswith("attention."):
                continue
            if "bias" in name:
                nn.init.zeros_(parameter)
            elif "weight_hh" in name:
                for block in parameter.data.chunk(3):
                    nn.init.orthogonal_(block)
            else:
                nn.init.normal_(parameter, std=0.01)
        if isinstance(self.attention.score, Additive):
            nn.init.normal_(self.attention.score.to_query.weight, std=0.001)
            nn.init.normal_(self.attention.score.to_keys.weight, std=0.001)

    def encode(self, source: Int[Tensor, "b k"], lengths: Int[Tensor, " b"]) -> EncodedSource:
        """Annotations h_j = [forward; backward] (7), and the first backward state, from which s_0 comes."""
        annotations = self.encoder(self.dropout(self.source(source)), lengths)
        return EncodedSource(annotations, lengths, annotations[:, 0, self.config.hidden_dim :])

    def init_state(self, memory: EncodedSource) -> State:
        """s_0 = tanh(W_s ←h_1); the keys are projected here, once."""
        batch, num_keys, _ = memory.values.shape
        keys = self.attention.prepare(memory.values).keys
        allowed = Mask.padding(memory.lengths).dense(1, num_keys)
        previous = torch.zeros(batch, num_keys, device=keys.device, dtype=keys.dtype)
        previous[:, 0] = 1.0
        time = torch.zeros(batch, dtype=torch.long, device=keys.device)
        hidden = torch.tanh(self.start(memory.summary))
        return State(hidden, keys, memory.values, allowed, previous, time)

    def fixed_state(self, state: State, *, steps: int) -> State:
        """The state itself: nothing in it grows."""
        return state

    def step(self, tokens: Int[Tensor, " n"], state: State) -> Step:
        """One word: attend with s_{i−1}, write s_i, predict."""
        word = self.target(tokens)
        state, context = self._advance(state, *self._parts_of_one_step(word, state))
        return Step(self.output(state.hidden, word, self.dropout(context)), state, state.previous)

    def forward(
        self,
        source: Int[Tensor, "b k"],
        lengths: Int[Tensor, " b"],
        inputs: Int[Tensor, "b t"],
        *,
        need_weights: bool = False,
    ) -> Translated:
        """The same word after word, with all products that do not wait for the word before made at once."""
        state = self.init_state(self.encode(source, lengths))._replace(time=0)
        words = self.dropout(self.target(inputs))
        attend, write = self._parts_of_all_steps(words, state, need_weights)
        hidden, contexts, weights = [], [], []
        for _ in range(words.shape[1]):
            state, context = self._advance(state, attend, write)
            hidden.append(state.hidden)
            contexts.append(context)
            weights.append(state.previous)
        logits = self.output(torch.stack(hidden, 1), words, self.dropout(torch.stack(contexts, 1)))
        return Translated(logits, torch.stack(weights, 1) if need_weights else None)

    def _advance(self, state: State, attend: StepAttention, write: Write) -> tuple[State, Float[Tensor, "n c"]]:
        """From s_{i−1} to c_i and s_i: the step of the paper, whatever makes its products."""
        context, weights = attend(state.hidden, state.previous, state.time)  # e_ij, α_ij (6), c_i (5)
        hidden = write(context, state.hidden)  # s_i = f(s_{i−1}, y_{i−1}, c_i)
        previous = state.previous if weights is None else weights
        return state._replace(hidden=hidden, previous=previous, time=state.time + 1), context

    def _parts_of_one_step(self, word: Float[Tensor, "n m"], state: State) -> tuple[StepAttention, Write]:
        """Attention and recurrence of one word, for decoding."""
        attend = StepAttention(self.attention, state.keys, state.values, allowed=state.allowed)
        return attend, lambda context, hidden: self.cell(torch.cat([word, context], -1), hidden)

    def _parts_of_all_steps(
        self, words: Float[Tensor, "n t m"], state: State, need_weights: bool
    ) -> tuple[StepAttention, Write]:
        """The same for all words of known sentences. W_a s_{i−1} and the gates, which read the same state, share a
        product, and every weight gets its gradient by one product over all steps.
        """
        beside = query_weight(self.attention)
        write = StepGRU(self.cell, words.transpose(0, 1), beside=beside)
        attend = StepAttention(
            self.attention,
            state.keys,
            state.values,
            allowed=state.allowed,
            steps=words.shape[1],
            need_weights=need_weights,
            project=None if beside is None else write.project,
        )
        return attend, write
