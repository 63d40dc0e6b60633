"""Alignments: turn scores into weights. (scores, mask) → weights ≥ 0, zero where masked, zero in an empty row.

The menu below is the registry: a name for settings and the command line, and the class behind it.
Any callable `(scores, mask) -> weights` is an alignment too.
"""

from regard.align.align import Align, Alignment
from regard.align.gate import Sigmoid, sigmoid
from regard.align.hard import ESTIMATORS, Hard
from regard.align.local import LocalMonotonic, LocalPredictive
from regard.align.monotonic import Monotonic, monotonic
from regard.align.normalize import Identity, Normalize, Share, identity, normalize, share
from regard.align.segment import Segments
from regard.align.shift import Shift, interpolate, move_focus, sharpen
from regard.align.softmax import Softmax, softmax
from regard.align.sparse import Entmax, Sparsemax, entmax, sparsemax
from regard.align.topk import TopK, top_k

ALIGNS: dict[str, type[Align]] = {
    "softmax": Softmax,
    "sparsemax": Sparsemax,
    "entmax": Entmax,
    "normalize": Normalize,
    "share": Share,
    "identity": Identity,
    "sigmoid": Sigmoid,
    "top_k": TopK,
    "hard": Hard,
    "local_monotonic": LocalMonotonic,
    "local_predictive": LocalPredictive,
    "monotonic": Monotonic,
    "shift": Shift,
}

__all__ = [
    "ALIGNS",
    "ESTIMATORS",
    "Align",
    "Alignment",
    "Entmax",
    "Hard",
    "Identity",
    "LocalMonotonic",
    "LocalPredictive",
    "Monotonic",
    "Normalize",
    "Segments",
    "Share",
    "Shift",
    "Sigmoid",
    "Softmax",
    "Sparsemax",
    "TopK",
    "entmax",
    "identity",
    "interpolate",
    "monotonic",
    "move_focus",
    "normalize",
    "share",
    "sharpen",
    "sigmoid",
    "softmax",
    "sparsemax",
    "top_k",
]
