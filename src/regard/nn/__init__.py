"""Parts that models share."""

from regard.nn.attentions import build_attention
from regard.nn.output import DeepOutput
from regard.nn.recurrent import Bidirectional, LSTMState, StackedLSTM, final_output, reverse, run_lstm

__all__ = [
    "Bidirectional",
    "DeepOutput",
    "LSTMState",
    "StackedLSTM",
    "build_attention",
    "final_output",
    "reverse",
    "run_lstm",
]
