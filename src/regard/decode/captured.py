"""Ticks of a search as recorded CUDA graphs: one launch for all that a step does."""

import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from regard.decode.fixed_search import Tick
from regard.kernels.serving import recording


class Captured:
    """Runs every tick of a new shape once, which is a real step, then records it; later ones are replayed.

    A tick that cannot be recorded is run as it is, with a warning. `seconds` is what recording took so far. Runners of
    one model share a `pool` of memory: what a tick holds inside is not needed after it.
    """

    every, behind = 4, 1  # four steps are sent while the device is still busy with the four before

    def __init__(self, device: torch.device, *, pool: Any = None) -> None:
        self.device, self.seconds = device, 0.0
        self.pool = torch.cuda.graph_pool_handle() if pool is None else pool
        self.graphs: dict[tuple[int, ...], torch.cuda.CUDAGraph | None] = {}
        self._side = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]  # cuBLAS has a work space by stream
        self._answers: list[Tensor] = []

    def run(self, key: tuple[int, ...], tick: Tick) -> None:
        """Runs a tick: it is recorded the first time that its shapes are met, and replayed from then on."""
        if key not in self.graphs:
            self._first(key, tick)
            return
        graph = self.graphs[key]
        if graph is None:
            tick()
        else:
            graph.replay()

    def ask(self, number: Tensor) -> Callable[[], int]:
        """Copies a number to the host while the device goes on."""
        place = self._answers.pop() if self._answers else torch.zeros((), dtype=torch.long, pin_memory=True)
        place.copy_(number, non_blocking=True)
        arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]
        arrived.record()

        def answer() -> int:
            arrived.synchronize()
            self._answers.append(place)
            return int(place)

        return answer

    def _first(self, key: tuple[int, ...], tick: Tick) -> None:
        here = torch.cuda.current_stream(self.device)
        self._side.wait_stream(here)
        with torch.cuda.stream(self._side), recording():
            tick()
        here.wait_stream(self._side)
        torch.cuda.synchronize(self.device)
        start = time.perf_counter()
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, pool=self.pool, stream=self._side), recording():
                tick()
        except RuntimeError as error:
            self.graphs[key] = None
            reason = str(error).partition("\n")[0]
            warnings.warn(f"a step of the search cannot be recorded, and runs launch by launch: {reason}", stacklevel=2)
        else:
            self.graphs[key] = graph
        torch.cuda.synchronize(self.device)
        self.seconds += time.perf_counter() - start
