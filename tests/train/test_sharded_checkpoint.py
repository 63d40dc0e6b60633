"""Checkpoints in shards: whole or not there, checked when read, and no code in them. Four writers: test_sharding."""

import json
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributed.checkpoint.api import CheckpointException

from regard.train import CheckpointError, World, checkpoints, load_checkpoint
from regard.train import sharded_checkpoint as module
from regard.train.checkpoint import _seal, file_sha256, is_sharded
from regard.train.sharded_checkpoint import read_shards, save_shards

NAME = "shard-00001-model-00001-of-00001.safetensors"
FILES = {
    "model": {"a.b": torch.arange(6.0).view(2, 3), "count": torch.tensor(3), "empty": torch.zeros(0, 2)},
    "optimiser": {"a.b/step": torch.ones(()), "a.b/exp_avg": torch.randn(2, 3)},
}
STATE = {"batches": {"position": 3}, "seconds": 0.1 + 0.2, "best": None}


def save(folder: Path, step: int = 7) -> Path:
    return save_shards(folder, step, FILES, STATE, World())


def test_there_and_back(tmp_path: Path) -> None:
    path = save(tmp_path)
    assert sorted(file.name for file in path.iterdir()) == [NAME, "state.json"]
    assert (checkpoints(tmp_path), is_sharded(path)) == ([path], True)
    for files, state in (load_checkpoint(path), read_shards(path, World(), lambda *_: None)):
        assert {key: state[key] for key in STATE} == STATE
        assert (state["step"], state["shards"]) == (7, 1)
        assert {file: set(tensors) for file, tensors in files.items()} == {f: set(t) for f, t in FILES.items()}
        for file, tensors in FILES.items():
            for name, tensor in tensors.items():
                assert torch.equal(files[file][name], tensor)
                assert files[file][name].dtype == tensor.dtype
    save(tmp_path)  # the same step again
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def flip(path: Path) -> None:
    content = bytearray((path / NAME).read_bytes())
    content[-1] ^= 1
    (path / NAME).write_bytes(content)


def lose(path: Path) -> None:
    (path / NAME).unlink()


def link(path: Path) -> None:
    shutil.move(path / NAME, path.parent / "elsewhere")
    (path / NAME).symlink_to(path.parent / "elsewhere")


def add(path: Path) -> None:
    shutil.copy(path / NAME, path / "shard-00002-model-00001-of-00001.safetensors")


def reseal(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Another state.json, with checksums that are right."""
    state = json.loads((path / "state.json").read_text())
    state.pop("sha256")
    for name in state["files"]:
        file = path / name
        if file.exists():
            state["files"][name] = {"bytes": file.stat().st_size, "sha256": file_sha256(file)}
    change(state)
    (path / "state.json").write_text(json.dumps({**state, "sha256": _seal(state)}))


def head(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Another head of the file, sealed."""
    content = (path / NAME).read_bytes()
    [size] = struct.unpack("<Q", content[:8])
    facts = json.loads(content[8 : 8 + size])
    change(facts)
    text = json.dumps(facts).encode()
    (path / NAME).write_bytes(struct.pack("<Q", len(text)) + text + content[8 + size :])
    reseal(path, lambda state: None)


def moved(facts: dict[str, Any]) -> None:
    """The part says that it is a later one: what comes before it is nowhere."""
    places = json.loads(facts["__metadata__"]["DCP_SHARDING_INFO"])
    places["model/a.b"]["saved_offsets"] = [10**12, 0]
    facts["__metadata__"]["DCP_SHARDING_INFO"] = json.dumps(places)


@pytest.mark.parametrize(
    ("harm", "text"),
    [
        (flip, "another checksum"),
        (lose, "no such file"),
        (link, "a link"),
        (add, "a file that state.json does not name"),
        (lambda path: reseal(path, lambda state: state["files"].update({"../x": state["files"][NAME]})), "a file name"),
        (lambda path: reseal(path, lambda state: state["files"].clear()), "."),
        (lambda path: reseal(path, lambda state: state.pop("shards")), "a file name that is none of a checkpoint"),
        (lambda path: head(path, moved), "parts of model/a.b are missing"),
        (lambda path: head(path, lambda facts: facts["__metadata__"].update(DCP_SHARDING_INFO="{}")), "KeyError|/"),
        (lambda path: head(path, lambda facts: facts["__metadata__"].update(DCP_SHARDING_INFO="[" * 99_999)), "."),
        (lambda path: head(path, lambda facts: facts["__metadata__"].update(DCP_SHARDING_INFO="no")), "."),
    ],
)  # fmt: skip
def test_what_others_made_of_it_is_refused(tmp_path: Path, harm: Callable[[Path], object], text: str) -> None:
    save(tmp_path, 3)
    path = save(tmp_path, 7)
    harm(path)
    with pytest.raises(CheckpointError, match=text) as caught:
        load_checkpoint(path)
    assert f"delete {path} and go on from step_00000003" in str(caught.value)


def test_without_a_model_it_is_no_checkpoint(tmp_path: Path) -> None:
    path = save_shards(tmp_path, 7, {"mean": FILES["model"]}, STATE, World())
    with pytest.raises(CheckpointError, match="no weights of a model"):
        load_checkpoint(path)


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), "torch"])
@pytest.mark.parametrize("where", ["save", "_sums", "seal"])
def test_a_full_disk_leaves_the_earlier_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, error: BaseException | str
) -> None:
    path = save(tmp_path)
    full = OSError(28, "No space left on device")
    raised = CheckpointException("write", {2: (full, None)}) if error == "torch" else full  # type: ignore[dict-item]

    def fail(*_: object, **__: object) -> None:
        raise raised

    monkeypatch.setattr(module, where, fail)
    with pytest.raises(CheckpointError, match=r"could not be written: got no space left on device. Try: make room"):
        save(tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
    assert load_checkpoint(path)[1]["step"] == 7
