"""Several processes, one training: what `torchrun` says, the process group, and sums over ranks."""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed
from torch import Tensor, nn

from regard.base import ConfigError


@dataclass(frozen=True)
class World:
    """This process among all: alone it is rank 0 of 1, and nothing is sent anywhere."""

    rank: int = 0
    size: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

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
        torch.distributed.broadcast_object_list(said, src=0, device=self.device)
        return said[0]

    def wait(self) -> None:
        """Until every rank is here."""
        if self.size > 1:
            torch.distributed.barrier()

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
    place = choose_device(device, local_rank=int(os.environ.get("LOCAL_RANK", "0")))
    if place.type == "cuda":
        torch.cuda.set_device(place)
    if size == 1:
        yield World(0, 1, place)
        return
    torch.distributed.init_process_group("nccl" if place.type == "cuda" else "gloo", rank=rank, world_size=size)
    try:
        yield World(rank, size, place)
    finally:
        torch.distributed.destroy_process_group()
