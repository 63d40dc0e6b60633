"""Additive attention on a CPU: the reference, which writes tanh(q + k) of all pairs to memory, beside our blocks.

    make bench
    python benchmarks/additive_cpu.py --batch 4 --length 512 --width 256

Outputs and gradients are compared with float64 before anything is timed: see gate.py. Memory is the peak beyond what
the process had before (Linux), each way in a process of its own. A row is added to results/additive_cpu.csv.
"""

import argparse
import json
import statistics
import subprocess
import sys
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


WAYS = {"reference": reference, "blocked": blocked}


def both(name: str, given: list[Tensor], outer: Tensor) -> tuple[Tensor, ...]:
    out = WAYS[name](*given)
    return (out, *torch.autograd.grad(out, given, outer))


def exact(given: list[Tensor], outer: Tensor) -> tuple[Tensor, ...]:
    """The same in float64, one element of the batch after the other: all at once would need much memory."""
    *parts, v = (part.detach().double() for part in given)
    found = [both("reference", [*(p.requires_grad_() for p in one[:3]), v.clone().requires_grad_()], one[3])
             for one in zip(*(torch.split(part, 1) for part in (*parts, outer.double())), strict=True)]  # fmt: skip
    *several, of_v = zip(*found, strict=True)
    return (*(torch.cat(each) for each in several), torch.stack(of_v).sum(0))


def memory_of(name: str, sizes: list[int]) -> float:
    """MiB at the peak of forward and backward, in a fresh process that only does this."""
    command = [sys.executable, __file__, "--peak", name, *(f"--{n}={s}" for n, s in zip(NAMES, sizes, strict=True))]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(json.loads(done.stdout))


def peak(name: str, sizes: list[int]) -> None:
    """The other side of `memory_of`: a small case loads all code, then the large one is measured."""
    both(name, small := inputs(1, 8, sizes[2]), torch.ones_like(small[2]))
    given = inputs(*sizes)
    outer = torch.ones_like(given[2])
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = high_water()
    both(name, given, outer)
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
    asked.add_argument("--no-save", action="store_true", help="do not add to results/additive_cpu.csv")
    given_sizes = asked.parse_args()
    sizes = [given_sizes.batch, given_sizes.length, given_sizes.width]
    if given_sizes.peak:
        peak(given_sizes.peak, sizes)
        return
    given = inputs(*sizes)
    outer = torch.randn_like(given[2])
    wanted = exact(given, outer)
    names = ("output", "query", "keys", "values", "v")
    results = {name: dict(zip(names, both(name, given, outer), strict=True)) for name in WAYS}
    errors = check_results(results, eager=results["reference"], exact=dict(zip(names, wanted, strict=True)))
    print(describe(errors))
    del results
    bare = [part.detach() for part in given]
    print(f"additive attention, {tuple(sizes)} (batch, length, width), {torch.get_num_threads()} threads, float32")
    row: dict[str, object] = {"size": "x".join(map(str, sizes))}
    for what, calls in (
        ("forward", {name: lambda name=name: WAYS[name](*bare) for name in WAYS}),
        ("both", {name: lambda name=name: both(name, given, outer) for name in WAYS}),
    ):
        seconds = side_by_side(calls, rounds=given_sizes.rounds)
        medians = {name: 1000 * statistics.median(times) for name, times in seconds.items()}
        quicker = ratio(seconds["reference"], seconds["blocked"])
        print(
            f"  {what}: reference {medians['reference']:.1f} ms, blocked {medians['blocked']:7.1f} ms: {quicker:.2f} ×"
        )
        row |= {f"{what}_{name}": value for name, value in medians.items()} | {f"{what}_ratio": quicker}
    memory = {name: memory_of(name, sizes) for name in WAYS}
    share = 100 * memory["blocked"] / memory["reference"]
    print(f"  memory   reference {memory['reference']:8.1f} MiB, blocked {memory['blocked']:6.1f} MiB: {share:.1f} %")
    if not given_sizes.no_save:
        append("additive_cpu.csv", [row | {f"mib_{name}": value for name, value in memory.items()}])


if __name__ == "__main__":
    main()
