"""Checkpoints: a folder with safetensors and JSON, written beside and renamed, so it is whole or not there.

checkpoints/step_00001000/
  model.safetensors        weights
  mean.safetensors         their running mean, if there is one
  optimiser.safetensors    moments
  state.json               step, position in the data, history; the checksum and size of the files above

Nothing is unpickled. An old checkpoint goes only after a new one is in its place.
"""

import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

from regard.base import RegardError, write_atomically

PREFIX = "step_"
STATE = "state.json"


class CheckpointError(RegardError):
    """A checkpoint cannot be written or read."""


def weights(model: nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers by name; those that share memory once, under the first name."""
    found: dict[str, Tensor] = {}
    seen: set[tuple[int, torch.Size]] = set()
    for name, tensor in model.state_dict(keep_vars=True).items():
        place = (tensor.data_ptr(), tensor.shape)
        if place not in seen or not tensor.numel():
            seen.add(place)
            found[name] = tensor.detach()
    return found


def load_weights(model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """What `weights` gave, back into a model of the same settings."""
    wanted = weights(model)
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
    for name, tensor in wanted.items():
        tensor.copy_(tensors[name])


class Started(NamedTuple):
    """What another run's weights went into."""

    part: str  # "" for the whole model
    new: tuple[str, ...]  # weights that stay as they are, since another question has other answers


def start_from(model: nn.Module, tensors: Mapping[str, Tensor]) -> Started:
    """Weights of another run into a model, or into the first of its parts that has them all.

    What they do not hold stays as it is: a decision on top of what could see already, an encoder inside. So do the
    layers that `model.answers` names, where they have another size: with which two digits there are, a model can begin
    to learn what their sum is.
    """
    wanted, answers = weights(model), tuple(getattr(model, "answers", ()))
    for part in ("", *(f"{name}." for name, _ in model.named_children())):
        if not all(part + name in wanted for name in tensors):
            continue
        new = tuple(name for name in tensors if wanted[part + name].shape != tensors[name].shape)
        if len(new) < len(tensors) and all(not part and name.startswith(answers) for name in new):
            for name in tensors.keys() - set(new):
                wanted[part + name].copy_(tensors[name])
            return Started(part.removesuffix("."), new)
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
    except OSError as error:
        raise _unwritten(path, error) from error


def load_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file."""
    try:
        return safetensors.torch.load_file(path)
    except (OSError, safetensors.SafetensorError) as error:
        raise _corrupt(path, str(error)) from error


def save_checkpoint(
    folder: Path, step: int, files: Mapping[str, Mapping[str, Tensor]], state: Mapping[str, Any]
) -> Path:
    """Write `folder/step_…`: each of `files` as NAME.safetensors, and the state with checksums of them and itself."""
    final = folder / f"{PREFIX}{step:08d}"
    part = folder / f".{final.name}.{secrets.token_hex(6)}.part"
    try:
        part.mkdir(parents=True)
        sums = {}
        for name, tensors in files.items():
            path = part / f"{name}.safetensors"
            _write_tensors(path, tensors)
            sums[path.name] = {"bytes": path.stat().st_size, "sha256": _sum(path)}
        content = json.loads(json.dumps({**state, "step": step, "files": sums}))
        write_atomically(part / STATE, json.dumps({**content, "sha256": _seal(content)}, indent=1))
        _sync(part)
        old = part.with_suffix(".old.part")
        if final.exists():
            os.replace(final, old)
        os.replace(part, final)
        _sync(folder)
        shutil.rmtree(old, ignore_errors=True)
    except OSError as error:
        shutil.rmtree(part, ignore_errors=True)
        raise _unwritten(final, error) from error
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    return final


def load_checkpoint(path: Path) -> tuple[dict[str, dict[str, Tensor]], dict[str, Any]]:
    """The files and the state of one checkpoint, each file checked against its checksum."""
    try:
        state = json.loads((path / STATE).read_text(encoding="utf-8"))
        sums = {name: (facts["bytes"], facts["sha256"]) for name, facts in state["files"].items()}
        seal = state.pop("sha256", None)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise _corrupt(path / STATE, str(error)) from error
    if seal is not None and seal != _seal(state):
        raise _corrupt(path / STATE, "another checksum")
    files = {}
    for name, facts in sums.items():
        file = path / name
        if not file.exists() or (file.stat().st_size, _sum(file)) != facts:
            got = "no such file" if not file.exists() else f"{file.stat().st_size} bytes with another checksum"
            raise _corrupt(file, got)
        files[file.stem] = load_tensors(file)
    return files, state


def checkpoints(folder: Path) -> list[Path]:
    """All checkpoints of a folder, earliest first."""
    named = [path for path in folder.glob(PREFIX + "*") if re.fullmatch(PREFIX + r"\d+", path.name)]
    return sorted(named, key=lambda path: int(path.name.removeprefix(PREFIX)))


def prune(folder: Path, keep: int) -> None:
    """Remove all but the last `keep` checkpoints, and what a killed process left half-written."""
    for path in checkpoints(folder)[:-keep]:
        shutil.rmtree(path, ignore_errors=True)
    for path in folder.glob(f".{PREFIX}*.part"):
        shutil.rmtree(path, ignore_errors=True)


def _write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    content = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    write_atomically(path, safetensors.torch.save(content))


def _unwritten(path: Path, error: OSError) -> CheckpointError:
    got = (error.strerror or str(error)).lower()
    cure = "make room there, then go on with --resume; earlier checkpoints are whole"
    return CheckpointError(f"{path} could not be written", got=got, cure=cure)


def _corrupt(path: Path, got: str) -> CheckpointError:
    others = [other.name for other in checkpoints(path.parent.parent) if other != path.parent]
    cure = f"delete {path.parent} and go on from {others[-1]}" if others else "the run has to start anew"
    return CheckpointError(f"{path} is not what was saved", got=got, expected="a whole file", cure=cure)


def _seal(state: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()


def _sum(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync(folder: Path) -> None:
    """Names reach the disk too."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
