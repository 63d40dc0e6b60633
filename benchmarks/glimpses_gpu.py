"""Training RAM on one GPU: ours beside the plain way, in which a Python loop cuts every glimpse out of every picture.

    python benchmarks/glimpses_gpu.py [--check]

Canvases of 60×60 with clutter, painted beforehand and given to all; 8 glimpses of 12×12 in three scales, LSTM core;
forward, backward, clipping and Adam. "plain" is written in the manner of public implementations: glimpse after
glimpse, slices of padded pictures, pooled and stacked, everything in the graph of gradients. "eager" is ours without,
"captured" with a recorded graph, and "painting" also makes new canvases for each step. Before anything is timed, all
must see the same patches and have the same loss and gradients, with the same weights on the same path; `--check` does
only that, on a CPU too. Rows are added to results/glimpses_gpu.csv.
"""

import argparse
import statistics
from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
import torch.nn.functional as F
from timing import append, ratio, side_by_side
from torch import Tensor, nn
from torch.distributions import Normal

from regard.data.canvas import Canvas, paint
from regard.data.digits import digits
from regard.data.pictures import Pictures, Rows
from regard.models.ram import RAM, ram_60
from regard.nn.retina import retina
from regard.tasks.classification import Classification, ClassificationConfig
from regard.train import Train, World
from regard.train.masters import Masters
from regard.train.optim import build_optimiser
from regard.train.step import CapturedStepper, Stepper

SIZE, DIGITS = 60, 1297  # one canvas for each digit of the sample
CANVAS = Canvas(SIZE, clutter=4)
CONFIG = replace(ram_60(), core="lstm")
BATCHES = (128, 1024)


def foveate(images: Tensor, where: Tensor, size: int, scales: int) -> Tensor:
    """Patch after patch, picture after picture: corners rounded to whole pixels, slices of a padded picture."""
    side, patches = images.shape[-1], []
    corners = (0.5 * (where + 1) * side).round().long()
    for scale in range(scales):
        wide = size * 2**scale
        padded = F.pad(images, (wide, wide, wide, wide))
        cut = []
        for number, (x, y) in enumerate(corners.tolist()):
            top, left = y + wide - wide // 2, x + wide - wide // 2
            cut.append(padded[number, :, top : top + wide, left : left + wide])
        patches.append(F.avg_pool2d(torch.stack(cut), 2**scale))
    return torch.cat(patches, 1)


def plain_loss(model: RAM, images: Tensor, labels: Tensor, path: Tensor | None = None) -> Tensor:
    """The hybrid loss, glimpse after glimpse; `path` forces the places."""
    config, batch = model.config, len(images)
    state, where = model.core.init_state(batch), torch.zeros(batch, 2, device=images.device)
    log_probabilities, baselines = [], []
    for step in range(config.glimpses):
        if step > 0:
            mean = model.location(state[0].detach())
            policy = Normal(mean, config.sigma)
            point = policy.sample() if path is None else path[:, step]
            log_probabilities.append(policy.log_prob(point).sum(1))
            baselines.append(model.baseline(state[0].detach()).squeeze(1))
            where = point.clamp(-1, 1)
        elif path is not None:
            where = path[:, 0]
        seen = foveate(images, where, config.size, config.scales)
        state = model.core.step(model.glimpse(seen, where), state)
    logits = model.action(state[0])
    reward = (logits.detach().argmax(1) == labels).float().unsqueeze(1)
    expected, log_probability = torch.stack(baselines, 1), torch.stack(log_probabilities, 1)
    policy_loss = -((reward - expected.detach()) * log_probability).sum(1).mean()
    baseline_loss = (reward - expected).square().sum(1).mean()
    return F.cross_entropy(logits, labels) + policy_loss + baseline_loss


def canvases() -> Pictures:
    """A pool of painted canvases, made of the digits that ship with the package."""
    pool = digits()["train"]
    painted = paint(torch.arange(DIGITS), pool, CANVAS, generator=torch.Generator().manual_seed(0))
    return Pictures((painted.images * 255).round().to(torch.uint8), painted.labels, pool.classes)


def check(device: torch.device, pool: Pictures) -> None:
    """The same patches, loss and gradients on whole pixels."""
    torch.manual_seed(0)
    model = RAM(CONFIG).to(device)
    images, labels = pool.images[:64].to(device).float() / 255, pool.labels[:64].to(device)
    path = torch.randint(0, SIZE + 1, (64, CONFIG.glimpses, 2), device=device) * (2 / SIZE) - 1
    for step in range(CONFIG.glimpses):
        ours = retina(images, path[:, step], size=CONFIG.size, scales=CONFIG.scales)
        worst = (ours - foveate(images, path[:, step], CONFIG.size, CONFIG.scales)).abs().max().item()
        assert worst < 1e-4, f"glimpse {step} shows something else, by {worst}"
    task = Classification(ClassificationConfig(), splits={"train": pool})
    found = []
    for loss in (
        task.judged(model(images, where=path), labels.unsqueeze(1)).total / 64,
        plain_loss(model, images, labels, path),
    ):
        model.zero_grad()
        loss.backward()
        found.append((loss.item(), torch.cat([p.grad.flatten() for p in model.parameters()])))
    (ours, our_gradient), (theirs, their_gradient) = found
    apart = ((our_gradient - their_gradient).norm() / their_gradient.norm()).item()
    assert abs(ours - theirs) < 1e-3 * abs(theirs), f"other losses: {ours} and {theirs}"
    assert apart < 1e-2, f"other gradients, by {apart}"
    print(f"losses {ours:.5f} and {theirs:.5f}, gradients apart by {apart:.1e} of their norm")


def rows(batch: int) -> Iterator[Rows]:
    chance = torch.Generator().manual_seed(1)
    while True:
        yield Rows(torch.randint(0, DIGITS, (batch,), generator=chance))


def ours(batch: int, pool: Pictures, *, capture: bool, painting: bool = False) -> Callable[[], None]:
    """One update after the other, by the trainer's own steps."""
    settings, device = Train(capture=capture), torch.device("cuda")
    config = ClassificationConfig(canvas=CANVAS if painting else Canvas())
    task = Classification(config, splits={"train": digits()["train"] if painting else pool})
    torch.manual_seed(0)
    model = RAM(CONFIG).to(device).train()
    masters = Masters(model, half=False)
    optimiser = build_optimiser(masters.full, settings, capturable=capture)
    kind = CapturedStepper if capture else Stepper
    stepper = kind(masters, task, optimiser, settings, World(device=device), None)
    source = rows(batch)
    return lambda: stepper.update([next(source)], batch, settings.lr, 1)


def plain(batch: int, pool: Pictures) -> Callable[[], None]:
    """One update after the other, in the plain way."""
    here = pool.to("cuda")
    torch.manual_seed(0)
    model = RAM(CONFIG).to("cuda").train()
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    source = rows(batch)

    def update() -> None:
        chosen = next(source).rows.to("cuda")
        loss = plain_loss(model, here.images[chosen].float() / 255, here.labels[chosen])
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()

    return update


def main() -> None:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("--check", action="store_true", help="only compare, on a CPU if there is no GPU")
    only = arguments.parse_args().check
    pool = canvases()
    check(torch.device("cuda" if torch.cuda.is_available() else "cpu"), pool)
    if only:
        return
    if not torch.cuda.is_available():
        raise SystemExit("timing needs a CUDA device")
    for batch in BATCHES:
        ways = {
            "plain": plain(batch, pool),
            "eager": ours(batch, pool, capture=False),
            "captured": ours(batch, pool, capture=True),
            "captured, painting": ours(batch, pool, capture=True, painting=True),
        }
        seconds = side_by_side(ways, rounds=10)
        for way, times in seconds.items():
            speed, quicker = batch / statistics.median(times), ratio(seconds["plain"], times)
            print(f"  batch {batch:5} {way:20} {speed:10,.0f} pictures a second, {quicker:.1f} ×")
            append(
                "glimpses_gpu.csv",
                [{"batch": batch, "way": way, "per_second": round(speed), "ratio": round(quicker, 2)}],
            )


if __name__ == "__main__":
    main()
