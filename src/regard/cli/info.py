"""`regard info`: what this machine is, and which path each combination takes."""

from regard.align import ALIGNS, Softmax
from regard.attention import reasons_against_sdpa
from regard.base import environment
from regard.score import SCORES, Projected, Score


def info() -> None:
    """Print the report."""
    facts = environment()
    width = max(len(name) for name in [*facts, *SCORES, *ALIGNS])
    for name, value in facts.items():
        print(f"{name:{width}}  {value}")
    print("\nWithout weights, impl='auto' takes torch's fused kernel (sdpa) where it can:\n")
    softmax = Softmax()
    for name, kind in SCORES.items():
        bare: Score = kind.__new__(kind)  # the path depends on the kind of score, not on its parameters
        reasons = reasons_against_sdpa(bare, softmax, need_weights=False)
        path = "sdpa" if not reasons else "reference: " + "; ".join(reasons)
        print(f"{name:{width}}  × softmax   {path if kind is not Projected else 'the path of the score inside'}")
    others = ", ".join(name for name in ALIGNS if name != "softmax")
    print(f"\nAny score × {others}: reference. Weights that are asked for: reference.")
