"""Recurrent layers over padded sentences: what comes out does not depend on the padding."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.base import ConfigError
from regard.nn.step_linear import StepLinear

_HOLD = 1e4  # the sigmoid of it is 1, and of minus it 0, exactly and in every dtype
_HOLD_WIDTH = 8  # columns for it, all but one of them zero: tensor cores like widths that 8 divides


def reverse(x: Tensor, lengths: Int[Tensor, " b"]) -> Tensor:
    """The real items of each sentence in reverse order, padding where it was: [b t …]; its own inverse.

    >>> reverse(torch.tensor([[1, 2, 3], [4, 5, 0]]), torch.tensor([3, 2]))
    tensor([[3, 2, 1],
            [5, 4, 0]])
    """
    time = torch.arange(x.shape[1], device=x.device)
    place = torch.where(time < lengths.unsqueeze(1), lengths.unsqueeze(1) - 1 - time, time)  # [b t]
    return x.gather(1, place.reshape(*place.shape, *[1] * (x.ndim - 2)).expand_as(x))


def final_output(outputs: Float[Tensor, "b t d"], lengths: Int[Tensor, " b"]) -> Float[Tensor, "b d"]:
    """The output at the last real item of each sentence."""
    last = (lengths - 1).clamp(min=0).reshape(-1, 1, 1).expand(-1, 1, outputs.shape[-1])
    return outputs.gather(1, last).squeeze(1)


def padding(x: Tensor, lengths: Int[Tensor, " b"]) -> Bool[Tensor, "b t 1"]:
    """True where [b t …] holds no real item."""
    return (torch.arange(x.shape[1], device=x.device) >= lengths.unsqueeze(1)).unsqueeze(-1)


class Bidirectional(nn.Module):
    """A layer in each direction: annotation j is [forward_j; backward_j], zero on padding (Bahdanau 2015, A.2.1).

    `kind` is `nn.GRU` or `nn.LSTM`. In training `weight_dropout` sets a share of the weights from h to the gates of an
    LSTM to zero, as in `run_lstm`.
    """

    def __init__(
        self,
        input_dim: int,
        hidden_dim: int,
        *,
        kind: type[nn.GRU] | type[nn.LSTM] = nn.GRU,
        weight_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if weight_dropout > 0 and kind is not nn.LSTM:
            raise ConfigError("weight_dropout", got=weight_dropout, expected="0 for a GRU", cure="take kind=nn.LSTM")
        self.forwards = kind(input_dim, hidden_dim, batch_first=True)
        self.backwards = kind(input_dim, hidden_dim, batch_first=True)
        self.weight_dropout = weight_dropout

    def forward(self, x: Float[Tensor, "b t d"], lengths: Int[Tensor, " b"]) -> Float[Tensor, "b t e"]:
        """Annotations [b t 2·hidden]; the first backward state is `[:, 0, hidden:]`."""
        ahead, back = self._run(self.forwards, x), self._run(self.backwards, reverse(x, lengths))
        return torch.cat([ahead, reverse(back, lengths)], -1).masked_fill(padding(x, lengths), 0.0)

    def _run(self, layer: nn.Module, x: Float[Tensor, "b t d"]) -> Float[Tensor, "b t h"]:
        if self.training and self.weight_dropout > 0:
            assert isinstance(layer, nn.LSTM)
            zeros = x.new_zeros(len(x), 1, layer.hidden_size)
            return run_lstm(layer, x, LSTMState(zeros, zeros), weight_dropout=self.weight_dropout)[0]
        outputs: Tensor = layer(x)[0]
        return outputs


class StackedLSTM(nn.Module):
    """Layers of LSTM in one direction; the final states are those at the last real word.

    Nothing is packed, so the host need not know the lengths and a captured graph may hold it. An extra input, which is
    on where there is padding, shuts the input gate and opens the forget gate: c stays exactly as it was.
    """

    def __init__(self, input_dim: int, hidden_dim: int, layers: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.layers = nn.LSTM(input_dim, hidden_dim, layers, batch_first=True, dropout=dropout if layers > 1 else 0.0)

    def forward(
        self, x: Float[Tensor, "b t d"], lengths: Int[Tensor, " b"]
    ) -> tuple[Float[Tensor, "b t h"], Float[Tensor, "b 2 l h"]]:
        """Outputs of the top layer, zero on padding, and the final h and c of all layers."""
        empty = padding(x, lengths)
        hold = F.pad(empty.to(x.dtype), (0, _HOLD_WIDTH - 1))
        hidden, cells = [], []
        for layer in range(self.layers.num_layers):
            if layer > 0:
                x = F.dropout(x, self.layers.dropout, self.training)
            outputs, cell = self._run(layer, torch.cat([x, hold], -1))
            x = outputs.masked_fill(empty, 0.0)
            hidden.append(final_output(x, lengths))
            cells.append(cell)
        return x, torch.stack([torch.stack(hidden, 1), torch.stack(cells, 1)], 1)

    def _run(self, layer: int, x: Float[Tensor, "b t d"]) -> tuple[Float[Tensor, "b t h"], Float[Tensor, "b h"]]:
        weights = _weights_of(self.layers, layer)
        size = self.layers.hidden_size
        column = weights[0].new_zeros(4, size, _HOLD_WIDTH)  # gates of torch: input, forget, cell, output
        column[0, :, 0], column[1, :, 0] = -_HOLD, _HOLD
        weights[0] = torch.cat([weights[0], column.flatten(0, 1)], 1)
        weights = in_one_buffer(weights)
        start = x.new_zeros(1, x.shape[0], size)
        outputs, _, cell = torch.lstm(x, (start, start), weights, True, 1, 0.0, self.training, False, True)
        return outputs, cell.squeeze(0)


class LSTMState(NamedTuple):
    """h and c of every layer."""

    hidden: Tensor  # [n l d]
    cell: Tensor  # [n l d]


def run_lstm(
    layers: nn.LSTM, x: Float[Tensor, "n t d"], state: LSTMState, *, weight_dropout: float = 0.0
) -> tuple[Float[Tensor, "n t h"], LSTMState]:
    """Some steps of a stacked LSTM (batch first), from a state with the batch first to another.

    Layer by layer, with dropout between them that a captured graph may hold: cuDNN's own keeps a state outside of it.
    In training `weight_dropout` sets a share of the weights from h to the gates to zero, the same at all steps (Merity
    et al. 2018).
    """
    hidden, cells = [], []
    for layer in range(layers.num_layers):
        if layer > 0:
            x = F.dropout(x, layers.dropout, layers.training)
        weights, start = _weights_of(layers, layer), (state.hidden[:, layer], state.cell[:, layer])
        dropped = weight_dropout > 0 and layers.training
        if dropped:
            weights[1] = F.dropout(weights[1], weight_dropout)
        if dropped or (x.is_cuda and layers.num_layers > 1 and x.shape[1] > 1):  # a part of the layers' buffer is none
            weights = in_one_buffer(weights)
        if x.shape[1] == 1:
            last, cell = torch.lstm_cell(x.squeeze(1), start, *weights)
            x = last.unsqueeze(1)
        else:
            begin = tuple(each.unsqueeze(0).contiguous() for each in start)
            x, last, cell = torch.lstm(x, begin, weights, True, 1, 0.0, layers.training, False, True)
            last, cell = last.squeeze(0), cell.squeeze(0)
        hidden.append(last)
        cells.append(cell)
    return x, LSTMState(_joined(hidden), _joined(cells))


class StepLSTM:
    """A stacked LSTM that goes step by step since some of its input is known late, as in input feeding.

    `known` [t n d] are the first columns of the bottom layer's input, multiplied for all steps at once. Each call takes
    the others [n e], if there are any, and gives the top layer's h [n h]. Weights get their gradients as in
    `StepLinear`; `state` is kept from call to call.
    """

    def __init__(self, layers: nn.LSTM, known: Float[Tensor, "t n d"], state: LSTMState) -> None:
        self.layers, self.hidden, self.cells = layers, list(state.hidden.unbind(1)), list(state.cell.unbind(1))
        (steps, rows, early), self._products, self._addends = known.shape, [], []
        for layer in range(layers.num_layers):
            of_input, of_hidden, *biases = _weights_of(layers, layer)
            bias: Tensor | None = biases[0] + biases[1]
            if layer == 0:
                first, of_input = torch.split(of_input, [early, of_input.shape[1] - early], 1)
                addends, bias = F.linear(known, first, bias), None
                self._addends = list(addends.unbind(0))[::-1]
            self._products.append(StepLinear(torch.cat([of_input, of_hidden], 1), bias, shape=(steps, rows)))
        self._nothing = addends.new_zeros(rows, addends.shape[-1])

    def __call__(self, late: Float[Tensor, "n e"] | None = None) -> Float[Tensor, "n h"]:
        """h of the top layer."""
        below, addend = late, self._addends.pop()
        for layer, product in enumerate(self._products):
            if layer > 0:
                below = F.dropout(self.hidden[layer - 1], self.layers.dropout, self.layers.training)
                addend = self._nothing
            hidden = self.hidden[layer]
            gates = product(hidden if below is None else torch.cat([below.to(hidden.dtype), hidden], -1))
            self.hidden[layer], self.cells[layer] = lstm_step(addend, gates, self.cells[layer])
        return self.hidden[-1]

    @property
    def state(self) -> LSTMState:
        """h and c of every layer after the last call."""
        return LSTMState(_joined(self.hidden), _joined(self.cells))


class SingleLSTM:
    """One step of a stacked LSTM, called as `StepLSTM` is: for decoding, where each word is known after the one before.

    `known` [n d] are the first columns of the bottom layer's input at this step.
    """

    def __init__(self, layers: nn.LSTM, known: Float[Tensor, "n d"], state: LSTMState) -> None:
        self.layers, self.known, self.state = layers, known, state

    def __call__(self, late: Float[Tensor, "n e"] | None = None) -> Float[Tensor, "n h"]:
        """h of the top layer."""
        entry = self.known if late is None else torch.cat([self.known, late], -1)
        outputs, self.state = run_lstm(self.layers, entry.unsqueeze(1), self.state)
        return outputs.squeeze(1)


class StepGRU:
    """A GRU cell that goes step by step since some of its input is known late, such as the context of an attention.

    `known` [t n d] are the first columns of the input, multiplied for all steps at once. Each call takes the others
    [n e] and the state [n h], and gives the next state. Weights get their gradients as in `StepLinear`. `beside` is a
    matrix [a h] of somebody else who multiplies the same state: one product then serves both, see `project`.
    """

    def __init__(
        self, cell: nn.GRUCell, known: Float[Tensor, "t n d"], *, beside: Float[Tensor, "a h"] | None = None
    ) -> None:
        steps, rows, width = known.shape
        of_known, of_late = torch.split(cell.weight_ih, [width, cell.input_size - width], 1)
        self._to_input = StepLinear(of_late, F.linear(known, of_known, cell.bias_ih), shape=(steps, rows))
        weight: Tensor = cell.weight_hh
        bias: Tensor = cell.bias_hh
        if beside is not None:
            weight, bias = torch.cat([weight, beside]), F.pad(bias, (0, len(beside)))
        self._to_gates = StepLinear(weight, bias, shape=(steps, rows))
        self._widths = [3 * cell.hidden_size, len(weight) - 3 * cell.hidden_size]
        self._gates: Tensor | None = None

    def project(self, hidden: Float[Tensor, "n h"]) -> Float[Tensor, "n a"]:
        """The state times `beside`; the gates of the call that follows, with the same state, come from this product."""
        self._gates, projected = torch.split(self._to_gates(hidden), self._widths, 1)
        return projected

    def __call__(self, late: Float[Tensor, "n e"], hidden: Float[Tensor, "n h"]) -> Float[Tensor, "n h"]:
        """Gives the state after this step."""
        if self._gates is None:
            self.project(hidden)
        assert self._gates is not None
        gates, self._gates = self._gates, None
        return gru_step(self._to_input(late), gates, hidden)


def lstm_step(
    one: Float[Tensor, "n g"], other: Float[Tensor, "n g"], cell: Float[Tensor, "n h"]
) -> tuple[Float[Tensor, "n h"], Float[Tensor, "n h"]]:
    """h and c after one step of an LSTM, from two addends of its gates [n 4h], in torch's order: i, f, g, o."""
    cell = cell.to(one.dtype)
    if one.is_cuda:  # one kernel
        hidden, cell, _ = torch.ops.aten._thnn_fused_lstm_cell(one, other, cell)
        return hidden, cell
    into, keep, new, out = (one + other).chunk(4, -1)
    cell = torch.sigmoid(keep) * cell + torch.sigmoid(into) * torch.tanh(new)
    return torch.sigmoid(out) * torch.tanh(cell), cell


def gru_step(
    from_input: Float[Tensor, "n g"], from_hidden: Float[Tensor, "n g"], hidden: Float[Tensor, "n h"]
) -> Float[Tensor, "n h"]:
    """h after one step of a GRU, from both addends of its gates [n 3h], biases included, in torch's order: r, z, n."""
    hidden = hidden.to(from_input.dtype)
    if from_input.is_cuda:  # one kernel
        result: Tensor = torch.ops.aten._thnn_fused_gru_cell(from_input, from_hidden, hidden)[0]
        return result
    size = hidden.shape[-1]
    gates, new = torch.split(from_input, [2 * size, size], -1)
    gates_too, new_too = torch.split(from_hidden, [2 * size, size], -1)
    reset, keep = torch.sigmoid(gates + gates_too).chunk(2, -1)
    return torch.lerp(torch.tanh(torch.addcmul(new, reset, new_too)), hidden, keep)


def _joined(layers: list[Tensor]) -> Tensor:
    """[n l d] of l states [n d]; that of a single layer is not copied."""
    return layers[0].unsqueeze(1) if len(layers) == 1 else torch.stack(layers, 1)


def in_one_buffer(weights: list[Tensor]) -> list[Tensor]:
    """The same weights as views of one tensor, as cuDNN wants them."""
    flat = torch.split(torch.cat([weight.flatten() for weight in weights]), [weight.numel() for weight in weights])
    return [piece.view_as(weight) for piece, weight in zip(flat, weights, strict=True)]


def _weights_of(layers: nn.LSTM, layer: int) -> list[Tensor]:
    return [getattr(layers, f"{name}_l{layer}") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
