"""What the tests of the studio share: a studio with a translator, a trace and a run, and a client with its token."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from regard import trace
from regard.studio.app import Studio, create_app
from regard.studio.limits import Limits
from regard.studio.traces import Traces

TOKEN, PORT = "a-token-of-the-tests", 8123


@pytest.fixture(scope="session")
def seen() -> Any:
    """A trace of a model of torch, over seven words."""
    torch.manual_seed(3)
    layer = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), 2).eval()
    words = ["the", "cat", "sat", "on", "the", "old", "mat"]
    with torch.no_grad(), trace(layer, rows=words, columns=words) as made:
        layer(torch.randn(1, 7, 16))
    return made


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a training that goes on."""
    folder = tmp_path_factory.mktemp("runs") / "going"
    folder.mkdir()
    (folder / "recipe.json").write_text(
        json.dumps({"paper": "bahdanau", "train": {"steps": 100}, "task": {"corpus": "x"}})
    )
    lines = [{"kind": "train", "step": step, "loss": 5.0 / step, "lr": 0.1} for step in (10, 20, 30)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"kind": "tr')
    figures = {"figures": {"bleu": 12.5}, "lengths": [{"low": 1, "high": 5, "count": 3, "bleu": 20.0}]}
    (folder / "result_test.json").write_text(json.dumps(figures))
    return folder


@pytest.fixture(scope="session")
def studio(seen: Any, run_folder: Path) -> Iterator[Studio]:
    traces = Traces()
    traces.add("small", seen)
    made = Studio.of(run_folders=[run_folder], traces=traces, limits=Limits(body=200_000), device="cpu")
    yield made
    made.queue.close()


@pytest.fixture
def client(studio: Studio) -> Iterator[Any]:
    from starlette.testclient import TestClient

    app = create_app(studio, token=TOKEN, port=PORT, names=["127.0.0.1", "localhost"])
    with TestClient(app, base_url=f"http://127.0.0.1:{PORT}", headers={"X-Regard-Token": TOKEN}) as made:
        yield made
