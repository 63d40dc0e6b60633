"""Parts that models share."""

from regard.nn.adaptive import AdaptiveEmbedding, AdaptiveLogits, AdaptiveSoftmax, predicted_loss, predicted_losses
from regard.nn.attentions import build_attention
from regard.nn.ctc import best_path, ctc_losses
from regard.nn.dropout import Dropout
from regard.nn.efficientnet import Backbone, EfficientNetLite0, Encoder, Features, Patches, efficientnet_lite0
from regard.nn.evaluating import device_of, evaluating
from regard.nn.logistic_mixture import logistic_mixture_log_prob, mixture_width, sample_logistic_mixture
from regard.nn.loss import token_divergence, token_loss, two_pass_loss
from regard.nn.memory_hops import MemoryHops
from regard.nn.neighbours import Neighbours
from regard.nn.nonlocal_block import NonLocal
from regard.nn.output import DeepOutput
from regard.nn.recurrent import (
    Bidirectional,
    LSTMState,
    SingleLSTM,
    StackedLSTM,
    StepGRU,
    StepLSTM,
    final_output,
    gru_step,
    lstm_step,
    padding,
    reverse,
    run_lstm,
)
from regard.nn.reward import MovingBaseline, baseline_error, leave_one_out, reinforce
from regard.nn.roi import pool_boxes
from regard.nn.spline import Rectifier, frame_points, spline_weights
from regard.nn.squeeze import SqueezeExcitation
from regard.nn.step_attention import Glance, StepAttention, query_weight
from regard.nn.step_linear import StepLinear
from regard.nn.step_tape import StepTape
from regard.nn.transformer import DecoderLayer, EncoderLayer, FeedForward, Residual
from regard.nn.word_embedding import WordEmbedding

__all__ = [
    "AdaptiveEmbedding",
    "AdaptiveLogits",
    "AdaptiveSoftmax",
    "Backbone",
    "Bidirectional",
    "DecoderLayer",
    "DeepOutput",
    "Dropout",
    "EfficientNetLite0",
    "Encoder",
    "EncoderLayer",
    "Features",
    "FeedForward",
    "Glance",
    "LSTMState",
    "MemoryHops",
    "MovingBaseline",
    "Neighbours",
    "NonLocal",
    "Patches",
    "Rectifier",
    "Residual",
    "SingleLSTM",
    "SqueezeExcitation",
    "StackedLSTM",
    "StepAttention",
    "StepGRU",
    "StepLSTM",
    "StepLinear",
    "StepTape",
    "WordEmbedding",
    "baseline_error",
    "best_path",
    "build_attention",
    "ctc_losses",
    "device_of",
    "efficientnet_lite0",
    "evaluating",
    "final_output",
    "frame_points",
    "gru_step",
    "leave_one_out",
    "logistic_mixture_log_prob",
    "lstm_step",
    "mixture_width",
    "padding",
    "pool_boxes",
    "predicted_loss",
    "predicted_losses",
    "query_weight",
    "reinforce",
    "reverse",
    "run_lstm",
    "sample_logistic_mixture",
    "spline_weights",
    "token_divergence",
    "token_loss",
    "two_pass_loss",
]
