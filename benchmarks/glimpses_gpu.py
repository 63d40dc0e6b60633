"""Training RAM on one GPU: ours beside a port in plain PyTorch, eager beside eager and captured beside captured.

    python benchmarks/glimpses_gpu.py [--check]

Canvases of 60×60 with clutter, painted beforehand and given to all; 8 glimpses of 12×12 in three scales, LSTM core;
forward, backward, clipping and fused Adam, by the same steps, in float32 without TF32. The port goes glimpse after
glimpse, with everything in the graph of gradients, and cuts whole pixels out of padded pictures: "vectorised" for all
pictures at once by indexing, and "loop" for one picture after the other, in the manner of public implementations.
Ratios refer to the vectorised port, run eagerly. "painting" also makes new canvases for each step.

Before anything is timed, patches and gradients of every way are compared with the port in float64, with the same
weights on the same path: see gate.py. A way that is refused has no row, and the program ends with status 1. `--check`
does only that, on a CPU too. Rows are added to results/glimpses_gpu.csv.
"""

import argparse
import statistics
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from gate import NUDGES, Refusals, Results, describe, judge_results, nudge
from timing import append, ratio, side_by_side
from torch import Tensor
from torch.distributions import Normal
from updates import Updates

from regard.data.canvas import Canvas, paint
from regard.data.pictures import Pictures, Rows
from regard.datasets.digits import digits
from regard.models.ram import RAM, ram_60
from regard.nn.retina import retina
from regard.tasks import Loss
from regard.tasks.classification import Classification, ClassificationConfig
from regard.tasks.glimpse_loss import classification_loss
from regard.train import Train

SIZE, DIGITS = 60, 1297  # one canvas for each digit of the sample
CANVAS = Canvas(SIZE, clutter=4)
CONFIG = replace(ram_60(), core="lstm")
BATCHES = (128, 1024)
PLACES = SIZE * 2.0**-23  # pixels: how exactly float32 knows a place, and so what is read between pixels

Look = Callable[[Tensor, Tensor, int, int], Tensor]


def corners(where: Tensor, side: int, wide: int) -> Tensor:
    """Top left corners (x, y) of patches in a picture that is padded by `wide`: rounded to whole pixels."""
    return (0.5 * (where + 1) * side).round().long() + wide - wide // 2


def loop(images: Tensor, where: Tensor, size: int, scales: int) -> Tensor:
    """Patch after patch, picture after picture: slices of a padded picture."""
    patches = []
    for scale in range(scales):
        wide = size * 2**scale
        padded = F.pad(images, (wide, wide, wide, wide))
        places = corners(where, images.shape[-1], wide).tolist()
        cut = [padded[n, :, top : top + wide, left : left + wide] for n, (left, top) in enumerate(places)]
        patches.append(F.avg_pool2d(torch.stack(cut), 2**scale))
    return torch.cat(patches, 1)


def vectorised(images: Tensor, where: Tensor, size: int, scales: int) -> Tensor:
    """The same for all pictures at once: rows and columns of every patch are an index."""
    patches = []
    number = torch.arange(len(images), device=images.device)[:, None, None]
    for scale in range(scales):
        wide = size * 2**scale
        padded = F.pad(images, (wide, wide, wide, wide))
        left, top = corners(where, images.shape[-1], wide).unbind(1)
        offsets = torch.arange(wide, device=images.device)
        rows, columns = top[:, None] + offsets, left[:, None] + offsets  # [b wide]
        cut = padded[number, :, rows[:, :, None], columns[:, None, :]]  # [b wide wide c]
        patches.append(F.avg_pool2d(cut.permute(0, 3, 1, 2), 2**scale))
    return torch.cat(patches, 1)


def port_loss(model: Any, images: Tensor, labels: Tensor, look: Look, path: Tensor | None = None) -> Tensor:
    """The hybrid loss, glimpse after glimpse, summed over pictures; `path` forces the places."""
    config, batch = model.config, len(images)
    state, where = model.core.init_state(batch), images.new_zeros(batch, 2)
    log_probabilities, baselines = [], []
    for step in range(config.glimpses):
        if step > 0:
            mean = model.location.layers(state[0].detach()).tanh()
            policy = Normal(mean, torch.full_like(mean, config.sigma), validate_args=False)  # a graph takes no number
            drawn = mean.detach() + config.sigma * torch.randn_like(mean)
            point = drawn if path is None else path[:, step]
            log_probabilities.append(policy.log_prob(point).sum(1))
            baselines.append(model.baseline(state[0].detach()).squeeze(1))
            where = point.clamp(-1, 1)
        elif path is not None:
            where = path[:, 0]
        seen = look(images, where, config.size, config.scales)
        state = model.core.step(model.glimpse(seen, where), state)
    logits = model.action(state[0])
    reward = (logits.detach().argmax(1) == labels).to(logits.dtype).unsqueeze(1)
    expected, log_probability = torch.stack(baselines, 1), torch.stack(log_probabilities, 1)
    policy_loss = -((reward - expected.detach()) * log_probability).sum()
    baseline_loss = (reward - expected).square().sum()
    return F.cross_entropy(logits, labels, reduction="sum") + policy_loss + baseline_loss


class Port(Classification):
    """The task with the loss of the port; `path` forces the places."""

    def __init__(
        self, pool: Pictures, look: Look, path: Tensor | None = None, dtype: torch.dtype = torch.float32
    ) -> None:
        super().__init__(ClassificationConfig(), splits={"train": pool})
        self.pool, self.look, self.path, self.dtype = pool, look, path, dtype

    def loss(self, model: Callable[..., Any], batch: Rows) -> Loss:
        """The loss of one batch."""
        images = self.pool.images[batch.rows].to(self.dtype) / 255
        return Loss(port_loss(model, images, self.pool.labels[batch.rows], self.look, self.path))


class Forced(Classification):
    """Our task on a path that is given."""

    path: Tensor

    def loss(self, model: Callable[..., Any], batch: Rows) -> Loss:
        """The loss of one batch."""
        images, labels = self.shown(batch.rows)
        return classification_loss(model(images, where=self.path), labels, self.config)


def canvases() -> Pictures:
    """A pool of painted canvases, made of the digits that ship with the package."""
    pool = digits()["train"]
    painted = paint(torch.arange(DIGITS), pool, CANVAS, generator=torch.Generator().manual_seed(0))
    return Pictures((painted.images * 255).round().to(torch.uint8), painted.labels, pool.classes)


def same_model(dtype: torch.dtype = torch.float32) -> RAM:
    """The model, with the same weights every time."""
    torch.manual_seed(0)
    return RAM(CONFIG).to(dtype).train()


def gate(device: torch.device, pool: Pictures, number: int = 64) -> dict[str, str]:
    """Refuse ways that see other patches or have other gradients than the port in float64; which ones, and why."""
    pool = pool.to(device)
    images = pool.images[:number].float() / 255
    torch.manual_seed(1)
    path = torch.randint(0, SIZE + 1, (number, CONFIG.glimpses, 2), device=device) * (2 / SIZE) - 1  # whole pixels
    found: dict[str, Results] = {}
    looks: dict[str, Look] = {"port, loop": loop, "port, vectorised": vectorised}
    looks["regard"] = lambda images, where, size, scales: retina(images, where, size=size, scales=scales)
    tasks: dict[str, Any] = {"port, loop": Port(pool, loop, path), "port, vectorised": Port(pool, vectorised, path)}
    tasks["regard"] = Forced(ClassificationConfig(), splits={"train": pool})
    tasks["regard"].path = path
    batch = Rows(torch.arange(number, device=device))

    def results(look: Look, task: Any, dtype: torch.dtype, capture: bool, nudged: int | None = None) -> Results:
        patches = [look(images.to(dtype), path[:, step].to(dtype), CONFIG.size, CONFIG.scales) for step in range(3)]
        model = same_model(dtype)
        if nudged is not None:
            nudge(model, nudged)
        run = Updates(model, task, Train(capture=capture, clip=None), device)
        run.update(batch)
        return {"patches": patches, "gradients": run.gradients()}

    port = Port(pool, loop, path.double(), torch.float64)
    exact = results(loop, port, torch.float64, False)
    nudged = [results(loop, port, torch.float64, False, seed) for seed in range(NUDGES)]  # ReLU has a kink
    for name, task in tasks.items():
        for capture in (False, True):
            if not capture or (device.type == "cuda" and name != "port, loop"):
                way = f"{name}, {'captured' if capture else 'eager'}"
                found[way] = results(looks[name], task, torch.float32, capture)
    plain = found["port, loop, eager"]
    errors, refused = judge_results(found, eager=plain, exact=exact, nudged=nudged, rounding=PLACES)
    print(describe(errors), flush=True)
    if "regard, captured" in refused:
        refused["regard, captured, painting"] = refused["regard, captured"]
    return refused


def rows(batch: int) -> Iterator[Rows]:
    chance = torch.Generator().manual_seed(1)
    while True:
        yield Rows(torch.randint(0, DIGITS, (batch,), generator=chance))


def updates(batch: int, task: Any, *, capture: bool) -> Callable[[], None]:
    """One update after the other, by the trainer's own steps."""
    run, source = Updates(same_model(), task, Train(capture=capture), torch.device("cuda")), rows(batch)
    return lambda: run.update(next(source))


def ways_of(batch: int, pool: Pictures) -> dict[str, Callable[[], None]]:
    """All ways, the one that ratios refer to first, eager before captured."""
    there = pool.to("cuda")
    tasks = {
        "port, vectorised": Port(there, vectorised),
        "regard": Classification(ClassificationConfig(), splits={"train": pool}),
    }
    eager = {f"{name}, eager": updates(batch, task, capture=False) for name, task in tasks.items()}
    captured = {f"{name}, captured": updates(batch, task, capture=True) for name, task in tasks.items()}
    painting = Classification(ClassificationConfig(canvas=CANVAS), splits={"train": digits()["train"]})
    return {
        **eager,
        "port, loop, eager": updates(batch, Port(there, loop), capture=False),
        **captured,
        "regard, captured, painting": updates(batch, painting, capture=True),
    }


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--check", action="store_true", help="only compare, on a CPU if there is no GPU")
    arguments.add_argument("--no-save", dest="save", action="store_false", help="add nothing to the results")
    asked = arguments.parse_args()
    torch.backends.cudnn.allow_tf32 = False  # torch allows it to cuDNN's LSTM, which only ours calls
    pool = canvases()
    refused, refusals = gate(torch.device("cuda" if torch.cuda.is_available() else "cpu"), pool), Refusals()
    refusals.add(refused.values())
    if asked.check:
        refusals.end()
        return
    if not torch.cuda.is_available():
        raise SystemExit("timing needs a CUDA device; --check compares without one")
    for batch in BATCHES:
        ways = {way: call for way, call in ways_of(batch, pool).items() if way not in refused}
        seconds = side_by_side(ways, rounds=10)
        base = next(iter(seconds))  # the vectorised port, run eagerly, unless it was refused
        quicker_than = partial(ratio, seconds[base])
        figures = {way: (batch / statistics.median(times), quicker_than(times)) for way, times in seconds.items()}
        for way, (speed, quicker) in figures.items():
            print(f"  batch {batch:5} {way:28} {speed:10,.0f} pictures a second, {quicker:.2f} ×", flush=True)
        if asked.save:
            append("glimpses_gpu.csv", [
                {"batch": batch, "way": way, "per_second": round(speed), "ratio": round(quicker, 2),
                 "ratio_to": base}
                for way, (speed, quicker) in figures.items()
            ])  # fmt: skip
    refusals.end()


if __name__ == "__main__":
    main()
