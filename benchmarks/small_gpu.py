"""Kernels for small models: each beside the operations that it replaces, and an update of a small Transformer.

    python benchmarks/small_gpu.py                     # kernels, then updates with 256 and 1,024 pairs
    python benchmarks/small_gpu.py kernels --no-save
    python benchmarks/small_gpu.py updates --profile   # and which kernels an update consists of
    python benchmarks/small_gpu.py tune --no-save      # other sizes of tiles
    python benchmarks/small_gpu.py --check             # only compares, at small sizes; in Triton's interpreter too

Shapes are those of the recipe transformer/multi30k_de_en with 256 pairs of 24 words: rows of 256 numbers, 8 heads of
32, 8,000 words, dropout 0.2. Each pair of ways has the same inputs in bfloat16; results and gradients are compared with
float64 before anything is timed, without dropout: see gate.py. What is refused has no row. Times are of a forward and a
backward pass in a captured CUDA graph, ten passes in a replay. Updates are those of the trainer, captured, over random
words with lengths of 8 to 32: forward, backward, clipping, Adam, and bfloat16 copies of the weights.
"""

import argparse
import os
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from gate import Refusals, Results, describe, judge_results
from timing import append, ratio, side_by_side
from torch import Tensor
from updates import Updates

from regard.data import collate
from regard.kernels import hidden, limits, residual, short
from regard.kernels import token_loss as token_loss_kernels
from regard.kernels.columns import column_sums
from regard.kernels.derivatives import plain_dot
from regard.kernels.hidden import fused_hidden, plain_hidden
from regard.kernels.linear import fused_linear
from regard.kernels.residual import fused_residual, plain_residual
from regard.kernels.short import fused_short, visible
from regard.kernels.token_loss import fused_token_losses
from regard.models import Transformer
from regard.nn.loss import token_loss
from regard.recipes import RECIPES
from regard.tasks import Translation

Way = Callable[..., Sequence[Tensor]]
PASSES = 10  # in a replay


class Case:
    """Inputs, and two ways with the same result: plain operations, and a kernel."""

    def __init__(self, inputs: Sequence[Tensor], plain: Way, fused: Way, fast: Way | None = None) -> None:
        self.inputs, self.exact, self.fused, self.plain = inputs, plain, fused, fast or plain

    def results(self, way: Way, dtype: torch.dtype) -> Results:
        """What a way gives, and the gradients of all inputs for fixed random gradients of that."""
        leaves = [x.detach().to(dtype).requires_grad_() for x in self.inputs]
        outputs = way(*leaves)
        torch.manual_seed(1)
        outer = [torch.randn(out.shape, device=out.device).bfloat16().to(out.dtype) for out in outputs]
        gradients = torch.autograd.grad(list(outputs), leaves, outer)
        return {"output": [out.detach() for out in outputs], "gradients": list(gradients)}

    def passes(self, way: Way) -> Callable[[], object]:
        """A forward and a backward pass of a way, ten times, as a captured graph."""
        leaves = [x.detach().bfloat16().requires_grad_() for x in self.inputs]

        def once() -> None:
            outputs = way(*leaves)
            torch.autograd.grad(list(outputs), leaves, [torch.ones_like(out) for out in outputs])

        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            once()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=side):
            for _ in range(PASSES):
                once()
        return graph.replay


def cases(device: torch.device, *, small: bool, dropout: float) -> dict[str, Case]:
    """All kernels, at the sizes of the recipe or at small ones."""
    torch.manual_seed(0)
    items, words, dim, hidden_dim, heads, vocabulary = (2, 5, 24, 40, 2, 50) if small else (256, 24, 256, 512, 8, 8000)
    width = dim // heads

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, device=device).bfloat16()

    lengths = torch.randint(1, words + 1, (items,), device=device)
    targets = torch.randint(0, vocabulary, (items * words,), device=device)
    targets[::4] = 0
    sides = [draw(items, heads, words, width) for _ in range(3)]
    rows = [draw(items, words, dim) for _ in range(2)]
    vectors = [draw(dim) for _ in range(3)]
    found = {}
    for name, causal, limit in (("attention, padding", False, lengths), ("attention, causal", True, None)):
        seen = visible(*sides[:2], limit, None, causal)
        found[name] = Case(
            sides,
            lambda q, k, v, seen=seen: [plain_dot(q, k, v, scale=width**-0.5, seen=seen)],
            lambda q, k, v, causal=causal, limit=limit: [
                fused_short(q, k, v, scale=width**-0.5, causal=causal, lengths=limit)
            ],
            lambda q, k, v, seen=seen: [F.scaled_dot_product_attention(q, k, v, attn_mask=seen)],
        )
    for name, shape in (("attention, 48 words", (items, heads, 2 * words, width)),
                        ("attention, heads of 64", (items, max(1, heads // 2), words, 2 * width))):  # fmt: skip
        scale = shape[-1] ** -0.5
        found[name] = Case(
            [draw(*shape) for _ in range(3)],
            lambda q, k, v, scale=scale: [plain_dot(q, k, v, scale=scale, causal=True)],
            lambda q, k, v, scale=scale: [fused_short(q, k, v, scale=scale, causal=True)],
            lambda q, k, v: [F.scaled_dot_product_attention(q, k, v, is_causal=True)],
        )
    found["loss"] = Case(
        [3 * draw(items * words, vocabulary)],
        lambda x: [token_loss(x, targets, smoothing=0.1)],
        lambda x: [fused_token_losses(x, targets, smoothing=0.1, ignore=0).sum()],
    )

    def plain_sum(x: Tensor, y: Tensor, weight: Tensor, shift: Tensor) -> Sequence[Tensor]:
        total, normed = plain_residual(x, F.dropout(y, dropout), None, weight, shift)
        assert normed is not None
        return total, normed

    def fused_sum(x: Tensor, y: Tensor, weight: Tensor, shift: Tensor) -> Sequence[Tensor]:
        total, normed = fused_residual(x, y, weight=weight, shift=shift, dropout=dropout)
        assert normed is not None
        return total, normed

    found["residual, dropout, norm"] = Case([*rows, *vectors[:2]], plain_sum, fused_sum)
    found["hidden"] = Case(
        [draw(items, words, hidden_dim), draw(hidden_dim)],
        lambda x, b: [F.dropout(plain_hidden(x, b), dropout)],
        lambda x, b: [fused_hidden(x, b, dropout=dropout)],
    )
    weights = [draw(dim, dim) * dim**-0.5 for _ in range(3)]
    found["three projections"] = Case(
        [rows[0], *weights, *vectors],
        lambda x, *p: [F.linear(x, w, b) for w, b in zip(p[:3], p[3:], strict=True)],
        lambda x, *p: fused_linear(x, p[:3], p[3:]),
    )
    return found


def gate(device: torch.device, refusals: Refusals, *, small: bool) -> set[str]:
    """Each kernel against float64; the names of those that are refused."""
    refused = set()
    for name, case in cases(device, small=small, dropout=0.0).items():
        exact, eager = case.results(case.exact, torch.float64), case.results(case.plain, torch.bfloat16)
        for dtype, rounding in ((torch.bfloat16, 2.0**-7), (torch.float32, 2.0**-23)):
            eager = case.results(case.plain, dtype)
            found = {"plain": eager, f"{name}, {dtype}": case.results(case.fused, dtype)}
            again = case.results(case.fused, dtype)
            errors, messages = judge_results(found, eager=eager, exact=exact, rounding=rounding)
            print(describe(errors), flush=True)
            refusals.add(messages.values())
            same = all(
                torch.equal(a, b)
                for part in ("output", "gradients")
                for a, b in zip(found[f"{name}, {dtype}"][part], again[part], strict=True)
            )
            refusals.add([] if same else [f"{name}, {dtype}: two runs differ"])
            refused |= {name} if messages or not same else set()
    columns = torch.randn(6144, 768, device=device).bfloat16()
    found = {"sums of columns": {"output": column_sums(columns)}}
    errors, messages = judge_results(
        found, eager={"output": columns.sum(0)}, exact={"output": columns.double().sum(0)}, rounding=2.0**-7
    )
    print(describe(errors), flush=True)
    refusals.add(messages.values())
    return refused


def kernels(device: torch.device, refused: set[str], *, rounds: int) -> list[dict[str, object]]:
    """Microseconds of a forward and a backward pass of each."""
    rows: list[dict[str, object]] = []
    for name, case in cases(device, small=False, dropout=0.2).items():
        if name in refused:
            continue
        seconds = side_by_side({"plain": case.passes(case.plain), "fused": case.passes(case.fused)}, rounds=rounds)
        plain, fused = (1e6 * statistics.median(seconds[way]) / PASSES for way in ("plain", "fused"))
        gain = ratio(seconds["plain"], seconds["fused"])
        print(f"  {name:28} plain {plain:8.1f} µs, fused {fused:8.1f} µs, {gain:5.2f} × as fast", flush=True)
        rows.append({"what": name, "plain": round(plain, 1), "fused": round(fused, 1), "ratio": round(gain, 3)})
    return rows


TUNED: dict[str, tuple[Any, list[dict[str, int]]]] = {
    "attention, padding": (short, [{"block_q": q, "num_warps": w} for q in (16, 32) for w in (1, 2, 4)]),
    "attention, causal": (short, [{"block_q": q, "num_warps": w} for q in (16, 32) for w in (1, 2, 4)]),
    "loss": (token_loss_kernels, [{"block": block, "num_warps": w} for block in (2048, 8192) for w in (4, 8, 16)]),
    "residual, dropout, norm": (residual, [{"block": b, "num_warps": w} for b, w in ((4, 2), (4, 4), (8, 4), (16, 8))]),
    "hidden": (hidden, [{"block": b, "num_warps": w} for b, w in ((4, 2), (4, 4), (8, 4), (16, 8))]),
}


def tune(device: torch.device, *, rounds: int) -> None:
    """Microseconds of a forward and a backward pass with other sizes of tiles and other numbers of threads."""
    for name, (module, choices) in TUNED.items():
        own = "_block" if module is token_loss_kernels else "_tile"
        usual, case = getattr(module, own), cases(device, small=False, dropout=0.2)[name]
        replays = {"as it is": case.passes(case.fused)}
        for choice in choices:
            setattr(module, own, lambda *sizes, usual=usual, choice=choice: {**usual(*sizes), **choice})
            replays[str(choice)] = case.passes(case.fused)
        setattr(module, own, usual)
        for choice_name, seconds in side_by_side(replays, rounds=rounds).items():
            print(f"  {name:28} {choice_name:36} {1e6 * statistics.median(seconds) / PASSES:8.1f} µs", flush=True)


def updates_of(device: torch.device, pairs: int, chosen: frozenset[str]) -> tuple[Callable[[], object], int]:
    """Captured updates over four batches with some kernels chosen, and how many target tokens they have."""
    limits.CHOSEN_ON_A_GPU = chosen
    recipe = RECIPES["transformer/multi30k_de_en"]()
    chance = torch.Generator().manual_seed(0)

    def text() -> list[int]:
        return torch.randint(4, 8000, (int(torch.randint(8, 31, (), generator=chance)),), generator=chance).tolist()

    batches = [
        collate((text(), text()) for _ in range(pairs)).fitted(rows=pairs, multiple=8).to(device) for _ in range(4)
    ]
    torch.manual_seed(0)
    model = Transformer(replace(recipe.model, source_vocabulary=8000, target_vocabulary=8000)).train()
    task = Translation(recipe.task, codecs=(None, None), splits={})  # type: ignore[arg-type]
    settings = replace(recipe.train, lr=1e-4, ema=None, capture=True)
    run = Updates(model, task, settings, device)
    start = time.perf_counter()
    run.updates(batches)  # which records them
    torch.cuda.synchronize()
    print(
        f"  {pairs} pairs, {', '.join(sorted(chosen)) or 'none'}: ready in {time.perf_counter() - start:.1f} s",
        flush=True,
    )
    return lambda: run.updates(batches), sum(batch.count for batch in batches)


def updates(device: torch.device, sizes: Sequence[int], *, rounds: int, profiled: bool) -> list[dict[str, object]]:
    """Target tokens a second with none of the kernels, with each of them, and with all."""
    rows: list[dict[str, object]] = []
    for pairs in sizes:
        ways = {"none": frozenset[str](), "all": limits.SMALL}
        if pairs == sizes[0]:
            ways |= {f"{name} alone": frozenset({name}) for name in sorted(limits.SMALL)}
        ready = {name: updates_of(device, pairs, chosen) for name, chosen in ways.items()}
        seconds = side_by_side({name: run for name, (run, _) in ready.items()}, rounds=rounds)
        for name, (run, tokens) in ready.items():
            median, gain = statistics.median(seconds[name]), ratio(seconds["none"], seconds[name])
            print(f"  {pairs:5} pairs, {name:18} {tokens / median:11,.0f} target tokens/s, {1000 * median / 4:6.3f} ms "
                  f"an update, {gain:5.2f} ×", flush=True)  # fmt: skip
            rows.append({"what": f"update, {pairs} pairs", "way": name, "tokens_per_second": round(tokens / median),
                         "ratio": round(gain, 3)})  # fmt: skip
            if profiled and name in ("none", "all"):
                profile(run, 4)
    return rows


def profile(run: Callable[[], object], count: int, top: int = 70) -> None:
    """Which kernels a run of some updates consists of, in milliseconds an update."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as recorder:
        run()
        torch.cuda.synchronize()
    found: dict[str, list[float]] = defaultdict(list)
    for event in recorder.events() or ():
        if event.device_time:
            found[event.name].append(event.device_time / 1000 / count)
    times = {kernel: sum(each) for kernel, each in found.items()}
    print(f"    {sum(map(len, found.values())) / count:.0f} kernels an update, together {sum(times.values()):.3f} ms")
    for kernel in sorted(times, key=lambda each: -times[each])[:top]:
        print(f"    {times[kernel]:7.3f} ms {len(found[kernel]) / count:6.1f} × {kernel[:100]}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=["kernels", "tune", "updates", []], default=[])
    parser.add_argument("--check", action="store_true", help="only compare, at small sizes")
    parser.add_argument("--sizes", nargs="+", type=int, default=[256, 1024], help="pairs in a batch")
    parser.add_argument("--rounds", type=int, default=20, help="how often each way takes its turn")
    parser.add_argument("--profile", action="store_true", help="say which kernels an update consists of")
    parser.add_argument("--no-save", dest="save", action="store_false", help="add nothing to the results")
    asked = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device.type == "cpu" and not (asked.check and os.environ.get("TRITON_INTERPRET") == "1"):
        raise SystemExit("this benchmark needs a CUDA device; TRITON_INTERPRET=1 and --check compare without one")
    torch.backends.cuda.matmul.allow_tf32 = False
    limits.CHOSEN_ON_A_GPU = frozenset()  # plain ways shall be plain
    refusals, parts = Refusals(), asked.parts or ["kernels", "updates"]
    refused = gate(device, refusals, small=asked.check)
    rows: list[dict[str, object]] = []
    if not asked.check and "kernels" in parts:
        rows += kernels(device, refused, rounds=asked.rounds)
    if not asked.check and "tune" in parts:
        tune(device, rounds=asked.rounds)
    if not asked.check and "updates" in parts:
        rows += updates(device, asked.sizes, rounds=asked.rounds, profiled=asked.profile)
    if rows and asked.save:
        append("small_gpu.csv", rows)
    refusals.end()


if __name__ == "__main__":
    main()
