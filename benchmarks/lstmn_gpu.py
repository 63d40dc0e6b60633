"""A training step of LSTMN's language model on one GPU: a plain PyTorch loop beside ours, both also captured.

    python benchmarks/lstmn_gpu.py
    python benchmarks/lstmn_gpu.py --check      # only compares, at small sizes; on a CPU too

Sizes of the paper (300 units, 10,000 words), batch 64, sentences of 24 and of 48 words; forward, backward, clipping and
Adam. The plain loop is written from the equations, with plain torch operations alone: it keeps h, c and the projected
keys of all steps in lists, and stacks them at each step. Before anything is timed, logits and gradients of every way,
before clipping, are compared with the plain loop in float64: see gate.py. A way that is refused has no row, and the
program ends with status 1. Rows are added to results/lstmn_gpu.csv.
"""

import statistics
from collections.abc import Iterator
from dataclasses import replace
from types import MethodType

import torch
import torch.nn.functional as F
from gate import Refusals, Results, describe, judge_results
from timing import append, flags_and_device, ratio, side_by_side
from torch import Tensor
from updates import Updates

from regard.data import TokenBatch
from regard.models import Continued, LSTMNConfig, LSTMNLanguageModel
from regard.tasks import LanguageModelling, LanguageModellingConfig
from regard.train import Train

BATCH, LENGTHS, WORDS = 64, (24, 48), 10_000
SMALL = {"embed_dim": 12, "hidden_dim": 8, "align_dim": 6}
WAYS = {
    "plain": (True, Train(lr=1e-4, precision="tf32")),
    "plain, captured": (True, Train(lr=1e-4, precision="tf32", capture=True)),
    "ours, eager": (False, Train(lr=1e-4, precision="tf32")),
    "ours, captured": (False, Train(lr=1e-4, precision="tf32", capture=True)),
}
ROUNDING = {"cuda": 2.0**-10, "cpu": 2.0**-23}  # between neighbouring numbers of tf32, and of float32


def plain_forward(self: LSTMNLanguageModel, tokens: Tensor, state: None = None) -> Continued:
    """The language model of one layer, from equations (4) to (9) of the paper, as one writes a loop in PyTorch."""
    [layer] = self.layers
    score, gates = layer.attention.score, layer.to_gates
    embedded = self.words(tokens)
    summary = embedded.new_zeros(len(tokens), layer.hidden_dim)
    hidden_tape: list[Tensor] = []
    memory_tape: list[Tensor] = []
    keys: list[Tensor] = []
    for word in embedded.unbind(1):
        if hidden_tape:
            query = F.linear(torch.cat([word, summary], 1), score.to_query.weight)
            scores = torch.tanh(torch.stack(keys, 1) + query.unsqueeze(1)) @ score.v
            weights = torch.softmax(scores, 1).unsqueeze(1)
            summary = (weights @ torch.stack(hidden_tape, 1)).squeeze(1)
            recalled = (weights @ torch.stack(memory_tape, 1)).squeeze(1)
        else:
            recalled = torch.zeros_like(summary)
        into, keep, new, out = F.linear(torch.cat([word, summary], 1), gates.weight, gates.bias).chunk(4, 1)
        memory = torch.sigmoid(keep) * recalled + torch.sigmoid(into) * torch.tanh(new)
        hidden = torch.sigmoid(out) * torch.tanh(memory)
        hidden_tape.append(hidden)
        memory_tape.append(memory)
        keys.append(F.linear(hidden, score.to_keys.weight))
    assert self.output is not None
    return Continued(self.output(torch.stack(hidden_tape, 1)), None)


def batches(batch: int, length: int, words: int) -> Iterator[TokenBatch]:
    """Random sentences of full length, always the same ones in the same order."""
    chance = torch.Generator().manual_seed(0)
    lengths, nothing = torch.full((batch,), length), torch.full((batch, 1), 2)
    while True:
        target = torch.randint(4, words, (batch, length), generator=chance)
        yield TokenBatch(
            nothing, torch.ones_like(lengths), torch.roll(target, 1, 1), target, lengths, list(range(batch))
        )


class Case:
    """The model at one size, and the ways to train it."""

    def __init__(self, length: int, device: torch.device, *, small: bool) -> None:
        self.device, self.sizes = device, (3, 6, 40) if small else (BATCH, length, WORDS)
        self.config = LSTMNConfig(self.sizes[-1], **(SMALL if small else {}))
        torch.manual_seed(0)
        self.start = LSTMNLanguageModel(self.config).state_dict()
        self.task = LanguageModelling(LanguageModellingConfig(), splits={})

    def updates(self, *, plain: bool, settings: Train, exact: bool = False) -> Updates:
        """The updates of one way, from the common start."""
        model = LSTMNLanguageModel(self.config)
        model.load_state_dict(self.start)
        if plain:
            model.forward = MethodType(plain_forward, model)  # type: ignore[method-assign]
        return Updates(model.double() if exact else model, self.task, settings, self.device)

    def results(self, *, plain: bool, settings: Train, exact: bool = False) -> Results:
        """Logits and gradients of the first update."""
        run = self.updates(plain=plain, settings=replace(settings, clip=None), exact=exact)
        batch = next(batches(*self.sizes))
        with torch.no_grad():
            logits = run.model(batch.inputs.to(self.device), None).logits
        run.update(batch)
        return {"logits": logits, "gradients": run.gradients()}

    def gate(self) -> dict[str, str]:
        """Each way against the plain loop in float64, beside the plain loop in its own precision; what is refused."""
        exact = self.results(plain=True, settings=Train(lr=1e-4), exact=True)
        eager = self.results(plain=True, settings=WAYS["plain"][1])
        ways = {
            way: self.results(plain=plain, settings=settings)
            for way, (plain, settings) in WAYS.items()
            if not settings.capture or self.device.type == "cuda"
        }
        errors, refused = judge_results(ways, eager=eager, exact=exact, rounding=ROUNDING[self.device.type])
        print(describe(errors), flush=True)
        return refused


def main() -> None:
    asked, device = flags_and_device(__doc__)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    refusals = Refusals()
    for length in LENGTHS[:1] if asked.check else LENGTHS:
        case = Case(length, device, small=asked.check)
        print(f"batch {case.sizes[0]}, {case.sizes[1]} words a sentence")
        refused = case.gate()
        refusals.add(f"{length}: {message}" for message in refused.values())
        if asked.check:
            continue
        ways = {}
        for way, (plain, settings) in WAYS.items():
            if way not in refused:
                run, source = case.updates(plain=plain, settings=settings), batches(*case.sizes)
                ways[way] = lambda run=run, source=source: run.update(next(source))  # type: ignore[misc]
        seconds = side_by_side(ways, rounds=30)
        for way, times in seconds.items():
            quicker = ratio(seconds["plain"], times)
            print(f"  {way:16} {1000 * statistics.median(times):7.2f} ms a step, {quicker:.2f} ×")
            row = {"words": length, "way": way, "milliseconds": 1000 * statistics.median(times), "ratio": quicker}
            append("lstmn_gpu.csv", [row])
    refusals.end()


if __name__ == "__main__":
    main()
