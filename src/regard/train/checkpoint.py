"""Checkpoints: a folder with safetensors and JSON, written beside and renamed, so it is whole or not there.

checkpoints/step_00001000/
  model.safetensors        weights
  mean.safetensors         their running mean, if there is one
  optimiser.safetensors    moments
  carried.safetensors      what the task carries from batch to batch, if it does
  state.json               step, position in the data, history; the checksum and size of the files above

Nothing is unpickled. An old checkpoint goes only after a new one is in its place, and is renamed before it is removed.
A folder without state.json is no checkpoint. What a killed process has left is tidied up by the next one (`tidy`).
"""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

from regard.base import (
    RESTORE,
    RegardError,
    file_sha256,
    inside,
    parse_json,
    part_beside,
    sync_folder,
    write_atomically,
)  # fmt: skip
from regard.nn.checksum import tensors_checksum

PREFIX = "step_"
STATE, MODEL = "state.json", "model"


class CheckpointError(RegardError):
    """A checkpoint cannot be written or read."""


def weights(model: nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers by name; those that share memory once, under the first name."""
    tensors: dict[str, Tensor] = {}
    seen: set[tuple[int, torch.Size]] = set()
    for name, tensor in model.state_dict(keep_vars=True).items():
        place = (tensor.data_ptr(), tensor.shape)
        if place not in seen or not tensor.numel():
            seen.add(place)
            tensors[name] = tensor.detach()
    return tensors


def load_weights(model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """What `weights` gave, back into a model of the same settings."""
    wanted = weights(model)
    check_alike(wanted, tensors)
    for name, tensor in wanted.items():
        tensor.copy_(tensors[name])


def check_alike(wanted: Mapping[str, Tensor], tensors: Mapping[str, Tensor]) -> None:
    """An error unless both have the same names with the same shapes."""
    if set(wanted) != set(tensors):
        strange, missing = sorted(set(tensors) - set(wanted)), sorted(set(wanted) - set(tensors))
        got = f"{strange[0]} too many" if strange else f"no {missing[0]}"
        raise CheckpointError("these weights are of another model", got=got, cure="load them with their own recipe")
    for name, tensor in wanted.items():
        if tensor.shape != tensors[name].shape:
            raise CheckpointError(
                f"these weights are of another model: {name}",
                got=list(tensors[name].shape),
                expected=list(tensor.shape),
                cure="load them with their own recipe",
            )


def checksum(model: nn.Module) -> str:
    """The sha256 of a model's weights: names, types, shapes and every number."""
    return tensors_checksum(weights(model))


class Started(NamedTuple):
    """What another run's weights went into."""

    part: str  # "" for the whole model
    new: tuple[str, ...]  # weights that stay as they are, since another question has other answers


def start_from(model: nn.Module, tensors: Mapping[str, Tensor]) -> Started:
    """Weights of another run into a model, or into the first of its parts that has them all.

    What they do not hold stays as it is: a decision on top of what could see already, an encoder inside. So do the
    layers that `model.answers` names, where they have another size or are not there: with which two digits there are, a
    model can begin to learn what their sum is.
    """
    wanted, answers = weights(model), tuple(getattr(model, "answers", ()))
    for prefix in ("", *(f"{name}." for name, _ in model.named_children())):
        missing = {name for name in tensors if prefix + name not in wanted}
        if not all(not prefix and name.startswith(answers) for name in missing):
            continue
        new = tuple(name for name in tensors if name in missing or wanted[prefix + name].shape != tensors[name].shape)
        if len(new) < len(tensors) and all(not prefix and name.startswith(answers) for name in new):
            for name in tensors.keys() - set(new):
                wanted[prefix + name].copy_(tensors[name])
            return Started(prefix.removesuffix("."), new)
    wrong = {name for name, tensor in tensors.items() if name not in wanted or wanted[name].shape != tensor.shape}
    name = next(name for name in tensors if name in wrong)
    raise CheckpointError(
        "the weights to start from fit neither the model nor a part of it",
        got=f"{name} {list(tensors[name].shape)}",
        expected=f"{list(wanted[name].shape)}" if name in wanted else None,
        cure="start from a run of the same sizes",
    )


def save_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """A safetensors file, whole or not at all; tensors that share memory are written once each."""
    try:
        _write_tensors(path, tensors)
        sync_folder(path.parent)
    except OSError as error:
        raise unwritten(path, (error.strerror or str(error)).lower()) from error


def load_tensors(path: Path, *, cure: str = RESTORE) -> dict[str, Tensor]:
    """The tensors of a safetensors file; `cure` is for one that is broken."""
    try:
        return safetensors.torch.load_file(inside(path))
    except (OSError, safetensors.SafetensorError) as error:
        raise corrupt(path, str(error), cure) from error


def save_checkpoint(
    folder: Path, step: int, files: Mapping[str, Mapping[str, Tensor]], state: Mapping[str, Any]
) -> Path:
    """Write `folder/step_…`: each of `files` as NAME.safetensors, and the state with checksums of them and itself."""
    final = place_of(folder, step)
    unfinished = part_beside(final)
    try:
        unfinished.mkdir(parents=True)
        sums = {}
        for name, tensors in files.items():
            path = unfinished / f"{name}.safetensors"
            _write_tensors(path, tensors)
            sums[path.name] = {"bytes": path.stat().st_size, "sha256": file_sha256(path)}
        seal(unfinished, final, step, state, sums)
    except BaseException as error:
        discard(unfinished, final)
        if isinstance(error, OSError):
            raise unwritten(final, (error.strerror or str(error)).lower()) from error
        raise
    return final


def place_of(folder: Path, step: int) -> Path:
    """Where the checkpoint of a step is."""
    return folder / f"{PREFIX}{step:08d}"


def seal(unfinished: Path, final: Path, step: int, state: Mapping[str, Any], sums: Mapping[str, Any]) -> None:
    """Give a folder that has all its files its state.json, with the checksums `sums`, and then its place."""
    content = parse_json(json.dumps({**state, "step": step, "files": sums}))
    write_atomically(unfinished / STATE, json.dumps({**content, "sha256": _seal(content)}, indent=1))
    sync_folder(unfinished)
    if final.exists():
        os.replace(final, _old(unfinished))  # `tidy` puts it back if this process is killed before the next line
    os.replace(unfinished, final)
    sync_folder(final.parent)
    shutil.rmtree(_old(unfinished), ignore_errors=True)


def discard(unfinished: Path, final: Path) -> None:
    """Remove what an error has left, and put the older checkpoint back."""
    if _old(unfinished).exists() and not final.exists():
        os.replace(_old(unfinished), final)
    shutil.rmtree(unfinished, ignore_errors=True)


def _old(unfinished: Path) -> Path:
    return unfinished.with_suffix(".old.part")


def load_checkpoint(path: Path) -> tuple[dict[str, dict[str, Tensor]], dict[str, Any]]:
    """The files and the state of one checkpoint, each file checked against its checksum; parts are put together."""
    fault, state, names = fault_of(path)
    if fault is not None:
        file, got = fault
        raise corrupt(file, got, cure_of(path))
    if "shards" in state:
        from regard.train.sharded_checkpoint import read_shards

        return read_shards(path, None, lambda file, name, shape: None)
    return {Path(name).stem: load_tensors(path / name, cure=cure_of(path)) for name in names}, state


def is_sharded(path: Path) -> bool:
    """Whether several processes have written a checkpoint, each its part."""
    return any(path.glob("shard-*.safetensors"))


def checkpoints(folder: Path) -> list[Path]:
    """All checkpoints of a folder, earliest first; a folder without state.json, and a link, are none."""
    return [path for path in _step_folders(folder) if (path / STATE).is_file()]


def prune(folder: Path, keep: int) -> None:
    """Remove all but the last `keep` checkpoints, and what a killed process left; see `tidy`.

    Each is renamed first, so that none is ever there in part.
    """
    newest = checkpoints(folder)[-keep:]
    for path in _step_folders(folder):
        if newest and _step_of(path) < _step_of(newest[0]):
            with suppress(OSError):  # it stays; the next call tries again
                os.replace(path, part_beside(path))
    tidy(folder)


def tidy(folder: Path) -> None:
    """Put back a checkpoint that a killed process was replacing; remove what it has half written or half removed.

    Only for the one process that may write there.
    """
    for path in folder.glob(f".{PREFIX}*.part"):
        old = re.fullmatch(rf"\.({PREFIX}\d+)\.[0-9a-f]+\.old\.part", path.name)
        if old is not None and not (folder / old[1]).exists() and (path / STATE).is_file():
            os.replace(path, folder / old[1])
        else:
            shutil.rmtree(path, ignore_errors=True)


def _step_folders(folder: Path) -> list[Path]:
    named = [path for path in folder.glob(PREFIX + "*") if re.fullmatch(PREFIX + r"\d+", path.name)]
    return sorted((path for path in named if path.is_dir() and not path.is_symlink()), key=_step_of)


def _step_of(path: Path) -> int:
    return int(path.name.removeprefix(PREFIX))


def fault_of(path: Path, share: tuple[int, int] = (0, 1)) -> tuple[tuple[Path, str] | None, dict[str, Any], list[str]]:
    """What is wrong with a checkpoint, file and reason, or None; its state; the names of its files.

    With a `share` of (2, 4) it is the third of four processes, each of which reads a quarter of the files.
    """
    try:
        state = parse_json(inside(path / STATE).read_bytes())
        stated = state.pop("sha256", None)
        sums = {name: (facts["bytes"], facts["sha256"]) for name, facts in state["files"].items()}
    except RegardError as error:
        return (path / STATE, str(error.got)), {}, []
    except (OSError, KeyError, TypeError, AttributeError) as error:
        return (path / STATE, str(error)), {}, []
    if stated != _seal(state):
        return (path / STATE, "no checksum of its own" if stated is None else "another checksum"), {}, []
    sharded = "shards" in state
    for number, (name, facts) in enumerate(sums.items()):
        if not re.fullmatch(r"shard-\d+-model-\d+-of-\d+\.safetensors" if sharded else r"\w+\.safetensors", name):
            return (path / STATE, "a file name that is none of a checkpoint"), {}, []
        file = path / name
        if not file.is_file() or file.is_symlink():
            return (file, "a link" if file.is_symlink() else "no such file"), {}, []
        if number % share[1] == share[0] and (file.stat().st_size, file_sha256(file)) != facts:
            return (file, f"{file.stat().st_size} bytes with another checksum"), {}, []
    if sharded and (others := {file.name for file in path.glob("*.safetensors")} - set(sums)):
        return (path / min(others), "a file that state.json does not name"), {}, []
    if not (sharded and sums) and f"{MODEL}.safetensors" not in sums:
        return (path / STATE, "no weights of a model"), {}, []
    return None, state, list(sums)


def cure_of(path: Path) -> str:
    """What to do about a broken checkpoint: the last whole one beside it is named, after a look at every byte of it."""
    intact = [other.name for other in checkpoints(path.parent) if other != path and fault_of(other)[0] is None]
    return f"delete {path} and go on from {intact[-1]}" if intact else "train the run anew"


def _write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    content = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    write_atomically(path, safetensors.torch.save(content))


def unwritten(path: Path, got: str) -> CheckpointError:
    """The error for a checkpoint that could not be written."""
    cure = "make room there, then go on with --resume; earlier checkpoints are whole"
    return CheckpointError(f"{path} could not be written", got=got, cure=cure)


def corrupt(path: Path, got: str, cure: str) -> CheckpointError:
    """The error for a file that is damaged."""
    return CheckpointError(f"{path} is not what was saved", got=got, expected="a whole file", cure=cure)


def _seal(state: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()
