"""A training step of RNNsearch and of Luong's model on one GPU: the plain loop over words beside ours, and captured.

    python benchmarks/rnn_gpu.py
    python benchmarks/rnn_gpu.py --check        # only compares, at small sizes; on a CPU too

Sizes of the papers (batch 80, 30 words on each side, hidden 1000, 10,000 words); forward, backward, clipping and Adam.
The plain loop calls cell and attention for each word, as one writes it, in tf32. Before anything is timed, logits and
gradients of every way, before clipping, are compared with the plain loop in float64: see gate.py. A way that is refused
has no row, and the program ends with status 1. Rows are added to results/rnn_gpu.csv.
"""

import statistics
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from types import MethodType

import torch
from gate import NUDGES, Refusals, Results, describe, judge_results, nudge
from timing import append, flags_and_device, ratio, side_by_side
from torch import Tensor, nn
from updates import Updates

from regard.data import TokenBatch
from regard.models import Bahdanau, BahdanauConfig, Luong, LuongConfig
from regard.models.translator import Translated
from regard.tasks import Translation, TranslationConfig
from regard.train import Train

BATCH, LENGTH, WORDS = 80, 30, 10_000
SMALL = {"embed_dim": 16, "hidden_dim": 24}
MODELS: dict[str, Callable[..., nn.Module]] = {
    "bahdanau": lambda words, **sizes: Bahdanau(BahdanauConfig(words, words, published_start=False, **sizes)),
    "luong": lambda words, **sizes: Luong(LuongConfig(words, words, layers=2, published_start=False, **sizes)),
}
ROUNDING = {"tf32": 2.0**-10, "float32": 2.0**-23, "pure_bfloat16": 2.0**-7}  # between neighbouring numbers


def plain_bahdanau(self: Bahdanau, source: Tensor, lengths: Tensor, inputs: Tensor) -> Translated:
    state = self.init_state(self.encode(source, lengths))
    words = self.target(inputs)
    hidden, contexts = [], []
    for word in words.unbind(1):
        state, context = self._advance(state, *self._parts_of_one_step(word, state))
        hidden.append(state.hidden)
        contexts.append(context)
    return Translated(self.output(torch.stack(hidden, 1), words, torch.stack(contexts, 1)), None)


def plain_luong(self: Luong, source: Tensor, lengths: Tensor, inputs: Tensor) -> Translated:
    state = self.init_state(self.encode(source, lengths))
    vectors = []
    for word in self.target(inputs).unbind(1):
        recur, attend = self._parts_of_one_step(word, state)
        state = self._advance(state, recur, attend, self.combine)._replace(decoder=recur.state)
        vectors.append(state.fed)
    return Translated(self.to_logits(torch.stack(vectors, 1)), None)


PLAIN = {"bahdanau": plain_bahdanau, "luong": plain_luong}
WAYS = {
    "plain": Train(lr=1e-4, precision="tf32"),
    "eager": Train(lr=1e-4, precision="tf32"),
    "captured": Train(lr=1e-4, precision="tf32", capture=True),
    "captured, bfloat16 weights": Train(lr=1e-4, capture=True, precision="pure_bfloat16"),
}


def batches(batch: int, length: int, words: int) -> Iterator[TokenBatch]:
    """Random sentences of full length, always the same ones in the same order."""
    chance = torch.Generator().manual_seed(0)

    def sentences() -> Tensor:
        return torch.randint(4, words, (batch, length), generator=chance)

    lengths = torch.full((batch,), length)
    while True:
        source, target = sentences(), sentences()
        yield TokenBatch(source, lengths, torch.roll(target, 1, 1), target, lengths, list(range(batch)))


class Case:
    """One model at one size, and the ways to train it."""

    def __init__(self, name: str, device: torch.device, *, small: bool) -> None:
        self.name, self.device = name, device
        self.sizes = (3, 5, 40) if small else (BATCH, LENGTH, WORDS)
        self.build = partial(MODELS[name], self.sizes[-1], **(SMALL if small else {}))
        torch.manual_seed(0)
        self.start = self.build().state_dict()
        self.task = Translation(TranslationConfig(), splits={})

    def updates(self, *, plain: bool, settings: Train, exact: bool = False, nudged: int | None = None) -> Updates:
        """The updates of one way, from the common start."""
        model = self.build()
        model.load_state_dict(self.start)
        if plain:
            model.forward = MethodType(PLAIN[self.name], model)
        model.train()  # there is no dropout, and cuDNN wants training mode for gradients
        if exact:
            model.double()
        if nudged is not None:
            nudge(model, nudged)
        return Updates(model, self.task, settings, self.device)

    def results(self, *, plain: bool, settings: Train, exact: bool = False, nudged: int | None = None) -> Results:
        """Logits and gradients of the first update."""
        run = self.updates(plain=plain, settings=replace(settings, clip=None), exact=exact, nudged=nudged)
        batch = next(batches(*self.sizes))
        there = batch.to(self.device)
        with torch.no_grad():
            logits = run.model(there.source, there.source_lengths, there.inputs).logits
        run.update(batch)
        return {"logits": logits, "gradients": run.gradients()}

    def gate(self) -> dict[str, str]:
        """Each way against the plain loop in float64, beside the plain loop in its own precision; what is refused."""
        refused: dict[str, str] = {}
        exact = self.results(plain=True, settings=Train(lr=1e-4), exact=True)
        nudged = [self.results(plain=True, settings=Train(lr=1e-4), exact=True, nudged=seed) for seed in range(NUDGES)]
        for precision in ("tf32", "pure_bfloat16"):
            alike = {way: settings for way, settings in WAYS.items() if settings.precision == precision}
            eager = self.results(plain=True, settings=Train(lr=1e-4, precision=precision))
            ways = {
                way: self.results(plain=way == "plain", settings=settings)
                for way, settings in alike.items()
                if not settings.capture or self.device.type == "cuda"
            }
            shown = precision if self.device.type == "cuda" or precision != "tf32" else "float32"
            errors, wrong = judge_results({f"plain, {shown}": eager, **ways}, eager=eager, exact=exact, nudged=nudged,
                                          rounding=ROUNDING[shown])  # fmt: skip
            print(describe(errors), flush=True)
            refused |= wrong
        return refused


def main() -> None:
    asked, device = flags_and_device(__doc__)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    refusals = Refusals()
    for name in MODELS:
        case = Case(name, device, small=asked.check)
        print(name)
        refused = case.gate()
        refusals.add(f"{name}: {message}" for message in refused.values())
        if asked.check:
            continue
        ways = {}
        for way, settings in ((way, settings) for way, settings in WAYS.items() if way not in refused):
            run, source = case.updates(plain=way == "plain", settings=settings), batches(*case.sizes)
            ways[way] = lambda run=run, source=source: run.update(next(source))  # type: ignore[misc]
        seconds = side_by_side(ways, rounds=30)
        for way, times in seconds.items():
            quicker = ratio(seconds["plain"], times)
            print(f"  {way:27} {1000 * statistics.median(times):7.2f} ms a step, {quicker:.2f} ×")
            row = {"model": name, "way": way, "milliseconds": 1000 * statistics.median(times), "ratio": quicker}
            append("rnn_gpu.csv", [row])
    refusals.end()


if __name__ == "__main__":
    main()
