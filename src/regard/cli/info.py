"""`regard info`: what this machine is, and which path each combination takes."""

import argparse
from typing import Any

HELP = "versions, hardware, and which path each score and alignment takes here"


def add(command: argparse.ArgumentParser) -> None:
    """The command has no flags."""


def run(asked: argparse.Namespace) -> None:
    """Print the report."""
    import torch

    from regard.align import ALIGNS
    from regard.base import environment
    from regard.score import SCORES

    facts = environment()
    width = max(len(name) for name in [*facts, *SCORES, *ALIGNS])
    for name, value in facts.items():
        print(f"{name:{width}}  {value}")
    for device in ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]:
        print(f"\nWith softmax, on {device}, impl='auto' takes:\n")
        for name, kind in SCORES.items():
            print(f"{name:{width}}  {_path(kind, device)}")
    others = ", ".join(name for name in ALIGNS if name != "softmax")
    print(f"\nAny score × {others}: reference.")
    print("Weights that are asked for come from triton and blocked too, with gradients. Beside sdpa they take a second")
    print(
        "pass, and the reference runs where a gradient may go through them. blocked is for sizes where it is quicker."
    )


def _path(kind: Any, device: str) -> str:
    """The path of a score, and what stands against the fused ones where none is taken."""
    from regard.align import Softmax
    from regard.attention import Call, reasons_against
    from regard.attention.dispatch import choose
    from regard.score import Projected

    if kind is Projected:
        return "the path of the score inside"
    bare = kind.__new__(kind)  # the path depends on the kind of score, not on its parameters
    softmax, call = Softmax(), Call(device)
    taken = choose("auto", bare, softmax, call, gradient=False)
    if taken == "sdpa":
        return taken
    faster = ["triton"] if bare.is_additive else ["sdpa", "blocked"]  # what stands against triton stands there too
    against = {impl: "; ".join(reasons_against(impl, bare, softmax, call)) for impl in faster if impl != taken}
    reasons = [f"not {impl}: {why}" for impl, why in against.items() if why]
    return taken + (f" ({'; '.join(reasons)})" if reasons else "")
