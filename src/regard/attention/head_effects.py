"""The effect of each head on the loss: how much worse a model is without it."""

import fnmatch
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.attention.foreign import FusedCalls, without_fast_path
from regard.attention.intervention import intervene, switch_off
from regard.attention.layer_stack import LayerStack, attention_like, listed, modules_of
from regard.base import ConfigError

Loss = Callable[[nn.Module, Any], Tensor | float]


@dataclass(frozen=True)
class HeadEffects:
    """The loss of a model, and by how much it grows when a head is switched off.

    `effects[layer][head]` is above zero where the model is better with the head than without it.
    """

    baseline: float
    effects: dict[str, NDArray[Any]]  # [h] for each layer

    def largest(self, count: int = 10) -> list[tuple[str, int, float]]:
        """Layer, head and effect of the heads whose absence costs most, the most costly first."""
        rows = [(name, head, float(value)) for name, each in self.effects.items() for head, value in enumerate(each)]
        return sorted(rows, key=lambda row: -row[2])[:count]

    def __str__(self) -> str:
        width = max(map(len, self.effects), default=0)
        lines = [f"{'loss':<{width}}  {self.baseline:.6g}"]
        for name, each in self.effects.items():
            lines.append(f"{name:<{width}}  " + "  ".join(f"{value:+.4f}" for value in each))
        return "\n".join(lines)


def head_effects(model: nn.Module, batches: Iterable[Any], loss: Loss, *, layers: str = "*") -> HeadEffects:
    """For each head of the layers that match: the mean loss over the batches with the head off, minus that with it on.

    `loss(model, batch)` gives one number. The model is in evaluation mode meanwhile, and no gradient is kept. It runs
    once for each batch and head, and once more for each batch.
    """
    data = list(batches)
    if not data:
        raise ConfigError("head_effects without batches", got="none", expected="at least one")
    with torch.no_grad(), _evaluating(model):
        heads: dict[str, int] = {}
        with _counting_heads(model, heads):
            baseline = _mean_loss(model, data, loss)
        chosen = _matching(heads, layers)
        if not chosen:
            names = listed(heads or attention_like(modules_of(model))) or "none: the model attends nowhere"
            raise ConfigError("no layer whose heads can be switched off", got=repr(layers), expected=names)
        effects = {}
        for name, count in chosen.items():
            losses = []
            for head in range(count):
                with intervene(model, _exactly(name), switch_off, heads=[head]):
                    losses.append(_mean_loss(model, data, loss))
            effects[name] = np.array(losses) - baseline
    return HeadEffects(baseline, effects)


def _mean_loss(model: nn.Module, batches: list[Any], loss: Loss) -> float:
    return sum(float(loss(model, batch)) for batch in batches) / len(batches)


def _matching(heads: dict[str, int], layers: str) -> dict[str, int]:
    return {name: count for name, count in heads.items() if count and fnmatch.fnmatchcase(name, layers)}


def _exactly(name: str) -> str:
    """A pattern that fits this name alone."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)


@contextmanager
def _counting_heads(model: nn.Module, heads: dict[str, int]) -> Iterator[None]:
    """Note the number of heads of each layer that attends by torch's fused functions."""
    stack = LayerStack(modules_of(model))

    def count(function: Any, make: Any, args: Any, kwargs: Any) -> Any:
        name = stack.next_call(function.__name__)
        query = args[0] if args else kwargs["query"]
        is_sdpa = function.__name__ == "scaled_dot_product_attention"
        number = (query.shape[-3] if query.ndim >= 4 else 0) if is_sdpa else args[4]
        heads[name] = max(heads.get(name, 0), int(number))
        return function(*args, **kwargs)

    with stack, without_fast_path(), FusedCalls(count, own=True) as stack.mode:
        yield


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode for a while; every module then has the mode back that it had."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, training in modes.items():
            module.training = training
