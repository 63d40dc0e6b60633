"""Search over fixed shapes: the same results as `greedy` and `beam_search`, as steps that can be recorded.

fill the places ─→ [ model.step → Board.advance → keep the state ] again and again, no wait for the device ─→ read
                     every few steps: how many go on? then the rows of these are gathered into fewer
"""

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from regard.base import ConfigError
from regard.decode.beam import Rules, checked_mask
from regard.decode.fixed_beam import BeamBoard
from regard.decode.fixed_board import type_of
from regard.decode.fixed_path import PathBoard, PathRules
from regard.decode.fixed_state import FixedShapes, FixedState
from regard.decode.hypothesis import Hypothesis
from regard.decode.protocol import start, tensors
from regard.decode.sample import Chance

Tick = Callable[[], None]
LEAST_ROOM = 16  # steps that the shortest cache has room for


@runtime_checkable
class Runner(Protocol):
    """How ticks run: at once, or as recorded graphs."""

    every: int  # steps after which the number of sentences that go on is asked for
    behind: int  # how many such answers may be open while the next steps are sent

    def run(self, key: tuple[int, ...], tick: Tick) -> None:
        """Runs a tick. Ticks with the same key have the same shapes."""
        ...

    def ask(self, number: Tensor) -> Callable[[], int]:
        """A number of the device, without a wait for it; calling the result waits."""
        ...


class AtOnce:
    """Ticks run as they come."""

    every, behind = 1, 0

    def run(self, key: tuple[int, ...], tick: Tick) -> None:
        """Runs a tick at once."""
        tick()

    def ask(self, number: Tensor) -> Callable[[], int]:
        """The number, when it is called."""
        return lambda: int(number)


class FixedSearch:
    """Buffers for the searches of one model with one set of rules, for batches up to one size.

    `sizes` are the numbers of sentences that a step is made for; sentences that end leave the batch when those that go
    on fit into a smaller one. `rules` are those of a path (`PathRules`) or of a beam (`Rules`).
    """

    def __init__(
        self,
        model: FixedShapes,
        rules: PathRules | Rules,
        state: Any,
        *,
        sizes: Sequence[int],
        steps: int,
        keys: int | None = None,
        runner: Runner | None = None,
    ) -> None:
        self.model, self.rules, self.steps, self.sizes = model, rules, steps, sorted(sizes)
        beams = rules.beams if isinstance(rules, Rules) else 1
        first = model.fixed_state(state, steps=steps)
        if first is None:
            raise ConfigError(
                "this model has no state of fixed shapes", got=type(model).__name__, cure="use beam_search"
            )
        device = next((tensor.device for tensor in tensors(first)), torch.device("cpu"))
        self.places = FixedState(first, sentences=self.sizes[-1], beams=beams)
        common: dict[str, Any] = {
            "sentences": self.sizes[-1], "steps": steps, "dtype": type_of(first), "device": device,
        }  # fmt: skip
        self.board: PathBoard | BeamBoard = (
            BeamBoard(rules, keys=keys, **common) if isinstance(rules, Rules) else PathBoard(rules, **common)
        )
        self.runner = runner or AtOnce()

    def __call__(
        self,
        state: Any,
        *,
        batch: int,
        bos: int,
        last: Tensor,
        longest: int,
        read: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Any:
        """The hypotheses of `batch` sentences, whose steps end at `last` [b]; `longest` is the largest of these.

        `read` goes to the `results` of the board, and `options` to its `start`.
        """
        self.start(state, last, bos=bos, **options)
        return self.go(batch=batch, longest=longest, read=read)

    def start(self, state: Any, last: Tensor, *, bos: int, **options: Any) -> None:
        """Everything before the first step; nothing waits for the device."""
        self.places.fill(self.model.fixed_state(state, steps=self.steps))
        self.board.start(last, bos=bos, **options)

    def go(self, *, batch: int, longest: int, read: Mapping[str, Any] | None = None) -> Any:
        """All steps, after `start`, and what the first `batch` sentences found."""
        rows, runner = self.board.rows, self.runner
        sentences, step, open_ = fitting(self.sizes, batch), 0, deque[Callable[[], int]]()
        while step < longest:
            step += 1
            room = min(self.steps, room_for(step))
            runner.run((sentences, room), self._tick(sentences, room))
            if step % runner.every or step == longest:
                continue
            open_.append(runner.ask((~rows.now["done"][:sentences]).sum()))
            if len(open_) <= runner.behind:
                continue
            going = open_.popleft()()
            if going == 0:
                break
            if (fewer := fitting(self.sizes, going)) < sentences:
                self.places.gather(rows.gather(sentences, fewer))
                sentences = fewer
        rows.flush(sentences)
        return self.board.results(batch, step, **(read or {}))

    def _tick(self, sentences: int, room: int) -> Tick:
        def tick() -> None:
            view = self.places.view(sentences, room)
            tokens = self.board.rows.now["tokens"][:sentences].flatten()
            logits, after, weights = self.model.step(tokens, view)
            self.places.keep(view, after, self.board.advance(logits, weights, sentences))

        return tick


def fitting(sizes: Sequence[int], count: int) -> int:
    """The smallest of rising sizes that holds so many.

    >>> fitting([1, 8, 64], 9)
    64
    """
    return next(size for size in sizes if size >= count)


def room_for(step: int) -> int:
    """How many steps a cache has room for at this step: 16, 32, 64 …

    >>> [room_for(step) for step in (1, 16, 17, 70)]
    [16, 16, 32, 128]
    """
    room = LEAST_ROOM
    while room < step:
        room *= 2
    return room


@torch.no_grad()
def fixed_greedy(
    model: FixedShapes,
    state: Any,
    *,
    batch: int,
    bos: int,
    eos: int,
    max_steps: int | Int[Tensor, " b"],
    min_steps: int = 0,
    forbidden: Collection[int] = (),
    sizes: Sequence[int] | None = None,
) -> list[Hypothesis]:
    """As `greedy`, over fixed shapes."""
    rules = PathRules(eos, min_steps, frozenset(forbidden))
    options: dict[str, Any] = {
        "batch": batch,
        "bos": bos,
        "max_steps": max_steps,
        "min_steps": min_steps,
        "sizes": sizes,
    }
    return [one for [one] in _once(model, state, rules, **options)]


@torch.no_grad()
def fixed_sample(
    model: FixedShapes,
    state: Any,
    *,
    batch: int,
    bos: int,
    eos: int,
    max_steps: int | Int[Tensor, " b"],
    min_steps: int = 0,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    generator: torch.Generator | None = None,
    forbidden: Collection[int] = (),
    sizes: Sequence[int] | None = None,
) -> list[Hypothesis]:
    """As `sample`, over fixed shapes, with one random number for each sentence and step: other draws, the same chances.

    What is drawn for a sentence depends on its place in the batch and on `max_steps`, and on no other sentence.
    """
    Chance(temperature, top_k, top_p)
    rules = PathRules(eos, min_steps, frozenset(forbidden), temperature, top_k, top_p)
    options: dict[str, Any] = {
        "batch": batch,
        "bos": bos,
        "max_steps": max_steps,
        "min_steps": min_steps,
        "sizes": sizes,
    }
    return [one for [one] in _once(model, state, rules, generator=generator, **options)]


@torch.no_grad()
def fixed_beam_search(
    model: FixedShapes,
    state: Any,
    *,
    batch: int,
    bos: int,
    eos: int,
    beams: int = 5,
    nbest: int = 1,
    max_steps: int | Int[Tensor, " b"],
    min_steps: int = 0,
    length_penalty: float = 0.0,
    coverage_penalty: float = 0.0,
    no_repeat: int = 0,
    forbidden: Collection[int] = (),
    source_mask: Bool[Tensor, "b k"] | None = None,
    sizes: Sequence[int] | None = None,
) -> list[list[Hypothesis]]:
    """As `beam_search`, over fixed shapes."""
    rules = Rules(eos, beams, nbest, min_steps, length_penalty, coverage_penalty, no_repeat, frozenset(forbidden))
    options: dict[str, Any] = {
        "batch": batch,
        "bos": bos,
        "max_steps": max_steps,
        "min_steps": min_steps,
        "sizes": sizes,
    }
    found: list[list[Hypothesis]] = _once(model, state, rules, mask=source_mask, **options)
    return found


def _once(
    model: FixedShapes,
    state: Any,
    rules: PathRules | Rules,
    *,
    batch: int,
    bos: int,
    max_steps: int | Tensor,
    min_steps: int,
    sizes: Sequence[int] | None,
    **options: Any,
) -> Any:
    tokens, last = start(model, state, batch=batch, bos=bos, max_steps=max_steps, min_steps=min_steps)
    if not batch:
        return []
    longest = int(last.max())
    mask = checked_mask(options["mask"], batch, tokens.device) if "mask" in options else None
    options |= {"mask": mask} if "mask" in options else {}
    keys = None if mask is None else mask.shape[1]
    search = FixedSearch(model, rules, state, sizes=sizes or [batch], steps=longest, keys=keys)
    return search(state, batch=batch, bos=bos, last=last, longest=longest, **options)
