"""Attention: score → align → context, with masks, positions, heads and the trace."""

from regard.attention.attention import Attention, attend
from regard.attention.band import Band
from regard.attention.dispatch import IMPLEMENTATIONS, Call, reasons_against
from regard.attention.edges import EdgeAttention, attend_edges
from regard.attention.fixed_cache import FixedCache
from regard.attention.head_effects import HeadEffects, head_effects
from regard.attention.intervention import Change, MakeUniform, Place, TakeWeights, forbid_keys, intervene, switch_off
from regard.attention.local import Local, Local1D, Local2D, LocalSelfAttention, PlaceCache
from regard.attention.lookup import Found, lookup
from regard.attention.mask import Mask
from regard.attention.multihead import MultiHead
from regard.attention.output import AttentionOutput, Cache, Memory
from regard.attention.position import (
    ALiBi,
    Learned,
    Position,
    Positioned,
    Relative,
    Rotary,
    Sinusoidal,
    relative_shift,
    rotate,
    sinusoid,
)
from regard.attention.record import EdgeList, Record
from regard.attention.rollout import rollout
from regard.attention.trace_views import PageFile
from regard.attention.tracing import Trace, trace

POSITIONS: dict[str, type] = {
    "sinusoidal": Sinusoidal,
    "learned": Learned,
    "rotary": Rotary,
    "alibi": ALiBi,
    "relative": Relative,
}

__all__ = [
    "IMPLEMENTATIONS",
    "POSITIONS",
    "ALiBi",
    "Attention",
    "AttentionOutput",
    "Band",
    "Cache",
    "Call",
    "Change",
    "EdgeAttention",
    "EdgeList",
    "FixedCache",
    "Found",
    "HeadEffects",
    "Learned",
    "Local",
    "Local1D",
    "Local2D",
    "LocalSelfAttention",
    "MakeUniform",
    "Mask",
    "Memory",
    "MultiHead",
    "PageFile",
    "Place",
    "PlaceCache",
    "Position",
    "Positioned",
    "Record",
    "Relative",
    "Rotary",
    "Sinusoidal",
    "TakeWeights",
    "Trace",
    "attend",
    "attend_edges",
    "forbid_keys",
    "head_effects",
    "intervene",
    "lookup",
    "reasons_against",
    "relative_shift",
    "rollout",
    "rotate",
    "sinusoid",
    "switch_off",
    "trace",
]
