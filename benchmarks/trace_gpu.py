"""What a trace costs: 16 rows of all heads and layers of a Llama of 1 B parameters at 8,192 tokens.

    python benchmarks/trace_gpu.py
    python benchmarks/trace_gpu.py --check        # only compares, at small sizes; on a CPU too

The model is built by transformers (`LlamaConfig`: 16 layers, 32 heads that share 8 key heads, width 2,048; random
weights, bfloat16), and attends by `sdpa`. It reads one text and gives the logits of the last token, as the first step
of `generate` does. `plain` is the forward pass as it is; `traced` is the same inside of `regard.trace(model, rows=…)`,
from the opening of the block to its end, when the weights lie on the host; `eager` has `output_attentions=True`, which
is what transformers offers for the same question, and gives all rows, on the GPU. `plain` and `traced` take turns in
one run. Peak memory is all that is allocated, with the weights of the model. Before anything is timed, the weights of a
small model are compared with float64, beside eager (gate.py), and its logits must be equal bit by bit, traced or not.
Rows are added to results/trace_gpu.csv.
"""

import argparse
import statistics
from collections.abc import Callable
from typing import Any

import torch
from gate import Refusals, Results, describe, judge_results
from timing import append, side_by_side
from torch import Tensor, nn

from regard import trace
from regard.base import require

SMALL = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 8,
         "num_key_value_heads": 2, "vocab_size": 500}  # fmt: skip
LARGE = {"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32,
         "num_key_value_heads": 8, "vocab_size": 128_256}  # fmt: skip
UNEVEN = 6.0  # by which the weights of the small model are larger
TIME, MEMORY = 1.10, 1.10  # what a trace may cost, as a multiple of the plain pass


Times, Peaks = dict[str, list[float]], dict[str, float]


def build(
    sizes: dict[str, int], way: str, dtype: torch.dtype, device: torch.device, tokens: int, factor: float = 1.0
) -> nn.Module:
    """A Llama with random weights, the same ones for every way and type; larger ones by a factor make heads uneven."""
    transformers = require("transformers", extra="transformers")
    config = transformers.LlamaConfig(**sizes, max_position_embeddings=tokens, tie_word_embeddings=True)
    config._attn_implementation = way
    torch.manual_seed(0)
    with torch.device(device):
        model: nn.Module = transformers.LlamaForCausalLM(config)
    with torch.no_grad():
        for parameter in model.parameters():
            scale = factor if parameter.ndim > 1 else 1.0
            parameter.data = (scale * parameter.data).bfloat16().to(dtype)
    return model.to(dtype).eval()


def text(vocabulary: int, tokens: int, device: torch.device) -> Tensor:
    return torch.randint(0, vocabulary, (1, tokens), generator=torch.Generator().manual_seed(1)).to(device)


def spread_rows(count: int, tokens: int) -> list[int]:
    """Rows at equal distances, the last one of the text included."""
    return [(number + 1) * tokens // count - 1 for number in range(count)]


def forward(model: nn.Module, ids: Tensor, **options: Any) -> Any:
    return model(ids, use_cache=False, logits_to_keep=1, **options)


def traced(model: nn.Module, ids: Tensor, rows: list[int]) -> tuple[Tensor, list[Tensor]]:
    with trace(model, rows=rows) as seen:
        logits = forward(model, ids).logits
    return logits, [torch.from_numpy(record.weights) for record in seen.values()]


@torch.no_grad()
def gate(device: torch.device, tokens: int = 200) -> dict[str, str]:
    """The weights of a small model against float64, beside eager in bfloat16; why they are refused."""
    ids, rows = text(SMALL["vocab_size"], tokens, device), spread_rows(16, tokens)

    def of_eager(dtype: torch.dtype) -> Results:
        output = forward(build(SMALL, "eager", dtype, device, tokens, UNEVEN), ids, output_attentions=True)
        return {"weights": [weights[:, :, rows].cpu() for weights in output.attentions]}

    model = build(SMALL, "sdpa", torch.bfloat16, device, tokens, UNEVEN)
    plain = forward(model, ids).logits
    logits, weights = traced(model, ids, rows)
    exact, eager = of_eager(torch.float64), of_eager(torch.bfloat16)
    errors, refused = judge_results({"traced": {"weights": weights}}, eager=eager, exact=exact, rounding=2.0**-9)
    print(describe(errors))
    if not torch.equal(plain, logits):
        refused["logits"] = "the logits of a traced model differ from those without a trace"
    return refused


def peak_gib(work: Callable[[], object]) -> float:
    """All memory that is allocated at the highest point of a second call, in GiB."""
    work()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    work()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() / 2**30


def measure_trace(device: torch.device, ids: Tensor, rows: list[int], rounds: int) -> tuple[Times, Peaks]:
    """Seconds and peak memory of the plain pass and of the traced one, in turns."""
    model = build(LARGE, "sdpa", torch.bfloat16, device, ids.shape[1])

    def look() -> None:
        with trace(model, rows=rows):
            forward(model, ids)

    works: dict[str, Callable[[], object]] = {"plain": lambda: forward(model, ids), "traced": look}
    peaks = {name: peak_gib(work) for name, work in works.items()}
    return side_by_side(works, rounds=rounds, warm_up=3), peaks


def measure_eager(device: torch.device, ids: Tensor) -> tuple[Times, Peaks]:
    """The same of eager attention with all of its weights; nothing where the memory does not suffice."""
    model = build(LARGE, "eager", torch.bfloat16, device, ids.shape[1])

    def look() -> None:
        forward(model, ids, output_attentions=True)

    try:
        peaks = {"eager": peak_gib(look)}
        return side_by_side({"eager": look}, rounds=3, warm_up=1), peaks
    except torch.OutOfMemoryError:
        print(f"  eager with output_attentions runs out of memory at {ids.shape[1]} tokens")
        return {}, {}


@torch.no_grad()
def measured(device: torch.device, tokens: int, count: int, rounds: int) -> list[dict[str, object]]:
    """A row for each way: milliseconds, peak memory, and both as multiples of the plain pass."""
    ids = text(LARGE["vocab_size"], tokens, device)
    seconds, peaks = measure_trace(device, ids, spread_rows(count, tokens), rounds)
    torch.cuda.empty_cache()
    more_seconds, more_peaks = measure_eager(device, ids)
    seconds, peaks = {**seconds, **more_seconds}, {**peaks, **more_peaks}
    base = statistics.median(seconds["plain"])
    return [
        {"layers": LARGE["num_hidden_layers"], "heads": LARGE["num_attention_heads"], "tokens": tokens, "rows": count,
         "way": name, "ms": round(1000 * statistics.median(times), 3), "peak_gib": round(peaks[name], 3),
         "times_as_long": round(statistics.median(times) / base, 3),
         "times_as_large": round(peaks[name] / peaks["plain"], 3)}
        for name, times in seconds.items()
    ]  # fmt: skip


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--check", action="store_true", help="only compare, at small sizes; on a CPU too")
    arguments.add_argument("--tokens", type=int, default=8192, help="length of the text")
    arguments.add_argument("--rows", type=int, default=16, help="rows of each head and layer that are traced")
    arguments.add_argument("--rounds", type=int, default=20, help="how often each way takes its turn")
    arguments.add_argument("--no-save", dest="save", action="store_false", help="add nothing to the results")
    asked = arguments.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device.type == "cpu" and not asked.check:
        raise SystemExit("this benchmark needs a CUDA device; --check compares without one")
    refused, refusals = gate(device), Refusals()
    refusals.add(refused.values())
    if not asked.check and not refused:
        rows = measured(device, asked.tokens, asked.rows, asked.rounds)
        for row in rows:
            print(
                f"  {row['way']:8} {row['ms']:10,.3f} ms ({row['times_as_long']} ×) {row['peak_gib']:8,.2f} GiB"
                f" ({row['times_as_large']} ×)",
                flush=True,
            )
        cost = next(row for row in rows if row["way"] == "traced")
        within = float(str(cost["times_as_long"])) <= TIME and float(str(cost["times_as_large"])) <= MEMORY
        print(f"  a trace may cost {TIME} × the time and {MEMORY} × the memory: {'kept' if within else 'NOT kept'}")
        if asked.save:
            append("trace_gpu.csv", rows)
    refusals.end()


if __name__ == "__main__":
    main()
