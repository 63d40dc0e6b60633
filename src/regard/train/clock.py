"""How long a training has taken: steps count, evaluation and saving do not."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch


class Clock:
    """Seconds of training: it runs inside `with`, and stands still inside `paused`."""

    def __init__(self, device: torch.device) -> None:
        self.device, self.mark = device, 0.0
        self._sum, self._since = 0.0, None  # type: float, float | None

    @property
    def seconds(self) -> float:
        """The seconds of training so far."""
        return self._sum + (0.0 if self._since is None else time.perf_counter() - self._since)

    @seconds.setter
    def seconds(self, value: float) -> None:
        self._sum = value

    def synchronize(self) -> None:
        """Wait for the device, so that the seconds are those of work that is done."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def __enter__(self) -> "Clock":
        self._since = time.perf_counter()
        return self

    def __exit__(self, *error: object) -> None:
        self.synchronize()
        self._sum, self._since = self.seconds, None

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop the clock while this is open."""
        running = self._since is not None
        if running:
            self.__exit__()
        try:
            yield
        finally:
            if running:
                self.__enter__()
