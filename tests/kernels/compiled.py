"""Every kernel is compiled for real GPUs, without one: that it fits them, not that it is right, is what this shows.

`child.py` runs this file in a process of its own, where Triton does not interpret.
"""

import re
from typing import Any

import pytest

from regard.kernels import (
    adam,
    banded,
    banded_gradients,
    columns,
    dot_weights,
    edges,
    embedding,
    gradients,
    hidden,
    memory_step,
    path_step,
    residual,
    series,
    series_gradients,
    short,
    single_query,
    steps,
    tile_weights,
    tiled,
    token_loss,
    unit,
)

FLAGS = {"has_lengths": True, "has_window": True, "has_allowed": True, "has_dropout": True}
TILE = {"block_q": 16, "block_k": 32}  # small ones, for time
OF_ROWS = {"has_lengths": True, "block_own": 16, "block_walk": 32, "block_features": 32, "stages": 3}
WALK = OF_ROWS | {"has_counts": True}
ROW = {"block": 16, "padded_features": 32, "padded_depth": 16, "is_dot": False, "unit": 8}
FORTH, BACK = ROW | {"with_weights": False, "chunk": 128}, ROW | {"is_step": False, "has_grad_weights": False}
ROWS = {
    **TILE,
    "has_rows": True,
    "has_lengths": True,
    "has_window": True,
    "has_allowed": True,
    "padded_features": 32,
    "padded_splits": 2,
}
EDGES = {"has_dropout": True, "block": 16, "padded": 32}
BAND = {
    **TILE,
    "has_bias": True,
    "has_starts": True,
    "has_lengths": True,
    "has_dropout": True,
    "even_features": False,
    "even_depth": True,
    "tf32": True,
    "padded_features": 32,
    "padded_depth": 16,
}
MEMORY = {"padded_slots": 16, "padded_width": 4, "padded_shifts": 4}
SHORT = {
    "has_lengths": True,
    "causal": True,
    "has_allowed": True,
    "has_dropout": True,
    "block_q": 16,
    "padded_keys": 32,
    "padded_features": 32,
    "padded_depth": 16,
}
RESIDUAL = {"has_y": True, "has_bias": True, "has_dropout": True, "has_norm": True, "block": 8, "padded_groups": 32}
HIDDEN = {"has_bias": True, "block": 8, "block_groups": 32}
EMBEDDING = {"has_dropout": True, "block": 8, "padded_groups": 32}
KERNELS: dict[str, tuple[Any, dict[str, Any]]] = {
    "raise": (tiled._raise, {"block_q": 16, "block_k": 32, "padded_features": 32}),
    "raise again": (gradients._raise, {"block": 16, "padded_features": 32}),
    "scores": (
        tiled._scores,
        {
            "has_lengths": True,
            "has_counts": True,
            "rest": False,
            "careful": True,
            "strict": False,
            "padded_groups": 4,
            **TILE,
        },
    ),
    "other scores": (
        tiled._scores,
        {
            "has_lengths": True,
            "has_counts": False,
            "rest": True,
            "careful": False,
            "strict": True,
            "padded_groups": 4,
            **TILE,
        },
    ),
    "series, bounds": (series._bounds, {"has_lengths": True, "block": 16, "block_features": 32}),
    "series, terms": (
        series._terms,
        {"has_lengths": True, "is_query": True, "weighs": True, "block": 16, "block_features": 32, "block_parts": 4},
    ),
    "series": (series._multiply, {"has_lengths": True, "block": 32, "neighbours": 8, **TILE}),
    "series, gradients": (
        series_gradients._walk,
        {**OF_ROWS, "own_keys": True, "with_v": False, "block_parts": 4},
    ),
    "mix": (tiled._mix, {**FLAGS, **TILE, "padded_depth": 16}),
    "pairs": (gradients._pairs, {**FLAGS, **TILE}),
    "means": (gradients._means, {**FLAGS, **TILE, "block_depth": 64, "has_grad_weights": False}),
    "means, with those of weights": (gradients._means, {**FLAGS, **TILE, "block_depth": 64, "has_grad_weights": True}),
    "weights of tiles": (
        tile_weights._write,
        {"has_lengths": True, "has_window": True, "has_allowed": True, **TILE},
    ),
    "sums": (gradients._sums, WALK | {"own_keys": False, "with_v": True}),
    "weights, first": (dot_weights._pass, ROWS | {"is_first": True}),
    "weights, second": (dot_weights._pass, ROWS | {"is_first": False}),
    "unit": (unit._unit, {"backward": True, "block": 16, "padded": 32}),
    "single forward": (single_query._forward, FLAGS | FORTH),
    "single forward, with weights": (single_query._forward, FLAGS | FORTH | {"with_weights": True}),
    "single backward": (single_query._backward, FLAGS | BACK),
    "single backward, of weights": (single_query._backward, FLAGS | BACK | {"has_grad_weights": True}),
    "single forward, dot": (single_query._forward, FLAGS | FORTH | {"is_dot": True}),
    "single backward, dot": (single_query._backward, FLAGS | BACK | {"is_dot": True, "is_step": True}),
    "single backward, step": (single_query._backward, FLAGS | BACK | {"is_step": True}),
    "edges forward": (edges._forward, EDGES),
    "edges backward, targets": (edges._backward_targets, EDGES),
    "edges backward, sources": (edges._backward_sources, EDGES),
    "band": (banded._forward, BAND),
    "band, gradients of queries": (
        banded_gradients._of_queries,
        BAND | {"writes_bias": True, "zeros": 16, "has_dropout": False},
    ),
    "band, gradients of keys": (banded_gradients._of_keys, BAND | {"has_dropout": False}),
    "memory step": (memory_step._forward, MEMORY),
    "memory step, gradients": (memory_step._backward, MEMORY),
    "short": (short._forward, SHORT),
    "short, gradients": (short._backward, SHORT),
    "token loss": (token_loss._forward, {"smooth": True, "exact": True, "block": 1024}),
    "token loss, gradients": (token_loss._backward, {"exact": False, "block": 1024}),
    "residual": (residual._forward, RESIDUAL | {"writes_total": True}),
    "residual, gradients": (residual._backward, RESIDUAL | {"has_total": True}),
    "hidden": (hidden._forward, HIDDEN | {"has_dropout": True}),
    "hidden, gradients": (hidden._backward, HIDDEN),
    "sums of columns": (columns._parts, {"block": 32, "block_columns": 32}),
    "sums of parts": (columns._fold, {"padded_parts": 64, "block_columns": 16}),
    "embedding": (embedding._forward, EMBEDDING | {"has_places": True, "has_first": True}),
    "embedding, gradients": (embedding._backward, EMBEDDING),
    "path": (path_step._path, {"has_added": True, "has_weights": True, "block": 1024, "block_width": 32}),
    "adam": (adam._step, {"clips": True, "decoupled": False, "squares": 256, "block": 4096}),
    "squares": (adam._squares, {"block": 1024}),
    "single, keys of all steps": (steps._of_keys, {"block": 16, "block_features": 32}),
}
CALLERS = re.compile(  # tensors in the dtype of the caller; all others are float32
    r"query|queries|keys|values|v|rows_of|context|raw|raw_own|raw_walk|weighted|grad_context|x|grad|out|weights|grad_query|grad_keys|grad_values|bias|grad_bias"
    r"|places|grad_weight|logits|grad_logits|gradients|y|weight|shift_by|total|normed|of_total|of_normed|grad_x|grad_y"
)
NUMBERS = re.compile(
    r"(stride|step|num|tiles|first|padded)_\w+|tiles|features|own_features|groups|depth|before|after|shift|behind|ahead"
    r"|splits|items|width|several|heads|block|lift|slots|reach|ignore|site|lost|rows_per_draw|size|words|length|padding"
    r"|stride|most|term_rows|eos|sentences|parts|parts_q|parts_k"
)
KNOWN = (
    dict.fromkeys(
        (
            "lengths",
            "starts",
            "seed",
            "chosen",
            "targets",
            "table",
            "which",
            "tokens",
            "order",
            "bounds",
            "first",
            "sentence",
            "last",
            "path",
            "time",
        ),
        "*i64",
    )
    | dict.fromkeys(("allowed", "done", "finished", "bad"), "*u8")
    | dict.fromkeys(("terms", "terms_q", "terms_k"), "*fp16")
    | dict.fromkeys(("narrow_grads", "sines_of"), "*bf16")
    | {"counts": "*i32"}
)
KNOWN |= dict.fromkeys(
    (
        "dropout",
        "scale",
        "bias_scale",
        "kept_scale",
        "kept_factor",
        "eps",
        "share",
        "spread",
        "max_norm",
        "first_rate",
        "second_rate",
        "first_log",
        "second_log",
    ),
    "fp32",
)
OF_EDGES = {**dict.fromkeys(("order", "sources", "targets", "starts"), "*i32"), "slope": "fp32"}


def signature(kernel: Any, constants: dict[str, Any], dtype: str) -> dict[str, str]:
    """A type for each argument, in the order of the kernel."""
    known = KNOWN | OF_EDGES if "order" in kernel.arg_names or "sources" in kernel.arg_names else KNOWN

    def kind(name: str) -> str:
        if name in constants:
            return "constexpr"
        if name in known:
            return known[name]
        if NUMBERS.fullmatch(name):
            return "i32"
        return f"*{dtype}" if CALLERS.fullmatch(name) else "*fp32"

    return {name: kind(name) for name in kernel.arg_names}


def build(name: str, more: dict[str, Any], capability: int, dtype: str) -> Any:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    kernel, constants = KERNELS[name]
    constants = constants | more
    source = ASTSource(fn=kernel, signature=signature(kernel, constants, dtype), constexprs=constants)
    options = {"num_warps": 4, "num_stages": 2 if name.startswith("band") else 1}
    return triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)


@pytest.mark.parametrize(
    ("name", "capability", "dtype"),
    [
        pytest.param(name, capability, dtype, marks=[pytest.mark.slow] * ((capability, dtype) != (90, kind)))
        for name in KERNELS
        for kind in ["fp32" if name.startswith("band") else "bf16"]
        for capability, dtype in [(80, "fp16"), (90, "fp32"), (90, "bf16")]
    ],
)
def test_compiles(name: str, capability: int, dtype: str) -> None:
    built = build(name, {}, capability, dtype)
    assert built.asm["cubin"]
    assert f".target sm_{capability}" in built.asm["ptx"]
    assert built.metadata.shared < (163 if capability == 80 else 227) * 1024


@pytest.mark.slow
@pytest.mark.parametrize("name", KERNELS)
def test_compiles_where_sizes_are_one(name: str) -> None:
    """Triton takes a size of one for a constant, which has fewer methods than a number."""
    sizes = re.compile(r"tiles(_\w+)?|num_keys|num_walk|items|splits|several|depth|features|groups|width|rows_per_draw")
    ones = {argument: 1 for argument in KERNELS[name][0].arg_names if sizes.fullmatch(argument)}
    assert build(name, ones, 90, "fp32").asm["cubin"]
