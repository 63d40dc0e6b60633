"""Local attention over 16,384 places: seconds and peak memory, blocks beside the dense mask through SDPA.

    python benchmarks/local_gpu.py
    python benchmarks/local_gpu.py --check        # only compares, at small sizes; on a CPU too

All ways attend from the same queries to the same keys and values, [1, 8 heads, 16,384, 64] in bfloat16, with query and
memory blocks of 256: `dense mask` hands the boolean mask [16,384, 16,384] to torch's scaled_dot_product_attention, and
is not charged for making it; `blocks` gathers blocks and attends in each of them (regard.attention.Local1D), the
gathering included; `band` is the kernel over a band of keys, which visits only what is seen. They take turns in one
run, forward, and forward and backward. Beside them is full causal attention, which has no local blocks, but needs no
mask either. Before anything is timed, outputs and gradients of all ways, in one dimension and in two, are compared with
the mask in float64: see gate.py. With TRITON_INTERPRET=1 `band` is compared on a CPU too. Rows are added to
results/local_gpu.csv.
"""

import statistics
from collections.abc import Callable

import torch
import torch.nn.functional as F
from gate import Results, describe, gate_then_time, judge_results
from timing import peak_memory, side_by_side
from torch import Tensor

from regard.attention import Band, Local, Local1D, Local2D, Mask, attend
from regard.kernels import reasons_against_triton

HEADS, DIM = 8, 64
PLACES, BLOCK = 16_384, 256
MIDDLE, SMALL = (2048, 256), (48, 8)  # places and block of the comparison
Way = Callable[[Tensor, Tensor, Tensor], Tensor]


def sides(places: int, dtype: torch.dtype, device: torch.device) -> list[Tensor]:
    """Queries, keys and values; the same numbers in every type."""
    chance = torch.Generator().manual_seed(0)
    exact = [torch.randn(1, HEADS, places, DIM, generator=chance).bfloat16() for _ in range(3)]
    return [side.to(device, dtype).requires_grad_() for side in exact]


def causal(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """What a block does, by our dispatch."""
    return attend(query, keys, values, mask=Mask.causal(), need_weights=False).context


def ways(local: Local, places: int, device: torch.device) -> dict[str, Way]:
    """The ways to the same context; the mask is made once, here."""
    mask = local.mask()
    allowed = mask.dense(places, places, device=device)
    made: dict[str, Way] = {
        "dense mask": lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=allowed),
        "blocks": lambda q, k, v: local.attend(q, k, v, causal),
    }
    if isinstance(mask, Band) and not reasons_against_triton(device):
        made["band"] = lambda q, k, v: attend(q, k, v, mask=mask, need_weights=False, impl="banded").context
    return made


def results(way: Way, inputs: list[Tensor], wanted: Tensor) -> Results:
    """The output, and the gradients of queries, keys and values."""
    output = way(*inputs)
    gradients = torch.autograd.grad(output, inputs, wanted.to(output.dtype))
    return {"output": output.detach(), "gradients": [gradient.detach() for gradient in gradients]}


def locals_here(places: int, block: int) -> dict[str, Local]:
    """Blocks in a row, also with a memory of another length, and rectangles of a grid."""
    rows = 16 if places > 1000 else 4
    columns = places // rows
    return {
        "1D": Local1D(block, block),
        "1D, longer memory": Local1D(block, block + block // 2),
        "2D": Local2D((rows, columns), (rows // 2, columns // 4), (rows // 4, columns // 8)),
    }


def gate(device: torch.device, *, small: bool) -> dict[str, str]:
    """All ways against the mask in float64; what is refused."""
    places, block = SMALL if small else MIDDLE
    wanted = torch.randn(1, HEADS, places, DIM, generator=torch.Generator().manual_seed(1)).to(device)
    dtype, rounding = (torch.float32, 2.0**-23) if device.type == "cpu" else (torch.bfloat16, 2.0**-7)
    refused: dict[str, str] = {}
    for name, local in locals_here(places, block).items():
        allowed = local.mask().dense(places, places, device=device)

        def plain(query: Tensor, keys: Tensor, values: Tensor, allowed: Tensor = allowed) -> Tensor:
            scores = (query @ keys.mT / DIM**0.5).masked_fill(~allowed, -torch.inf)
            return scores.softmax(-1) @ values

        exact = results(plain, sides(places, torch.float64, device), wanted)
        eager = results(plain, sides(places, dtype, device), wanted)
        made = {
            way: results(run, sides(places, dtype, device), wanted) for way, run in ways(local, places, device).items()
        }
        errors, wrong = judge_results(made, eager=eager, exact=exact, rounding=rounding)
        print(f"{name}: {describe(errors)}", flush=True)
        refused |= {way: f"{name}: {reason}" for way, reason in wrong.items()}
    return refused


def measured(device: torch.device, refused: dict[str, str], *, rounds: int) -> list[dict[str, object]]:
    """Median milliseconds, and the peak of memory above what was there before; the mask itself is counted as there."""
    inputs = sides(PLACES, torch.bfloat16, device)
    wanted = torch.randn_like(inputs[0])
    candidates = ways(Local1D(BLOCK, BLOCK), PLACES, device)
    candidates["full causal"] = lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True)
    rows: list[dict[str, object]] = []
    for mode in ("forward", "forward and backward"):
        passes, peaks = {}, {}
        for name, way in candidates.items():
            if name in refused:
                continue

            def one(way: Way = way, mode: str = mode) -> None:
                if mode == "forward":
                    with torch.no_grad():
                        way(*inputs)
                else:
                    torch.autograd.grad(way(*inputs), inputs, wanted)

            one()
            peaks[name], passes[name] = peak_memory(one), one
        seconds = side_by_side(passes, rounds=rounds)
        first = next(iter(passes))
        base = statistics.median(seconds[first]), peaks[first]
        rows += [
            {"places": PLACES, "block": BLOCK, "heads": HEADS, "dim": DIM, "mode": mode, "way": name,
             "ms": round(1000 * statistics.median(times), 3), "peak_mib": round(peaks[name]),
             "times_faster": round(base[0] / statistics.median(times), 2),
             "times_smaller": round(base[1] / max(peaks[name], 1e-9), 2)}
            for name, times in seconds.items()
        ]  # fmt: skip
    return rows


def line(row: dict[str, object]) -> str:
    """What is printed of a row."""
    return f"{row['mode']:21} {row['way']:12} {row['ms']:10,.3f} ms {row['peak_mib']:8,} MiB"


def main() -> None:
    gate_then_time(__doc__, "local_gpu.csv", gate, measured, line, rounds=40)


if __name__ == "__main__":
    main()
