"""Times sizes of tiles for the kernels over a band of keys, on a GPU: for the table of kernels/band_tiles.py.

    python tools/tune_band.py                       # all cases and kernels in bfloat16, the five quickest tiles of each
    python tools/tune_band.py --case local --kernel forward --dtype float32

Cases are those of benchmarks/transformer_xl_gpu.py and benchmarks/local_gpu.py. Each kernel is timed as a captured
graph, so without the cost of its launch; the two kernels of the backward pass run together, and one of them changes.
"""

import argparse
import itertools
import statistics
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from regard.kernels.band_tiles import TILES, Tile
from regard.kernels.banded import fused_banded

# Batch, heads, queries, keys and width; whether there is a bias; the band.
CASES: dict[str, tuple[tuple[int, int, int, int, int], bool, dict[str, Any]]] = {
    "bytes": ((32, 8, 256, 512, 64), True, {"after": 0}),
    "words": ((32, 8, 72, 144, 48), True, {"after": 0}),
    "local": ((1, 8, 16_384, 16_384, 64), False, {"before": 256, "after": 0, "block": 256}),
}
KERNELS = ("forward", "queries", "keys")
CHOICES = [Tile(*sizes) for sizes in itertools.product((32, 64, 128), (32, 64, 128), (4, 8), (1, 2, 3))]


def tensors(case: str, dtype: torch.dtype) -> tuple[list[Tensor], Tensor | None]:
    """Query, keys and values of a case, and its bias, in the layout that they have behind projections."""
    (batch, heads, num_queries, num_keys, width), has_bias, _ = CASES[case]
    sides = [
        torch.randn(batch, length, heads, width, device="cuda", dtype=dtype).transpose(1, 2)
        for length in (num_queries, num_keys, num_keys)
    ]
    if not has_bias:
        return sides, None
    return sides, torch.randn(heads, batch, num_queries, num_keys, device="cuda", dtype=dtype).transpose(0, 1)


def passes(case: str, dtype: torch.dtype) -> dict[str, Callable[[], object]]:
    """What is timed: the forward pass for its kernel, the backward pass for the two others."""
    sides, bias = tensors(case, dtype)
    band = CASES[case][2]
    scale = sides[0].shape[-1] ** -0.5
    context, log_sum = fused_banded(*sides, by_distance=bias, scale=scale, **band)
    numbers = band.get("before"), band.get("after"), band.get("block", 1), scale, 1.0, 0.0

    def forward() -> object:
        return fused_banded(*sides, by_distance=bias, scale=scale, **band)

    def backward() -> object:
        saved = context, *sides, bias, context, log_sum, None, None, None
        return torch.ops.regard.banded_backward(*saved, *numbers, bias is not None)

    return {"forward": forward, "queries": backward, "keys": backward}


def microseconds(work: Callable[[], object]) -> float:
    """The median time of one run on the device."""
    work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    times = []
    for _ in range(20):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(5):
            graph.replay()
        end.record()
        end.synchronize()
        times.append(1000 * start.elapsed_time(end) / 5)
    return statistics.median(times)


def tune(case: str, kernel: str, dtype: torch.dtype, work: Callable[[], object]) -> None:
    """Print the time with the tile of the table, and with the quickest of all choices."""
    kind = "half" if dtype != torch.float32 else "tf32" if torch.backends.cuda.matmul.allow_tf32 else "float32"
    (*_, width), has_bias, _ = CASES[case]
    place = kernel, kind, 64 if width <= 64 else 128
    before = TILES[place]
    print(
        f"{case}, {kernel}, {kind}: {tuple(before[has_bias])} of the table takes {microseconds(work):.0f} µs",
        flush=True,
    )
    seconds: dict[Tile, float] = {}
    for tile in CHOICES:
        TILES[place] = (tile, tile)
        try:
            seconds[tile] = microseconds(work)
        except (RuntimeError, *_triton_errors()) as error:  # more shared memory than there is, or none that compiles
            print(f"  {tuple(tile)}: {type(error).__name__}", flush=True)
    TILES[place] = before
    for tile in sorted(seconds, key=seconds.__getitem__)[:5]:
        print(f"  {tuple(tile)}: {seconds[tile]:.0f} µs", flush=True)


def _triton_errors() -> tuple[type[Exception], ...]:
    from triton import CompilationError, OutOfResources

    return CompilationError, OutOfResources


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", choices=[*CASES], action="append", help="may be said several times; default: all")
    parser.add_argument("--kernel", choices=KERNELS, action="append", help="may be said several times; default: all")
    parser.add_argument("--dtype", choices=["bfloat16", "float16", "float32"], default="bfloat16")
    parser.add_argument("--tf32", action="store_true", help="float32 with products of ten bits")
    asked = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("tiles are timed on a CUDA device, and there is none")
    torch.backends.cuda.matmul.allow_tf32 = asked.tf32
    for case in asked.case or CASES:
        work = passes(case, getattr(torch, asked.dtype))
        for kernel in asked.kernel or KERNELS:
            tune(case, kernel, getattr(torch, asked.dtype), work[kernel])


if __name__ == "__main__":
    main()
