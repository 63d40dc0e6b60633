"""LSTMN: Cheng, Dong & Lapata 2016, "Long Short-Term Memory-Networks for Machine Reading", arXiv 1601.06733.

An ordinary LSTM goes from h_{t−1}, c_{t−1} to h_t, c_t. An LSTMN keeps all of them, on a hidden tape and a memory tape,
and goes from what it attends to on the tapes. Equation numbers are those of the paper:

a_i^t = vᵀ tanh(W_h h_i + W_x x_t + W_h̃ h̃_{t−1}),  i = 1 … t−1      (4)
s^t = softmax(a^t)                                                  (5)
[h̃_t; c̃_t] = Σ_i s_i^t [h_i; c_i]                                   (6)
(i, f, o, ĉ) = (σ, σ, σ, tanh)(W [h̃_t; x_t])                        (7)
c_t = f ∘ c̃_t + i ∘ ĉ                                               (8)
h_t = o ∘ tanh(c_t)                                                 (9)

At t = 1 the tapes are empty, and h̃ and c̃ are zero, as an empty row of attention is. One softmax serves both tapes.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention import Attention, Mask
from regard.attention.output import CallOptions
from regard.attention.tracing import watched
from regard.base import check_settings
from regard.base.ranges import Few, Share, Vocabulary, Width
from regard.models.language_model import LanguageModel
from regard.nn import StepLinear, StepTape, build_attention, lstm_step, padding, query_weight
from regard.score import Additive, Prepared, ProjectedAdditive


class Cells(NamedTuple):
    """What goes from one stretch of text to the next: the last cells of both tapes, and h̃ of the last step."""

    hidden: Tensor  # h_i [b m d], the latest last
    memory: Tensor  # c_i [b m d]
    written: Tensor  # [b m] bool: False where there is no cell yet
    summary: Tensor  # h̃_{t−1} [b d]


class TapesRead(NamedTuple):
    """What an LSTMN makes of a text: both tapes as they were written, and the cells to go on from."""

    hidden: Tensor  # h_t [b t d], zero on padding
    memory: Tensor  # c_t [b t d], zero on padding
    cells: Cells


class LSTMN(nn.Module):
    """One layer: x [b t e] → h [b t d]. `tape` is how many cells back it can attend.

    `score` and `align` are names of `SCORES` and `ALIGNS`; the query is [x_t; h̃_{t−1}], the keys are h_i. With
    "additive" and "softmax" it is the paper's. A trace sees the weights of every step as the layer `attention`. Scores
    and alignments that depend on the place of a key, such as "location", count places on the tape, empty ones included.
    """

    def __init__(
        self,
        input_dim: int,
        hidden_dim: int,
        *,
        align_dim: int | None = None,
        score: str = "additive",
        align: str = "softmax",
        tape: int = 100,
    ) -> None:
        super().__init__()
        self.input_dim, self.hidden_dim, self.tape = input_dim, hidden_dim, tape
        self.attention = build_attention(
            score,
            align,
            query_dim=input_dim + hidden_dim,
            key_dim=hidden_dim,
            hidden_dim=align_dim or hidden_dim,
            max_keys=tape,
        )
        self.to_gates = nn.Linear(input_dim + hidden_dim, 4 * hidden_dim)  # W (7): i, f, ĉ, o, as in torch

    def initial_cells(self, batch: int) -> Cells:
        """The cells before the first word: tapes on which nothing is written yet."""
        tape = self.to_gates.weight.new_zeros(batch, self.tape, self.hidden_dim)
        written = torch.zeros(batch, self.tape, dtype=torch.bool, device=tape.device)
        return Cells(tape, tape.clone(), written, tape.new_zeros(batch, self.hidden_dim))

    def forward(
        self, x: Float[Tensor, "b t e"], cells: Cells | None = None, *, lengths: Int[Tensor, " b"] | None = None
    ) -> TapesRead:
        """h and c at every step, from `cells` on or from empty tapes; `lengths` says where padding begins."""
        batch, steps = x.shape[:2]
        before = 0 if cells is None else cells.hidden.shape[1]
        tape = StepTape(before + steps)
        if cells is not None:
            tape.write(self.attention.prepare(cells.hidden).keys, torch.cat([cells.hidden, cells.memory], -1))
        step = _Steps(self, x, None if cells is None else cells.summary)
        look_back = _LookBack(self, tape, None if cells is None else cells.written)
        tapes, summaries = [], []
        for t in range(steps):
            summary, recalled = look_back(step.query(t)).chunk(2, -1)  # h̃_t, c̃_t (4–6)
            hidden, memory = lstm_step(step.known_gates(t), step.gates(summary), recalled)  # h_t, c_t (7–9)
            cell = torch.cat([hidden, memory], -1)
            tape.write(step.key(hidden).unsqueeze(1), cell.unsqueeze(1))
            tapes.append(cell)
            summaries.append(summary)
        both = torch.stack(tapes, 1) if steps else x.new_zeros(batch, 0, 2 * self.hidden_dim)
        if lengths is not None:
            both = both.masked_fill(padding(both, lengths), 0.0)
        hidden, memory = both.chunk(2, -1)
        return TapesRead(hidden, memory, self._cells(cells, hidden, memory, summaries, lengths))

    def _cells(
        self,
        cells: Cells | None,
        hidden: Float[Tensor, "b t d"],
        memory: Float[Tensor, "b t d"],
        summaries: list[Tensor],
        lengths: Int[Tensor, " b"] | None,
    ) -> Cells:
        """The last `tape` cells of those before and of those that were written now."""
        batch, steps = hidden.shape[:2]
        before = self.initial_cells(batch) if cells is None else cells
        time = torch.arange(steps, device=hidden.device).expand(batch, steps)
        new = time >= 0 if lengths is None else time < lengths.unsqueeze(1)
        summary = torch.stack([before.summary.to(hidden.dtype), *summaries], 1)  # [b t+1 d]
        last = new.sum(1).reshape(-1, 1, 1).expand(-1, 1, self.hidden_dim)
        return Cells(
            torch.cat([before.hidden.to(hidden.dtype), hidden], 1)[:, -self.tape :],
            torch.cat([before.memory.to(hidden.dtype), memory], 1)[:, -self.tape :],
            torch.cat([before.written, new], 1)[:, -self.tape :],
            summary.gather(1, last).squeeze(1),
        )


class _Steps:
    """The products of all steps of a layer. What reads x alone is made at once; h̃_t is multiplied once for the gates
    of its own step and for the query of the next one; every weight gets its gradient by one product over all steps.
    """

    def __init__(self, layer: LSTMN, x: Float[Tensor, "b t e"], summary: Float[Tensor, "b d"] | None) -> None:
        self.layer, self.x = layer, x
        rows, steps = x.shape[:2]
        weight: Tensor = layer.to_gates.weight
        bias: Tensor = layer.to_gates.bias
        of_query = query_weight(layer.attention)  # W_x and W_h̃ of an additive score; None for any other score
        self.projects = of_query is not None
        widths = [layer.input_dim, layer.hidden_dim]
        if of_query is not None:
            weight, bias = torch.cat([weight, of_query]), F.pad(bias, (0, len(of_query)))
        of_x, of_summary = torch.split(weight, widths, 1)
        self.widths = [4 * layer.hidden_dim, len(weight) - 4 * layer.hidden_dim]
        known = F.linear(x, of_x, bias).transpose(0, 1)  # [t b 4d + a]
        self._gates, self._queries = (side.unbind(0) for side in torch.split(known, self.widths, -1))
        self._product = StepLinear(of_summary, shape=(steps, rows))
        self.summary = x.new_zeros(rows, layer.hidden_dim) if summary is None else summary.to(x.dtype)
        self._late_query: Tensor | None = None
        if summary is not None and of_query is not None:
            self._late_query = F.linear(self.summary, of_summary[self.widths[0] :])
        self._key = None
        if isinstance(layer.attention.score, Additive):
            self._key = StepLinear(layer.attention.score.to_keys.weight, shape=(steps, rows))

    def query(self, t: int) -> Float[Tensor, "b 1 q"]:
        """W_x x_t + W_h̃ h̃_{t−1} for an additive score, [x_t; h̃_{t−1}] for any other."""
        if not self.projects:
            return torch.cat([self.x[:, t], self.summary], -1).unsqueeze(1)
        known = self._queries[t]
        return (known if self._late_query is None else known + self._late_query).unsqueeze(1)

    def known_gates(self, t: int) -> Float[Tensor, "b g"]:
        """The addend of the gates that x_t makes."""
        return self._gates[t]

    def gates(self, summary: Float[Tensor, "b d"]) -> Float[Tensor, "b g"]:
        """The addend of the gates that h̃_t makes."""
        self.summary = summary
        gates, self._late_query = torch.split(self._product(summary), self.widths, -1)
        return gates

    def key(self, hidden: Float[Tensor, "b d"]) -> Float[Tensor, "b a"]:
        """W_h h_t: what later steps compare their queries with, made once."""
        if self._key is not None:
            return self._key(hidden)
        return self.layer.attention.prepare(hidden.unsqueeze(1)).keys.squeeze(1)


class _LookBack:
    """The attention of each step to the cells that are on the tape then, `layer.tape` of them at most."""

    def __init__(self, layer: LSTMN, tape: StepTape, written: Bool[Tensor, "b m"] | None) -> None:
        self.layer, self.tape, self.attention = layer, tape, layer.attention
        self.allowed = None  # [b k]: which cells exist; None where every cell does
        if written is not None:
            self.allowed = F.pad(written, (0, tape.capacity - written.shape[1]), value=True)
        score = layer.attention.score
        if query_weight(layer.attention) is not None:
            assert isinstance(score, Additive)
            self.attention = Attention(ProjectedAdditive(score.v), layer.attention.align, impl=layer.attention.impl)
            self.attention.train(layer.attention.training)
        needs = (*getattr(score, "needs", ()), *getattr(layer.attention.align, "needs", ()))
        self.has_history = "previous" in needs
        self.watched = watched(layer.attention)
        self.previous: Tensor | None = None  # [b k]: s^{t−1}, for scores and alignments that look at it
        self._first = 0

    def __call__(self, query: Float[Tensor, "b 1 q"]) -> Float[Tensor, "b v"]:
        """[h̃_t; c̃_t] [b 2d]."""
        end = self.tape.length
        first = max(0, end - self.layer.tape)
        if self.watched:
            first = 0  # all cells are read, and those too far back are masked: the columns of a trace then stay put
        if end == 0:
            keys, values = query.new_empty(len(query), 0, 1), query.new_zeros(len(query), 0, 2 * self.layer.hidden_dim)
        else:
            keys, values = self.tape.read(first)
        previous = None if self.previous is None else F.pad(self.previous[:, first - self._first :], (0, 1))
        out = self.attention.run(
            query,
            Prepared(keys),
            values,
            CallOptions(self._mask(first, end), None, previous, end - first, 0.0),
            need_weights=self.has_history,
            trace_as=self.layer.attention,
        )
        if self.has_history and end > 0:
            assert out.weights is not None
            self.previous, self._first = out.weights.squeeze(1), first
        return out.context.squeeze(1)

    def _mask(self, first: int, end: int) -> Mask | None:
        """Which of the cells that are read exist, and are not too far back; None where all of them are."""
        too_far = end - self.layer.tape - first  # so many cells at the start of what is read
        allowed = None if self.allowed is None else self.allowed[:, first:end]
        if too_far > 0:
            near = torch.arange(end - first, device=self.layer.to_gates.weight.device) >= too_far
            allowed = near.unsqueeze(0) if allowed is None else allowed & near
        return None if allowed is None else Mask.of(allowed.unsqueeze(1))


@dataclass(frozen=True)
class LSTMNConfig:
    """Sizes of the paper's language model: 300 units, one layer; any score and any alignment."""

    vocabulary: Vocabulary = 0  # tokens; the data decide
    embed_dim: Width = 300  # of a token
    hidden_dim: Width = 300  # of h and c
    align_dim: Width = 300  # inside of the additive score
    layers: Few = 1  # LSTMNs, one above the other
    score: str = "additive"  # name of the score, of SCORES
    align: str = "softmax"  # name of the alignment, of ALIGNS
    tape: Few = 100  # how many cells back it can attend
    dropout: Share = 0.0  # share of the numbers that are set to zero in training, below, between and above the layers
    embed_dropout: Share | None = None  # the same below the first layer, where it is not `dropout`
    word_dropout: Share = 0.0  # share of the vocabulary that is set to zero in training, drawn for each text
    locked: bool = False  # whether dropout sets the same numbers to zero at every step of a text
    tied: bool = False  # the output has the weights of the embedding; needs embed_dim = hidden_dim

    def __post_init__(self) -> None:
        check_settings(self, "model")


class LSTMNLanguageModel(LanguageModel):
    """Reads token after token, and looks back at all tokens before.

    With several layers, layer k + 1 reads h^k and, by a skip connection, the embedding.
    """

    self_attention_layers = "layers.*.attention"

    def __init__(self, config: LSTMNConfig) -> None:
        super().__init__(
            vocabulary=config.vocabulary,
            embed_dim=config.embed_dim,
            hidden_dim=config.hidden_dim,
            dropout=config.dropout,
            tied=config.tied,
            embed_dropout=config.embed_dropout,
            word_dropout=config.word_dropout,
            locked=config.locked,
        )
        self.config = config
        self.layers = nn.ModuleList(
            LSTMN(
                config.embed_dim + (config.hidden_dim if layer else 0),
                config.hidden_dim,
                align_dim=config.align_dim,
                score=config.score,
                align=config.align,
                tape=config.tape,
            )
            for layer in range(config.layers)
        )

    def initial_state(self, batch: int) -> tuple[Cells, ...]:
        """Empty tapes in every layer."""
        return tuple(layer.initial_cells(batch) for layer in self._layers())

    def read(
        self, words: Float[Tensor, "b t e"], state: tuple[Cells, ...] | None
    ) -> tuple[Float[Tensor, "b t h"], tuple[Cells, ...]]:
        """h of the top layer at each word, and the cells of all layers."""
        hidden, after = words, []
        for number, layer in enumerate(self._layers()):
            x = words if number == 0 else torch.cat([words, self.dropout(hidden)], -1)
            hidden, _, cells = layer(x, None if state is None else state[number])
            after.append(cells)
        return hidden, tuple(after)

    def _layers(self) -> list[LSTMN]:
        return [layer for layer in self.layers if isinstance(layer, LSTMN)]
