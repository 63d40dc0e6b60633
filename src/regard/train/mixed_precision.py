"""The weights that learn, in float32, and the model that computes, with the same ones or with bfloat16 copies."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class Masters:
    """With `half`, the model's parameters become bfloat16 copies: `publish` renews, `collect` takes their gradients.

    Small steps are lost in bfloat16 (1 + 0.003 is 1), so the optimiser works on the float32 originals, which are what
    is evaluated and saved. Without `half` originals and copies are one.
    """

    def __init__(self, model: nn.Module, *, half: bool) -> None:
        named = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
        self.model, self.half, self.names = model, half, list(named)
        self.used = list(named.values())  # what the model computes with
        self.full = [nn.Parameter(parameter.data) for parameter in self.used] if half else self.used
        self.copies: list[Tensor] = []

    def start(self) -> None:
        """From here on the model computes with copies. Whoever wants the originals' places takes them before."""
        if self.half:
            self._point_to([full.detach().to(torch.bfloat16) for full in self.full])
            for module in self.model.modules():
                if isinstance(module, nn.RNNBase):
                    module.flatten_parameters()  # one buffer, as cuDNN wants it
            self.copies = [used.data for used in self.used]

    def stop(self) -> None:
        """The model computes with its originals again, for good."""
        if self.copies:
            self._point_to([full.data for full in self.full])
            self.copies = []

    def collect(self) -> None:
        """The gradients of the copies, in float32, become those of the originals."""
        if self.half:
            gradients = [torch.empty_like(full) for full in self.full]
            halves = [torch.zeros_like(used) if used.grad is None else used.grad for used in self.used]
            torch._foreach_copy_(gradients, halves)
            for full, used, gradient in zip(self.full, self.used, gradients, strict=True):
                full.grad, used.grad = gradient, None

    def publish(self) -> None:
        """The originals have changed: renew the copies."""
        if self.half:
            torch._foreach_copy_(self.copies, [full.detach() for full in self.full])

    @contextmanager
    def in_full(self) -> Iterator[None]:
        """The model with its float32 originals: to evaluate, to save, to load."""
        if not self.copies:
            yield
            return
        self._point_to([full.data for full in self.full])
        try:
            yield
        finally:
            self.publish()
            self._point_to(self.copies)

    def named(self) -> dict[str, nn.Parameter]:
        """The originals by name."""
        return dict(zip(self.names, self.full, strict=True))

    def _point_to(self, places: list[Tensor]) -> None:
        for used, place in zip(self.used, places, strict=True):
            used.data = place
