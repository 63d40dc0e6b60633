"""What the tests of training share: two small tasks, their models, runs and the losses of runs."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import torch
from torch import Tensor, nn

from regard.data import ParallelText
from regard.models import Bahdanau, BahdanauConfig
from regard.tasks import Evaluation, Loss, Translation, TranslationConfig
from regard.train import Train, World, train_model

Watch = Callable[[str, Mapping[str, Any]], None]
WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]


# ── translation: words backwards, in the other order ────────────────────────────────────────────────────────────────


def pairs(size: int, seed: int) -> ParallelText:
    random = Random(seed)
    rows = [[random.choice(WORDS) for _ in range(random.randint(2, 6))] for _ in range(size)]
    backwards = [" ".join(word[::-1] for word in row[::-1]) for row in rows]
    return ParallelText([" ".join(row) for row in rows], backwards, {})


def translation(**settings: Any) -> Translation:
    """Sixty pairs to learn from, in batches of eight, and two to be judged by."""
    config = TranslationConfig(**{"batch_size": 8, "batch_tokens": None, **settings})
    return Translation(config, splits={"train": pairs(60, 0), "valid": pairs(2, 1)})


def translator(task: Translation, *, dropout: float = 0.2) -> Bahdanau:
    torch.manual_seed(5)
    sizes = {"embed_dim": 8, "hidden_dim": 8, "align_dim": 8, "maxout_dim": 8}
    return Bahdanau(BahdanauConfig(*task.vocabularies, **sizes, dropout=dropout, published_start=False))


# ── regression: fast, so that the loop itself can be tried in many ways ─────────────────────────────────────────────


@dataclass(frozen=True)
class Points:
    x: Tensor
    y: Tensor

    @property
    def count(self) -> int:
        return len(self.x)

    def tensors(self) -> dict[str, Tensor]:
        return {"x": self.x, "y": self.y}

    def with_tensors(self, tensors: Mapping[str, Tensor]) -> "Points":
        return Points(**tensors)


class Stream:
    """The n-th batch is drawn from the seed and n; a rank gets its share."""

    def __init__(self, seed: int, rank: int, world: int) -> None:
        self.seed, self.rank, self.world, self.position = seed, rank, world, 0

    def __next__(self) -> Points:
        x = torch.randn(7, 2, generator=torch.Generator().manual_seed(self.seed * 10_000 + self.position))
        self.position += 1
        return Points(*(part[self.rank :: self.world] for part in (x, x @ torch.tensor([1.0, -2.0]) + 3)))

    def state_dict(self) -> dict[str, Any]:
        return {"position": self.position}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.position = state["position"]


class Regression:
    """y = x₁ − 2 x₂ + 3. With `figures` the n-th evaluation has the n-th of them, whatever the model."""

    def __init__(self, figures: list[float] | None = None) -> None:
        self.figures, self.seen = figures, 0

    def batches(self, *, seed: int, rank: int = 0, world: int = 1) -> Stream:
        return Stream(seed, rank, world)

    def loss(self, model: Callable[..., Any], batch: Points) -> Loss:
        error = model(batch.x).squeeze(-1).float() - batch.y
        return Loss(error.square().sum(), {"distance": error.detach().abs().sum()})

    def evaluate(self, model: nn.Module, split: str) -> Evaluation:
        assert split == "valid"
        self.seen += 1
        if self.figures is not None:
            return Evaluation({"judged": self.figures[self.seen - 1]}, best="judged")
        points = next(Stream(99, 0, 1))
        model.eval()
        with torch.no_grad():
            loss = self.loss(model, points).total.item() / points.count
        model.train()
        return Evaluation({"loss": loss}, best="loss", higher_is_better=False)


class Network(nn.Sequential):
    """Small, with dropout, a tied pair of biases, and buffers of two kinds."""

    def __init__(self, dropout: float = 0.2) -> None:
        super().__init__(nn.Linear(2, 4), nn.Dropout(dropout), nn.Tanh(), nn.Linear(4, 4), nn.Linear(4, 1))
        self[3].bias = self[0].bias
        self.register_buffer("shift", torch.zeros(()))
        self.register_buffer("number", torch.tensor(7))

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.to(self[0].weight.dtype)) + self.shift


def network(dropout: float = 0.2) -> Network:
    torch.manual_seed(5)
    return Network(dropout)


# ── runs ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def run(
    folder: Path,
    *,
    task: Any = None,
    model: nn.Module | None = None,
    resume: bool = False,
    world: World | None = None,
    watch: Watch | None = None,
    **settings: Any,
) -> nn.Module:
    """Train in a folder, by default the regression; it logs every step, and neither judges nor saves before the end."""
    task = task or Regression()
    if model is None:
        model = network() if isinstance(task, Regression) else translator(task)
    chosen = {"steps": 12, "lr": 0.01, "log_every": 1, "evaluate_every": 1000, "save_every": 1000, **settings}
    return train_model(model, task, Train(**chosen), folder, world=world, resume=resume, watch=watch)


def records(folder: Path, kind: str | None = None) -> list[dict[str, Any]]:
    """What metrics.jsonl says, but for times."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    times = ("seconds", "per_second", "preparing")
    return [{k: v for k, v in line.items() if k not in times} for line in lines if kind in (None, line["kind"])]


def losses(folder: Path) -> list[float]:
    """The training losses of a run, in order."""
    return [record["loss"] for record in records(folder, "train")]


class Stop(Exception):  # noqa: N818
    """An end from outside."""


def stop_at(step: int) -> Watch:
    """A watch that breaks off after this update, before anything of it is logged or saved."""

    def watch(kind: str, facts: Mapping[str, Any]) -> None:
        if kind == "step" and facts["step"] == step:
            raise Stop

    return watch
