"""Fast paths on one GPU: additive attention, the dot family through `attend`, and weights beside a fused pass.

    python benchmarks/attention_gpu.py [gate] [additive] [penalty] [dots] [weights] [length] [--seed N]
    compute-sanitizer --tool memcheck python benchmarks/attention_gpu.py gate --draws 1     # or racecheck
    TRITON_INTERPRET=1 python benchmarks/attention_gpu.py --check       # only compares, at small sizes; on a CPU too

Every part checks its results, and the gradients that it times, against float64 before it times anything (gate.py). What
is refused has no row; the others are timed, and the program ends with status 1. Times are medians over many runs,
measured with events; memory is the peak beyond the inputs. The ceilings of the chip are measured in the same run. Rows
are added to results/attention_gpu.csv.
"""

import argparse
import copy
import math
import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from gate import Refusals, Results, WrongResult, check_results, describe, judge_results, relative_error
from timing import append
from torch import Tensor
from torch.nn.attention.flex_attention import flex_attention
from triton.testing import do_bench, do_bench_cudagraph

from regard import attend
from regard.align import Softmax
from regard.attention.weights import recompute_weights
from regard.kernels.additive import fused_additive, fused_additive_with_weights
from regard.kernels.dot_weights import dot_weights
from regard.kernels.unit import unit_rows
from regard.score import Cosine, Dot, General, ScaledDot

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")  # without a GPU, only `--check`
ADDITIVE = [(8, 8, 1024, 64, torch.float32), (4, 8, 4096, 64, torch.float32), (32, 1, 512, 128, torch.float32),
            (8, 8, 1024, 64, torch.bfloat16), (4, 8, 4096, 64, torch.bfloat16)]  # fmt: skip
GATE: list[tuple[int, int, int, int, float, float, torch.dtype]] = [  # items, queries, keys, width, scales of inputs, v
    (2, 200, 200, 64, 1, 1, torch.float32),
    (2, 200, 200, 64, 1, 8, torch.float32),
    (3, 77, 77, 33, 30, 1, torch.float32),
    (1, 1000, 1000, 64, 1, 1, torch.float32),
    (2, 150, 150, 256, 1, 1, torch.float32),
    (40, 1, 77, 64, 1, 1, torch.float32),
    (40, 1, 77, 33, 30, 1, torch.float32),
    (2, 129, 129, 128, 1, 1, torch.bfloat16),
    (3, 900, 1000, 64, 1, 1, torch.bfloat16),
    (3, 1000, 1000, 64, 0.3, 1, torch.bfloat16),
    (3, 1000, 1000, 64, 1, 4, torch.bfloat16),
    (2, 1000, 1100, 100, 2, 1, torch.bfloat16),
    (3, 1000, 1000, 64, 30, 1, torch.bfloat16),
    (2, 64, 64, 256, 30, 1, torch.float16),
]
SMALL: list[tuple[int, int, int, int, float, float, torch.dtype]] = [
    (2, 33, 33, 16, 1, 1, torch.float32),
    (8, 1, 33, 16, 1, 1, torch.float32),
]
HALF = torch.bfloat16 if DEVICE.type == "cuda" else torch.float32  # Triton's interpreter multiplies bfloat16 wrongly
REFUSALS = Refusals()
LENGTHS = [512, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536]


def eager(query: Tensor, keys: Tensor, values: Tensor, v: Tensor) -> Tensor:
    """Additive attention as it is written: [n q k a] in memory."""
    scores = torch.tanh(query.unsqueeze(-2) + keys.unsqueeze(-3)) @ v
    return scores.softmax(-1) @ values


def summed(query: Tensor, keys: Tensor, values: Tensor, v: Tensor) -> Tensor:
    """The same with a sum in place of the product with v, for which cuBLAS has kernels that racecheck dislikes."""
    scores = (torch.tanh(query.unsqueeze(-2) + keys.unsqueeze(-3)) * v).sum(-1)
    return scores.softmax(-1) @ values


def ours(query: Tensor, keys: Tensor, values: Tensor, v: Tensor) -> Tensor:
    return fused_additive(query, keys, values, v)[0]


def inputs(
    n: int, length: int, width: int, dtype: torch.dtype = torch.float32, scale: float = 1.0, weight: float = 1.0
) -> list[Tensor]:
    parts = [scale * torch.randn(n, length, width, device=DEVICE) for _ in range(2)]
    parts += [
        torch.randn(n, length, width, device=DEVICE),
        weight * torch.randn(width, device=DEVICE) / math.sqrt(width),
    ]
    return [part.to(dtype).requires_grad_() for part in parts]


def run_both(call: Callable[..., Tensor], given: list[Tensor], outer: Tensor) -> Callable[[], object]:
    return lambda: torch.autograd.grad(call(*given), given, outer)


def milliseconds(call: Callable[[], object], budget: int = 300) -> float:
    found: float = do_bench(call, warmup=budget // 4, rep=budget, return_mode="median")
    return found


def once(call: Callable[[], object]) -> float:
    """Milliseconds of the second of two calls: long ones do not differ much."""
    call()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()  # type: ignore[no-untyped-call]
    call()
    end.record()  # type: ignore[no-untyped-call]
    torch.cuda.synchronize()
    return start.elapsed_time(end)  # type: ignore[no-any-return, no-untyped-call]


def on_device(call: Callable[[], object]) -> float:
    """The same without launches, which a small call is bound by: recorded as a graph, as captured trainings are."""
    with torch.cuda.stream(torch.cuda.Stream()):  # type: ignore[no-untyped-call]
        found: float = do_bench_cudagraph(call, rep=40, return_mode="median")
    return found


def peak(call: Callable[[], object]) -> float:
    """GiB beyond what is there already."""
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    call()
    torch.cuda.synchronize()
    return (torch.cuda.max_memory_allocated() - before) / 2**30


def keep(part: str, size: str, name: str, **figures: float) -> None:
    """One row of the history: milliseconds, GiB, and the rate or ratio that the part is about."""
    columns = ("forward", "forward_device", "forward_gib", "both", "both_device", "both_gib", "rate")
    append(
        "attention_gpu.csv", [{"part": part, "size": size, "name": name, **{c: figures.get(c, "") for c in columns}}]
    )


def results_of(call: Callable[..., Tensor], given: list[Tensor], outer: Tensor) -> Results:
    """The output, and the gradients of all that is given."""
    out = call(*given)
    return {"output": out, "gradients": torch.autograd.grad(out, given, outer.to(out.dtype))}


def in_double(given: list[Tensor]) -> list[Tensor]:
    return [part.detach().double().requires_grad_() for part in given]


def gate_additive(draws: int = 4, sizes: Sequence[tuple[int, int, int, int, float, float, torch.dtype]] = GATE) -> None:
    """Outputs and all gradients no further from float64 than twice the eager ones, odd sizes and large inputs too.

    Errors are the root of the mean square over some draws: where few weights decide, as they do with a large v, those
    of two ways to compute the same thing differ by luck from draw to draw, and the worst draw is printed beside.
    """
    for n, q, k, width, scale, weight, dtype in sizes:
        found = torch.zeros(2, draws, 5)
        for draw in range(draws):
            given = inputs(n, k, width, dtype, scale, weight)
            given[0] = given[0].detach()[:, :q].requires_grad_()
            double = [part.detach().double().requires_grad_() for part in given]
            exact = summed(*double)
            outer = torch.randn_like(exact).to(dtype)
            wanted = [exact, *torch.autograd.grad(exact, double, outer.double())]
            for which, call in enumerate((summed, ours)):
                out = call(*given)
                results = [out, *torch.autograd.grad(out, given, outer)]
                found[which, draw] = torch.tensor([relative_error(a, b) for a, b in zip(results, wanted, strict=True)])
        typical = found.square().mean(1).sqrt()
        worst, ratios = (found[1] / found[0]).amax(0).tolist(), (typical[1] / typical[0]).tolist()
        print(f"{n, q, k, width} × {scale}, v × {weight}, {dtype}: output, query, keys, values, v")
        for which, figures in zip(("eager", "ours"), typical.tolist(), strict=True):
            print(f"  {which:6}", *(f"{each:.1e}" for each in figures))
        print("  ratio ", *(f"{each:7.2f}" for each in ratios), "  worst draw", *(f"{each:.2f}" for each in worst))
        if not max(ratios) <= 2:
            raise WrongResult(f"fused additive attention is wrong at {n, q, k, width}; nothing was timed")


def ceilings() -> dict[str, float]:
    """What the chip can do: matrix products in bfloat16, and copies."""
    a, b = (torch.randn(8192, 8192, device=DEVICE, dtype=torch.bfloat16) for _ in range(2))
    product = 2 * 8192**3 / milliseconds(lambda: a @ b) / 1e9
    source, target = (torch.empty(2**30, device=DEVICE, dtype=torch.int8) for _ in range(2))
    copy = 2 * 2**30 / milliseconds(lambda: target.copy_(source)) / 1e9
    print(f"ceilings: bf16 product {product:.0f} TFLOP/s, copy {copy:.2f} TB/s")
    return {"product": product, "copy": copy}


def gate_rows() -> None:
    """Weights of some rows against float64; rows of length one; one query that sees some keys."""
    query, keys = (torch.randn(3, 70, 48, device=DEVICE, dtype=HALF) for _ in range(2))
    rows = torch.tensor([69, 3], device=DEVICE)
    exact = (query[:, rows].double() @ keys.double().mT / 7).softmax(-1)
    found = {"weights": relative_error(dot_weights(query, keys, scale=1 / 7, rows=rows), exact)}
    exact = query.double() / query.double().norm(dim=-1, keepdim=True)
    found["unit"] = relative_error(unit_rows(query), exact)
    given = inputs(5, 40, 24)
    lengths = torch.tensor([40, 3, 0, 17, 1], device=DEVICE)
    context, log_sum = fused_additive(given[0][:, :1], *given[1:], lengths=lengths)
    context.sum().backward()
    assert not context[2].any()
    assert log_sum[2].item() == -math.inf
    causal, _ = fused_additive(*given, causal=True, window=(9, 0), dropout=0.1)
    causal.sum().backward()
    print("  gate", {name: f"{value:.1e}" for name, value in found.items()})
    if not max(found.values()) <= 5e-3:
        raise WrongResult("weights of some rows, or rows of length one, are wrong; nothing was timed")


def gate_part(draws: int = 4) -> None:
    """The checks alone: every kernel runs, which is what a memory checker wants to see."""
    gate_additive(draws)
    gate_rows()


def gate_size(
    ways: dict[str, Callable[..., Tensor]], length: int, width: int, dtype: torch.dtype = torch.float32
) -> set[str]:
    """One item at the length and width that are timed: all ways against float64, beside plain PyTorch.

    The names of those that are refused are returned.
    """
    given = inputs(1, length, width, dtype)
    outer = torch.randn_like(given[2])
    exact = results_of(eager, in_double(given), outer)
    found = {name: results_of(call, given, outer) for name, call in ways.items()}
    errors, refused = judge_results(found, eager=results_of(eager, given, outer), exact=exact)
    print(describe(errors))
    REFUSALS.add(f"length {length}: {message}" for message in refused.values())
    return {*refused}


def additive_part() -> None:
    if not passed(gate_additive):
        return
    for batch, heads, length, width, dtype in ADDITIVE:
        torch._dynamo.reset()
        compiled = torch.compile(eager, dynamic=False)
        refused = gate_size({"compiled": compiled, "triton": ours}, min(length, 1024), width, dtype)
        n, kind = batch * heads, "" if dtype == torch.float32 else f" {str(dtype).removeprefix('torch.')}"
        given = inputs(n, length, width, dtype)
        outer = torch.randn_like(given[2])
        bare = [part.detach() for part in given]
        rows: dict[str, dict[str, float]] = {}
        for name, call in (("reference", eager), ("compiled", compiled), ("triton", ours)):
            if name in refused or (name == "reference" and n * length**2 * width * dtype.itemsize > 40e9):
                continue
            rows[name] = {}
            works = {"forward": partial(call, *bare), "both": run_both(call, given, outer)}
            for what, work in works.items():
                try:
                    work()
                    rows[name] |= {what: milliseconds(work), f"{what}_gib": peak(work)}
                    if name != "reference":
                        rows[name][f"{what}_device"] = on_device(work)
                except torch.OutOfMemoryError:
                    print(f"  {name}, {what}: out of memory")
                torch.cuda.empty_cache()
        pairs = n * length**2 * width
        for name, times in rows.items():
            rate = pairs / times.get("forward_device", times["forward"]) / 1e9
            print(f"additive {batch, heads, length, width}{kind}, {name}: {rate:.2f} T/s")
            for what in works:
                if what in times:
                    against = rows.get("compiled", {}).get(what, math.nan) / times[what]
                    print(f"  {what}: {times[what]:.3f} ms, {times[what + '_gib']:.2f} GiB, {against:.2f} × compiled")
                bare, peer = (rows.get(each, {}).get(f"{what}_device", math.nan) for each in (name, "compiled"))
                print(f"  {what}, as a graph: {bare:.3f} ms, {peer / bare:.2f} × compiled")
            keep("additive", f"{batch}x{heads}x{length}x{width}{kind}", name, **times, rate=rate)


def eager_with_weights(query: Tensor, keys: Tensor, values: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    weights = (torch.tanh(query.unsqueeze(-2) + keys.unsqueeze(-3)) @ v).softmax(-1)
    return weights @ values, weights


def penalised(call: Callable[..., tuple[Tensor, Tensor]], given: list[Tensor], outer: Tensor) -> Results:
    """Context, weights, and the gradients of a loss that wants every key to be taken once (Xu et al. 2015, eq. 14)."""
    context, weights = call(*given)
    loss = (context * outer.to(context.dtype)).sum() + (1 - weights.sum(-2)).square().sum()
    return {"output": context, "weights": weights, "gradients": torch.autograd.grad(loss, given)}


def gate_penalty(ways: dict[str, Callable[..., tuple[Tensor, Tensor]]], length: int, width: int) -> None:
    """One item against float64, beside plain PyTorch; and one query.

    Weights are made of the logarithm of a sum of exponentials: about 7 for 1,024 keys, where one digit of float32 is
    4.8e-7. So far off they may be, whatever luck eager has.
    """
    for queries in (length, 1):
        given = inputs(1 if queries > 1 else 8, length, width)
        given[0] = given[0].detach()[:, :queries].requires_grad_()
        outer = torch.randn(len(given[0]), queries, width, device=DEVICE)
        exact = penalised(eager_with_weights, in_double(given), outer)
        found = {name: penalised(call, given, outer) for name, call in ways.items()}
        eager = penalised(eager_with_weights, given, outer)
        print(describe(check_results(found, eager=eager, exact=exact, rounding=2.0**-21)))


def penalty_part() -> None:
    """A loss of context and weights: plain PyTorch and torch.compile beside one fused pass that has both."""
    for batch, heads, length, width, _ in [size for size in ADDITIVE if size[-1] == torch.float32]:
        torch._dynamo.reset()
        compiled = torch.compile(eager_with_weights, dynamic=False)
        ways = {"compiled": compiled, "triton": fused_additive_with_weights}
        if not passed(gate_penalty, ways, min(length, 1024), width):
            continue
        n = batch * heads
        given = inputs(n, length, width)
        outer = torch.randn_like(given[2])
        for name, call in (("reference", eager_with_weights), *ways.items()):
            if name == "reference" and n * length**2 * width * 4 > 40e9:
                continue
            work = partial(penalised, call, given, outer)
            try:
                work()
                figures = {"both": milliseconds(work), "both_gib": peak(work)}
            except torch.OutOfMemoryError:
                print(f"penalty {batch, heads, length, width}, {name}: out of memory")
                torch.cuda.empty_cache()
                continue
            print(
                f"penalty {batch, heads, length, width}, {name}: forward + backward {figures['both']:.3f} ms,"
                f" {figures['both_gib']:.2f} GiB"
            )
            keep("penalty", f"{batch}x{heads}x{length}x{width}", name, **figures)
            torch.cuda.empty_cache()


def gate_dots(name: str, score: Any, width: int, call: Callable[..., Tensor] | None = None, length: int = 1024) -> None:
    """`attend`, or another call, against scores written out in float64, beside the same in bfloat16.

    The length is a smaller one, of the same kernels: all scores of the timed one do not fit in float64.
    """
    given = [
        torch.randn(1, 4, length, width, device=DEVICE, dtype=torch.bfloat16, requires_grad=True) for _ in range(3)
    ]
    outer = torch.randn_like(given[2])
    wide = copy.deepcopy(score).double()

    def written(score: Any) -> Callable[..., Tensor]:
        return lambda q, k, v: attend(q, k, v, score=score, impl="reference", need_weights=False).context

    def through(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return attend(q, k, v, score=score, need_weights=False).context

    exact = results_of(written(wide), in_double(given), outer)
    found = {name: results_of(call or through, given, outer)}
    plain = results_of(written(score), given, outer)
    print(describe(check_results(found, eager=plain, exact=exact, rounding=2.0**-7)))


def dots_part(batch: int = 4, heads: int = 16, length: int = 8192, width: int = 128) -> None:
    """attend beside the bare kernel on the same, already transformed, inputs."""
    shape = batch, heads, length, width
    query, keys, values = (
        torch.randn(shape, device=DEVICE, dtype=torch.bfloat16, requires_grad=True) for _ in range(3)
    )
    outer = torch.randn_like(values)
    for name, score in (
        ("scaled_dot", ScaledDot()),
        ("dot", Dot()),
        ("general", General(width, width)),
        ("cosine", Cosine()),
    ):
        score = score.to(DEVICE, torch.bfloat16)
        prepared = score.prepare(keys.detach())
        form = score.as_dot(query.detach(), prepared.keys)

        def bare() -> Tensor:
            return F.scaled_dot_product_attention(form.query, form.keys, values, scale=form.scale)  # noqa: B023

        def through() -> Tensor:
            return attend(query, prepared, values, score=score, need_weights=False).context  # noqa: B023

        if not passed(gate_dots, name, score, width):
            continue
        with torch.no_grad():
            times = [milliseconds(call) for call in (bare, through, bare, through)]
        first, second = min(times[0], times[2]), min(times[1], times[3])
        both = [milliseconds(lambda: torch.autograd.grad(call(), values, outer)) for call in (bare, through)]  # noqa: B023
        flops = 4 * batch * heads * length**2 * width / second / 1e9
        print(
            f"{name} {shape}: bare {first:.3f} ms, attend {second:.3f} ms, {flops:.0f} TFLOP/s, {second / first:.3f} ×"
        )
        print(f"  with backward {both[1] / both[0]:.3f} ×")
        keep("dots", "x".join(map(str, shape)), name, forward=second, both=both[1], rate=second / first)
    flex = torch.compile(flex_attention)
    if not passed(gate_dots, "FlexAttention", ScaledDot(), width, lambda q, k, v: flex(q, k, v)):
        return
    with torch.no_grad():
        alone = milliseconds(lambda: flex(query, keys, values))
    print(f"FlexAttention {shape}: {alone:.3f} ms, {4 * batch * heads * length**2 * width / alone / 1e9:.0f} TFLOP/s")
    keep("dots", "x".join(map(str, shape)), "flex", forward=alone)


def passed(gate: Callable[..., None], *given: object) -> bool:
    """Whether a gate is open; if it is not, what it says is kept for the end."""
    try:
        gate(*given)
    except WrongResult as refusal:
        REFUSALS.add([str(refusal)])
        return False
    return True


def gate_weights(query: Tensor, keys: Tensor, values: Tensor, rows: list[int]) -> None:
    """Some rows, and all weights, of two heads against float64, beside a softmax of all scores in their precision."""
    score, align, scale = ScaledDot(), Softmax(), 1 / math.sqrt(query.shape[-1])
    some = recompute_weights(query, keys, values, score, align, None, None, rows=rows)
    every = recompute_weights(query[:1, :2], keys[:1, :2], values[:1, :2], score, align, None, None)
    found = {"16 rows": {"weights": some[:1, :2]}, "all": {"weights": every[..., rows, :]}}
    plain = {"weights": (query[:1, :2, rows] @ keys[:1, :2].mT).mul_(scale).softmax(-1)}
    exact = {"weights": ((query[:1, :2, rows].double() @ keys[:1, :2].double().mT) * scale).softmax(-1)}
    rounding = max(torch.finfo(query.dtype).eps, 2.0**-20)  # in float32 the sums of exponentials round too
    print(describe(check_results(found, eager=plain, exact=exact, rounding=rounding)))


@torch.no_grad()
def weights_part(batch: int = 4, heads: int = 16, length: int = 8192, width: int = 128) -> None:
    """Sixteen rows of every head, and all weights, beside the pass without them and one softmax of all scores."""
    shape = batch, heads, length, width
    query, keys, values = (torch.randn(shape, device=DEVICE, dtype=torch.bfloat16) for _ in range(3))
    score, align, rows = ScaledDot(), Softmax(), list(range(0, length, length // 16))
    if not passed(gate_weights, query, keys, values, rows):
        return
    plain = milliseconds(lambda: attend(query, keys, values, need_weights=False))
    extra = milliseconds(lambda: recompute_weights(query, keys, values, score, align, None, None, rows=rows))
    print(
        f"weights {shape}: pass {plain:.3f} ms; 16 rows of every head {extra:.3f} ms more, {100 * extra / plain:.1f} %"
    )
    whole = milliseconds(lambda: recompute_weights(query, keys, values, score, align, None, None))
    naive = milliseconds(lambda: (query @ keys.mT).mul_(1 / math.sqrt(width)).softmax(-1))
    print(f"  all: {whole:.2f} ms; softmax(QKᵀ) in bfloat16 {naive:.2f} ms; {whole / naive:.2f} ×")
    keep("weights", "x".join(map(str, shape)), "16 rows; all", forward=extra, both=whole, rate=whole / naive)


def length_part(heads: int = 8, width: int = 64) -> None:
    """Time and memory against length, forward and backward: linear memory, quadratic time."""
    if gate_size({"triton": ours}, LENGTHS[0], width) | gate_size({"triton": ours}, LENGTHS[1], width):
        return
    for length in LENGTHS:
        given = inputs(heads, length, width)
        both = run_both(ours, given, torch.randn_like(given[2]))
        memory = peak(both)
        spent = milliseconds(both, 100) if length < 16_384 else once(both)
        print(f"length {length:6}: forward + backward {spent:10.2f} ms, {memory:6.2f} GiB beyond the inputs")
        keep("length", f"1x{heads}x{length}x{width}", "triton", both=spent, both_gib=memory)


def check_part() -> None:
    """All gates at small sizes, without a clock: on a CPU by Triton's interpreter."""
    passed(gate_additive, 4, SMALL)
    passed(gate_rows)
    gate_size({"triton": ours}, 12, 8)
    passed(gate_penalty, {"triton": fused_additive_with_weights}, 12, 8)
    for name, score in (("scaled_dot", ScaledDot()), ("dot", Dot()), ("general", General(8, 8)), ("cosine", Cosine())):
        passed(gate_dots, name, score.to(DEVICE, torch.bfloat16), 8, None, 16)
    with torch.no_grad():
        passed(gate_weights, *(torch.randn(1, 2, 32, 16, device=DEVICE, dtype=HALF) for _ in range(3)), [0, 9])


PARTS = {
    "gate": gate_part,
    "additive": additive_part,
    "penalty": penalty_part,
    "dots": dots_part,
    "weights": weights_part,
    "length": length_part,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=[])
    parser.add_argument("--seed", type=int, default=0, help="of the inputs")
    parser.add_argument("--draws", type=int, default=4, help="of the gate alone; one will do for a memory checker")
    parser.add_argument("--check", action="store_true", help="only compare, at small sizes; on a CPU too")
    asked = parser.parse_args()
    if not torch.cuda.is_available() and not (asked.check and os.environ.get("TRITON_INTERPRET") == "1"):
        raise SystemExit("this benchmark needs a CUDA device; TRITON_INTERPRET=1 with --check compares without one")
    torch.manual_seed(asked.seed)
    if asked.check:
        check_part()
        REFUSALS.end()
        return
    if asked.parts == ["gate"]:
        gate_part(asked.draws)
        return
    ceilings()
    for name in asked.parts or PARTS:
        PARTS[name]()
    REFUSALS.end()


if __name__ == "__main__":
    main()
