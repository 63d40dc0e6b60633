"""Checkpoints of which every process writes its part, in torch's distributed format over safetensors.

checkpoints/step_00001000/
  shard-00001-model-00001-of-00001.safetensors …    of each process its part of weights, moments and running mean
  state.json                                        as that of any checkpoint, and how many processes wrote: `shards`

torch's own storage keeps its table of contents as a pickle; that of Hugging Face, which torch brings along too, keeps
places and sizes in the heads of safetensors files. So nothing is unpickled. A tensor is called FILE/NAME: NAME of what
a checkpoint of one process has in FILE.safetensors. Any number of processes reads any such checkpoint.
"""

import math
import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import safetensors
import torch
from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader, HuggingFaceStorageWriter
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.tensor import DTensor

from regard.base import file_sha256, first_line, part_beside, sync_folder
from regard.train.checkpoint import (
    corrupt,
    cure_of,
    discard,
    fault_of,
    place_of,
    seal,
    unwritten,
)
from regard.train.distributed import World

T = TypeVar("T")
Files = Mapping[str, Mapping[str, Tensor]]
Pattern = Callable[[str, str, torch.Size], Tensor | None]  # of a file, a name and a shape: a tensor that is cut alike
FAULTS = (KeyError, ValueError, TypeError, IndexError, AttributeError, RuntimeError, RecursionError, AssertionError,
          OSError, OverflowError, safetensors.SafetensorError, CheckpointException)  # fmt: skip


def save_shards(folder: Path, step: int, files: Files, state: Mapping[str, Any], world: World) -> Path:
    """Write `folder/step_…` by all processes together: whole or not there. Every process calls it."""
    final = place_of(folder, step)
    unfinished: Path = world.same(part_beside(final))
    parts = {
        f"{file}/{name}": tensor.detach()
        for file, tensors in files.items()
        for name, tensor in tensors.items()
        if isinstance(tensor, DTensor) or world.is_first  # what is not cut is the first one's
    }
    try:
        _together(world, final, lambda: unfinished.mkdir(parents=True) if world.is_first else None)
        _together(world, final, lambda: _write(unfinished, parts, world))
        sums = _together(world, final, lambda: _sums(unfinished, world))
        every = {name: facts for part in sums for name, facts in sorted(part.items())}
        content = {**state, "shards": world.size}
        _together(world, final, lambda: seal(unfinished, final, step, content, every) if world.is_first else None)
    except BaseException:
        if world.is_first:
            discard(unfinished, final)
        raise
    return final


def read_shards(path: Path, world: World | None, like: Pattern) -> tuple[dict[str, dict[str, Tensor]], dict[str, Any]]:
    """Files and state of such a checkpoint: whole tensors, or for what is cut like another one the own part of it.

    Every process of a world calls it, and looks at the checksums of some files. Without a world all is read here.
    """
    alone = world or World()
    faults = alone.every(fault_of(path, share=(alone.rank, alone.size)))
    fault = next((fault for fault, _, _ in faults if fault is not None), None)
    if fault is not None:
        raise corrupt(fault[0], fault[1], cure_of(path))
    try:
        rooms = _rooms(path, like)
        with _without_processes():
            reader = HuggingFaceStorageReader(str(path))
            load(rooms, storage_reader=reader, process_group=alone.control, no_dist=world is None)
    except FAULTS as error:
        raise corrupt(path, _reason(error), cure_of(path)) from error
    files: dict[str, dict[str, Tensor]] = {}
    for whole, tensor in rooms.items():
        file, _, name = whole.partition("/")
        files.setdefault(file, {})[name] = tensor
    if "model" not in files:
        raise corrupt(path, "no weights of a model", cure_of(path))
    return files, faults[0][1]


def _rooms(path: Path, like: Pattern) -> dict[str, Tensor]:
    """Room for every tensor of a checkpoint, of the size that its parts have together."""
    rooms = {}
    for whole, facts in HuggingFaceStorageReader(str(path)).read_metadata().state_dict_metadata.items():
        assert isinstance(facts, TensorStorageMetadata)
        if math.prod(facts.size) != sum(math.prod(chunk.sizes) for chunk in facts.chunks):
            raise ValueError(f"parts of {whole} are missing")
        file, _, name = whole.partition("/")
        alike = like(file, name, facts.size)
        room = torch.zeros(facts.size, dtype=facts.properties.dtype) if alike is None else torch.zeros_like(alike)
        rooms[whole] = room
    return rooms


def _write(unfinished: Path, parts: dict[str, Tensor], world: World) -> None:
    writer = HuggingFaceStorageWriter(str(unfinished), save_distributed=True)
    with _without_processes():
        save(parts, storage_writer=writer, process_group=world.control, no_dist=world.size == 1)


@contextmanager
def _without_processes() -> Iterator[None]:
    """One process may do all of it; torch warns then."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.distributed is disabled")
        yield


def _sums(unfinished: Path, world: World) -> dict[str, dict[str, Any]]:
    """Size and checksum of what this process has written, which is on the disk by then."""
    sums = {}
    for path in sorted(unfinished.glob(f"shard-{world.rank + 1:05d}-*.safetensors")):
        with open(path, "rb") as file:
            os.fsync(file.fileno())
        sums[path.name] = {"bytes": path.stat().st_size, "sha256": file_sha256(path)}
    sync_folder(unfinished)
    return sums


def _together(world: World, final: Path, work: Callable[[], T]) -> list[T]:
    """What the work gave on every process; what went wrong on one of them is an error on all."""
    result: T | None = None
    why = ""
    try:
        result = work()
    except (OSError, CheckpointException) as error:
        why = _reason(error)
    outcomes: list[tuple[T, str]] = world.every((result, why))
    if reasons := [why for _, why in outcomes if why]:
        raise unwritten(final, reasons[0])
    return [result for result, _ in outcomes]


def _reason(error: BaseException) -> str:
    """In few words; of an error of torch that of the first process that failed."""
    if isinstance(error, CheckpointException) and error.failures:
        return _reason(error.failures[min(error.failures)][0])
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return first_line(error) if str(error) else type(error).__name__
