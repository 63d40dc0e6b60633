"""Neural Turing machine: Graves, Wayne & Danihelka 2014, arXiv 1410.5401. Equation numbers are those of the paper.

Choices where the paper leaves room: at each step all heads address the memory as the step before has left it, the
read heads read it, and then the write heads write; keys and added vectors go through tanh; a feed-forward controller is
one layer with tanh; the output sees the controller and what was read. Memory, weights, reads and controller start from
learnt values: without a focus to begin with, the slots of a new memory cannot be told apart.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.align import Shift, Softmax
from regard.attention import Attention
from regard.attention.output import CallOptions
from regard.attention.tracing import watched
from regard.base import check_settings
from regard.base.ranges import Few, Width
from regard.kernels import reasons_against_triton
from regard.kernels.derivatives import transformed
from regard.kernels.limits import too_large
from regard.nn import LSTMState, SingleLSTM, StepLinear, StepLSTM, build_attention, run_lstm
from regard.score import Cosine

FIRST_FOCUS = 4.0  # by how much the first slot is ahead of the others before training, as a logit above log(slots)
EMPTY = 1e-6  # what a constant memory holds at the start: its cosine is defined


@dataclass(frozen=True)
class NTMConfig:
    """Sizes of the paper for the copy task (tables 1 and 2); any score and any alignment of contents."""

    inputs: Width = 9  # channels that come in at each step; the data decide
    outputs: Width = 8  # bits that go out at each step; the data decide
    controller: Literal["feed_forward", "lstm"] = "lstm"  # what reads the input and moves the heads
    hidden_dim: Width = 100  # width of the controller
    layers: Few = 1  # of an LSTM controller
    read_heads: Few = 1  # heads that read
    write_heads: Few = 1  # heads that erase and add
    slots: Width = 128  # rows of the memory (N)
    slot_dim: Width = 20  # width of a row (M)
    reach: Few = 1  # slots by which a head can move in a step, in both directions
    score: str = "cosine"  # name of the score that compares keys with slots, of SCORES
    align: str = "softmax"  # name of the alignment of contents, of ALIGNS
    memory: Literal["constant", "learned", "random"] = "constant"  # what is in the memory at the start

    def __post_init__(self) -> None:
        check_settings(self, "model")


@dataclass(frozen=True)
class NTMLSTMConfig:
    """The network that the paper compares with: a stacked LSTM without a memory."""

    inputs: Width = 9  # channels that come in at each step; the data decide
    outputs: Width = 8  # bits that go out at each step; the data decide
    hidden_dim: Width = 256  # width of each layer
    layers: Few = 3  # of the LSTM

    def __post_init__(self) -> None:
        check_settings(self, "model")


def ntm_feed_forward() -> NTMConfig:
    """Copying with a feed-forward controller, as in table 1."""
    return NTMConfig(controller="feed_forward")


def ntm_lstm() -> NTMConfig:
    """Copying with an LSTM controller, as in table 2."""
    return NTMConfig()


class State(NamedTuple):
    """What goes from step to step."""

    memory: Tensor  # M_t [b n w]
    weights: Tensor  # w_t [b h n] of all heads, those that read first
    reads: Tensor  # r_t [b (r w)]
    controller: LSTMState | None  # of an LSTM controller


class Emitted(NamedTuple):
    """What a network makes of whole sequences."""

    logits: Tensor  # [b t o]: of each output bit
    reads: Tensor | None = None  # [b t (r w)]: what was read, where there is a memory
    adds: Tensor | None = None  # [b t (h w)]: what was added to it


class Emission(NamedTuple):
    """What the heads get from the controller at one step."""

    key: Tensor  # k [b h w]
    strength: Tensor  # β ≥ 0 [b h 1]
    gate: Tensor  # g in (0, 1) [b h 1]
    shift: Tensor  # s, shares of the shifts [b h s]
    sharpness: Tensor  # γ ≥ 1 [b h 1]
    erase: Tensor  # e in (0, 1) [b h w], of the write heads
    add: Tensor  # a [b h w], of the write heads


def write(
    memory: Float[Tensor, "b n w"],
    weights: Float[Tensor, "b h n"],
    erase: Float[Tensor, "b h w"],
    add: Float[Tensor, "b h w"],
) -> Float[Tensor, "b n w"]:
    """M(i) ∏_h (1 − w_h(i) e_h) + Σ_h w_h(i) a_h: all heads erase (3), then all add (4).

    >>> one_hot, row = torch.tensor([[[0.0, 1.0]]]), torch.tensor([[[5.0, 6.0]]])
    >>> write(torch.ones(1, 2, 2), one_hot, torch.ones(1, 1, 2), row)
    tensor([[[1., 1.],
             [5., 6.]]])
    """
    for head in range(weights.shape[1]):
        erased = weights[:, head].unsqueeze(-1) * erase[:, head].unsqueeze(-2)
        memory = torch.addcmul(memory, memory, erased, value=-1)
    return torch.baddbmm(memory, weights.mT, add)


class _Strengthened:
    """β times any score, for one step: [*b q k]."""

    def __init__(self, score: Any, strength: Tensor) -> None:
        self.score, self.strength, self.needs = score, strength, getattr(score, "needs", ())

    def __call__(self, query: Tensor, keys: Tensor, **history: Any) -> Tensor:
        scores: Tensor = self.strength * self.score(query, keys, **history)
        return scores


class NTM(nn.Module):
    """A controller with heads that read a memory and write into it. A trace sees the weights of all heads."""

    def __init__(self, config: NTMConfig) -> None:
        super().__init__()
        self.config = config
        heads, width = config.read_heads + config.write_heads, config.slot_dim
        read, hidden = config.read_heads * width, config.hidden_dim
        if config.controller == "lstm":
            self.controller: nn.Module = nn.LSTM(config.inputs + read, hidden, config.layers, batch_first=True)
            self.first_hidden = nn.Parameter(0.05 * torch.randn(1, 2, config.layers, hidden))
        else:
            self.controller = nn.Linear(config.inputs + read, hidden)
        self.attention = build_attention(config.score, config.align, query_dim=width, key_dim=width, hidden_dim=width)
        if config.score == "cosine":
            self.attention.score = Cosine()  # β comes from the controller
        self._sizes = [width, 1, 1, 2 * config.reach + 1, 1]
        self.to_heads = nn.Linear(hidden, heads * sum(self._sizes) + config.write_heads * 2 * width)
        self.to_output = nn.Linear(hidden + read, config.outputs)
        focus = torch.zeros(1, heads, config.slots)
        focus[..., 0] = FIRST_FOCUS + math.log(config.slots)
        self.first_focus = nn.Parameter(focus)  # of w_0, before the softmax
        self.first_reads = nn.Parameter(0.01 * torch.randn(1, read))
        self._fill_memory()
        nn.init.xavier_uniform_(self.to_heads.weight, gain=1.4)
        nn.init.normal_(self.to_heads.bias, std=0.01)

    def _fill_memory(self) -> None:
        """M_0: learnt, or a buffer of one small number or of random ones."""
        config, shape = self.config, (1, self.config.slots, self.config.slot_dim)
        bound = 1 / math.sqrt(config.slots + config.slot_dim)
        start = torch.empty(shape)
        if config.memory == "constant":
            nn.init.constant_(start, EMPTY)
        else:
            nn.init.uniform_(start, -bound, bound)
        if config.memory == "learned":
            self.first_memory: Tensor = nn.Parameter(start)
        else:
            self.register_buffer("first_memory", start)

    def init_state(self, batch: int) -> State:
        """The state before the first step, the same for every sequence."""
        controller = None
        if self.config.controller == "lstm":
            hidden, cell = self.first_hidden.expand(batch, -1, -1, -1).unbind(1)
            controller = LSTMState(hidden, cell)
        return State(
            self.first_memory.expand(batch, -1, -1),
            self.first_focus.softmax(-1).expand(batch, -1, -1),
            self.first_reads.expand(batch, -1),
            controller,
        )

    def step(self, inputs: Float[Tensor, "b i"], state: State) -> tuple[Float[Tensor, "b o"], State]:
        """One step: the logits of the output bits, and the next state."""
        if isinstance(self.controller, nn.LSTM):
            assert state.controller is not None
            control = SingleLSTM(self.controller, inputs, state.controller)
            hidden = control(state.reads)
            state = state._replace(controller=control.state)
        else:
            hidden = torch.tanh(self.controller(torch.cat([inputs, state.reads], -1)))
        state = self._advance(self.to_heads(hidden), state)
        logits: Tensor = self.to_output(torch.cat([hidden, state.reads], -1))
        return logits, state

    def forward(self, inputs: Float[Tensor, "b t i"]) -> Emitted:
        """All steps of sequences that are known. Weights get the gradients of all steps by one product."""
        batch, steps, _ = inputs.shape
        state = self.init_state(batch)
        control = self._control(inputs.transpose(0, 1), state)
        to_heads = StepLinear(self.to_heads.weight, self.to_heads.bias, shape=(steps, batch))
        hidden, reads, raw_adds = [], [], []
        for _ in range(steps):
            hidden.append(control(state.reads))
            emitted = to_heads(hidden[-1])
            state = self._advance(emitted, state)
            reads.append(state.reads)
            raw_adds.append(emitted[:, -self.config.write_heads * self.config.slot_dim :])
        all_reads = torch.stack(reads, 1)
        logits = self.to_output(torch.cat([torch.stack(hidden, 1), all_reads], -1))
        return Emitted(logits, all_reads, torch.stack(raw_adds, 1).tanh())

    def _control(self, inputs: Float[Tensor, "t b i"], state: State) -> Callable[[Tensor], Tensor]:
        """The controller of all steps: what was read [b (r w)] → its output [b d]."""
        if isinstance(self.controller, nn.LSTM):
            assert state.controller is not None
            return StepLSTM(self.controller, inputs, state.controller)
        assert isinstance(self.controller, nn.Linear)
        steps, batch, width = inputs.shape
        weight, bias = self.controller.weight, self.controller.bias
        early, late = torch.split(weight, [width, weight.shape[1] - width], 1)
        product = StepLinear(late, F.linear(inputs, early, bias), shape=(steps, batch))
        return lambda reads: torch.tanh(product(reads))

    def _advance(self, emitted: Float[Tensor, "b e"], state: State) -> State:
        """From M_{t−1} and w_{t−1} to M_t, w_t and r_t."""
        num_reads = self.config.read_heads
        if self._has_kernel(emitted, state):
            from regard.kernels.memory_step import memory_step

            weights, reads, memory = memory_step(
                emitted, state.memory, state.weights, read_heads=num_reads, reach=self.config.reach
            )
            return state._replace(memory=memory, weights=weights, reads=reads)
        emission = self._emission(emitted)
        attention = Attention(
            _Strengthened(self.attention.score, emission.strength.unsqueeze(-1)),  # β K[k, M(i)] (5, 6)
            Shift(*(each.unsqueeze(-2) for each in emission[2:5]), every_key=True, base=self.attention.align),  # (7–9)
        )
        memory = state.memory.unsqueeze(1)
        out = attention.run(
            emission.key.unsqueeze(-2),
            memory,
            memory,
            CallOptions(None, None, state.weights, 0, 0.0),
            need_weights=True,
            trace_as=self.attention,
            heads=True,
        )
        assert out.weights is not None
        weights = out.weights.squeeze(-2)
        reads = out.context[:, :num_reads].flatten(1)  # (2)
        memory = write(state.memory, weights[:, num_reads:], emission.erase, emission.add)
        return state._replace(memory=memory, weights=weights, reads=reads)

    def _has_kernel(self, emitted: Tensor, state: State) -> bool:
        """Whether one kernel can do a whole step: in float32, as the paper has it, and nobody watches the weights."""
        attention, config = self.attention, self.config
        score, align = attention.score, attention.align
        if type(score) is not Cosine or isinstance(score.strength, Tensor) or score.strength != 1.0:
            return False
        if type(align) is not Softmax or align.temperature != 1.0:
            return False
        if attention.impl != "auto" or {emitted.dtype, state.memory.dtype, state.weights.dtype} != {torch.float32}:
            return False
        if torch.compiler.is_compiling() or watched(attention) or transformed() or config.reach > config.slots:
            return False
        return too_large(config.slots, config.slot_dim) is None and not reasons_against_triton(emitted.device)

    def _emission(self, emitted: Float[Tensor, "b e"]) -> Emission:
        """The numbers of the controller, each brought into its range."""
        config = self.config
        heads, writes = config.read_heads + config.write_heads, config.write_heads * config.slot_dim
        addressing, erase, add = torch.split(emitted, [heads * sum(self._sizes), writes, writes], -1)
        key, strength, gate, shift, sharpness = torch.split(
            torch.unflatten(addressing, -1, (heads, -1)), self._sizes, -1
        )
        return Emission(
            torch.tanh(key),
            F.softplus(strength),
            torch.sigmoid(gate),
            shift.softmax(-1),
            1 + F.softplus(sharpness),
            torch.unflatten(torch.sigmoid(erase), -1, (config.write_heads, -1)),
            torch.unflatten(torch.tanh(add), -1, (config.write_heads, -1)),
        )


class NTMLSTM(nn.Module):
    """A stacked LSTM with the interface of the NTM, from a learnt state: what a memory is worth."""

    def __init__(self, config: NTMLSTMConfig) -> None:
        super().__init__()
        self.config = config
        self.layers = nn.LSTM(config.inputs, config.hidden_dim, config.layers, batch_first=True)
        self.first_hidden = nn.Parameter(0.05 * torch.randn(1, 2, config.layers, config.hidden_dim))
        self.to_output = nn.Linear(config.hidden_dim, config.outputs)

    def init_state(self, batch: int) -> LSTMState:
        """The state before the first step, the same for every sequence."""
        hidden, cell = self.first_hidden.expand(batch, -1, -1, -1).unbind(1)
        return LSTMState(hidden, cell)

    def step(self, inputs: Float[Tensor, "b i"], state: LSTMState) -> tuple[Float[Tensor, "b o"], LSTMState]:
        """One step: the logits of the output bits, and the next state."""
        hidden, state = run_lstm(self.layers, inputs.unsqueeze(1), state)
        logits: Tensor = self.to_output(hidden.squeeze(1))
        return logits, state

    def forward(self, inputs: Float[Tensor, "b t i"]) -> Emitted:
        """All steps of sequences that are known."""
        hidden, _ = run_lstm(self.layers, inputs, self.init_state(len(inputs)))
        return Emitted(self.to_output(hidden))
