"""What one request may ask for, and the queue in which the work of all requests waits for its turn."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from regard.base import RegardError

Result = TypeVar("Result")


@dataclass(frozen=True)
class Limits:
    """The most that a request may ask for; one that asks for more gets an error that names the limit."""

    body: int = 12_000_000  # bytes of a request
    characters: int = 2_000  # of a text
    pixels: int = 20_000_000  # of a picture
    beams: int = 16  # of a search, and results of it
    tokens: int = 400  # of a text that is generated
    seconds: float = 60.0  # of one piece of work, without the time in the queue
    waiting: int = 16  # pieces of work in the queue
    connections: int = 64  # at the same time
    slowest: float = 20.0  # seconds between two parts of a request


class TooMuch(RegardError):  # noqa: N818 - says what happened
    """More than the studio can do now: its answer has the status 503."""


class Late(BaseException):
    """The time of a piece of work is over, or nobody waits for it any more; no part of a model should catch it."""


class Deadline:
    """When the work of this thread must end; `check` is called at every layer of a model."""

    def __init__(self) -> None:
        self._own = threading.local()

    @contextmanager
    def within(self, seconds: float, stopped: Callable[[], bool] = lambda: False) -> Iterator[None]:
        """Work inside ends with `Late` when the time is over, or when `stopped()` says so."""
        self._own.end, self._own.stopped = time.monotonic() + seconds, stopped
        try:
            yield
        finally:
            self._own.end = None

    def check(self, *call: object) -> None:
        """Raise `Late` if it is time; a forward hook of every layer, so it takes and ignores what hooks get."""
        end = getattr(self._own, "end", None)
        if end is not None and (time.monotonic() > end or self._own.stopped()):
            raise Late

    def watch(self, module: Any) -> None:
        """Let every layer of a model look at the clock."""
        for layer in module.modules():
            layer.register_forward_pre_hook(self.check)


class WorkQueue:
    """One piece of work at a time, in a thread of its own; the others wait, and know how many are before them."""

    def __init__(self, limits: Limits, deadline: Deadline) -> None:
        self.limits, self.deadline, self.length = limits, deadline, 0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="regard-studio")

    async def run(
        self, work: Callable[[], Result], *, stopped: Callable[[], bool] = lambda: False
    ) -> tuple[Result, int]:
        """What the work gives, and how many pieces of work were before it."""
        before = self.length
        if before >= self.limits.waiting:
            raise TooMuch("the studio is busy", got=f"{before} requests that wait", cure="try again in a moment")
        self.length += 1
        try:
            return await asyncio.wrap_future(self._thread.submit(self._timed, work, stopped)), before
        except Late:
            limit = f"at most {self.limits.seconds:g} seconds"
            cure = "give it a shorter text, or fewer beams"
            raise TooMuch("this took too long", got="no end", expected=limit, cure=cure) from None
        finally:
            self.length -= 1

    def first(self, work: Callable[[], None]) -> None:
        """Let a piece of work begin before anybody asks for one; whoever asks then waits for its end."""
        self._thread.submit(work)

    def _timed(self, work: Callable[[], Result], stopped: Callable[[], bool]) -> Result:
        if stopped():
            raise Late
        with self.deadline.within(self.limits.seconds, stopped):
            return work()

    def close(self) -> None:
        """Begin nothing any more."""
        self._thread.shutdown(wait=False, cancel_futures=True)
