"""Recurrent layers in an exported graph: LSTM and GRU of torch become the operators LSTM and GRU of ONNX.

torch.export knows a recurrent layer for one length only: it writes a loop over the words of the example. The operators
of ONNX take any length, so calls of `torch.lstm` and `torch.gru` are replaced while a graph is recorded. The gates
stand in another order there: torch has (input, forget, cell, output) and (reset, update, new), ONNX has (input,
output, forget, cell) and (update, reset, new).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from regard.base import RegardError

OPSET = 20
_LSTM_ORDER, _GRU_ORDER = (0, 3, 1, 2), (1, 0, 2)


class RecurrentAsOnnx(TorchFunctionMode):
    """While it is entered, `torch.lstm` and `torch.gru` record the operators of ONNX; everything else runs as it is."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        name = getattr(func, "__name__", "")
        if name == "lstm":
            return _lstm(*args, **(kwargs or {}))
        if name == "gru":
            return _gru(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


def _lstm(
    x: Tensor,
    start: tuple[Tensor, Tensor],
    weights: Sequence[Tensor],
    has_biases: bool,
    layers: int,
    dropout: float,
    training: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    _check_simple(bidirectional, batch_first, has_biases, training)
    hidden, cells = [], []
    for layer in range(layers):
        inputs = _operands(x, weights[4 * layer : 4 * layer + 4], _LSTM_ORDER)
        states = [each[layer : layer + 1] for each in start]
        x, last, cell = _record("LSTM", inputs, states)
        hidden.append(last)
        cells.append(cell)
    return x, torch.cat(hidden), torch.cat(cells)


def _gru(
    x: Tensor,
    start: Tensor,
    weights: Sequence[Tensor],
    has_biases: bool,
    layers: int,
    dropout: float,
    training: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Tensor, Tensor]:
    _check_simple(bidirectional, batch_first, has_biases, training)
    hidden = []
    for layer in range(layers):
        inputs = _operands(x, weights[4 * layer : 4 * layer + 4], _GRU_ORDER)
        x, last = _record("GRU", inputs, [start[layer : layer + 1]])
        hidden.append(last)
    return x, torch.cat(hidden)


def _operands(x: Tensor, weights: Sequence[Tensor], order: Sequence[int]) -> list[Tensor]:
    """X [t b d], W [1 4h d], R [1 4h h] and B [1 8h], with the gates in the order of ONNX."""
    moved = [torch.cat([gates[number] for number in order]) for gates in (each.chunk(len(order)) for each in weights)]
    from_input, from_state, *biases = moved
    return [x.transpose(0, 1), from_input.unsqueeze(0), from_state.unsqueeze(0), torch.cat(biases).unsqueeze(0)]


def _record(operator: str, inputs: Sequence[Tensor], states: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """One layer: outputs [b t h], then the last state, or states, [1 b h]."""
    length, batch, _ = inputs[0].shape
    size = states[0].shape[-1]
    attributes: dict[str, Any] = {"hidden_size": size}
    if operator == "GRU":
        attributes["linear_before_reset"] = 1  # the reset gate acts after the recurrent product, as in torch
    outputs, *last = torch.onnx.ops.symbolic_multi_out(
        operator,
        (*inputs, None, *states),
        attributes,
        dtypes=(inputs[0].dtype,) * (1 + len(states)),
        shapes=((length, 1, batch, size), *((1, batch, size),) * len(states)),
        version=OPSET,
    )
    return outputs.squeeze(1).transpose(0, 1), *last


def _check_simple(bidirectional: bool, batch_first: bool, has_biases: bool, training: bool) -> None:
    if bidirectional or not batch_first or not has_biases or training:
        raise RegardError(
            "this recurrent layer cannot be exported",
            expected="one direction, the batch first, biases, and evaluation mode",
        )
