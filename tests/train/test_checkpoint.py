"""Checkpoints: whole or not there, checked when read, and nothing in them is code."""

import errno
import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import toy
from torch import Tensor, nn

import regard
from regard.models import Transformer, TransformerConfig
from regard.train import (
    CheckpointError,
    checkpoints,
    load_checkpoint,
    load_tensors,
    load_weights,
    save_checkpoint,
    save_tensors,
    weights,
)
from regard.train.checkpoint import _seal, checksum, prune, tidy

FILES = {"model": {"a": torch.arange(6.0).view(2, 3), "b": torch.tensor(3)}, "optimiser": {"a/step": torch.ones(())}}
STATE = {"batches": {"position": 3}, "seconds": 0.1 + 0.2, "best": None}


def save(folder: Path, *steps: int) -> list[Path]:
    return [save_checkpoint(folder, step, FILES, STATE) for step in steps]


def whole(path: Path) -> bool:
    files, state = load_checkpoint(path)
    equal = all(torch.equal(files[name][key], FILES[name][key]) for name in FILES for key in FILES[name])
    return equal and {key: state[key] for key in STATE} == STATE


def test_there_and_back(tmp_path: Path) -> None:
    [path] = save(tmp_path / "new" / "checkpoints", 1000)
    assert path == tmp_path / "new" / "checkpoints" / "step_00001000"
    assert sorted(file.name for file in path.iterdir()) == ["model.safetensors", "optimiser.safetensors", "state.json"]
    assert whole(path)
    files, state = load_checkpoint(path)
    assert state["step"] == 1000
    assert (files["model"]["b"].dtype, files["model"]["a"].dtype) == (torch.int64, torch.float32)
    assert set(json.loads((path / "state.json").read_text())["files"]) == {"model.safetensors", "optimiser.safetensors"}


def test_views_and_every_type(tmp_path: Path) -> None:
    base = torch.randn(4, 6)
    tensors = {"turned": base.mT, "part": base[1:3], "half": base.bfloat16(), "empty": base[:0], "flag": base > 0}
    save_tensors(tmp_path / "x.safetensors", tensors)
    found = load_tensors(tmp_path / "x.safetensors")
    assert all(
        torch.equal(found[name], tensor) and found[name].dtype == tensor.dtype for name, tensor in tensors.items()
    )


def test_the_order_is_that_of_steps(tmp_path: Path) -> None:
    save(tmp_path, 900, 10_000, 1)
    save(tmp_path, 123_456_789)  # more digits than the name has room for
    (tmp_path / "step_final").mkdir()
    (tmp_path / ".step_00000005.0123.part").mkdir()
    names = [path.name for path in checkpoints(tmp_path)]
    assert names == ["step_00000001", "step_00000900", "step_00010000", "step_123456789"]
    assert checkpoints(tmp_path / "nowhere") == []


def test_prune(tmp_path: Path) -> None:
    save(tmp_path, 1, 2, 3, 4)
    left = tmp_path / ".step_00000005.0123456789ab.part"
    left.mkdir()
    (left / ".model.safetensors.99.part").write_bytes(b"half")
    (tmp_path / "notes").mkdir()
    prune(tmp_path, 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["notes", "step_00000003", "step_00000004"]
    prune(tmp_path, 5)
    assert len(checkpoints(tmp_path)) == 2


def test_prune_is_never_seen_at_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At each file that goes, all checkpoints that there are can be loaded: one is renamed before it is removed."""
    save(tmp_path, 1, 2, 3)
    remove, seen = shutil.rmtree, []

    def watched(path: Path, **options: Any) -> None:
        assert path.name.startswith(".step_")
        assert all(whole(other) for other in tmp_path.glob("step_*"))
        seen.append(path.name)
        remove(path, **options)

    monkeypatch.setattr("regard.train.checkpoint.shutil.rmtree", watched)
    prune(tmp_path, 1)
    assert len(seen) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["step_00000003"]


@pytest.mark.parametrize("keep", [1, 2])
def test_a_kill_in_the_middle_of_prune(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keep: int) -> None:
    save(tmp_path, 1, 2, 3)
    monkeypatch.setattr("regard.train.checkpoint.shutil.rmtree", stop)
    with pytest.raises(toy.Stop):
        prune(tmp_path, keep)
    monkeypatch.undo()
    assert all(whole(path) for path in tmp_path.glob("step_*"))
    assert checkpoints(tmp_path)[-1].name == "step_00000003"
    tidy(tmp_path)
    assert [path for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def stop(*_: object, **__: object) -> None:
    raise toy.Stop


def test_a_folder_without_its_state_is_no_checkpoint(tmp_path: Path) -> None:
    """What versions left behind that removed checkpoints in their place."""
    save(tmp_path, 1, 2, 3)
    for step in (1, 3):
        (tmp_path / f"step_0000000{step}" / "state.json").unlink()
    (tmp_path / "step_00000004").symlink_to(tmp_path / "step_00000002")
    assert [path.name for path in checkpoints(tmp_path)] == ["step_00000002"]
    prune(tmp_path, 1)  # the one before goes; what comes after may hold somebody's weights
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step_00000002", "step_00000003", "step_00000004"]
    assert whole(*save(tmp_path, 3))


def test_the_cure_names_a_checkpoint_that_is_whole(tmp_path: Path) -> None:
    """Whoever does as it says must not come to the next broken one, nor to a new beginning."""
    _, second, third, last = save(tmp_path, 1, 2, 3, 4)
    (second / "state.json").unlink()
    flip(third / "model.safetensors")
    flip(last / "optimiser.safetensors")
    with pytest.raises(CheckpointError, match=rf"Try: delete {last} and go on from step_00000001\.$"):
        load_checkpoint(last)


def test_a_kill_while_a_step_is_saved_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the two renames the step is nowhere; the next process puts it back."""
    save(tmp_path, 7)
    replace, alive = os.replace, [True]

    def killed(one: Path, other: Path) -> None:
        alive[0] &= Path(other).name != "step_00000007"
        if not alive[0]:
            raise toy.Stop  # and nothing that is still tried has an effect
        replace(one, other)

    monkeypatch.setattr(os, "replace", killed)
    with pytest.raises(toy.Stop):
        save(tmp_path, 7)
    monkeypatch.undo()
    assert checkpoints(tmp_path) == []
    tidy(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["step_00000007"]
    assert whole(tmp_path / "step_00000007")


def test_a_rename_that_fails_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path, 7)
    replace = os.replace

    def full(one: Path, other: Path) -> None:
        if Path(other).name == "step_00000007" and ".old." not in Path(one).name:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        replace(one, other)

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(CheckpointError, match="no space left"):
        save(tmp_path, 7)
    assert [path.name for path in tmp_path.iterdir()] == ["step_00000007"]
    assert whole(tmp_path / "step_00000007")


def test_the_same_step_again(tmp_path: Path) -> None:
    save(tmp_path, 7)
    save_checkpoint(tmp_path, 7, {"model": {"a": torch.zeros(1)}}, {"other": 1})
    files, state = load_checkpoint(tmp_path / "step_00000007")
    assert (list(files), state["other"]) == (["model"], 1)
    assert [path.name for path in tmp_path.iterdir()] == ["step_00000007"]


# ── what is broken is named ─────────────────────────────────────────────────────────────────────────────────────────


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-3])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("spoil", [truncate, flip, Path.unlink, lambda path: path.write_bytes(b"")])
@pytest.mark.parametrize("name", ["model.safetensors", "optimiser.safetensors", "state.json"])
def test_a_broken_file(tmp_path: Path, name: str, spoil: Callable[[Path], None]) -> None:
    before, last = save(tmp_path, 1, 2)
    spoil(last / name)
    with pytest.raises(
        CheckpointError, match=rf"{name} is not what was saved: got .*; expected a whole file"
    ) as caught:
        load_checkpoint(last)
    assert str(caught.value).endswith(f"Try: delete {last} and go on from step_00000001.")
    assert whole(before)
    shutil.rmtree(before)
    with pytest.raises(CheckpointError, match="Try: train the run anew"):
        load_checkpoint(last)


def test_every_flipped_bit_is_seen(tmp_path: Path) -> None:
    """In the numbers of state.json too: 0.3 for 0.1 would be sound JSON."""
    [path] = save(tmp_path, 1)
    content = (path / "state.json").read_bytes()
    for place in range(0, len(content), 3):
        spoilt = bytearray(content)
        spoilt[place] ^= 1 << (place % 7)
        (path / "state.json").write_bytes(spoilt)
        try:
            unharmed = whole(path)  # white space, or the name of the checksum itself
        except CheckpointError:
            continue
        assert unharmed, f"byte {place}: {spoilt.decode(errors='replace')}"


def test_a_checkpoint_that_is_no_object(tmp_path: Path) -> None:
    [path] = save(tmp_path, 1)
    texts = ("[]", "3", '{"step": 1}', '{"files": 7}', '{"files": {"model.safetensors": 3}}', "[" * 100_000, "null")
    for text in texts:
        (path / "state.json").write_text(text)
        with pytest.raises(CheckpointError, match=r"state.json is not what was saved"):
            load_checkpoint(path)


def sealed(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """state.json with a change and a right checksum: what a stranger can make."""
    state = json.loads((path / "state.json").read_text())
    state.pop("sha256")
    change(state)
    (path / "state.json").write_text(json.dumps({**state, "sha256": _seal(state)}))


def test_a_state_without_its_checksum(tmp_path: Path) -> None:
    [path] = save(tmp_path, 1)
    state = json.loads((path / "state.json").read_text())
    state.pop("sha256")
    (path / "state.json").write_text(json.dumps(state))
    with pytest.raises(CheckpointError, match=r"state.json is not what was saved: got no checksum of its own"):
        load_checkpoint(path)


@pytest.mark.parametrize(
    "name", ["/etc/passwd", "../../x.safetensors", "..", "", "a/b.safetensors", "state.json", "\0"]
)
def test_files_outside_are_not_opened(tmp_path: Path, name: str) -> None:
    """Nor does the cure tell anybody to delete a folder that is no checkpoint."""
    _, path = save(tmp_path / "checkpoints", 1, 2)
    sealed(path, lambda state: state["files"].update({name: {"bytes": 1, "sha256": ""}}))
    with pytest.raises(CheckpointError) as caught:
        load_checkpoint(path)
    assert str(caught.value) == (
        f"{path}/state.json is not what was saved: got a file name that is none of a checkpoint; "
        f"expected a whole file. Try: delete {path} and go on from step_00000001."
    )


def test_links_in_a_checkpoint_are_not_followed(tmp_path: Path) -> None:
    [path] = save(tmp_path / "checkpoints", 1)
    (path / "model.safetensors").rename(tmp_path / "model.safetensors")
    (path / "model.safetensors").symlink_to(tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"model.safetensors is not what was saved: got a link"):
        load_checkpoint(path)
    (path / "state.json").rename(tmp_path / "state.json")
    (path / "state.json").symlink_to(tmp_path / "state.json")
    with pytest.raises(CheckpointError, match=r"state.json is not what was saved: got a link that leads out"):
        load_checkpoint(path)


def test_a_checkpoint_without_a_model(tmp_path: Path) -> None:
    path = save_checkpoint(tmp_path, 1, {"other": {"a": torch.ones(1)}}, {})
    with pytest.raises(CheckpointError, match=r"state.json is not what was saved: got no weights of a model"):
        load_checkpoint(path)


def test_the_checksum_is_of_all_weights() -> None:
    model = toy.network()
    first = checksum(model)
    assert checksum(toy.network()) == first
    for change in (lambda: model[4].bias.data.add_(1e-7), lambda: model.number.add_(1), lambda: model.double()):
        change()
        assert checksum(model) != first
        first = checksum(model)


def test_a_missing_or_broken_tensor_file(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"best.safetensors is not what was saved: got .*[Nn]o such file"):
        load_tensors(tmp_path / "best.safetensors")
    (tmp_path / "best.safetensors").write_bytes(b"nonsense")
    with pytest.raises(CheckpointError, match=r"best.safetensors is not what was saved"):
        load_tensors(tmp_path / "best.safetensors")


# ── a full disk ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("touch", range(1, 6))  # each file, and the folder
def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, touch: int) -> None:
    before = save(tmp_path / "checkpoints", 1, 2)
    sync, left = os.fsync, [touch]

    def full(handle: int) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(handle)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CheckpointError) as caught:
        save(tmp_path / "checkpoints", 3)
    assert str(caught.value) == (
        f"{tmp_path}/checkpoints/step_00000003 could not be written: got no space left on device."
        " Try: make room there, then go on with --resume; earlier checkpoints are whole."
    )
    monkeypatch.setattr(os, "fsync", sync)
    assert not [path for path in (tmp_path / "checkpoints").iterdir() if path.name.startswith(".")]
    assert all(whole(path) for path in checkpoints(tmp_path / "checkpoints"))
    assert set(before) <= set(checkpoints(tmp_path / "checkpoints"))
    assert whole(*save(tmp_path / "checkpoints", 3))


def test_a_full_disk_while_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"steps": 6, "save_every": 2, "evaluate_every": 3}
    toy.run(tmp_path / "whole", **settings)

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def fill(kind: str, facts: object) -> None:
        if kind == "saved":
            monkeypatch.setattr(os, "fsync", full)

    with pytest.raises(CheckpointError, match=r"best.safetensors could not be written: got no space left on device"):
        toy.run(tmp_path / "full", watch=fill, **settings)
    monkeypatch.undo()
    assert list(tmp_path.glob("full/**/*.part")) == []
    toy.run(tmp_path / "full", resume=True, **settings)
    assert toy.records(tmp_path / "full") == toy.records(tmp_path / "whole")


def test_no_place_to_write(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").write_text("a file")
    with pytest.raises(CheckpointError, match=r"step_00000001 could not be written: got (not a directory|file exists)"):
        save(tmp_path / "checkpoints", 1)


def test_an_interrupt_while_saving_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(handle: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        save(tmp_path, 1)
    assert list(tmp_path.iterdir()) == []


# ── weights ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def tied() -> Transformer:
    return Transformer(TransformerConfig(9, 9, dim=8, hidden_dim=8, num_heads=2, encoder_layers=1, decoder_layers=1))


def test_tied_weights_are_saved_once(tmp_path: Path) -> None:
    model, other = tied(), tied()
    found = weights(model)
    assert len(found) < len(model.state_dict())
    assert sum(tensor.numel() for tensor in found.values()) >= sum(p.numel() for p in model.parameters())
    save_tensors(tmp_path / "model.safetensors", found)
    load_weights(other, load_tensors(tmp_path / "model.safetensors"))
    for (name, one), two in zip(model.state_dict().items(), other.state_dict().values(), strict=True):
        assert torch.equal(one, two), name
    assert len({p.data_ptr() for p in other.parameters()}) == len(list(model.parameters()))  # and they are still tied
    source, lengths = torch.tensor([[4, 5, 2]]), torch.tensor([3])
    with torch.no_grad():
        one, two = (each.eval()(source, lengths, torch.tensor([[1, 4]])).logits for each in (model, other))
    assert torch.equal(one, two)


def test_buffers_and_shapes_in_the_same_place() -> None:
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.whole = nn.Parameter(torch.arange(6.0))
            self.register_buffer("view", self.whole.data[:3])  # begins where `whole` does, but is not the same
            self.register_buffer("none", torch.zeros(0))
            self.register_buffer("nothing", torch.zeros(0))

    assert list(weights(Odd())) == ["whole", "view", "none", "nothing"]


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda found: found | {"c": torch.zeros(1)}, "weights are of another model: got c too many. Try: load them"),
        (lambda found: {"a.weight": found["a.weight"]}, "weights are of another model: got no a.bias"),
        (lambda found: found | {"a.bias": torch.zeros(1)}, r"another model: a.bias: got \[1\]; expected \[3\]"),
    ],
)
def test_weights_of_another_model(spoil: Callable[[dict[str, Tensor]], dict[str, Tensor]], message: str) -> None:
    model = nn.ModuleDict({"a": nn.Linear(2, 3)})
    before = model["a"].weight.clone()
    with pytest.raises(CheckpointError, match=message):
        load_weights(model, spoil(weights(nn.ModuleDict({"a": nn.Linear(2, 3)}))))
    assert torch.equal(model["a"].weight, before)  # nothing is half loaded


def test_nothing_is_unpickled() -> None:
    """Weights of others exist as .pth alone; with weights_only=True torch reads tensors and nothing else."""
    code = r"(?<!safetensors\.)torch\.(load\b(?!\(.*weights_only=True\))|save\b)|\bimport pickle\b|allow_pickle=True"
    code += r"|\bmarshal\b|joblib|(?<!\.)\b(eval|exec)\("
    for path in Path(regard.__file__).parent.rglob("*.py"):
        assert not re.search(code, path.read_text()), path
