"""Parts that models share."""

from regard.nn.attentions import build_attention
from regard.nn.dropout import Dropout
from regard.nn.loss import token_divergence, token_loss
from regard.nn.output import DeepOutput
from regard.nn.recurrent import Bidirectional, LSTMState, StackedLSTM, final_output, padding, reverse, run_lstm
from regard.nn.transformer import DecoderLayer, EncoderLayer, FeedForward, Residual

__all__ = [
    "Bidirectional",
    "DecoderLayer",
    "DeepOutput",
    "Dropout",
    "EncoderLayer",
    "FeedForward",
    "LSTMState",
    "Residual",
    "StackedLSTM",
    "build_attention",
    "final_output",
    "padding",
    "reverse",
    "run_lstm",
    "token_divergence",
    "token_loss",
]
