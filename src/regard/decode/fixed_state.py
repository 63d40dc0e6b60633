"""A decoding state in fixed places: buffers that every step reads and writes, so that a step can be recorded."""

from collections.abc import Iterator
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Int
from torch import Tensor

from regard.attention import FixedCache
from regard.base import RegardError
from regard.decode.protocol import Decodable, mapped
from regard.kernels import reasons_against_triton


@runtime_checkable
class FixedShapes(Decodable, Protocol):
    """A model whose state can keep its shapes from step to step."""

    def fixed_state(self, state: Any, *, steps: int) -> Any:
        """The first state with room for `steps` steps: no tensor grows, and the number of the step is a tensor.

        None where this model, with these settings, has no such state.
        """
        ...


class FixedState:
    """The state of up to `sentences` sentences with `beams` prefixes each, in buffers that are made once.

    `view` gives the first m sentences of it to a step, and `keep` takes what the step made of them. A tensor that the
    step gives back unchanged belongs to the sentence, so it is the same for all its prefixes and stays where it is.
    All others are new: they share no memory with the view.
    """

    def __init__(self, state: Any, *, sentences: int, beams: int) -> None:
        self.sentences, self.beams = sentences, beams
        caches = {id(tensor) for cache in _caches(state) for tensor in (cache.keys, cache.values)}
        self._caches: set[int] = set()
        numbers: dict[int, Tensor] = {}

        def make(tensor: Tensor, shared: bool) -> Tensor:
            if not tensor.ndim:
                return numbers.setdefault(id(tensor), torch.empty_like(tensor))
            buffer = tensor.new_zeros(sentences if shared else sentences * beams, *tensor.shape[1:])
            if id(tensor) in caches:
                self._caches.add(id(buffer))
            return buffer

        self._buffers = mapped(state, make, numbers=True)

    def fill(self, state: Any) -> None:
        """Takes the first state of the sentences; where they are fewer than the places, the last one is repeated."""
        batch = max((len(tensor) for tensor, _ in _leaves(state) if tensor.ndim), default=1)
        chosen: dict[tuple[int, torch.device], Tensor] = {}

        def rows(device: torch.device, each: int) -> Tensor:
            if (each, device) not in chosen:
                numbers = torch.arange(self.sentences, device=device).clamp(max=batch - 1)
                chosen[each, device] = numbers.repeat_interleave(each)
            return chosen[each, device]

        for (buffer, shared), (tensor, _) in zip(_leaves(self._buffers), _leaves(state), strict=True):
            if id(buffer) in self._caches:
                buffer.zero_()
            elif not tensor.ndim or len(buffer) == len(tensor):
                buffer.copy_(tensor)
            else:
                buffer.copy_(tensor.index_select(0, rows(tensor.device, 1 if shared else self.beams)))

    def fits(self, state: Any) -> bool:
        """Whether a first state has the shapes of these buffers, but for the number of its sentences."""
        ours, theirs = _leaves(self._buffers), _leaves(state)
        return len(ours) == len(theirs) and all(
            buffer.shape[1:] == tensor.shape[1:] and buffer.dtype == tensor.dtype
            for (buffer, _), (tensor, _) in zip(ours, theirs, strict=True)
        )

    def view(self, sentences: int, room: int) -> Any:
        """The state of the first `sentences` sentences, with caches of `room` steps."""

        def narrow(buffer: Tensor, shared: bool) -> Tensor:
            if not buffer.ndim:
                return buffer
            view = buffer[: sentences if shared else sentences * self.beams]
            return view[:, :, :room] if id(buffer) in self._caches else view

        return mapped(self._buffers, narrow, numbers=True)

    def keep(self, before: Any, after: Any, origin: Int[Tensor, " n"] | None) -> None:
        """Writes the state `after` a step into the view `before` it, rows in the order of `origin`."""
        written, copies = set[int](), dict[torch.dtype, tuple[list[Tensor], list[Tensor]]]()
        ours, theirs = _leaves(before), _leaves(after)
        if len(ours) != len(theirs):
            raise RegardError(
                "the state did not keep its shapes", got=f"{len(theirs)} tensors", expected=f"{len(ours)}, as before"
            )
        for (buffer, shared), (tensor, _) in zip(ours, theirs, strict=True):
            if tensor is buffer or id(buffer) in written:
                continue
            written.add(id(buffer))
            if shared or buffer.shape != tensor.shape:
                raise RegardError(
                    "the state did not keep its shapes", got=list(tensor.shape), expected=list(buffer.shape),
                    cure="what is Shared stays as it is; use FixedCache for what grows",
                )  # fmt: skip
            if origin is None or not tensor.ndim:
                places, news = copies.setdefault(buffer.dtype, ([], []))
                places.append(buffer)
                news.append(tensor)
            elif buffer.dtype == tensor.dtype:
                torch.index_select(tensor, 0, origin, out=buffer)
            else:
                buffer.copy_(tensor.index_select(0, origin))
        for places, news in copies.values():
            torch._foreach_copy_(places, news)  # one kernel for all of a type
        for cache in _caches(before):
            self._reorder(cache, origin)

    def _reorder(self, cache: FixedCache, origin: Int[Tensor, " n"] | None) -> None:
        if origin is not None and not reasons_against_triton(origin.device):
            from regard.kernels.beam_step import reorder

            for side in (cache.keys, cache.values):
                reorder(side, origin, self.beams, cache.length)
        else:
            cache.keep(origin)

    def gather(self, chosen: Int[Tensor, " m"]) -> None:
        """Brings the sentences `chosen` to the first places."""
        device = chosen.device
        rows = (chosen.unsqueeze(1) * self.beams + torch.arange(self.beams, device=device)).flatten()
        for buffer, shared in _leaves(self._buffers):
            if buffer.ndim:
                index = chosen if shared else rows
                buffer[: len(index)].copy_(buffer.index_select(0, index))


def _leaves(state: Any) -> list[tuple[Tensor, bool]]:
    """Every tensor of a nest, those without axes too, and whether it is shared."""
    found: list[tuple[Tensor, bool]] = []

    def see(tensor: Tensor, shared: bool) -> Tensor:
        found.append((tensor, shared))
        return tensor

    mapped(state, see, numbers=True)
    return found


def _caches(state: Any) -> Iterator[FixedCache]:
    """Gives every cache inside of a state, which may be a list or a mapping of others."""
    if isinstance(state, FixedCache):
        yield state
    elif isinstance(state, list | tuple):
        for item in state:
            yield from _caches(item)
    elif isinstance(state, dict):
        for item in state.values():
            yield from _caches(item)
