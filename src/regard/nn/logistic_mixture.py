"""Discretised mixtures of logistics (Salimans et al. 2017, PixelCNN++): a distribution of a whole pixel.

A component k has for each channel c a mean and a scale. The mean of a channel moves with the true values of the
channels before it: m_G + α R, m_B + β R + γ G, with α, β, γ = tanh(…). Values 0 … levels − 1 lie evenly from −1 to 1;
each has the probability of its bin, and the first and the last bin reach to −∞ and +∞. So the probabilities of all
values sum to 1.
"""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

LOWEST = -7.0  # of log-scales: a logistic that is narrower than a tenth of a bin of 256 gains nothing


def mixture_width(channels: int, mixtures: int) -> int:
    """How many numbers describe a mixture: for each component a logit, means, log-scales and coefficients.

    >>> mixture_width(3, 10), mixture_width(1, 10)
    (100, 30)
    """
    return mixtures * (1 + 2 * channels + channels * (channels - 1) // 2)


def logistic_mixture_log_prob(
    parameters: Float[Tensor, "*b p"], values: Int[Tensor, "*b c"], *, levels: int
) -> Float[Tensor, "*b"]:
    """log P(values) of pixels, in nats: log Σ_k π_k Π_c P(value_c | k, channels before).

    >>> pixel = torch.arange(4).unsqueeze(-1)  # every value of one channel with four levels
    >>> logistic_mixture_log_prob(torch.randn(1, 3).expand(4, 3), pixel, levels=4).exp().sum().round(decimals=4)
    tensor(1.)
    """
    channels = values.shape[-1]
    scaled = to_scale(values, levels, parameters)
    logits, means, log_scales, coefficients = _split(parameters, channels)
    means = _moved(means, coefficients, scaled.unsqueeze(-2))
    inverse, half_bin = torch.exp(-log_scales), 1 / (levels - 1)
    centred = scaled.unsqueeze(-2) - means  # [*b k c]
    above, below = inverse * (centred + half_bin), inverse * (centred - half_bin)
    first, last = (values == 0).unsqueeze(-2), (values == levels - 1).unsqueeze(-2)
    # log(σ(a) − σ(b)) = log σ(a) + log σ(−b) + log(1 − e^(b − a)); at an end one factor is all there is
    log_prob = F.logsigmoid(above).masked_fill(last, 0.0) + F.logsigmoid(-below).masked_fill(first, 0.0)
    inside = torch.log(-torch.expm1(-2 * half_bin * inverse))
    log_prob = log_prob + inside.masked_fill(first | last, 0.0)
    return torch.logsumexp(logits.log_softmax(-1) + log_prob.sum(-1), -1)


def sample_logistic_mixture(
    parameters: Float[Tensor, "*b p"],
    channels: int,
    *,
    levels: int,
    temperature: float = 1.0,
    generator: torch.Generator | None = None,
) -> Int[Tensor, "*b c"]:
    """Draw a pixel: a component by its probability, then channel after channel from its logistics.

    `temperature` makes the choice of components sharper below 1, and multiplies the scales; near 0 the mean of the
    likeliest component comes out.
    """
    logits, means, log_scales, coefficients = _split(parameters, channels)
    chance = _uniform(logits, generator)
    chosen = (logits / temperature - torch.log(-torch.log(chance))).argmax(-1, keepdim=True).unsqueeze(-1)
    means, log_scales = (side.take_along_dim(chosen, -2).squeeze(-2) for side in (means, log_scales))
    coefficients = coefficients.take_along_dim(chosen, -2).squeeze(-2)
    chance = _uniform(means, generator)
    noise = temperature * log_scales.exp() * (torch.log(chance) - torch.log1p(-chance))
    drawn: list[Tensor] = []
    for channel in range(channels):
        start = channel * (channel - 1) // 2
        mean = means[..., channel]
        for earlier, value in enumerate(drawn):
            mean = mean + coefficients[..., start + earlier] * to_scale(value, levels, mean)
        exact = (mean + noise[..., channel]).clamp(-1, 1)
        drawn.append(((exact + 1) / 2 * (levels - 1)).round().long())
    return torch.stack(drawn, -1)


def to_scale(values: Tensor, levels: int, like: Tensor) -> Tensor:
    """Values 0 … levels − 1 as numbers from −1 to 1, float32 or better."""
    return values.to(torch.promote_types(like.dtype, torch.float32)) * (2 / (levels - 1)) - 1


def _split(parameters: Tensor, channels: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Logits [*b k], means [*b k c], log-scales [*b k c] and coefficients [*b k c(c − 1)/2], float32 or better."""
    size = 1 + 2 * channels + channels * (channels - 1) // 2
    wide = parameters.to(torch.promote_types(parameters.dtype, torch.float32))
    wide = wide.reshape(*parameters.shape[:-1], -1, size)
    sizes = [1, channels, channels, size - 1 - 2 * channels]
    logits, means, log_scales, coefficients = torch.split(wide, sizes, -1)
    return logits.squeeze(-1), means, log_scales.clamp(min=LOWEST), torch.tanh(coefficients)


def _moved(means: Tensor, coefficients: Tensor, scaled: Tensor) -> Tensor:
    """Means [*b k c] moved by the true values [*b 1 c] of the channels before."""
    moved = []
    for channel in range(means.shape[-1]):
        start = channel * (channel - 1) // 2
        own = coefficients[..., start : start + channel]
        moved.append(means[..., channel] + (own * scaled[..., :channel]).sum(-1))
    return torch.stack(moved, -1)


def _uniform(like: Tensor, generator: torch.Generator | None) -> Tensor:
    """Numbers between 0 and 1, never one of the two."""
    tiny = math.ldexp(1.0, -24)
    return torch.rand(like.shape, generator=generator, device=like.device, dtype=like.dtype).clamp(tiny, 1 - tiny)
