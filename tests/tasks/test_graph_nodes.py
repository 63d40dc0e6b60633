"""The graphs of a task: sets of the menu, files of the user, tensors on a device, and what a run folder keeps."""

from pathlib import Path

import pytest
import torch

from regard.base import ConfigError, RegardError
from regard.data.pictures import IGNORE
from regard.models import GATConfig
from regard.score import Edges
from regard.tasks import NodeClassification, NodeClassificationConfig
from regard.tasks.graph_nodes import NODES

CPU = torch.device("cpu")


def test_graphs_of_a_batch_are_joined_and_single_ones_stay() -> None:
    task = NodeClassification(NodeClassificationConfig("communities"))
    both, first, second = (task.on_device("train", CPU, numbers) for numbers in ((0, 3), (0,), (3,)))
    assert torch.equal(both.features, torch.cat([first.features, second.features]))
    assert torch.equal(both.edges.mask(), Edges.join([first.edges, second.edges]).mask())
    assert task.on_device("train", CPU, (0,)) is first
    everything = task.on_device("test", CPU)
    assert everything is task.on_device("test", CPU)
    counted = (everything.labels != IGNORE).nonzero().squeeze(1)
    assert counted.tolist() == task.splits["test"].rows.tolist()
    assert everything.labels[counted].tolist() == task.splits["test"].labels[counted.numpy()].tolist()


def test_only_the_nodes_of_the_split_have_a_label() -> None:
    task = NodeClassification(NodeClassificationConfig("one_community_graph"))
    for split in ("train", "valid", "test"):
        labels = task.on_device(split, CPU).labels
        assert (labels != IGNORE).nonzero().squeeze(1).tolist() == sorted(task.splits[split].rows.tolist())


def test_features_are_normalised_unless_told() -> None:
    plain = NodeClassification(NodeClassificationConfig("one_community_graph", normalise=False)).on_device("train", CPU)
    normal = NodeClassification(NodeClassificationConfig("one_community_graph")).on_device("train", CPU)
    assert set(plain.features.sum(1).tolist()) == {1.0, 2.0}
    torch.testing.assert_close(normal.features, plain.features / plain.features.sum(1, keepdim=True))


def test_files_of_the_user(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text("node,label,x\n" + "".join(f"{n},{n % 2},{n}\n" for n in range(20)))
    (tmp_path / "edges.csv").write_text("".join(f"{n},{n + 1}\n" for n in range(19)))
    for source, target in ((tmp_path, None), (tmp_path / "edges.csv", tmp_path / "nodes.csv")):
        config = NodeClassification.from_files(NodeClassificationConfig(), str(source), target and str(target))
        assert (config.data_set(), config.describe_data()) == ("own", "own")
        task = NodeClassification(config)
        assert task.complete(GATConfig()) == GATConfig(features=1, classes=2)
        assert task.splits["train"].size == 12


def test_a_run_is_loaded_without_its_data(tmp_path: Path) -> None:
    task = NodeClassification(NodeClassificationConfig("communities"))
    task.save(tmp_path)
    loaded = NodeClassification.load(tmp_path, NodeClassificationConfig("cora"))  # whose file is not there
    assert loaded.complete(GATConfig()) == GATConfig(features=5, classes=4)
    (tmp_path / NODES).write_text('{"classes": [1], "features": 2}')
    with pytest.raises(RegardError, match=r"nodes\.json cannot be read"):
        NodeClassification.load(tmp_path, NodeClassificationConfig("cora"))
    (tmp_path / NODES).unlink()
    assert NodeClassification.load(tmp_path, NodeClassificationConfig("communities")).facts.features == 5


def test_settings_in_words() -> None:
    assert NodeClassificationConfig().describe_data() == "cora"
    with pytest.raises(ConfigError, match=r"task\.dataset: got 'corra'; expected one of cora, citeseer, communities"):
        NodeClassification(NodeClassificationConfig("corra")).splits  # noqa: B018
