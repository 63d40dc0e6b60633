"""Means of weights: a running one while training goes on, or of the last checkpoints when it ends."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from regard.train.checkpoint import weights


class RunningMean:
    """mean ← mean + (1 − decay) · (weights − mean), with a decay that grows from 0, so the start does not linger.

    At step n the decay is min(decay, (1 + n) / (10 + n)).
    """

    def __init__(self, model: nn.Module, decay: float, tensors: Mapping[str, Tensor] | None = None) -> None:
        """The mean of a model's weights, or of these `tensors`, such as the parts of one process."""
        named = {name: tensor for name, tensor in (tensors or weights(model)).items() if tensor.is_floating_point()}
        self.decay, self.names, self.live = decay, list(named), list(named.values())
        self.mean = [tensor.clone() for tensor in self.live]
        self.share = torch.ones((), device=self.live[0].device)  # 1 − decay of the next update

    def aim(self, step: int) -> None:
        """Set the decay of this step; the update itself may be part of a captured graph."""
        self.share.fill_(1 - min(self.decay, (1 + step) / (10 + step)))

    @torch.no_grad()
    def update(self) -> None:
        """One step towards the weights."""
        change = torch._foreach_sub(self.live, self.mean)
        torch._foreach_mul_(change, self.share)
        torch._foreach_add_(self.mean, change)

    def tensors(self) -> dict[str, Tensor]:
        """The mean by name."""
        return dict(zip(self.names, self.mean, strict=True))

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """What `tensors` gave."""
        for name, tensor in zip(self.names, self.mean, strict=True):
            tensor.copy_(tensors[name])

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """The model with the mean for its weights, for evaluation; its own come back after."""
        saved = [tensor.clone() for tensor in self.live]
        torch._foreach_copy_(self.live, self.mean)
        try:
            yield
        finally:
            torch._foreach_copy_(self.live, saved)


def mean_of(weight_sets: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of weights, name by name, added up in float64."""
    return {
        name: (sum(tensors[name].double() for tensors in weight_sets) / len(weight_sets)).to(first.dtype)  # type: ignore[union-attr]
        if first.is_floating_point()
        else first
        for name, first in weight_sets[-1].items()
    }
