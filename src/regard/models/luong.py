"""Luong, Pham & Manning 2015, arXiv 1508.04025: recurrence first, then attention with the current state.

h_t → a_t → c_t → h̃_t → word. Global attention with any score, or local: `align="local_monotonic"` is local-m,
`align="local_predictive"` local-p. Equation numbers are those of the paper.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention import Mask
from regard.base import check_settings
from regard.base.ranges import Count, Few, Natural, Share, Vocabulary, Weight, Width
from regard.decode import Step
from regard.models.translator import EncodedSource, Translated, Translator
from regard.nn import (
    Dropout,
    LSTMState,
    SingleLSTM,
    StackedLSTM,
    StepAttention,
    StepLinear,
    StepLSTM,
    build_attention,
    reverse,
)


@dataclass(frozen=True)
class LuongConfig:
    """Sizes of the paper (4.1): four layers of 1000 cells; window D = 10."""

    source_vocabulary: Vocabulary  # words or sub-words of the source; the data decide
    target_vocabulary: Vocabulary  # of the target; the data decide
    embed_dim: Width = 1000  # width of a word
    hidden_dim: Width = 1000  # width of a state
    layers: Few = 4  # how many lie on one another
    score: str = "general"  # name of the score, of SCORES
    align: str = "softmax"  # name of the alignment, of ALIGNS
    window: Natural = 10  # half the width of a local window (D in the paper)
    max_source: Count = 200  # positions that score="location" knows
    input_feeding: bool = True  # whether the attentional state goes into the next step
    reverse_source: bool = False  # whether the source is read from its end
    dropout: Share = 0.0  # share of the numbers that are set to zero in training
    published_start: bool = True  # U(−0.1, 0.1); small models learn faster from torch's own start
    score_rate: Weight = 1.0  # share of the learning rate that the weights of the score have; see docs/papers/luong.md

    def __post_init__(self) -> None:
        check_settings(self, "model")


def luong_global(source_vocabulary: int, target_vocabulary: int) -> LuongConfig:
    """Global attention; in the paper dot is best here, with dropout 0.2 and the source reversed."""
    return LuongConfig(source_vocabulary, target_vocabulary, score="dot", reverse_source=True, dropout=0.2)


def luong_local_p(source_vocabulary: int, target_vocabulary: int) -> LuongConfig:
    """The paper's best single model: local-p with the general score, the source reversed."""
    return LuongConfig(source_vocabulary, target_vocabulary, align="local_predictive", reverse_source=True, dropout=0.2)


class State(NamedTuple):
    """What goes from word to word."""

    decoder: LSTMState
    fed: Tensor  # h̃_{t−1} [n d]
    keys: Tensor  # [n k a], prepared once
    values: Tensor  # h̄_s [n k d]
    allowed: Tensor  # [n 1 k], True = may attend
    previous: Tensor  # a_{t−1} [n k]
    time: Tensor | int  # t [n], or one number for all


class Luong(Translator):
    """Stacked LSTMs; the attentional vector h̃ predicts the word and, with input feeding, enters the next step."""

    source_layers = "attention"

    def __init__(self, config: LuongConfig) -> None:
        super().__init__()
        self.config = config
        embed, hidden = config.embed_dim, config.hidden_dim
        self.source = nn.Embedding(config.source_vocabulary, embed, padding_idx=0)
        self.target = nn.Embedding(config.target_vocabulary, embed, padding_idx=0)
        self.encoder = StackedLSTM(embed, hidden, config.layers, dropout=config.dropout)
        fed = hidden if config.input_feeding else 0
        self.decoder = StackedLSTM(embed + fed, hidden, config.layers, dropout=config.dropout)
        self.attention = build_attention(
            config.score,
            config.align,
            query_dim=hidden,
            key_dim=hidden,
            hidden_dim=hidden,
            window=config.window,
            max_keys=config.max_source,
        )
        self.combine = nn.Linear(2 * hidden, hidden, bias=False)  # W_c
        self.to_logits = nn.Linear(hidden, config.target_vocabulary, bias=False)  # W_s
        self.dropout = Dropout(config.dropout)
        if config.published_start:
            for parameter in self.parameters():
                nn.init.uniform_(parameter, -0.1, 0.1)

    @property
    def rates(self) -> dict[str, float]:
        """Shares of the learning rate, by the beginning of a parameter's name; 1 for all others.

        The general score sums h_i W_ij h̄_j over all pairs of units. Adam changes every W_ij by about the rate at once,
        so one update may move a score by rate · |h|₁ · |h̄|₁: by 60 for 512 units, where 5 decides the softmax.
        """
        return {"attention.score.": self.config.score_rate}

    def encode(self, source: Int[Tensor, "b k"], lengths: Int[Tensor, " b"]) -> EncodedSource:
        """h̄_s, the states of the top layer, and the final states of all layers."""
        words = reverse(source, lengths) if self.config.reverse_source else source
        outputs, final = self.encoder(self.dropout(self.source(words)), lengths)
        if self.config.reverse_source:
            outputs = reverse(outputs, lengths)  # weights stay in the order of the sentence
        return EncodedSource(outputs, lengths, final)

    def init_state(self, memory: EncodedSource) -> State:
        """The decoder starts where the encoder ended; h̃_0 = 0."""
        batch, num_keys, width = memory.values.shape
        keys = self.attention.prepare(memory.values).keys
        allowed = Mask.padding(memory.lengths).dense(1, num_keys)
        previous = memory.values.new_zeros(batch, num_keys)
        previous[:, 0] = 1.0
        time = torch.zeros(batch, dtype=torch.long, device=keys.device)
        fed = memory.values.new_zeros(batch, width)
        decoder = LSTMState(*memory.summary.unbind(1))
        return State(decoder, fed, keys, memory.values, allowed, previous, time)

    def fixed_state(self, state: State, *, steps: int) -> State:
        """The state itself: nothing in it grows."""
        return state

    def step(self, tokens: Int[Tensor, " n"], state: State) -> Step:
        """One word: write h_t, attend with it, predict."""
        recur, attend = self._parts_of_one_step(self.dropout(self.target(tokens)), state)
        state = self._advance(state, recur, attend, self.combine)._replace(decoder=recur.state)
        return Step(self.to_logits(self.dropout(state.fed)), state, state.previous)

    def forward(
        self,
        source: Int[Tensor, "b k"],
        lengths: Int[Tensor, " b"],
        inputs: Int[Tensor, "b t"],
        *,
        need_weights: bool = False,
    ) -> Translated:
        """The same word after word (input feeding makes each wait for the one before), with the rest made at once."""
        state = self.init_state(self.encode(source, lengths))._replace(time=0)
        words = self.dropout(self.target(inputs))
        rows, steps, _ = words.shape
        recur = StepLSTM(self.decoder.layers, words.transpose(0, 1), state.decoder)
        combine = StepLinear(self.combine.weight, shape=(steps, rows))
        attend = StepAttention(
            self.attention, state.keys, state.values, allowed=state.allowed, steps=steps, need_weights=need_weights
        )
        vectors, weights = [], []
        for _ in range(steps):
            state = self._advance(state, recur, attend, combine)
            vectors.append(state.fed)
            weights.append(state.previous)
        logits = self.to_logits(self.dropout(torch.stack(vectors, 1)))
        return Translated(logits, torch.stack(weights, 1) if need_weights else None)

    def _advance(
        self,
        state: State,
        recur: SingleLSTM | StepLSTM,
        attend: StepAttention,
        combine: Callable[[Tensor], Tensor],
    ) -> State:
        """From h̃_{t−1} to h̃_t: the step of the paper, whatever makes its products. `recur` keeps h and c itself."""
        hidden = recur(state.fed if self.config.input_feeding else None)  # h_t
        context, weights = attend(hidden, state.previous, state.time)  # a_t (7)–(10), c_t
        attentional = torch.tanh(combine(torch.cat([context, hidden], -1)))  # h̃_t (5)
        previous = state.previous if weights is None else weights
        return state._replace(fed=attentional, previous=previous, time=state.time + 1)

    def _parts_of_one_step(self, word: Float[Tensor, "n m"], state: State) -> tuple[SingleLSTM, StepAttention]:
        """Recurrence and attention of one word, for decoding."""
        attend = StepAttention(self.attention, state.keys, state.values, allowed=state.allowed)
        return SingleLSTM(self.decoder.layers, word, state.decoder), attend
