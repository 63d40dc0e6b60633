"""Several processes, one training: what `torchrun` says, the process group, and sums over ranks."""

import os
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import torch
import torch.distributed
from torch import Tensor, nn

from regard.base import ConfigError, RegardError, first_line
from regard.train.meeting import meeting_place

PATIENCE = timedelta(days=7)  # of processes that wait while the first one evaluates, or writes a checkpoint


@dataclass(frozen=True)
class World:
    """This process among all: alone it is rank 0 of 1, and nothing is sent anywhere."""

    rank: int = 0
    size: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    local_rank: int = 0  # among the processes of this machine
    control: Any = None  # the group, on CPUs, by which processes wait for each other and exchange objects

    @property
    def is_first(self) -> bool:
        """Whether this process writes files and draws bars."""
        return self.rank == 0

    def sum(self, value: Tensor) -> Tensor:
        """The sum over all ranks, in place; alone, the tensor as it is."""
        if self.size > 1:
            torch.distributed.all_reduce(value)
        return value

    def count(self, number: int) -> int:
        """The sum of a whole number over all ranks."""
        if self.size == 1:
            return number
        return int(self.sum(torch.tensor(number, device=self.device)).item())

    def same(self, value: Any) -> Any:
        """What rank 0 says, on every rank."""
        if self.size == 1:
            return value
        said = [value]
        device = self.device if self.control is None else torch.device("cpu")
        torch.distributed.broadcast_object_list(said, src=0, group=self.control, device=device)
        return said[0]

    def every(self, value: Any) -> list[Any]:
        """What each rank says, on every rank."""
        said = [value] * self.size
        if self.size > 1:
            torch.distributed.all_gather_object(said, value, group=self.control)
        return said

    def tally(self, number: int, asked: bool) -> tuple[int, bool]:
        """The sum of a whole number over all ranks, and whether any of them was asked to stop."""
        if self.size == 1:
            return number, asked
        total, asking = self.sum(torch.tensor([number, int(asked)], device=self.device)).tolist()
        return total, asking > 0

    def wait(self) -> None:
        """Until every rank is here."""
        if self.size > 1:
            torch.distributed.barrier(group=self.control)

    @contextmanager
    def one_by_machine(self) -> Iterator[None]:
        """First one process of each machine does what is inside, then all others, which find on disk what it left."""
        if self.local_rank > 0:
            self.wait()
        yield
        if self.local_rank == 0:
            self.wait()

    def wrap(self, model: nn.Module) -> nn.Module:
        """The model with gradients averaged over ranks in its backward pass."""
        if self.size == 1:
            return model
        devices = [self.device] if self.device.type == "cuda" else None
        return nn.parallel.DistributedDataParallel(model, device_ids=devices)

    def without_sync(self, wrapped: nn.Module, *, last: bool) -> AbstractContextManager[None]:
        """For all batches of a step but the last one: keep gradients here until then."""
        if self.size == 1 or last:
            return nullcontext()
        context: AbstractContextManager[None] = wrapped.no_sync()  # type: ignore[operator]
        return context


def choose_device(name: str = "auto", *, local_rank: int = 0) -> torch.device:
    """ "auto" is the GPU of this rank if there is one, else the CPU; "cuda" is the GPU of this rank."""
    there = torch.cuda.is_available()
    try:
        device = torch.device(("cuda" if there else "cpu") if name == "auto" else name)
    except RuntimeError as error:
        raise ConfigError("unknown device", got=repr(name), expected="auto, cpu, cuda or cuda:0") from error
    if device.type == "cuda" and not there:
        raise ConfigError("there is no CUDA device here", got=repr(name), cure="choose the device cpu or auto")
    return torch.device("cuda", local_rank) if device == torch.device("cuda") else device


@contextmanager
def joined(device: str = "auto") -> Iterator[World]:
    """The world that `torchrun` has made (gloo on CPU, NCCL on GPU), or this process alone."""
    size, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
    local_rank = int(os.environ.get("LOCAL_RANK", "0"))
    place = choose_device(device, local_rank=local_rank)
    if place.type == "cuda":
        _check_gpu(place, size, local_rank)
        torch.cuda.set_device(place)
    if size == 1:
        yield World(0, 1, place)
        return
    with _told_of_losses():
        backend = "nccl" if place.type == "cuda" else "gloo"
        store = meeting_place(rank, size)
        torch.distributed.init_process_group(backend, store=store, rank=rank, world_size=size)
    try:
        with _told_of_losses():
            control = torch.distributed.new_group(backend="gloo", timeout=PATIENCE)
            yield World(rank, size, place, local_rank, control)
    finally:
        torch.distributed.destroy_process_group()


def _check_gpu(place: torch.device, size: int, local_rank: int) -> None:
    there = torch.cuda.device_count()
    if size > 1 and place.index != local_rank:
        raise ConfigError(
            "--device",
            got=str(place),
            expected="cuda: each process takes a GPU of its own",
            cure="leave the number out",
        )
    if place.index is not None and place.index >= there:
        got, cure = (
            f"no GPU for process {local_rank} of this machine",
            f"set --nproc-per-node {there}, or choose --device cpu",
        )
        raise ConfigError(f"there are {there} GPUs here", got=got, expected="one for each process", cure=cure)


@contextmanager
def _told_of_losses() -> Iterator[None]:
    """One line in place of a traceback where another process has ended, or was never there."""
    try:
        yield
    except RuntimeError as error:
        if not isinstance(error, torch.distributed.DistError) and "gloo" not in str(error):
            raise
        cure = (
            "look at what the others said before; `torchrun --max-restarts 3` starts all of them again, and they go on "
            "from the last checkpoint; without it begin again with --resume"
        )
        raise LostError("the other processes of this training are lost", got=_reason(error), cure=cure) from error


class LostError(RegardError):
    """Another process has ended, or cannot be reached."""


def _reason(error: RuntimeError) -> str:
    """What torch says, without places in its source and addresses, so that all processes say the same."""
    if re.search(r"connection (closed|reset)|broken pipe", str(error), re.IGNORECASE):
        return "a closed connection"
    return re.sub(r"\s*\[[^\]]*\](:\d+)?(\$\d+)?", "", first_line(error)).strip().partition(". ")[0]
