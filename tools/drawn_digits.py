"""How well digits are read that somebody drew: MNIST's test digits on larger, noisy, dark or light paper, off centre.

    python tools/drawn_digits.py          # needs MNIST below REGARD_DATA; half a minute

A small network learns from the training set. It then reads the first 1,000 test digits as they are, on paper with the
picture merely fitted to 28 × 28, and on paper with the digit cropped and centred as `regard classify` does.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.data.handwriting import FRAMINGS, SIDE, framed
from regard.datasets.mnist import mnist

COUNT, STEPS = 1000, 600


def on_paper(digit: Tensor, generator: torch.Generator) -> Tensor:
    """A digit four to eight times as large, somewhere on dark or light paper [h w], from 0 to 255."""

    def drawn(low: int, high: int) -> int:
        return int(torch.randint(low, high, (1,), generator=generator))

    scale, dark = drawn(4, 9), bool(drawn(0, 2))
    side = SIDE * scale
    high, wide = side + drawn(40, 300), side + drawn(40, 300)
    paper = (40.0 if dark else 225.0) + 5 * torch.randn(high, wide, generator=generator)
    top, left = drawn(0, high - side + 1), drawn(0, wide - side + 1)
    large = F.interpolate(digit[None, None], scale_factor=scale, mode="bicubic").clamp(0, 255)[0, 0]
    paper[top : top + side, left : left + side] += large * (0.75 if dark else -0.75)
    return paper.clamp(0, 255).round()


def fitted(paper: Tensor) -> Tensor:
    """The whole picture in 28 × 28, white on black."""
    rim = torch.cat([paper[0], paper[-1], paper[:, 0], paper[:, -1]]).median()
    x = 255 - paper if rim > 127 else paper
    ratio = SIDE / max(x.shape)
    size = [max(1, round(length * ratio)) for length in x.shape]
    small = F.interpolate(x[None, None], size=size, mode="bilinear", antialias=True)[0, 0]
    top, left = (SIDE - size[0]) // 2, (SIDE - size[1]) // 2
    return F.pad(small, (left, SIDE - size[1] - left, top, SIDE - size[0] - top))


def main() -> None:
    torch.manual_seed(0)
    train, test = (mnist()[split] for split in ("train", "test"))
    convolutions = nn.Sequential(nn.Conv2d(1, 16, 3, 2, 1), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU())
    network = nn.Sequential(convolutions, nn.Flatten(), nn.Linear(32 * 49, 10))
    optimiser = torch.optim.Adam(network.parameters(), 2e-3)
    for _ in range(STEPS):
        rows = torch.randint(0, train.size, (128,))
        F.cross_entropy(network(train.images[rows].float() / 255), train.labels[rows].flatten()).backward()
        optimiser.step()
        optimiser.zero_grad()
    generator, digits = torch.Generator().manual_seed(0), test.images[:COUNT, 0].float()
    papers = [on_paper(digit, generator) for digit in digits]
    cut = [framed(paper, FRAMINGS["mnist"]) for paper in papers]
    shown = {
        "as they are": digits,
        "on paper, fitted": torch.stack([fitted(paper) for paper in papers]),
        "on paper, cropped and centred": torch.stack([torch.zeros(SIDE, SIDE) if x is None else x for x in cut]),
    }
    for name, pictures in shown.items():
        right = network(pictures.unsqueeze(1) / 255).argmax(1) == test.labels[:COUNT].flatten()
        print(f"{name:30} {100 * right.double().mean():.1f} % right")


if __name__ == "__main__":
    main()
