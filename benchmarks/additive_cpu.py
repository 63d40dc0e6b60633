"""Additive attention on a CPU: the reference, which writes tanh(q + k) of all pairs to memory, beside our blocks.

    make bench
    python benchmarks/additive_cpu.py --batch 4 --length 512 --width 256
    python benchmarks/additive_cpu.py --weights       # a loss of context and weights: a penalty on what is not covered

Outputs and gradients are compared with float64 before anything is timed: see gate.py. Memory is the peak beyond what
the process had before (Linux), each way in a process of its own. A row is added to results/additive_cpu.csv.
"""

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from gate import check_results, describe
from timing import append, ratio, side_by_side
from torch import Tensor

from regard import attend
from regard.score import additive


def inputs(batch: int, length: int, width: int) -> list[Tensor]:
    torch.manual_seed(0)
    parts = [torch.randn(batch, length, width) for _ in range(3)] + [torch.randn(width) / width**0.5]
    return [part.requires_grad_() for part in parts]


def reference(query: Tensor, keys: Tensor, values: Tensor, v: Tensor) -> Tensor:
    return attend(
        query, keys, values, score=lambda q, k: additive(q, k, v), need_weights=False, impl="reference"
    ).context


def blocked(query: Tensor, keys: Tensor, values: Tensor, v: Tensor) -> Tensor:
    from regard.kernels.blocked import blocked_additive

    return blocked_additive(query, keys, values, v)[0]


def reference_with_weights(query: Tensor, keys: Tensor, values: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    out = attend(query, keys, values, score=lambda q, k: additive(q, k, v), impl="reference")
    assert out.weights is not None
    return out.context, out.weights


def blocked_with_weights(query: Tensor, keys: Tensor, values: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    from regard.kernels.blocked import blocked_additive_with_weights

    return blocked_additive_with_weights(query, keys, values, v)


Way = Callable[..., Tensor | tuple[Tensor, Tensor]]
WAYS: dict[str, Way] = {"reference": reference, "blocked": blocked}
WITH_WEIGHTS: dict[str, Way] = {"reference": reference_with_weights, "blocked": blocked_with_weights}


def both(call: Way, given: list[Tensor], outer: Tensor) -> tuple[Tensor, ...]:
    """Results and gradients; with weights, of a loss that wants every key to be taken once (Xu et al. 2015, eq. 14)."""
    out = call(*given)
    if isinstance(out, Tensor):
        return (out, *torch.autograd.grad(out, given, outer))
    context, weights = out
    loss = (context * outer).sum() + (1 - weights.sum(-2)).square().sum()
    return (context, weights, *torch.autograd.grad(loss, given))


def exact(call: Way, given: list[Tensor], outer: Tensor) -> tuple[Tensor, ...]:
    """The same in float64, one element of the batch after the other: all at once would need much memory."""
    *parts, v = (part.detach().double() for part in given)
    found = [both(call, [*(p.requires_grad_() for p in one[:3]), v.clone().requires_grad_()], one[3])
             for one in zip(*(torch.split(part, 1) for part in (*parts, outer.double())), strict=True)]  # fmt: skip
    *several, of_v = zip(*found, strict=True)
    return (*(torch.cat(each) for each in several), torch.stack(of_v).sum(0))


def memory_of(name: str, sizes: list[int], with_weights: bool) -> float:
    """MiB at the peak of forward and backward, in a fresh process that only does this."""
    command = [sys.executable, __file__, "--peak", name, *(f"--{n}={s}" for n, s in zip(NAMES, sizes, strict=True))]
    command += ["--weights"] * with_weights
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(json.loads(done.stdout))


def peak(call: Way, sizes: list[int]) -> None:
    """The other side of `memory_of`: a small case loads all code, then the large one is measured."""
    both(call, small := inputs(1, 8, sizes[2]), torch.ones_like(small[2]))
    given = inputs(*sizes)
    outer = torch.ones_like(given[2])
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = high_water()
    both(call, given, outer)
    print(json.dumps((high_water() - before) / 1024))


def high_water() -> int:
    """KiB that the process has had at most."""
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])


NAMES = ("batch", "length", "width")


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("batch", 4), ("length", 512), ("width", 256), ("rounds", 7)):
        asked.add_argument(f"--{name}", type=int, default=default)
    asked.add_argument("--peak", choices=[*WAYS], help=argparse.SUPPRESS)
    asked.add_argument("--weights", action="store_true", help="weights too, and a loss that uses them")
    asked.add_argument("--no-save", action="store_true", help="do not add to results/additive_cpu.csv")
    wish = asked.parse_args()
    sizes, ways = [wish.batch, wish.length, wish.width], WITH_WEIGHTS if wish.weights else WAYS
    if wish.peak:
        peak(ways[wish.peak], sizes)
        return
    given = inputs(*sizes)
    outer = torch.randn_like(given[2])
    wanted = exact(ways["reference"], given, outer)
    names = ("output", *(["weights"] if wish.weights else []), "query", "keys", "values", "v")
    results = {name: dict(zip(names, both(way, given, outer), strict=True)) for name, way in ways.items()}
    errors = check_results(results, eager=results["reference"], exact=dict(zip(names, wanted, strict=True)))
    print(describe(errors))
    del results
    bare = [part.detach() for part in given]
    what = "context and weights" if wish.weights else "context"
    print(
        f"additive attention, {what}, {tuple(sizes)} (batch, length, width), {torch.get_num_threads()} threads, float32"
    )
    row: dict[str, object] = {"size": "x".join(map(str, sizes)), "of": what}
    for name_of_part, calls in (
        ("forward", {name: lambda way=way: way(*bare) for name, way in ways.items()}),
        ("both", {name: lambda way=way: both(way, given, outer) for name, way in ways.items()}),
    ):
        seconds = side_by_side(calls, rounds=wish.rounds)
        medians = {name: 1000 * statistics.median(times) for name, times in seconds.items()}
        quicker = ratio(seconds["reference"], seconds["blocked"])
        print(
            f"  {name_of_part}: reference {medians['reference']:.1f} ms, blocked {medians['blocked']:7.1f} ms:"
            f" {quicker:.2f} ×"
        )
        row |= {f"{name_of_part}_{name}": value for name, value in medians.items()}
        row[f"{name_of_part}_ratio"] = quicker
    memory = {name: memory_of(name, sizes, wish.weights) for name in ways}
    share = 100 * memory["blocked"] / memory["reference"]
    print(f"  memory   reference {memory['reference']:8.1f} MiB, blocked {memory['blocked']:6.1f} MiB: {share:.1f} %")
    if not wish.no_save:
        append("additive_cpu.csv", [row | {f"mib_{name}": value for name, value in memory.items()}])


if __name__ == "__main__":
    main()
