"""RNNsearch: Bahdanau, Cho & Bengio 2015, arXiv 1409.0473. Equation numbers are those of the paper and its appendix.

Two choices where the paper leaves room: the deep output reads s_i (section 3.1; the appendix writes s_{i−1}), and gates
follow torch's GRU, in which z keeps the old state and the reset gate acts after the recurrent product.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention import Attention, AttentionOutput, Mask
from regard.attention.attention import Around
from regard.base import check_settings
from regard.base.ranges import Share, Vocabulary, Width
from regard.decode import Step
from regard.models.translator import Memory, Translated, Translator
from regard.nn import Bidirectional, DeepOutput, Dropout, build_attention
from regard.nn.batched import ProjectedAdditive, StepContext, StepLinear
from regard.nn.recurrent import gru_step
from regard.score import Additive, Prepared


@dataclass(frozen=True)
class BahdanauConfig:
    """Sizes of the paper (A.2.3); any score and any alignment."""

    source_vocabulary: Vocabulary
    target_vocabulary: Vocabulary
    embed_dim: Width = 620  # m
    hidden_dim: Width = 1000  # n
    align_dim: Width = 1000  # n'
    maxout_dim: Width = 500  # l
    score: str = "additive"
    align: str = "softmax"
    dropout: Share = 0.0
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
    time: Tensor  # i [n]


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

    def encode(self, source: Int[Tensor, "b k"], lengths: Int[Tensor, " b"]) -> Memory:
        """Annotations h_j = [forward; backward] (7), and the first backward state, from which s_0 comes."""
        annotations = self.encoder(self.dropout(self.source(source)), lengths)
        return Memory(annotations, lengths, annotations[:, 0, self.config.hidden_dim :])

    def init_state(self, memory: Memory) -> State:
        """s_0 = tanh(W_s ←h_1); the keys are projected here, once."""
        batch, num_keys, _ = memory.values.shape
        keys = self.attention.prepare(memory.values).keys
        allowed = Mask.padding(memory.lengths).dense(1, num_keys)
        previous = torch.zeros(batch, num_keys, device=keys.device, dtype=keys.dtype)
        previous[:, 0] = 1.0
        time = torch.zeros(batch, dtype=torch.long, device=keys.device)
        hidden = torch.tanh(self.start(memory.summary))
        return State(hidden, keys, memory.values, allowed, previous, time)

    def step(self, tokens: Int[Tensor, " n"], state: State) -> Step:
        """One word: attend with s_{i−1}, write s_i, predict."""
        word = self.target(tokens)
        state, context = self._advance(word, state)
        return Step(self.output(state.hidden, word, self.dropout(context)), state, state.previous)

    def forward(
        self,
        source: Int[Tensor, "b k"],
        lengths: Int[Tensor, " b"],
        inputs: Int[Tensor, "b t"],
        *,
        need_weights: bool = False,
    ) -> Translated:
        """Word after word, with all that does not wait for the word before done at once; weights if asked for."""
        state = self.init_state(self.encode(source, lengths))
        words = self.dropout(self.target(inputs))
        loop = _Loop(self, words, state, need_weights)
        hidden, contexts, weights = zip(*(loop(step) for step in range(words.shape[1])), strict=True)
        all_hidden, all_contexts = torch.stack(hidden, 1), torch.stack(contexts, 1)
        logits = self.output(all_hidden, words, self.dropout(all_contexts))
        return Translated(logits, torch.stack(weights, 1) if need_weights else None)

    def _advance(self, word: Float[Tensor, "n m"], state: State) -> tuple[State, Float[Tensor, "n c"]]:
        out: AttentionOutput = self.attention(  # e_ij, α_ij (6), c_i (5)
            state.hidden.unsqueeze(1),
            Prepared(state.keys),
            state.values,
            mask=state.allowed,
            previous=state.previous,
            step=state.time,
        )
        context = out.context.squeeze(1)
        hidden = self.cell(torch.cat([word, context], -1), state.hidden)  # s_i = f(s_{i−1}, y_{i−1}, c_i)
        assert out.weights is not None
        return state._replace(hidden=hidden, previous=out.weights.squeeze(1), time=state.time + 1), context


class _Loop:
    """The steps of `forward`: `_advance`, with few products a step, and one for the gradient of each weight."""

    def __init__(self, model: Bahdanau, words: Float[Tensor, "n t m"], state: State, need_weights: bool) -> None:
        attention, cell, (rows, steps, width) = model.attention, model.cell, words.shape
        score, align = attention.score, attention.align
        of_word, of_context = torch.split(cell.weight_ih, [width, cell.input_size - width], 1)
        from_words = F.linear(words.transpose(0, 1), of_word, cell.bias_ih)
        self.to_input = StepLinear(of_context, from_words, shape=(steps, rows))
        weight: Tensor = cell.weight_hh
        bias: Tensor = cell.bias_hh
        needs = (*getattr(score, "needs", ()), *getattr(align, "needs", ()))
        if type(score) is Additive and "query" not in needs:  # W_a s_{i−1} and the gates read the same state
            weight = torch.cat([weight, score.to_query.weight])
            bias = F.pad(bias, (0, score.features))
            attention = Attention(ProjectedAdditive(score.v), align, dropout=attention.dropout, impl=attention.impl)
            attention.training = model.attention.training
        self.to_gates = StepLinear(weight, bias, shape=(steps, rows))
        self.attention, self.seen_as, self.state = attention, model.attention, state
        self.dropout = attention.dropout if attention.training else 0.0
        self.mask = Mask.of(state.allowed)
        self.widths = [3 * cell.hidden_size, weight.shape[0] - 3 * cell.hidden_size]
        self.has_history = "previous" in needs
        self.need_weights = need_weights or self.has_history
        self.quick = None
        if not self.need_weights:
            self.quick = StepContext.of(
                attention, state.keys, state.values, allowed=state.allowed, steps=steps, seen_as=self.seen_as
            )

    def __call__(self, step: int) -> tuple[Tensor, Tensor, Tensor | None]:
        """s_i, c_i and α_i."""
        state = self.state
        gates, query = torch.split(self.to_gates(state.hidden), self.widths, 1)
        query = query if query.shape[1] else state.hidden
        context, weights = self._attend(query, step) if self.quick is None else (self.quick(query), None)
        hidden = gru_step(self.to_input(context), gates, state.hidden)
        self.state = state._replace(hidden=hidden, previous=state.previous if weights is None else weights)
        return hidden, context, weights

    def _attend(self, query: Tensor, step: int) -> tuple[Tensor, Tensor | None]:
        state = self.state
        out = self.attention.run(
            query.unsqueeze(1),
            Prepared(state.keys),
            state.values,
            Around(self.mask, None, state.previous if self.has_history else None, step, self.dropout),
            need_weights=self.need_weights,
            seen_as=self.seen_as,
        )
        return out.context.squeeze(1), None if out.weights is None else out.weights.squeeze(1)
