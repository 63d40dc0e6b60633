"""Evaluation of Transformer-XL with its memory, beside sliding windows, over the length of attention, on one GPU.

    python benchmarks/xl_evaluation_gpu.py
    python benchmarks/xl_evaluation_gpu.py --check      # only compares, at small sizes; on a CPU too

The model is that of the recipe transformer_xl/enwik8 (12 layers of 512, random weights, bfloat16); a text has one
stream. A model without a memory that sees L tokens before each token reads L tokens again for each of them: `sliding`
has several such windows side by side, and gives the logits of their last tokens. With a memory of L cells each token
is read once, a segment of 128 at a time: `memory`. Both take turns in one run; figures are microseconds a token. The
paper has the same table (its table 9: 363 × for 800 tokens, 773 for 1,800, 1,133 for 2,800 and 1,874 for 3,800, against
a deeper model). Before anything is timed, the log-probabilities of a short text, read with a memory, are compared with
those of one window from its start, in float64. Rows are added to results/xl_evaluation_gpu.csv.
"""

import statistics
from collections.abc import Callable
from dataclasses import replace

import torch
from gate import check_results
from timing import append, flags_and_device, ratio, side_by_side
from torch import Tensor
from transformer_xl_gpu import BYTES, SMALL

from regard.models import TransformerXL, TransformerXLConfig

EQUAL = 1e-9  # how far both ways may differ in float64
LENGTHS = (256, 800, 1800, 2800, 3800)  # tokens that are attended to
SEGMENT = 128  # tokens that are read at once with a memory
WINDOWS = 16  # windows side by side: tokens that are predicted at once without a memory


def build(config: TransformerXLConfig, device: torch.device, dtype: torch.dtype) -> TransformerXL:
    """The model with random weights, the same ones each time."""
    torch.manual_seed(0)
    return TransformerXL(config).to(device, dtype).eval()


def text_of(tokens: int, streams: int, vocabulary: int, device: torch.device) -> Tensor:
    """Random tokens [streams, tokens]."""
    chance = torch.Generator().manual_seed(1)
    return torch.randint(4, vocabulary, (streams, tokens), generator=chance).to(device)


def read_both_ways(config: TransformerXLConfig, device: torch.device, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Log-probabilities of a text that is read in one window, and with a memory that holds all of it."""
    model = build(replace(config, init_std=0.3), device, torch.float64)
    for parameter in model.parameters():
        if parameter.ndim > 2:  # u and v are zero at first, where a mistake would not be seen
            torch.nn.init.normal_(parameter, std=0.3)
    model.to(dtype)
    text = text_of(24, 2, config.vocabulary, device)
    state, pieces = model.initial_state(2, memory=24), []
    with torch.no_grad():
        window = model(text, model.initial_state(2, memory=0)).logits.log_softmax(-1)
        for segment in text.split(5, 1):
            logits, state = model(segment, state)
            pieces.append(logits.log_softmax(-1))
    return window, torch.cat(pieces, 1)


def compare(config: TransformerXLConfig, device: torch.device) -> float:
    """The largest difference between the two ways in float64; in float32 both are held to the gate."""
    exact, remembered = read_both_ways(config, device, torch.float64)
    difference = float((remembered - exact).abs().max())
    if difference > EQUAL:
        return difference
    window, remembered = read_both_ways(config, device, torch.float32)
    name = "log-probabilities"
    check_results({"a memory": {name: remembered}}, eager={name: window}, exact={name: exact})
    return difference


def ways(model: TransformerXL, length: int) -> dict[str, tuple[Callable[[], object], int]]:
    """What is timed for a length of attention, and how many tokens each call predicts."""
    device, vocabulary = model.output_bias.device, model.config.vocabulary
    windows = text_of(length, WINDOWS, vocabulary, device)
    segment = text_of(SEGMENT, 1, vocabulary, device)
    state = model.initial_state(1, memory=length)
    full = state._replace(cells=torch.randn_like(state.cells), written=torch.ones_like(state.written))
    nothing = model.initial_state(WINDOWS, memory=0)

    def sliding() -> Tensor:
        hidden, _ = model.read(model.words(windows), nothing)
        return torch.nn.functional.linear(hidden[:, -1], model.words.weight, model.output_bias)

    def memory() -> Tensor:
        logits: Tensor = model(segment, full).logits
        return logits

    return {"sliding": (sliding, WINDOWS), "memory": (memory, SEGMENT)}


@torch.no_grad()
def measure(model: TransformerXL, length: int) -> None:
    """Time both ways at one length, and write a row."""
    both = ways(model, length)
    seconds = side_by_side({name: call for name, (call, _) in both.items()}, rounds=12)
    each = {name: [second / both[name][1] for second in times] for name, times in seconds.items()}
    row = {"attention_length": length, "ratio": ratio(each["sliding"], each["memory"])}
    row |= {f"{name}_microseconds": 1e6 * statistics.median(times) for name, times in each.items()}
    print(
        f"{length:5} tokens seen: sliding {row['sliding_microseconds']:9.1f} µs a token, "
        f"memory {row['memory_microseconds']:6.1f}, {row['ratio']:7.0f} ×",
        flush=True,
    )
    append("xl_evaluation_gpu.csv", [row])


def main() -> None:
    asked, device = flags_and_device(__doc__)
    difference = compare(SMALL, device)
    print(f"a memory and one window differ by {difference:.1e} in float64")
    if difference > EQUAL:
        raise SystemExit("they should not differ")
    if asked.check:
        return
    model = build(replace(BYTES, wide=False), device, torch.bfloat16)
    for length in LENGTHS:
        measure(model, length)


if __name__ == "__main__":
    main()
