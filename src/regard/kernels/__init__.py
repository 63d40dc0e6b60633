"""Faster ways to what `score/` and `align/` define: additive attention on a GPU by Triton, on a CPU by blocks.

Neither makes the tensor [q k a] of all pairs. Triton itself is imported at the first call.
"""

from regard.kernels.additive import fused_additive, fused_additive_with_weights
from regard.kernels.blocked import blocked_additive, blocked_additive_with_weights, pays
from regard.kernels.limits import reasons_against_triton

__all__ = [
    "blocked_additive",
    "blocked_additive_with_weights",
    "fused_additive",
    "fused_additive_with_weights",
    "pays",
    "reasons_against_triton",
]
