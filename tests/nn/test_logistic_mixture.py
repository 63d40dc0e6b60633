"""Mixtures of discretised logistics: probabilities sum to 1 and equal those by hand, and draws follow them."""

import itertools
import math

import pytest
import torch

from regard.nn import logistic_mixture_log_prob, mixture_width, sample_logistic_mixture


@pytest.mark.parametrize(("channels", "levels"), [(1, 256), (2, 7), (3, 4)])
def test_probabilities_of_all_pixels_sum_to_one(channels: int, levels: int) -> None:
    torch.manual_seed(0)
    parameters = 2 * torch.randn(3, mixture_width(channels, 4), dtype=torch.float64)
    pixels = torch.tensor(list(itertools.product(range(levels), repeat=channels)))
    wide = parameters.unsqueeze(1).expand(3, len(pixels), -1)
    total = logistic_mixture_log_prob(wide, pixels.expand(3, *pixels.shape), levels=levels).exp().sum(1)
    torch.testing.assert_close(total, torch.ones(3, dtype=torch.float64), atol=1e-10, rtol=0)


def by_hand(parameters: list[float], pixel: list[int], levels: int, mixtures: int) -> float:
    """One pixel of three channels with `math`: sums of bins, as the paper of PixelCNN++ writes them."""
    scaled = [2 * value / (levels - 1) - 1 for value in pixel]
    rows = [parameters[10 * k : 10 * k + 10] for k in range(mixtures)]
    norm, total = sum(math.exp(row[0]) for row in rows), 0.0
    for row in rows:
        _, red, green, blue, *rest = row
        scales, (a, b, c) = [math.exp(max(s, -7.0)) for s in rest[:3]], [math.tanh(x) for x in rest[3:]]
        means = [red, green + a * scaled[0], blue + b * scaled[0] + c * scaled[1]]
        chance = math.exp(row[0]) / norm
        for value, x, mean, scale in zip(pixel, scaled, means, scales, strict=True):
            edges = [(x - mean + side / (levels - 1)) / scale for side in (1, -1)]
            high, low = (1 / (1 + math.exp(-edge)) for edge in edges)
            high, low = 1.0 if value == levels - 1 else high, 0.0 if value == 0 else low
            chance *= high - low
        total += chance
    return math.log(total)


def test_against_the_formula_by_hand() -> None:
    torch.manual_seed(1)
    parameters = torch.randn(20, 30, dtype=torch.float64)
    pixels = torch.randint(0, 16, (20, 3))
    pixels[0], pixels[1] = 0, 15  # both ends
    ours = logistic_mixture_log_prob(parameters, pixels, levels=16)
    theirs = [by_hand(row, pixel, 16, 3) for row, pixel in zip(parameters.tolist(), pixels.tolist(), strict=True)]
    torch.testing.assert_close(ours, torch.tensor(theirs, dtype=torch.float64), atol=1e-10, rtol=1e-10)


def test_extremes_have_finite_gradients() -> None:
    parameters = torch.zeros(4, mixture_width(3, 2)).view(4, 2, 10)
    parameters[:, :, 1:4] = torch.tensor([50.0, -50.0]).view(1, 2, 1)  # far from every value
    parameters[:2, :, 4:7], parameters[2:, :, 4:7] = -30.0, 20.0  # narrower and wider than makes sense
    parameters = parameters.flatten(1).requires_grad_()
    pixels = torch.tensor([[0, 128, 255], [255, 0, 7]]).repeat(2, 1)
    log_prob = logistic_mixture_log_prob(parameters, pixels, levels=256)
    log_prob.sum().backward()
    assert torch.isfinite(log_prob).all()
    assert torch.isfinite(parameters.grad).all()


def test_draws_follow_the_probabilities() -> None:
    torch.manual_seed(2)
    parameters = torch.randn(mixture_width(2, 3))
    pixels = torch.tensor(list(itertools.product(range(4), repeat=2)))
    expected = logistic_mixture_log_prob(parameters.expand(16, -1), pixels, levels=4).exp()
    chance, count = torch.Generator().manual_seed(3), 40_000
    drawn = sample_logistic_mixture(parameters.expand(count, -1), 2, levels=4, generator=chance)
    shares = torch.bincount(4 * drawn[:, 0] + drawn[:, 1], minlength=16) / count
    assert (shares - expected).abs().max() < 5 * 0.5 / math.sqrt(count)  # five deviations of a share of one half
    cold = sample_logistic_mixture(parameters.expand(50, -1), 2, levels=4, temperature=1e-4, generator=chance)
    assert len(cold.unique(dim=0)) == 1
