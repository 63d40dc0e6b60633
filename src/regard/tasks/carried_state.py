"""The state that a model carries from one batch of a text to the next: in fixed places, without gradient, saved.

A captured graph reads and writes the same memory at every replay, so the state has places of its own, which are written
in place after each batch. A checkpoint keeps them: a resumed run goes on from the very same state.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from regard.base import ConfigError, RegardError


def leaves(state: Any) -> list[Tensor]:
    """The tensors of a state: itself, or those of a tuple, or of tuples inside of it.

    >>> [leaf.item() for leaf in leaves((torch.tensor(1), (torch.tensor(2), torch.tensor(3))))]
    [1, 2, 3]
    """
    if isinstance(state, Tensor):
        return [state]
    if isinstance(state, tuple | list):
        return [leaf for each in state for leaf in leaves(each)]
    raise RegardError("a state is a tensor, or a tuple of states", got=type(state).__name__)


def with_leaves(state: Any, tensors: Iterator[Tensor]) -> Any:
    """A state of the same form with other tensors."""
    if isinstance(state, Tensor):
        return next(tensors)
    parts = [with_leaves(each, tensors) for each in state]
    return type(state)(*parts) if hasattr(state, "_fields") else type(state)(parts)


@torch.no_grad()
def state_after(model: Any, before: Int[Tensor, "b n"]) -> Any:
    """The state of a model after words that are read and not predicted."""
    model = getattr(model, "module", model)  # several processes wrap it
    if not hasattr(model, "state_after"):
        got, expected = type(model).__name__, "a model with state_after, such as the memory network"
        cure = "set task.context=stream"
        raise ConfigError("task.context=windows with this model", got=got, expected=expected, cure=cure)
    return model.state_after(before)


class CarriedState:
    """The state of all streams of a training."""

    def __init__(self) -> None:
        self._places: list[Tensor] = []

    def before(self, initial: Any, begins: Bool[Tensor, " b"]) -> Any:
        """The state before a batch: the carried one, and for streams that begin the initial one."""
        starts = leaves(initial)
        if not self._places:
            self._places = [start.detach().clone() for start in starts]
        if [place.shape for place in self._places] != [start.shape for start in starts]:
            cure = "resume with the settings that the run began with"
            raise RegardError("the carried state is of another model, or of other streams", cure=cure)
        chosen = (
            torch.where(begins.reshape(-1, *[1] * (start.ndim - 1)), start, place)
            for start, place in zip(starts, self._places, strict=True)
        )
        return with_leaves(initial, chosen)

    @torch.no_grad()
    def keep(self, state: Any) -> None:
        """Writes the state after a batch into the places."""
        for place, leaf in zip(self._places, leaves(state), strict=True):
            place.copy_(leaf)

    def tensors(self) -> dict[str, Tensor]:
        """The places, by names for a file."""
        return {f"state_{number}": place for number, place in enumerate(self._places)}

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Takes over what `tensors` gave."""
        self._places = [tensors[f"state_{number}"] for number in range(len(tensors))]
