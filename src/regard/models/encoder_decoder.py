"""Without attention, all of the source in one vector: Cho 2014 (arXiv 1406.1078), Sutskever 2014 (arXiv 1409.3215)."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.base import check_settings
from regard.base.ranges import Few, Share, Vocabulary, Width
from regard.decode import Step
from regard.models.translator import EncodedSource, Translated, Translator
from regard.nn import DeepOutput, Dropout, LSTMState, StackedLSTM, final_output, reverse, run_lstm


@dataclass(frozen=True)
class ChoConfig:
    """Sizes of the paper: 1000 units, words of width 100, 500 maxout units."""

    source_vocabulary: Vocabulary  # words or sub-words of the source; the data decide
    target_vocabulary: Vocabulary  # of the target; the data decide
    embed_dim: Width = 100  # width of a word
    hidden_dim: Width = 1000  # width of a state
    maxout_dim: Width = 500  # width of the maxout layer before the output
    dropout: Share = 0.0  # share of the numbers that are set to zero in training

    def __post_init__(self) -> None:
        check_settings(self, "model")


def cho_base(source_vocabulary: int, target_vocabulary: int) -> ChoConfig:
    """RNN Encoder–Decoder as published."""
    return ChoConfig(source_vocabulary, target_vocabulary)


class ChoState(NamedTuple):
    """What goes from word to word."""

    hidden: Tensor  # h'_t [n d]
    summary: Tensor  # c [n d]


class Cho(Translator):
    """A GRU reads, its last state becomes c = tanh(V h_N), and c enters every step of the GRU that writes.

    Gates follow torch's GRU: c enters the candidate beside the word, outside the reset gate.
    """

    def __init__(self, config: ChoConfig) -> None:
        super().__init__()
        self.config = config
        embed, hidden = config.embed_dim, config.hidden_dim
        self.source = nn.Embedding(config.source_vocabulary, embed, padding_idx=0)
        self.target = nn.Embedding(config.target_vocabulary, embed, padding_idx=0)
        self.encoder = nn.GRU(embed, hidden, batch_first=True)
        self.summarise = nn.Linear(hidden, hidden)  # V
        self.start = nn.Linear(hidden, hidden)  # V'
        self.decoder = nn.GRU(embed + hidden, hidden, batch_first=True)
        self.output = DeepOutput(
            hidden, embed, hidden, maxout_dim=config.maxout_dim, vocabulary=config.target_vocabulary
        )
        self.dropout = Dropout(config.dropout)

    def encode(self, source: Int[Tensor, "b k"], lengths: Int[Tensor, " b"]) -> EncodedSource:
        """c = tanh(V h_N), h_N the state at the last real word."""
        outputs, _ = self.encoder(self.dropout(self.source(source)))
        return EncodedSource(outputs, lengths, torch.tanh(self.summarise(final_output(outputs, lengths))))

    def init_state(self, memory: EncodedSource) -> ChoState:
        """h'_0 = tanh(V' c)."""
        return ChoState(torch.tanh(self.start(memory.summary)), memory.summary)

    def fixed_state(self, state: ChoState, *, steps: int) -> ChoState:
        """The state itself: nothing in it grows."""
        return state

    def step(self, tokens: Int[Tensor, " n"], state: ChoState) -> Step:
        """One word, from the word before, the state and c."""
        logits, state = self._write(self.target(tokens).unsqueeze(1), state)
        return Step(logits.squeeze(1), state, None)

    def forward(
        self,
        source: Int[Tensor, "b k"],
        lengths: Int[Tensor, " b"],
        inputs: Int[Tensor, "b t"],
        *,
        need_weights: bool = False,
    ) -> Translated:
        """All words at once: without attention nothing has to wait, and there are no weights to ask for."""
        state = self.init_state(self.encode(source, lengths))
        return Translated(self._write(self.dropout(self.target(inputs)), state)[0], None)

    def _write(self, words: Float[Tensor, "n t m"], state: ChoState) -> tuple[Float[Tensor, "n t v"], ChoState]:
        summary = state.summary.unsqueeze(1).expand(-1, words.shape[1], -1)
        outputs, last = self.decoder(torch.cat([words, summary], -1), state.hidden.unsqueeze(0))
        return self.output(self.dropout(outputs), words, summary), state._replace(hidden=last.squeeze(0))


@dataclass(frozen=True)
class SutskeverConfig:
    """Sizes of the paper: four layers of 1000 cells, words of width 1000, the source read backwards."""

    source_vocabulary: Vocabulary  # words or sub-words of the source; the data decide
    target_vocabulary: Vocabulary  # of the target; the data decide
    embed_dim: Width = 1000  # width of a word
    hidden_dim: Width = 1000  # width of a state
    layers: Few = 4  # how many lie on one another
    reverse_source: bool = True  # whether the source is read from its end
    dropout: Share = 0.0  # share of the numbers that are set to zero in training

    def __post_init__(self) -> None:
        check_settings(self, "model")


def sutskever_base(source_vocabulary: int, target_vocabulary: int) -> SutskeverConfig:
    """The reversed LSTM as published."""
    return SutskeverConfig(source_vocabulary, target_vocabulary)


class Sutskever(Translator):
    """A stacked LSTM reads the source, backwards; a second one starts from all its final states and writes."""

    def __init__(self, config: SutskeverConfig) -> None:
        super().__init__()
        self.config = config
        embed, hidden, layers = config.embed_dim, config.hidden_dim, config.layers
        self.source = nn.Embedding(config.source_vocabulary, embed, padding_idx=0)
        self.target = nn.Embedding(config.target_vocabulary, embed, padding_idx=0)
        self.encoder = StackedLSTM(embed, hidden, layers, dropout=config.dropout)
        self.decoder = StackedLSTM(embed, hidden, layers, dropout=config.dropout)
        self.to_logits = nn.Linear(hidden, config.target_vocabulary)
        self.dropout = Dropout(config.dropout)
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -0.08, 0.08)

    def encode(self, source: Int[Tensor, "b k"], lengths: Int[Tensor, " b"]) -> EncodedSource:
        """All final states, h and c, [b 2 layers d]: at the last real word, whatever the padding."""
        words = reverse(source, lengths) if self.config.reverse_source else source
        outputs, final = self.encoder(self.dropout(self.source(words)), lengths)
        return EncodedSource(outputs, lengths, final)

    def init_state(self, memory: EncodedSource) -> LSTMState:
        """The decoder starts where the encoder ended, layer by layer."""
        return LSTMState(*memory.summary.unbind(1))

    def fixed_state(self, state: LSTMState, *, steps: int) -> LSTMState:
        """The state itself: nothing in it grows."""
        return state

    def step(self, tokens: Int[Tensor, " n"], state: LSTMState) -> Step:
        """One word, from the word before and the states."""
        logits, state = self._write(self.target(tokens).unsqueeze(1), state)
        return Step(logits.squeeze(1), state, None)

    def forward(
        self,
        source: Int[Tensor, "b k"],
        lengths: Int[Tensor, " b"],
        inputs: Int[Tensor, "b t"],
        *,
        need_weights: bool = False,
    ) -> Translated:
        """All words at once; there are no weights to ask for."""
        state = self.init_state(self.encode(source, lengths))
        return Translated(self._write(self.target(inputs), state)[0], None)

    def _write(self, words: Float[Tensor, "n t m"], state: LSTMState) -> tuple[Float[Tensor, "n t v"], LSTMState]:
        outputs, state = run_lstm(self.decoder.layers, self.dropout(words), state)
        logits: Tensor = self.to_logits(self.dropout(outputs))
        return logits, state
