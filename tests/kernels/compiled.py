"""Every kernel is compiled for real GPUs, without one: that it fits them, not that it is right, is what this shows.

`child.py` runs this file in a process of its own, where Triton does not interpret.
"""

import re
from typing import Any

import pytest

from regard.kernels import gradients, single_query, tiled

FLAGS = {"has_lengths": True, "has_allowed": True, "has_dropout": True}
TILE = {"block_q": 16, "block_k": 32, "padded_depth": 16, "padded_groups": 4, "stages": 3}  # small ones, for time
SLICE = {name.replace("padded_depth", "block_depth"): size for name, size in TILE.items()}
WALK = {"has_lengths": True, "block_own": 16, "block_walk": 32, "block_features": 32, "stages": 3}
ROW = {"block": 16, "padded_features": 32, "padded_depth": 16}
KERNELS: dict[str, tuple[Any, dict[str, Any]]] = {
    "raise": (tiled._raise, {"is_query": True, "backward": True, "block": 16, "padded_features": 32}),
    "forward": (tiled._forward, FLAGS | TILE),
    "pairs": (gradients._pairs, FLAGS | SLICE),
    "sums": (gradients._sums, WALK | {"own_keys": False, "with_v": True}),
    "single forward": (single_query._forward, FLAGS | ROW),
    "single backward": (single_query._backward, FLAGS | ROW),
}
CALLERS = re.compile(  # tensors in the dtype of the caller; all others are float32
    r"query|queries|keys|values|v|context|raw|raw_own|raw_walk|weighted|grad_context|grad_query|grad_keys|grad_values"
)
NUMBERS = re.compile(
    r"(stride|step|num|tiles|first)_\w+|tiles|features|plain_features|groups|depth|before|after|shift|behind|ahead"
    r"|splits|items"
)
KNOWN = {"lengths": "*i64", "seed": "*i64", "allowed": "*u8", "dropout": "fp32"}


def signature(kernel: Any, constants: dict[str, Any], dtype: str) -> dict[str, str]:
    """A type for each argument, in the order of the kernel."""

    def kind(name: str) -> str:
        if name in constants:
            return "constexpr"
        if name in KNOWN:
            return KNOWN[name]
        if NUMBERS.fullmatch(name):
            return "i32"
        return f"*{dtype}" if CALLERS.fullmatch(name) else "*fp32"

    return {name: kind(name) for name in kernel.arg_names}


@pytest.mark.parametrize(("capability", "dtype"), [(80, "fp16"), (90, "fp32"), (90, "bf16")])
@pytest.mark.parametrize("name", KERNELS)
def test_compiles(name: str, capability: int, dtype: str) -> None:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    kernel, constants = KERNELS[name]
    source = ASTSource(fn=kernel, signature=signature(kernel, constants, dtype), constexprs=constants)
    options = {"num_warps": 4, "num_stages": 1}
    built = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
    assert built.asm["cubin"]
    assert f".target sm_{capability}" in built.asm["ptx"]
    assert built.metadata.shared < (163 if capability == 80 else 227) * 1024
