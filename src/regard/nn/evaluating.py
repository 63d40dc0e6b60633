"""A model in evaluation mode for a while, and where its weights are."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn


@contextmanager
def evaluating(model: nn.Module, *, seed: int | None = None) -> Iterator[None]:
    """Put a model into evaluation mode, without gradients; at the end every layer is in the mode that it had before.

    With a `seed`, what is drawn inside is the same every time, and what others draw afterwards does not change.

    >>> model = nn.Sequential(nn.Dropout(0.5), nn.BatchNorm1d(2).eval())
    >>> with evaluating(model):
    ...     print(model[0].training, model[1].training)
    False False
    >>> model[0].training, model[1].training
    (True, False)
    """
    modes = [(module, module.training) for module in model.modules()]
    device = device_of(model)
    gpus = [device] if device.type == "cuda" else []
    if any(was_training for _, was_training in modes):
        model.eval()
    try:
        with torch.no_grad(), torch.random.fork_rng(gpus, enabled=seed is not None):
            if seed is not None:
                torch.manual_seed(seed)
            yield
    finally:
        for module, was_training in modes:
            if module.training != was_training:
                module.training = was_training


def device_of(model: nn.Module) -> torch.device:
    """The device of a model's weights; the CPU for a model that has none."""
    return next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
