"""A training step of RNNsearch and of Luong's model on one GPU: the plain loop over words beside ours, and captured.

    python benchmarks/rnn_gpu.py

Sizes of the papers (batch 80, 30 words on each side, hidden 1000, 10,000 words); forward, backward, clipping and Adam.
The plain loop calls cell and attention for each word, as one writes it, in tf32. The losses of the first steps are
compared before anything is timed. Rows are added to results/rnn_gpu.csv.
"""

import statistics
from collections.abc import Iterator
from types import MethodType

import torch
from timing import append, ratio, side_by_side
from torch import Tensor, nn

from regard.data import Batch
from regard.models import Bahdanau, BahdanauConfig, Luong, LuongConfig
from regard.models.translator import Translated
from regard.tasks import Translation, TranslationConfig
from regard.train import Train, World
from regard.train.masters import Masters
from regard.train.optim import build_optimiser
from regard.train.step import CapturedStepper, Stepper

CUDA = torch.device("cuda")
BATCH, LENGTH, WORDS = 80, 30, 10_000
MODELS = {
    "bahdanau": lambda: Bahdanau(BahdanauConfig(WORDS, WORDS, published_start=False)),
    "luong": lambda: Luong(LuongConfig(WORDS, WORDS, layers=2, published_start=False)),
}


def plain_bahdanau(self: Bahdanau, source: Tensor, lengths: Tensor, inputs: Tensor) -> Translated:
    state = self.init_state(self.encode(source, lengths))
    words = self.target(inputs)
    hidden, contexts = [], []
    for word in words.unbind(1):
        state, context = self._advance(word, state)
        hidden.append(state.hidden)
        contexts.append(context)
    return Translated(self.output(torch.stack(hidden, 1), words, torch.stack(contexts, 1)), None)


def plain_luong(self: Luong, source: Tensor, lengths: Tensor, inputs: Tensor) -> Translated:
    state = self.init_state(self.encode(source, lengths))
    vectors = []
    for word in self.target(inputs).unbind(1):
        state = self._advance(word, state)
        vectors.append(state.fed)
    return Translated(self.to_logits(torch.stack(vectors, 1)), None)


PLAIN = {"bahdanau": plain_bahdanau, "luong": plain_luong}
WAYS = {
    "plain": Train(lr=1e-4),
    "eager": Train(lr=1e-4),
    "captured": Train(lr=1e-4, capture=True),
    "captured, bfloat16 weights": Train(lr=1e-4, capture=True, precision="pure_bfloat16"),
}


def batches() -> Iterator[Batch]:
    """Random sentences of full length, always the same ones in the same order."""
    chance = torch.Generator().manual_seed(0)

    def words() -> Tensor:
        return torch.randint(4, WORDS, (BATCH, LENGTH), generator=chance)

    lengths = torch.full((BATCH,), LENGTH)
    while True:
        source, target = words(), words()
        yield Batch(source, lengths, torch.roll(target, 1, 1), target, lengths, list(range(BATCH)))


class Training:
    """One model, trained in one way."""

    def __init__(self, model: nn.Module, settings: Train) -> None:
        model.to(CUDA).train()
        self.masters = Masters(model, half=settings.precision == "pure_bfloat16")
        optimiser = build_optimiser(self.masters.full, settings, capturable=settings.capture)
        kind = CapturedStepper if settings.capture else Stepper
        task = Translation(TranslationConfig(), splits={})
        self.stepper = kind(self.masters, task, optimiser, settings, World(device=CUDA), None)
        self.masters.start()
        self.batches, self.settings, self.step = batches(), settings, 0

    def update(self) -> None:
        self.step += 1
        batch = next(self.batches)
        self.stepper.update([batch], BATCH * LENGTH, self.settings.lr, self.step)

    def loss(self) -> float:
        return self.stepper.figures()["loss"]


def main() -> None:
    if not torch.cuda.is_available():
        raise SystemExit("this benchmark needs a CUDA device")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    for name, build in MODELS.items():
        torch.manual_seed(0)
        start = build().state_dict()
        ways = {}
        for way, settings in WAYS.items():
            model = build()
            model.load_state_dict(start)
            if way == "plain":
                model.forward = MethodType(PLAIN[name], model)
            ways[way] = Training(model, settings)
        losses = {way: [(training.update(), training.loss())[1] for _ in range(10)] for way, training in ways.items()}
        print(name, {way: f"{found[0]:.5f} … {found[-1]:.5f}" for way, found in losses.items()})
        for way, found in losses.items():
            worst = max(abs(a - b) for a, b in zip(found, losses["plain"], strict=True))
            assert worst < (0.02 if "bfloat16" in way else 2e-3), f"{way} gives other losses: {found}"
        seconds = side_by_side({way: training.update for way, training in ways.items()}, rounds=30)
        for way, times in seconds.items():
            quicker = ratio(seconds["plain"], times)
            print(f"  {way:27} {1000 * statistics.median(times):7.2f} ms a step, {quicker:.2f} ×")
            row = {"model": name, "way": way, "milliseconds": 1000 * statistics.median(times), "ratio": quicker}
            append("rnn_gpu.csv", [row])


if __name__ == "__main__":
    main()
