"""Learning from rewards: losses whose gradient, on average over what was drawn, is that of the expected reward.

∇ E[R] = E[(R − b) ∇ log p(drawn)] for any baseline b that does not look at what was drawn (Williams 1992). Every loss
here is to be minimised. Rewards and baselines carry no gradient into it: a baseline learns by `baseline_error` alone.

| baseline               | what it is                                         | here             |
|------------------------|----------------------------------------------------|------------------|
| none                   | unbiased, and of high variance                     | `reinforce`      |
| moving average         | one number, Xu et al. 2015                         | `MovingBaseline` |
| learned                | b_t from the state, Mnih et al. 2014               | `baseline_error` |
| leave one out          | the mean reward of the other samples, from two on  | `leave_one_out`  |
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.base import ConfigError, ShapeError


def reinforce(
    log_probability: Float[Tensor, "*b"],
    reward: Float[Tensor, "*#b"],
    baseline: Float[Tensor, "*#b"] | None = None,
    *,
    entropy: Float[Tensor, "*b"] | None = None,
    entropy_weight: float = 0.0,
) -> Float[Tensor, "*b"]:
    """−(R − b) log p − λ H for each choice; the sum over them is the loss. R and b are taken as constants.

    Where nothing was drawn, log p is 0 and carries no gradient, so it does not count. The entropy H keeps the policy
    from deciding too early.

    >>> log_probability = torch.tensor([-1.0, -2.0], requires_grad=True)
    >>> reinforce(log_probability, torch.tensor([1.0, 0.0]), torch.tensor([0.25, 0.25])).sum().backward()
    >>> log_probability.grad
    tensor([-0.7500,  0.2500])
    """
    advantage = reward if baseline is None else reward - baseline
    loss = -advantage.detach() * log_probability
    return loss if entropy is None or not entropy_weight else loss - entropy_weight * entropy


def baseline_error(baseline: Float[Tensor, "*b"], reward: Float[Tensor, "*#b"]) -> Float[Tensor, "*b"]:
    """(R − b)² for each choice: what a learned baseline is trained by, and nothing else."""
    return (baseline - reward.detach()).square()


def leave_one_out(reward: Float[Tensor, " m *b"]) -> Float[Tensor, " m *b"]:
    """A baseline for each of m samples: the mean reward of the others.

    >>> leave_one_out(torch.tensor([1.0, 0.0, 0.0]))
    tensor([0.0000, 0.5000, 0.5000])
    """
    samples = reward.shape[0]
    if samples < 2:
        raise ShapeError("leave_one_out", got=f"{samples} sample", expected="two or more along the first axis")
    return (reward.sum(0, keepdim=True) - reward) / (samples - 1)


class MovingBaseline(nn.Module):
    """b ← decay · b + (1 − decay) · mean reward, kept as a buffer; it hands out b as it was before this batch.

    It moves in training mode only, in place and without waiting for the device.

    >>> baseline = MovingBaseline(decay=0.9)
    >>> baseline(torch.tensor([1.0, 3.0])), baseline(torch.tensor([1.0, 3.0]))
    (tensor(0.), tensor(0.2000))
    """

    value: Tensor

    def __init__(self, *, decay: float = 0.9, start: float = 0.0) -> None:
        super().__init__()
        if not 0 <= decay < 1:
            raise ConfigError(
                "MovingBaseline decay", got=decay, expected="0 ≤ decay < 1", cure="use 0.9, a usual value"
            )
        self.decay = decay
        self.register_buffer("value", torch.tensor(float(start)))

    @torch.no_grad()
    def forward(self, reward: Float[Tensor, "*b"]) -> Float[Tensor, ""]:
        """The baseline for these rewards."""
        before = self.value.clone()
        if self.training:
            self.value.lerp_(reward.mean().to(self.value.dtype), 1 - self.decay)
        return before
