"""A training step of Transformer-XL on one GPU: the way of the published program beside ours, both also captured.

    python benchmarks/transformer_xl_gpu.py
    python benchmarks/transformer_xl_gpu.py --check      # only compares, at small sizes; on a CPU too

Sizes of the recipes: words (16 layers of 384, 32 streams, segments and memories of 72, 10,000 words) and bytes (12 of
512, 32 streams, 256 and 256); forward, backward, clipping and Adam, without dropout. `published_forward` is written
from the equations in the way that the published PyTorch program goes about it: time comes first, one product makes
queries, keys and values of memory and segment, both terms of the scores are written out as [q k b h], shifted by a
copy, masked and normalised. `ours, shifted` gives the position term, shifted, to torch's fused kernel as a bias; `ours`
is the kernel over a band of keys, which reads it by distance. Before anything is timed, logits and gradients of every
way, before clipping, are compared with the published way in float64: see gate.py. With TRITON_INTERPRET=1 `ours` is
compared on a CPU too. A way that is refused has no row, and the program ends with status 1. Rows are added to
results/transformer_xl_gpu.csv.
"""

import math
import statistics
from collections.abc import Iterator
from dataclasses import replace
from types import MethodType
from typing import Any

import torch
import torch.nn.functional as F
from gate import NUDGES, Refusals, Results, describe, judge_results, nudge
from timing import append, flags_and_device, ratio, side_by_side
from torch import Tensor
from updates import Updates

from regard.data import StreamBatch
from regard.kernels import reasons_against_triton
from regard.models import Continued, TransformerXL, TransformerXLConfig
from regard.models.transformer_xl import Remembered, TransformerXLLayer
from regard.tasks import LanguageModelling, LanguageModellingConfig
from regard.train import Train

WORDS = TransformerXLConfig(10_000, dim=384, num_heads=8, hidden_dim=640, layers=16, memory=72, dropout=0.0)
BYTES = TransformerXLConfig(205, dim=512, num_heads=8, hidden_dim=2048, layers=12, memory=256, dropout=0.0)
SMALL = TransformerXLConfig(30, dim=24, num_heads=3, hidden_dim=20, layers=2, memory=9, dropout=0.0)
CASES = {"words": (WORDS, 32, 72), "bytes": (BYTES, 32, 256)}
PRECISIONS = ("tf32", "bfloat16")
WAYS = {  # the implementation of attention, or "published"; and whether it is captured
    "published": ("published", False),
    "published, captured": ("published", True),
    "ours, shifted": ("sdpa", False),
    "ours, shifted, captured": ("sdpa", True),
    "ours": ("banded", False),
    "ours, captured": ("banded", True),
}
ROUNDING = {("tf32", "cuda"): 2.0**-10, ("tf32", "cpu"): 2.0**-23}  # between neighbouring numbers; bfloat16 has 2⁻⁷


def published_forward(self: TransformerXL, tokens: Tensor, state: Remembered) -> Continued:
    """The model as the published program computes it, with a memory that is full."""
    length, size = tokens.shape[1], state.cells.shape[2]
    hidden = self.words(tokens.T) * math.sqrt(self.config.dim)
    memories = state.cells.detach().permute(1, 2, 0, 3)  # [n m b d]
    distances = torch.arange(size + length - 1, -1, -1, device=tokens.device, dtype=hidden.dtype)
    exponents = torch.arange(0, self.config.dim, 2, device=tokens.device, dtype=hidden.dtype) / self.config.dim
    angles = distances[:, None] / 10000**exponents
    table = torch.stack([angles.sin(), angles.cos()], -1).flatten(-2)  # [k d]
    forbidden = torch.ones(length, size + length, device=tokens.device).triu(1 + size).bool()[:, :, None, None]
    inputs = []
    for layer, memory in zip(self.layers, memories, strict=True):
        assert isinstance(layer, TransformerXLLayer)
        inputs.append(hidden)
        hidden = published_layer(layer, hidden, memory.to(hidden.dtype), table, forbidden)
    with torch.no_grad():
        cells = torch.cat([memories, torch.stack(inputs).to(memories.dtype)], 1)[:, length:]
    logits = F.linear(hidden, self.words.weight, self.output_bias).transpose(0, 1)
    return Continued(logits, Remembered(cells.permute(2, 0, 1, 3), state.written))


def published_layer(
    layer: TransformerXLLayer, hidden: Tensor, memory: Tensor, table: Tensor, forbidden: Tensor
) -> Tensor:
    """One layer of a segment [q b d] with a memory [m b d]."""
    attention, position = layer.inner, layer.inner.position
    weight = torch.cat([attention.to_query.weight, attention.to_keys.weight, attention.to_values.weight])
    query, keys, values = F.linear(torch.cat([memory, hidden]), weight).chunk(3, -1)
    heads = attention.num_heads
    query, keys, values = (x.unflatten(-1, (heads, -1)) for x in (query[-len(hidden) :], keys, values))
    places = F.linear(table, position.to_keys.weight).unflatten(-1, (heads, -1))  # [k h d]
    content = torch.einsum("ibnd,jbnd->ijbn", query + position.content[:, 0], keys)
    place = published_shift(torch.einsum("ibnd,jnd->ijbn", query + position.place[:, 0], places))
    scores = (content + place) * query.shape[-1] ** -0.5
    weights = scores.masked_fill(forbidden, -math.inf).softmax(1)
    context = torch.einsum("ijbn,jbnd->ibnd", weights.to(values.dtype), values).flatten(-2)
    hidden = layer.around_inner.norm(hidden + F.linear(context, attention.to_output.weight))
    feed = layer.feed.narrow(torch.relu(layer.feed.widen(hidden)))
    result: Tensor = layer.around_feed.norm(hidden + feed)
    return result


def published_shift(scores: Tensor) -> Tensor:
    """From distances [q k b h] to keys: a column of zeros, another view, and one row less."""
    padded = torch.cat([scores.new_zeros(len(scores), 1, *scores.shape[2:]), scores], 1)
    return padded.view(scores.shape[1] + 1, len(scores), *scores.shape[2:])[1:].view_as(scores)


def batches(streams: int, length: int, words: int) -> Iterator[StreamBatch]:
    """Random windows that go on from one to the next, always the same ones in the same order."""
    chance = torch.Generator().manual_seed(0)
    while True:
        text = torch.randint(4, words, (streams, length + 1), generator=chance)
        yield StreamBatch(text[:, :-1].contiguous(), text[:, 1:].contiguous(), torch.zeros(streams, dtype=torch.bool))


class Case:
    """The model at one size, and the ways to train it."""

    def __init__(self, config: TransformerXLConfig, streams: int, length: int, device: torch.device) -> None:
        self.config, self.device, self.sizes = config, device, (streams, length, config.vocabulary)
        torch.manual_seed(0)
        model = TransformerXL(config)
        for name, parameter in model.named_parameters():
            if name.endswith((".content", ".place")):  # zero at first, where a mistake would not be seen
                torch.nn.init.normal_(parameter, std=0.2)
        self.start = model.state_dict()
        self.cells = torch.randn(model.initial_state(streams).cells.shape)

    def updates(self, *, impl: str, settings: Train, exact: bool = False, nudged: int | None = None) -> Updates:
        """The updates of one way, from the common start and with a full memory."""
        published = impl == "published"
        narrow = settings.precision == "bfloat16" and not published
        model = TransformerXL(replace(self.config, wide=not narrow))
        model.load_state_dict(self.start)
        if nudged is not None:
            nudge(model, nudged, 2.0**-12)  # up to 2⁻⁸, by which bfloat16 rounds
        if published:
            model.forward = MethodType(published_forward, model)  # type: ignore[method-assign]
        for layer in model.layers if not published else ():
            layer.inner.attention.impl = impl
        model = model.double() if exact else model
        cells = self.cells.to(self.device, torch.float64 if exact else torch.float32)
        full = Remembered(cells, torch.ones(cells.shape[0], cells.shape[2], dtype=torch.bool, device=self.device))
        model.initial_state = lambda batch, memory=None: full  # type: ignore[method-assign]
        task = LanguageModelling(LanguageModellingConfig(context="stream"), splits={})
        task.load_carried({f"state_{number}": leaf.clone() for number, leaf in enumerate(full)})
        return Updates(model, task, settings, self.device)

    def results(self, *, impl: str, settings: Train, exact: bool = False, nudged: int | None = None) -> Results:
        """Logits and gradients of the first update."""
        run = self.updates(impl=impl, settings=replace(settings, clip=None), exact=exact, nudged=nudged)
        batch = next(batches(*self.sizes))
        half = settings.precision == "bfloat16"
        with torch.no_grad(), torch.autocast(self.device.type, torch.bfloat16, enabled=half):
            logits = run.model(batch.inputs.to(self.device), run.model.initial_state(len(batch.inputs))).logits
        run.update(batch.to(self.device))
        return {"logits": logits, "gradients": run.gradients()}

    def gate(self, precision: Any) -> dict[str, str]:
        """Each way against the published one in float64, beside that in its own precision; what is refused.

        In bfloat16 float64 is also run from weights that are off by the rounding of bfloat16: a rectified unit near
        zero may be on in one way and off in another, and neither is wrong.
        """
        exact = self.results(impl="published", settings=Train(lr=1e-4), exact=True)
        eager = self.results(impl="published", settings=settings_of(precision, captured=False))
        ways = {
            way: self.results(impl=impl, settings=settings_of(precision, captured=captured))
            for way, (impl, captured) in WAYS.items()
            if not (captured and self.device.type == "cpu")
            and not (impl == "banded" and reasons_against_triton(self.device))
        }
        seeds = range(NUDGES) if precision == "bfloat16" else ()
        nudged = [self.results(impl="published", settings=Train(lr=1e-4), exact=True, nudged=seed) for seed in seeds]
        rounding = ROUNDING.get((precision, self.device.type), 2.0**-7)
        errors, refused = judge_results(ways, eager=eager, exact=exact, nudged=nudged, rounding=rounding)
        print(describe(errors), flush=True)
        return refused


def settings_of(precision: Any, *, captured: bool) -> Train:
    """How a way is trained."""
    return Train(lr=1e-4, precision=precision, capture=captured)


def main() -> None:
    asked, device = flags_and_device(__doc__)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    refusals = Refusals()
    cases = {"small": (SMALL, 4, 8)} if asked.check else CASES
    for name, (config, streams, length) in cases.items():
        case = Case(config, streams, length, device)
        for precision in PRECISIONS:
            print(f"{name}, {precision}: {streams} streams, segments of {length}, memory of {config.memory}")
            refused = case.gate(precision)
            refusals.add(f"{name}, {precision}: {message}" for message in refused.values())
            if not asked.check:
                measure(case, name, precision, [way for way in WAYS if way not in refused])
    refusals.end()


def measure(case: Case, name: str, precision: Any, ways: list[str]) -> None:
    """Time the updates of these ways side by side, and write a row for each."""
    steps = {}
    for way in ways:
        impl, captured = WAYS[way]
        run = case.updates(impl=impl, settings=settings_of(precision, captured=captured))
        source = batches(*case.sizes)
        steps[way] = lambda run=run, source=source: run.update(next(source).to(case.device))  # type: ignore[misc]
    seconds = side_by_side(steps, rounds=30)
    for way, times in seconds.items():
        rate = case.sizes[0] * case.sizes[1] / statistics.median(times)
        row = {"case": name, "precision": precision, "way": way, "milliseconds": 1000 * statistics.median(times)}
        row |= {"tokens_per_second": rate}
        quicker = ""
        if "published" in seconds:
            row |= {"ratio": ratio(seconds["published"], times)}
            quicker = f", {row['ratio']:.2f} ×"
        print(f"  {way:20} {row['milliseconds']:7.2f} ms a step, {rate:9.0f} tokens a second{quicker}", flush=True)
        append("transformer_xl_gpu.csv", [row])


if __name__ == "__main__":
    main()
