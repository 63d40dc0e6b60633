"""GNMT: Wu et al. 2016, arXiv 1609.08144. Section and equation numbers are those of the paper.

Where the paper leaves room: the decoder starts from zeros (its figure 1 has no other way from encoder to decoder than
attention), its first query is therefore 0; and every layer gets the context of the current step.
"""

from dataclasses import dataclass
from typing import Annotated, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention import Mask
from regard.base import check_settings
from regard.base.ranges import Few, Positive, Range, Share, Vocabulary, Width
from regard.decode import Step
from regard.models.translator import EncodedSource, Translated, Translator
from regard.nn import Bidirectional, Dropout, LSTMState, build_attention, padding, run_lstm
from regard.score import Prepared

_NARROW = "use 3 or more, as the second layer reads two directions; a number beyond all layers means no residuals"
ResidualFrom = Annotated[int, Range(least=3, cure=_NARROW)]


@dataclass(frozen=True)
class GNMTConfig:
    """Sizes of the paper (section 3); any score and any alignment."""

    source_vocabulary: Vocabulary  # words or sub-words of the source; the data decide
    target_vocabulary: Vocabulary  # of the target; the data decide
    embed_dim: Width = 1024  # width of a word
    hidden_dim: Width = 1024  # width of a state
    align_dim: Width = 1024  # width of the additive score
    encoder_layers: Few = 8  # the first is bidirectional
    decoder_layers: Few = 8  # layers of the decoder
    residual_from: ResidualFrom = 3  # the first layer, counted from 1, whose input is added to its output
    score: str = "additive"  # name of the score, of SCORES
    align: str = "softmax"  # name of the alignment, of ALIGNS
    dropout: Share = 0.2  # 0.3 for English–German
    published_start: bool = True  # U(−0.04, 0.04); small models learn faster from torch's own start
    state_gain: Positive = 1.0  # input weights of layers above the first begin so many times as large; 8 for small ones

    def __post_init__(self) -> None:
        check_settings(self, "model")


def gnmt_base(source_vocabulary: int, target_vocabulary: int) -> GNMTConfig:
    """8 + 8 layers as published: 281 M parameters with 32,000 wordpieces on either side."""
    return GNMTConfig(source_vocabulary, target_vocabulary)


class State(NamedTuple):
    """What goes from word to word."""

    bottom: LSTMState  # y_{i−1} of the bottom layer and its cell, each [n d]
    upper: tuple[LSTMState, ...]  # of the layers above, each [n 1 d]
    keys: Tensor  # [n k a], prepared once
    values: Tensor  # x_t, the top of the encoder [n k d]
    allowed: Tensor  # [n 1 k], True = may attend
    previous: Tensor  # p of the step before [n k]
    time: Tensor  # i [n]


class GNMT(Translator):
    """Deep LSTMs with residual connections. The bottom layer of the decoder alone attends; all layers get the context,
    so only the bottom one waits for the word before, and those above run over a whole sentence.
    """

    source_layers = "attention"

    def __init__(self, config: GNMTConfig) -> None:
        super().__init__()
        self.config = config
        embed, hidden = config.embed_dim, config.hidden_dim
        self.source = nn.Embedding(config.source_vocabulary, embed, padding_idx=0)
        self.target = nn.Embedding(config.target_vocabulary, embed, padding_idx=0)
        self.first = Bidirectional(embed, hidden, kind=nn.LSTM)  # 3.2
        widths = [2 * hidden] + [hidden] * (config.encoder_layers - 1)  # what leaves each layer of the encoder
        self.encoder = nn.ModuleList(nn.LSTM(width, hidden, batch_first=True) for width in widths[:-1])
        context = widths[-1]
        self.attention = build_attention(
            config.score, config.align, query_dim=hidden, key_dim=context, hidden_dim=config.align_dim
        )
        self.bottom = nn.LSTMCell(embed + context, hidden)
        self.upper = nn.ModuleList(
            nn.LSTM(hidden + context, hidden, batch_first=True) for _ in range(config.decoder_layers - 1)
        )
        self.to_logits = nn.Linear(hidden, config.target_vocabulary)
        self.dropout = Dropout(config.dropout)
        if config.published_start:
            for parameter in self.parameters():
                nn.init.uniform_(parameter, -0.04, 0.04)  # 8.3
        self._raise_input_weights()

    @torch.no_grad()
    def _raise_input_weights(self) -> None:
        """Multiplies by `state_gain` what layers above the first do with their inputs.

        With the weights of torch's start every layer writes smaller numbers than it reads. The loss reaches attention
        through all layers above it, so its gradient is small, and attention begins to learn late.
        """
        for layer in (*self.encoder, *self.upper):
            layer.get_parameter("weight_ih_l0").mul_(self.config.state_gain)

    def encode(self, source: Int[Tensor, "b k"], lengths: Int[Tensor, " b"]) -> EncodedSource:
        """x_t, the top layer at each word, zero on padding. Layers above the first look back only: padding on the
        right does not reach a real word.
        """
        x = self.first(self.dropout(self.source(source)), lengths)
        for number, layer in enumerate(self.encoder, start=2):
            outputs, _ = layer(self.dropout(x))
            x = self._add(number, outputs, x)
        x = x.masked_fill(padding(x, lengths), 0.0)
        return EncodedSource(x, lengths, x.new_zeros(x.shape[0], 0))

    def init_state(self, memory: EncodedSource) -> State:
        """All zeros; the keys are projected here, once."""
        batch, num_keys, _ = memory.values.shape
        keys = self.attention.prepare(memory.values).keys
        allowed = Mask.padding(memory.lengths).dense(1, num_keys)
        previous = memory.values.new_zeros(batch, num_keys)
        previous[:, 0] = 1.0
        time = torch.zeros(batch, dtype=torch.long, device=keys.device)
        nothing = memory.values.new_zeros(batch, self.config.hidden_dim)
        above = LSTMState(nothing.unsqueeze(1), nothing.unsqueeze(1))
        upper = (above,) * len(self.upper)
        return State(LSTMState(nothing, nothing), upper, keys, memory.values, allowed, previous, time)

    def fixed_state(self, state: State, *, steps: int) -> State:
        """The state itself: nothing in it grows."""
        return state

    def step(self, tokens: Int[Tensor, " n"], state: State) -> Step:
        """One word, through all layers."""
        state, context = self._advance(self.target(tokens), state)
        top, upper = self._rise(state.bottom.hidden.unsqueeze(1), context.unsqueeze(1), state.upper)
        return Step(self.to_logits(top).squeeze(1), state._replace(upper=upper), state.previous)

    def forward(
        self,
        source: Int[Tensor, "b k"],
        lengths: Int[Tensor, " b"],
        inputs: Int[Tensor, "b t"],
        *,
        need_weights: bool = False,
    ) -> Translated:
        """The bottom layer word after word, each layer above over all words at once; weights if asked for."""
        state = self.init_state(self.encode(source, lengths))
        bottoms, contexts, weights = [], [], []
        for word in self.target(inputs).unbind(1):
            state, context = self._advance(word, state)
            bottoms.append(state.bottom.hidden)
            contexts.append(context)
            weights.append(state.previous)
        top, _ = self._rise(torch.stack(bottoms, 1), torch.stack(contexts, 1), state.upper)
        return Translated(self.to_logits(top), torch.stack(weights, 1) if need_weights else None)

    def _advance(self, word: Float[Tensor, "n m"], state: State) -> tuple[State, Float[Tensor, "n c"]]:
        """The context a_i, and the bottom layer after it."""
        out = self.attention(  # s_t, p_t, a_i (4), with y_{i−1} of the bottom layer
            state.bottom.hidden.unsqueeze(1),
            Prepared(state.keys),
            state.values,
            mask=state.allowed,
            previous=state.previous,
            step=state.time,
        )
        context = out.context.squeeze(1)
        bottom = LSTMState(*self.bottom(self.dropout(torch.cat([word, context], -1)), state.bottom))
        assert out.weights is not None
        return state._replace(bottom=bottom, previous=out.weights.squeeze(1), time=state.time + 1), context

    def _rise(
        self, x: Float[Tensor, "n t d"], contexts: Float[Tensor, "n t c"], states: tuple[LSTMState, ...]
    ) -> tuple[Float[Tensor, "n t d"], tuple[LSTMState, ...]]:
        """From the bottom layer to what the softmax reads; every layer gets the same context."""
        after = []
        for number, (layer, state) in enumerate(zip(self.upper, states, strict=True), start=2):
            assert isinstance(layer, nn.LSTM)
            outputs, state = run_lstm(layer, self.dropout(torch.cat([x, contexts], -1)), state)
            x = self._add(number, outputs, x)
            after.append(state)
        return self.dropout(x), tuple(after)

    def _add(self, number: int, outputs: Tensor, x: Tensor) -> Tensor:
        """x^i = m^i + x^{i−1} (6), without the context, from layer `residual_from` on; below it x^i = m^i (5)."""
        return outputs + x if number >= self.config.residual_from else outputs
