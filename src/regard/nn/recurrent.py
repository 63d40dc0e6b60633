"""Recurrent layers over padded sentences: what comes out does not depend on the padding."""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn


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


class Bidirectional(nn.Module):
    """A GRU in each direction: annotation j is [forward_j; backward_j], zero on padding (Bahdanau 2015, A.2.1)."""

    def __init__(self, input_dim: int, hidden_dim: int) -> None:
        super().__init__()
        self.forwards = nn.GRU(input_dim, hidden_dim, batch_first=True)
        self.backwards = nn.GRU(input_dim, hidden_dim, batch_first=True)

    def forward(self, x: Float[Tensor, "b t d"], lengths: Int[Tensor, " b"]) -> Float[Tensor, "b t e"]:
        """Annotations [b t 2·hidden]; the first backward state is `[:, 0, hidden:]`."""
        ahead, _ = self.forwards(x)
        back, _ = self.backwards(reverse(x, lengths))
        padding = torch.arange(x.shape[1], device=x.device) >= lengths.unsqueeze(1)
        return torch.cat([ahead, reverse(back, lengths)], -1).masked_fill(padding.unsqueeze(-1), 0.0)


class StackedLSTM(nn.Module):
    """Layers of LSTM in one direction over packed sentences, so that final states are those at the last real word."""

    def __init__(self, input_dim: int, hidden_dim: int, layers: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.layers = nn.LSTM(input_dim, hidden_dim, layers, batch_first=True, dropout=dropout if layers > 1 else 0.0)

    def forward(
        self, x: Float[Tensor, "b t d"], lengths: Int[Tensor, " b"]
    ) -> tuple[Float[Tensor, "b t h"], Float[Tensor, "b 2 l h"]]:
        """Outputs of the top layer, zero on padding, and the final h and c of all layers."""
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        outputs, final = self.layers(packed)
        unpacked, _ = nn.utils.rnn.pad_packed_sequence(outputs, batch_first=True, total_length=x.shape[1])
        return unpacked, torch.stack(final).permute(2, 0, 1, 3)


class LSTMState(NamedTuple):
    """h and c of every layer."""

    hidden: Tensor  # [n l d]
    cell: Tensor  # [n l d]


def run_lstm(layers: nn.LSTM, x: Float[Tensor, "n t d"], state: LSTMState) -> tuple[Float[Tensor, "n t h"], LSTMState]:
    """Some steps of a stacked LSTM (batch first), from a state with the batch first to another."""
    start = (state.hidden.transpose(0, 1).contiguous(), state.cell.transpose(0, 1).contiguous())
    outputs, (hidden, cell) = layers(x, start)
    return outputs, LSTMState(hidden.transpose(0, 1), cell.transpose(0, 1))
