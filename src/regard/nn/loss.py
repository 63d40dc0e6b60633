"""The loss of a model that predicts tokens: cross entropy, with smoothed labels if asked, over real tokens alone."""

from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.base import ConfigError, ShapeError
from regard.kernels.serving import serves

_BLOCK = {"cpu": 2**20}  # numbers that are worked on at a time: what a cache holds
_LARGE = 2**24


def token_loss(
    logits: Float[Tensor, "*b v"], targets: Int[Tensor, "*b"], *, smoothing: float = 0.0, ignore: int = 0
) -> Float[Tensor, ""]:
    """−Σ_t Σ_y q_t(y) log softmax(logits_t)(y), a sum over the targets that are not `ignore`, in float32 or better.

    With `smoothing` ε the target has q = 1 − ε + ε/v and each of the other v − 1 tokens ε/v (Vaswani 2017, 5.4), as in
    `cross_entropy(label_smoothing=ε, reduction="sum")`. Divide by the number of tokens for the mean. Beside the logits
    only their gradient is as large as they are, and nothing waits for a device. It can be differentiated once.

    >>> token_loss(torch.tensor([[0.0, 0.0], [5.0, 1.0]]), torch.tensor([1, 0]))
    tensor(0.6931)
    """
    if not 0 <= smoothing < 1:
        raise ConfigError("smoothing", got=smoothing, expected="0 ≤ smoothing < 1", cure="use 0.1, as the paper does")
    if logits.shape[:-1] != targets.shape:
        raise ShapeError(
            "logits and targets do not fit",
            got=f"{list(logits.shape)} and {list(targets.shape)}",
            expected="[*b v] and [*b]: one target for each row of logits",
        )
    rows = logits.reshape(-1, logits.shape[-1])
    if serves("token_loss", rows):
        from regard.kernels.token_loss import fused_token_losses

        return fused_token_losses(rows, targets.reshape(-1), smoothing=smoothing, ignore=ignore).sum()
    loss: Tensor = _TokenLoss.apply(rows, targets.reshape(-1), smoothing, ignore)  # type: ignore[no-untyped-call]
    return loss


def token_divergence(
    first: Float[Tensor, "*b v"], second: Float[Tensor, "*b v"], real: Bool[Tensor, "*b"]
) -> Float[Tensor, ""]:
    """KL(p ‖ q) + KL(q ‖ p) of two predictions, given as logits, summed over the places that are `real`.

    >>> token_divergence(torch.tensor([[0.0, 0.0]]), torch.tensor([[0.0, 1.0]]), torch.tensor([True]))
    tensor(0.2311)
    """
    wide = _wide(first)
    p, q = first.log_softmax(-1, dtype=wide), second.log_softmax(-1, dtype=wide)
    each = ((p.exp() - q.exp()) * (p - q)).sum(-1)
    return each.masked_fill(~real, 0.0).sum()


def two_pass_loss(
    total: Float[Tensor, ""], logits: Float[Tensor, "c *b v"], real: Bool[Tensor, "*r"], *, consistency: float
) -> tuple[Tensor, Tensor]:
    """The loss of R-Drop (Liang et al. 2021), and how far two passes with different dropout are apart at `real` places.

    `logits` are those of the first pass, then those of the second, and `total` is the loss of both. The loss is half of
    it and α/4 of KL(p ‖ q) + KL(q ‖ p), where α is `consistency`.
    """
    first, second = logits.chunk(2)
    apart = token_divergence(first, second, real)
    return total / 2 + consistency / 4 * apart, apart


class _TokenLoss(torch.autograd.Function):
    """log Σ exp of each row is kept; the gradient, softmax − q, is made from it in one buffer, block by block."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor, smoothing: float, ignore: int) -> Tensor:
        real = targets != ignore
        places = targets.masked_fill(~real, 0).unsqueeze(1)
        log_sums, sums = [], []
        for block in torch.split(logits, _rows(logits)):
            block = block.to(_wide(logits))
            top = block.amax(1, keepdim=True).clamp(min=torch.finfo(block.dtype).min)  # finite where all are −∞
            log_sums.append((block - top).exp_().sum(1).log_() + top.squeeze(1))
            sums.append(block.sum(1) if smoothing else top.squeeze(1))
        log_sum = torch.cat(log_sums)  # [n]
        losses = log_sum - (1 - smoothing) * logits.gather(1, places).squeeze(1).to(log_sum.dtype)
        if smoothing:
            losses = losses - (smoothing / logits.shape[1]) * torch.cat(sums)
        ctx.save_for_backward(logits, places, real, log_sum)
        ctx.smoothing = smoothing
        return losses.masked_fill(~real, 0.0).sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor, None, None, None]:
        logits, places, real, log_sum = ctx.saved_tensors
        each = (outer * real).unsqueeze(1)  # [n 1], 0 for what is ignored
        gradient, size = torch.empty_like(logits), _rows(logits)
        blocks = (tensor.split(size) for tensor in (logits, gradient, log_sum.unsqueeze(1), each))
        for block, out, total, factor in zip(*blocks, strict=True):
            shares = out if out.dtype == total.dtype else torch.empty_like(block, dtype=total.dtype)
            torch.sub(block, total, out=shares).exp_()
            if ctx.smoothing:
                shares.sub_(ctx.smoothing / logits.shape[1])
            shares.mul_(factor)
            if shares is not out:
                out.copy_(shares)
        gradient.scatter_add_(1, places, (-(1 - ctx.smoothing) * each).to(gradient.dtype))
        return gradient, None, None, None


def _wide(logits: Tensor) -> torch.dtype:
    return torch.promote_types(logits.dtype, torch.float32)


def _rows(logits: Tensor) -> int:
    """How many rows make a block."""
    return max(1, _BLOCK.get(logits.device.type, _LARGE) // max(1, logits.shape[1]))
