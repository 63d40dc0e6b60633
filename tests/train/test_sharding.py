"""Two nodes with two processes each: copies (DDP) and shards (FSDP2) have the losses of one process, and survive kills.

The nodes are two network namespaces where this is allowed, else two agents of torchrun on the loopback interface; the
name of the first test in a failure, and `nodes` in its output, say which.
"""

import json
import shutil
import sys
from functools import cache
from pathlib import Path
from typing import Any

import nodes
import pytest
import torch
import toy
from torch import Tensor, nn

from regard.base import ConfigError
from regard.models import Transformer, TransformerConfig
from regard.train import World, checkpoints, load_checkpoint, load_tensors, weights
from regard.train.sharding import _names, layers_of

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))

from two_nodes import Launch, two_nodes

KINDS = [pytest.param("copies", marks=pytest.mark.slow), "shards"]  # test_distributed.py has copies too


@pytest.fixture(scope="module")
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All that `nodes.py` does, by two nodes with two processes each; then halves go on with two and with one."""
    folder: Path = tmp_path_factory.mktemp("nodes")
    kinds = ["shards"] if "not slow" in request.config.option.markexpr else [*nodes.KINDS]
    with two_nodes() as (machines, what):
        print("nodes:", what)
        for number, arguments in ((2, []), (1, ["--resume"])):
            log = folder / f"log_of_{number}.txt"
            words = [nodes.__file__, str(folder), *kinds, *arguments]
            launch = Launch(machines[:number], 2, words, log, restarts=4, torchrun=[nodes.__file__])
            ends = launch.wait(limit=1500)
            assert not any(ends), "\n".join(path.read_text()[-5000:] for path in folder.glob(f"log_of_{number}_*"))
    nodes.one(folder / "one", None)
    for kind in kinds:
        shutil.copytree(folder / f"half_{kind}", folder / f"on_1_{kind}")
        nodes.one(folder / f"on_1_{kind}", None, resume=True, **nodes.KINDS[kind])
    return folder


def said(place: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads((place / f"{name}_{rank}.json").read_text()) for rank in range(4)]


@cache
def content(folder: Path) -> dict[str, Any]:
    """All that a run has kept, by checkpoint, file and name, as lists of numbers; and what it has logged."""

    def numbers(tensors: dict[str, Tensor]) -> dict[str, Any]:
        return {name: tensor.tolist() for name, tensor in tensors.items()}

    kept: dict[str, Any] = {}
    for path in checkpoints(folder / "checkpoints"):
        files, state = load_checkpoint(path)
        kept[path.name] = {file: numbers(tensors) for file, tensors in files.items()}
        kept[path.name]["state"] = {k: v for k, v in state.items() if k not in ("seconds", "mark", "files")}
    final = {name: numbers(load_tensors(folder / f"{name}.safetensors")) for name in ("best", "model")}
    return {**kept, **final, "records": toy.records(folder)}


@pytest.mark.parametrize("kind", KINDS)
def test_four_processes_equal_one(place: Path, kind: str) -> None:
    four, one = toy.records(place / f"whole_{kind}"), toy.records(place / "one")
    assert [(record["kind"], record["step"]) for record in four] == [(record["kind"], record["step"]) for record in one]
    for here, there in zip(four, one, strict=True):
        assert {**here, "kind": 0} == pytest.approx({**there, "kind": 0}, rel=1e-5)
    for name in ("best", "model"):
        ours, theirs = (load_tensors(place / run / f"{name}.safetensors") for run in (f"whole_{kind}", "one"))
        assert list(ours) == list(theirs)
        for key, tensor in theirs.items():
            if not key.endswith("to_keys.bias"):  # softmax takes no notice of it: its gradient is all rounding
                torch.testing.assert_close(ours[key], tensor, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_bits_after_a_kill_are_those_of_a_run_that_nobody_disturbed(place: Path, kind: str) -> None:
    """torchrun starts all processes again; nobody types --resume."""
    assert (place / f"killed_{kind}.killed").exists()
    assert [facts[f"killed_{kind}"] for facts in said(place, "last") if f"killed_{kind}" in facts] in ([], [True] * 4)
    assert content(place / f"killed_{kind}") == content(place / f"whole_{kind}")
    assert not (place / f"killed_{kind}" / "torchrun.json").exists()


@pytest.mark.parametrize("kind", KINDS)
def test_a_signal_to_one_process_stops_all_after_the_step(place: Path, kind: str) -> None:
    for facts in said(place, "first"):
        assert facts[f"stopped_{kind}"] == ["interrupted", "step_00000003", "step_00000004"]
    whole, stopped = content(place / f"whole_{kind}"), dict(content(place / f"stopped_{kind}"))
    del stopped["step_00000004"]  # where it was stopped
    assert stopped == whole


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("processes", [1, 2])
def test_a_checkpoint_of_four_goes_on_with_fewer(place: Path, kind: str, processes: int) -> None:
    folder = place / f"on_{processes}_{kind}"
    assert toy.losses(folder) == pytest.approx(toy.losses(place / "one"), rel=1e-5)
    sharded = [bool(list(path.glob("shard-*"))) for path in checkpoints(folder / "checkpoints")]
    assert sharded == ([kind == "shards"] * 2 + [kind == "shards" and processes > 1] * (len(sharded) - 2))


def test_every_process_writes_its_shard_and_holds_all_at_the_end(place: Path) -> None:
    [path, *_] = checkpoints(place / "whole_shards" / "checkpoints")
    names = [f"shard-0000{number}-model-00001-of-00001.safetensors" for number in (1, 2, 3, 4)]
    assert sorted(file.name for file in path.iterdir()) == [*names, "state.json"]
    files, state = load_checkpoint(path)
    assert (state["shards"], state["world"]) == (4, 4)
    alone, _ = load_checkpoint(checkpoints(place / "one" / "checkpoints")[0])
    shapes = {file: {name: tensor.shape for name, tensor in tensors.items()} for file, tensors in files.items()}
    assert shapes == {file: {name: tensor.shape for name, tensor in tensors.items()} for file, tensors in alone.items()}
    assert "to_logits.weight" not in files["model"]  # it is the table of words
    first, *others = said(place, "first")
    for facts in others:
        for run in ("whole_shards", "half_shards"):
            assert facts[run] == first[run]


def test_wrong_use_is_one_error_on_every_process(place: Path) -> None:
    for rank, facts in enumerate(said(place, "first")):
        assert "half_shards holds a run already: got step_00000004" in facts["again"]
        assert f"of_rank_{rank} is not the same folder for all processes: got process 1 on " in facts["unshared"]
    assert not list(place.rglob("*.part"))


# ── which modules, and what cannot be ───────────────────────────────────────────────────────────────────────────────


def named(model: nn.Module) -> dict[str, tuple[str, ...]]:
    names = {id(module): name for name, module in model.named_modules()}
    return {names[id(module)]: methods for module, methods in layers_of(model)}


def test_layers_of_a_transformer() -> None:
    model = Transformer(TransformerConfig(9, 9, dim=4, num_heads=1, hidden_dim=4, encoder_layers=2, decoder_layers=1))
    layers = named(model)
    assert layers == {"encoder.0": (), "encoder.1": (), "decoder.0": (), "decoder.0.cross": ("prepare",)}
    assert next(iter(layers)) == "decoder.0.cross"  # inner ones first


def test_layers_of_other_models() -> None:
    theirs = nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 1), 2, enable_nested_tensor=False)
    assert named(theirs) == {"layers.0": (), "layers.1": ()}
    assert named(toy.network()) == {}
    theirs.shards = {"layers.*": ()}  # type: ignore[assignment]
    assert named(theirs) == {"layers.0": (), "layers.1": ()}  # not what is inside of them
    theirs.layers[1].linear1.weight = theirs.layers[0].linear1.weight
    assert named(theirs) == {}  # both share a weight with another module


def test_what_cannot_be_cut() -> None:
    model = toy.network()
    assert _names(model) == list(weights(model))
    model.scale = nn.Parameter(torch.ones(()))
    with pytest.raises(ConfigError) as caught:
        _names(model)
    assert str(caught.value) == (
        "train.shard: the weight scale cannot be cut: got a single number; expected a tensor of its own, with at least "
        "one axis. Try: set train.shard=false."
    )
    model.scale = nn.Parameter(model[0].weight.data)
    with pytest.raises(ConfigError, match="cannot be cut: got memory of another weight"):
        _names(model)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"capture": True}, "train.capture: got 2 processes; expected one CUDA device. Try: set train.capture=false."),
        (
            {"precision": "pure_bfloat16"},
            "train.precision: got pure_bfloat16; expected one process. Try: set train.precision=bfloat16.",
        ),
    ],
)
def test_settings_that_cannot_be_together(tmp_path: Path, settings: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        toy.run(tmp_path, world=World(0, 2, torch.device("cuda")), shard=True, **settings)
    assert str(caught.value) == text
    assert list(tmp_path.iterdir()) == []


def test_one_process_keeps_all_of_it(tmp_path: Path) -> None:
    toy.run(tmp_path / "shards", shard=True, steps=3)
    toy.run(tmp_path / "plain", steps=3)
    assert content(tmp_path / "shards") == content(tmp_path / "plain")
