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

With fusion a layer also attends to another text, whose tapes hold γ_j (hidden) and α_j (memory), j = 1 … m:

b_j^t = uᵀ tanh(W_γ γ_j + W_x x_t + W_γ̃ γ̃_{t−1})                    (10)
p^t = softmax(b^t)                                                  (11)
[γ̃_t; α̃_t] = Σ_j p_j^t [γ_j; α_j]                                   (12)
r_t = σ(W_r [γ̃_t; x_t])                                             (13)
c_t = r_t ∘ α̃_t + f ∘ c̃_t + i ∘ ĉ                                   (14)
h_t = o ∘ tanh(c_t)                                                 (15)

That is deep fusion. In shallow fusion γ̃_t is one more input of the gates, W [h̃_t; x_t; γ̃_t] in (7), and (8) stays; its
attention asks with h_{t−1} in place of γ̃_{t−1}, as Bahdanau's does.
"""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention import Attention, Mask
from regard.attention.output import CallOptions
from regard.attention.tracing import watched
from regard.base import ConfigError, check_settings
from regard.base.ranges import Few, Share, Vocabulary, Width
from regard.models.language_model import LanguageModel
from regard.nn import StepAttention, StepLinear, StepTape, build_attention, lstm_step, padding, query_weight
from regard.score import Additive, Prepared, ProjectedAdditive

Fusion = Literal["none", "shallow", "deep"]


class Cells(NamedTuple):
    """What goes from one stretch of text to the next: the last cells of both tapes, and h̃ of the last step."""

    hidden: Tensor  # h_i [b m d], the latest last
    memory: Tensor  # c_i [b m d]
    written: Tensor  # [b m] bool: False where there is no cell yet
    summary: Tensor  # h̃_{t−1} [b d]


class SourceTapes(NamedTuple):
    """The tapes of another text, as a layer with fusion attends to them: `LSTMN.source_tapes` makes them once."""

    keys: Tensor  # [b k a]: W_γ γ_j, or whatever the score compares with
    values: Tensor  # [γ_j; α_j] [b k 2d] for deep fusion, γ_j [b k d] for shallow
    allowed: Tensor  # [b 1 k] bool: True where a word stands


class Gazes(NamedTuple):
    """What the attentions of a layer with fusion go on from, where a text is read word by word."""

    query: Tensor  # γ̃_{t−1} for deep fusion, h_{t−1} for shallow [b d]
    inter: Tensor  # p^{t−1} [b k]: weights over the other text
    time: Tensor | int  # t [b], or one number for all
    intra: Tensor | None = None  # s^{t−1} [b m]: weights over the tape, for scores and alignments that look at them


class TapesRead(NamedTuple):
    """What an LSTMN makes of a text: both tapes as they were written, and the cells to go on from."""

    hidden: Tensor  # h_t [b t d], zero on padding
    memory: Tensor  # c_t [b t d], zero on padding
    cells: Cells


class TapesFused(NamedTuple):
    """The same of a layer with fusion, which attends to another text too."""

    hidden: Tensor  # h_t [b t d], zero on padding
    memory: Tensor  # c_t [b t d], zero on padding
    cells: Cells
    gazes: Gazes  # what goes on beside the cells
    weights: Tensor | None  # p^t [b t k], if asked for


class LSTMN(nn.Module):
    """One layer: x [b t e] → h [b t d]. `tape` is how many cells back it can attend.

    `score` and `align` are names of `SCORES` and `ALIGNS`; the query is [x_t; h̃_{t−1}], the keys are h_i. With
    "additive" and "softmax" it is the paper's. A trace sees the weights of every step as the layer `attention`. Scores
    and alignments that depend on the place of a key, such as "location", count places on the tape, empty ones included.
    In training `weight_dropout` sets a share of the weights from h̃ to the gates to zero, the same at all steps of a
    text (Merity et al. 2018).

    With `fusion` "shallow" or "deep" each step also attends to the tapes of another text, which `source_tapes` prepares
    and `fused` takes. `inter_score` and `inter_align` are the names of that attention, `max_source` the number of
    words that "location" knows there, and a trace sees it as the layer `inter_attention`.
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
        weight_dropout: float = 0.0,
        fusion: Fusion = "none",
        inter_score: str = "additive",
        inter_align: str = "softmax",
        max_source: int = 200,
    ) -> None:
        super().__init__()
        self.input_dim, self.hidden_dim, self.tape, self.fusion = input_dim, hidden_dim, tape, fusion
        self.weight_dropout, both = weight_dropout, input_dim + hidden_dim
        self.attention = build_attention(
            score, align, query_dim=both, key_dim=hidden_dim, hidden_dim=align_dim or hidden_dim, max_keys=tape
        )
        late = hidden_dim * (2 if fusion == "shallow" else 1)
        self.to_gates = nn.Linear(input_dim + late, 4 * hidden_dim)  # W (7): i, f, ĉ, o, as in torch
        self.inter_attention: Attention | None = None
        self.to_read_gate: nn.Linear | None = None
        if fusion != "none":
            self.inter_attention = build_attention(
                inter_score, inter_align, query_dim=both, key_dim=hidden_dim, hidden_dim=align_dim or hidden_dim,
                max_keys=max_source,
            )  # fmt: skip
        if fusion == "deep":
            self.to_read_gate = nn.Linear(both, hidden_dim)  # W_r (13), for [x_t; γ̃_t]

    def initial_cells(self, batch: int) -> Cells:
        """The cells before the first word: tapes on which nothing is written yet."""
        tape = self.to_gates.weight.new_zeros(batch, self.tape, self.hidden_dim)
        written = torch.zeros(batch, self.tape, dtype=torch.bool, device=tape.device)
        return Cells(tape, tape.clone(), written, tape.new_zeros(batch, self.hidden_dim))

    def source_tapes(
        self, hidden: Float[Tensor, "b k d"], memory: Float[Tensor, "b k d"], lengths: Int[Tensor, " b"]
    ) -> SourceTapes:
        """The tapes γ and α of another text, prepared once for all steps; `lengths` says where its padding begins."""
        if self.inter_attention is None:
            cure = 'build the layer with fusion="shallow" or "deep"'
            raise ConfigError("this LSTMN reads one text", got='fusion="none"', cure=cure)
        values = torch.cat([hidden, memory], -1) if self.fusion == "deep" else hidden
        keys = self.inter_attention.prepare(hidden).keys
        return SourceTapes(keys, values, Mask.padding(lengths).dense(1, hidden.shape[1]))

    def initial_gazes(self, source: SourceTapes) -> Gazes:
        """What the attention to another text begins with: γ̃_0 = 0, and all weight on the first word."""
        rows, num_keys = source.values.shape[:2]
        inter = source.values.new_zeros(rows, num_keys)
        inter[:, :1] = 1.0
        return Gazes(source.values.new_zeros(rows, self.hidden_dim), inter, 0)

    def forward(
        self, x: Float[Tensor, "b t e"], cells: Cells | None = None, *, lengths: Int[Tensor, " b"] | None = None
    ) -> TapesRead:
        """h and c at every step, from `cells` on or from empty tapes; `lengths` says where padding begins."""
        if self.inter_attention is not None:
            cure = "call layer.fused(x, layer.source_tapes(…))"
            raise ConfigError("an LSTMN with fusion reads beside another text", got="one text", cure=cure)
        step = _Steps(self, x, None if cells is None else cells.summary, None)
        return self._read(x, cells, lengths, step, self._look_back(x, cells), None)

    def fused(
        self,
        x: Float[Tensor, "b t e"],
        source: SourceTapes,
        cells: Cells | None = None,
        *,
        gazes: Gazes | None = None,
        lengths: Int[Tensor, " b"] | None = None,
        need_weights: bool = False,
    ) -> TapesFused:
        """The same beside the tapes of another text; it goes on from `cells` and `gazes`, if there are some.

        `need_weights` gives the weights over the words of the other text.
        """
        step = _Steps(self, x, None if cells is None else cells.summary, None if gazes is None else gazes.query)
        look_back = self._look_back(x, cells)
        look_back.go_on(None if gazes is None else gazes.intra)
        look_across = _LookAcross(self, source, gazes or self.initial_gazes(source), x.shape[1], need_weights)
        tapes = self._read(x, cells, lengths, step, look_back, look_across)
        gazes = Gazes(step.inter_state, look_across.previous, look_across.time, look_back.previous)
        return TapesFused(*tapes, gazes, look_across.weights())

    def _look_back(self, x: Float[Tensor, "b t e"], cells: Cells | None) -> "_LookBack":
        """A tape with room for all steps, on which `cells` are written, and the attention to it."""
        before = 0 if cells is None else cells.hidden.shape[1]
        tape = StepTape(before + x.shape[1])
        if cells is None or before == 0:
            return _LookBack(self, tape, None)
        tape.write(self.attention.prepare(cells.hidden).keys, torch.cat([cells.hidden, cells.memory], -1))
        return _LookBack(self, tape, cells.written)

    def _read(
        self,
        x: Float[Tensor, "b t e"],
        cells: Cells | None,
        lengths: Int[Tensor, " b"] | None,
        step: "_Steps",
        look_back: "_LookBack",
        look_across: "_LookAcross | None",
    ) -> TapesRead:
        """The loop over the words."""
        batch, steps = x.shape[:2]
        tapes, summaries = [], []
        for t in range(steps):
            summary, recalled = look_back(step.query(t)).chunk(2, -1)  # h̃_t, c̃_t (4–6)
            if look_across is None:
                hidden, memory = lstm_step(step.known_gates(t), step.gates(summary), recalled)  # h_t, c_t (7–9)
            else:
                read = look_across(step.inter_query(t))  # γ̃_t, and α̃_t in deep fusion (10–12)
                hidden, memory = step.fuse(t, summary, recalled, read)  # h_t, c_t (7), (13–15)
            cell = torch.cat([hidden, memory], -1)
            look_back.tape.write(step.key(hidden).unsqueeze(1), cell.unsqueeze(1))
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
    """The products of all steps of a layer. What reads x alone is made at once; what was attended to, h̃_t and with
    fusion γ̃_t, is multiplied once for the gates of its own step and for the queries of the next one; every weight gets
    its gradient by one product over all steps.
    """

    def __init__(
        self,
        layer: LSTMN,
        x: Float[Tensor, "b t e"],
        summary: Float[Tensor, "b d"] | None,
        inter_state: Float[Tensor, "b d"] | None,
    ) -> None:
        self.layer, self.x = layer, x
        rows, steps = x.shape[:2]
        weight, bias, self._widths = _joined_weights(layer)
        of_x, of_late = torch.split(weight, [layer.input_dim, weight.shape[1] - layer.input_dim], 1)
        if layer.training and layer.weight_dropout > 0:
            of_gates, of_queries = torch.split(of_late, [self._widths[0], sum(self._widths[1:])])
            of_late = torch.cat([F.dropout(of_gates, layer.weight_dropout), of_queries])
        known = F.linear(x, of_x, bias).transpose(0, 1)  # [t b g + a + a]: gates, query, query of the other text
        self._gates, self._queries, self._inter_queries = (
            side.unbind(0) for side in torch.split(known, self._widths, -1)
        )
        self.summary = x.new_zeros(rows, layer.hidden_dim) if summary is None else summary.to(x.dtype)
        self.inter_state = x.new_zeros(rows, layer.hidden_dim) if inter_state is None else inter_state.to(x.dtype)
        self._late_query = self._late_inter_query = None
        gates, queries, inter_queries = torch.split(of_late, self._widths)
        if summary is not None and len(queries):
            self._late_query = F.linear(self.summary, queries[:, : layer.hidden_dim])
        if layer.fusion == "shallow":  # h_{t−1} is what asks: see `key`
            of_late, of_state = torch.cat([gates, queries]), _inter_query_weight(layer)[:, layer.input_dim :]
        else:
            of_state = inter_queries[:, layer.hidden_dim :]
        if inter_state is not None and len(inter_queries):
            self._late_inter_query = F.linear(self.inter_state, of_state)
        self._product = StepLinear(of_late, shape=(steps, rows))
        of_hidden = _hidden_weight(layer)
        self._key = StepLinear(of_hidden, shape=(steps, rows)) if len(of_hidden) else None

    def query(self, t: int) -> Float[Tensor, "b 1 q"]:
        """W_x x_t + W_h̃ h̃_{t−1} for an additive score, [x_t; h̃_{t−1}] for any other."""
        if self._widths[1] == 0:
            return torch.cat([self.x[:, t], self.summary], -1).unsqueeze(1)
        known = self._queries[t]
        return (known if self._late_query is None else known + self._late_query).unsqueeze(1)

    def inter_query(self, t: int) -> Float[Tensor, "b q"]:
        """The same for the other text, with γ̃_{t−1} in deep fusion and h_{t−1} in shallow."""
        if self._widths[2] == 0:
            return torch.cat([self.x[:, t], self.inter_state], -1)
        known = self._inter_queries[t]
        return known if self._late_inter_query is None else known + self._late_inter_query

    def known_gates(self, t: int) -> Float[Tensor, "b g"]:
        """The addend of the gates that x_t makes."""
        return self._gates[t]

    def gates(self, summary: Float[Tensor, "b d"], read: Float[Tensor, "b d"] | None = None) -> Float[Tensor, "b g"]:
        """The addend of the gates that h̃_t makes, and γ̃_t where there is one."""
        self.summary = summary
        product = self._product(summary if read is None else torch.cat([summary, read], -1))
        if self.layer.fusion == "deep":
            assert read is not None
            gates, self._late_query, self._late_inter_query = torch.split(product, self._widths, -1)
            self.inter_state = read
        else:
            gates, self._late_query = torch.split(product, self._widths[:2], -1)
        return gates

    def fuse(
        self, t: int, summary: Float[Tensor, "b d"], recalled: Float[Tensor, "b d"], read: Float[Tensor, "b v"]
    ) -> tuple[Float[Tensor, "b d"], Float[Tensor, "b d"]]:
        """h_t and c_t with what was read in the other text."""
        if self.layer.fusion == "shallow":
            return lstm_step(self.known_gates(t), self.gates(summary, read), recalled)  # (7–9) with γ̃_t as an input
        read, memory = read.chunk(2, -1)
        return _deep_step(self.known_gates(t) + self.gates(summary, read), recalled, memory)

    def key(self, hidden: Float[Tensor, "b d"]) -> Float[Tensor, "b a"]:
        """W_h h_t: what later steps compare their queries with, made once."""
        made = None if self._key is None else self._key(hidden)
        if self.layer.fusion == "shallow":
            self.inter_state = hidden
            if made is not None and self._widths[2]:
                made, self._late_inter_query = torch.split(
                    made, [made.shape[-1] - self._widths[2], self._widths[2]], -1
                )
        if isinstance(self.layer.attention.score, Additive):
            assert made is not None
            return made
        return self.layer.attention.prepare(hidden.unsqueeze(1)).keys.squeeze(1)


def stack_lstmn(layers: int, input_dim: int, hidden_dim: int, **options: Any) -> nn.ModuleList:
    """Builds LSTMNs that stand one above the other: each but the first reads the words and h of the one below."""
    widths = [input_dim, *[input_dim + hidden_dim] * (layers - 1)]
    return nn.ModuleList(LSTMN(width, hidden_dim, **options) for width in widths)


def _inter_query_weight(layer: LSTMN) -> Float[Tensor, "a q"]:
    """The matrix for the query of the other text; without rows unless there is one, and its score is additive."""
    weight = None if layer.inter_attention is None else query_weight(layer.inter_attention)
    return layer.to_gates.weight.new_zeros(0, layer.input_dim + layer.hidden_dim) if weight is None else weight


def _hidden_weight(layer: LSTMN) -> Float[Tensor, "a d"]:
    """What multiplies h_t: W_h of an additive score, and in shallow fusion the query of the other text's."""
    score = layer.attention.score
    weights = [score.to_keys.weight] if isinstance(score, Additive) else []
    if layer.fusion == "shallow":
        weights.append(_inter_query_weight(layer)[:, layer.input_dim :])
    return torch.cat(weights) if weights else layer.to_gates.weight.new_zeros(0, layer.hidden_dim)


def _joined_weights(layer: LSTMN) -> tuple[Float[Tensor, "r c"], Float[Tensor, " r"], list[int]]:
    """One matrix for [x_t; h̃_t], or [x_t; h̃_t; γ̃_t] with fusion, its bias, and how many rows make what.

    The rows make the gates, W_x x_t + W_h̃ h̃_t of (4), and of (10) what x_t and, in deep fusion, γ̃_t make; those for
    the queries are there for additive scores only. Where a row does not read h̃_t or γ̃_t it is zero.
    """
    of_query, inter, d = query_weight(layer.attention), _inter_query_weight(layer), layer.hidden_dim
    gates: Tensor = layer.to_gates.weight
    bias: Tensor = layer.to_gates.bias
    if layer.to_read_gate is not None:
        gates = torch.cat([F.pad(gates, (0, d)), _with_gap(layer.to_read_gate.weight, layer.input_dim, d)])
        bias = torch.cat([bias, layer.to_read_gate.bias])
    weights, widths = [gates], [len(gates), 0 if of_query is None else len(of_query), len(inter)]
    if of_query is not None:
        weights.append(F.pad(of_query, (0, gates.shape[1] - of_query.shape[1])))
    if len(inter):
        of_x_alone = F.pad(inter[:, : layer.input_dim], (0, 2 * d))
        weights.append(_with_gap(inter, layer.input_dim, d) if layer.fusion == "deep" else of_x_alone)
    return torch.cat(weights), F.pad(bias, (0, widths[1] + widths[2])), widths


def _with_gap(weight: Float[Tensor, "r c"], place: int, width: int) -> Float[Tensor, "r e"]:
    """The matrix with `width` columns of zeros before column `place`."""
    return torch.cat([weight[:, :place], weight.new_zeros(len(weight), width), weight[:, place:]], 1)


def _deep_step(
    gates: Float[Tensor, "b g"], recalled: Float[Tensor, "b d"], read: Float[Tensor, "b d"]
) -> tuple[Float[Tensor, "b d"], Float[Tensor, "b d"]]:
    """h_t and c_t of (7) and (13) to (15) from the sums of the gates i, f, ĉ, o and r [b 5d], c̃_t and α̃_t."""
    d = recalled.shape[-1]
    open_first, new, open_last = torch.split(gates, [2 * d, d, 2 * d], -1)
    into, keep = torch.sigmoid(open_first).chunk(2, -1)
    out, take = torch.sigmoid(open_last).chunk(2, -1)
    memory = torch.addcmul(take * read.to(gates.dtype), keep, recalled.to(gates.dtype))
    memory = torch.addcmul(memory, into, torch.tanh(new))
    return out * torch.tanh(memory), memory


class _LookAcross:
    """The attention of each step to the tapes of another text."""

    def __init__(self, layer: LSTMN, source: SourceTapes, gazes: Gazes, steps: int, need_weights: bool) -> None:
        attention = layer.inter_attention
        assert attention is not None
        projected = query_weight(attention) is not None
        self._attend = StepAttention(
            attention,
            source.keys,
            source.values,
            allowed=source.allowed,
            steps=steps,
            need_weights=need_weights,
            project=_as_it_is if projected else None,
        )
        self._need_weights, self._weights = need_weights, list[Tensor]()
        self.previous, self.time = gazes.inter, gazes.time

    def __call__(self, query: Float[Tensor, "b q"]) -> Float[Tensor, "b v"]:
        """γ̃_t [b d], or [γ̃_t; α̃_t] [b 2d] where both tapes are read."""
        context, weights = self._attend(query, self.previous, self.time)
        self.time = self.time + 1
        if weights is not None:
            self.previous = weights
            self._weights += [weights] * self._need_weights
        return context

    def weights(self) -> Float[Tensor, "b t k"] | None:
        """The weights of all steps, if they were asked for."""
        if not self._need_weights:
            return None
        return torch.stack(self._weights, 1) if self._weights else self.previous.unsqueeze(1)[:, :0]


def _as_it_is(query: Tensor) -> Tensor:
    """The query of an additive score, which is projected when it comes: see `StepAttention`."""
    return query


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

    def go_on(self, previous: Float[Tensor, "b m"] | None) -> None:
        """Takes over s^{t−1} of the text before, whose last weight is that of the last cell but one on the tape."""
        if previous is not None:
            self.previous, self._first = previous, self.tape.length - 1 - previous.shape[1]

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
    weight_dropout: Share = 0.0  # share of the weights from h̃ to the gates that are set to zero in training
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
        self.layers = stack_lstmn(
            config.layers,
            config.embed_dim,
            config.hidden_dim,
            align_dim=config.align_dim,
            score=config.score,
            align=config.align,
            tape=config.tape,
            weight_dropout=config.weight_dropout,
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
