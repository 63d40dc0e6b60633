"""The graphs of a task: where they come from, what a run folder keeps of them, and their tensors on the device."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from regard.base import RegardError, check_settings, fill, followed, read_json, write_atomically
from regard.base.ranges import BatchSize, UserPath
from regard.data import GraphSplit, read_graph, row_normalised
from regard.data.pictures import IGNORE
from regard.datasets import DATASETS, choose
from regard.score import Edges
from regard.tasks.inputs import checked_split

NODES = "nodes.json"  # in a run folder: the classes, and how many features a node has
OWN = "own"  # the name of the data set that is a user's files


@dataclass(frozen=True)
class NodeClassificationConfig:
    """Which graphs, in which batches."""

    dataset: str = "cora"  # of DATASETS
    normalise: bool = True  # whether the features of a node are divided by their sum
    batch_size: BatchSize = 1  # graphs in a batch, joined into one; of one graph, the whole graph
    directed: bool = False  # of your own files: only the target of an edge sees its source
    edges_file: UserPath | None = None  # your own edges, or a folder with edges.tsv and nodes.tsv
    nodes_file: UserPath | None = None  # your own nodes with labels and features

    def __post_init__(self) -> None:
        check_settings(self, "task")

    def describe_data(self) -> str:
        """The data in a few words, for tables."""
        return self.data_set()

    def data_set(self) -> str:
        """The name of the data set."""
        return OWN if self.edges_file is not None else self.dataset


class GraphTensors(NamedTuple):
    """Some graphs joined into one, on a device."""

    features: Tensor  # [n f]
    edges: Edges
    labels: Tensor  # [n], IGNORE for nodes that do not count

    def to(self, device: torch.device) -> "GraphTensors":
        """The same on another device."""
        return GraphTensors(self.features.to(device), self.edges.to(device), self.labels.to(device))


class Facts(NamedTuple):
    """What a model must know of the data."""

    classes: tuple[str, ...]
    features: int


class GraphNodes:
    """Train, valid and test nodes, read when they are first asked for, and as tensors where a model needs them."""

    def __init__(self, config: NodeClassificationConfig, facts: Facts | None = None) -> None:
        self.config = config
        self._facts = facts
        self._places: dict[tuple[str, torch.device, tuple[int, ...]], GraphTensors] = {}
        self._by_name: dict[str, dict[str, int]] = {}  # numbers of nodes, by split and name

    @cached_property
    def splits(self) -> dict[str, GraphSplit]:
        """Train, valid and test nodes by name, read when they are first asked for."""
        config = self.config
        if config.edges_file is None:
            splits: dict[str, GraphSplit] = choose(DATASETS, "graphs", config.dataset, setting="task.dataset").read()
            return splits
        nodes = config.nodes_file
        return read_graph(
            followed(config.edges_file, cure="name it again by --source"),
            None if nodes is None else followed(nodes, cure="name it again by --target"),
            directed=config.directed,
        )

    @property
    def facts(self) -> Facts:
        """The classes and the number of features."""
        if self._facts is None:
            train = self.splits["train"]
            self._facts = Facts(train.classes, train.graphs[0].features.shape[1])
        return self._facts

    @classmethod
    def from_files(cls, config: NodeClassificationConfig, source: str, target: str | None) -> NodeClassificationConfig:
        """`regard train gat/smoke --source FOLDER`, or `--source edges.tsv --target nodes.tsv`."""
        return replace(config, edges_file=source, nodes_file=target)

    def complete(self, model_config: Any) -> Any:
        """A model must know how many features and classes there are."""
        return fill(model_config, {"features": self.facts.features, "classes": len(self.facts.classes)})

    def save(self, folder: Path) -> None:
        """Writes the classes and the number of features, so that a run is loaded without its data."""
        content = {"classes": list(self.facts.classes), "features": self.facts.features}
        write_atomically(folder / NODES, json.dumps(content, indent=1, ensure_ascii=False))

    @classmethod
    def load(cls, folder: Path, config: NodeClassificationConfig) -> Any:
        """The task of a run folder; its graphs are read only when asked for."""
        path, cure = folder / NODES, "restore it, or train anew"
        if not path.exists():
            return cls(config)
        content = read_json(path, cure=cure, expected="classes and features")
        classes, features = content.get("classes"), content.get("features")
        if not isinstance(classes, list) or not isinstance(features, int) or not all(map(_is_text, classes)):
            raise RegardError(f"{path} cannot be read", expected="names of classes and a number of features", cure=cure)
        return cls(config, Facts(tuple(classes), features))

    def on_device(self, split: str, device: torch.device, numbers: Sequence[int] | None = None) -> GraphTensors:
        """Some graphs of a split, or all of them, joined into one; single graphs and whole splits stay there."""
        graphs = self.splits[checked_split(split, self.splits)]
        chosen = tuple(range(len(graphs.graphs)) if numbers is None else numbers)
        if (split, device, chosen) in self._places:
            return self._places[split, device, chosen]
        if len(chosen) == 1:
            tensors = self._tensors(graphs, chosen[0]).to(device)
        else:
            each = [self.on_device(split, device, (number,)) for number in chosen]
            features, labels = (torch.cat([getattr(one, name) for one in each]) for name in ("features", "labels"))
            tensors = GraphTensors(features, Edges.join([one.edges for one in each]), labels)
        if len(chosen) in (1, len(graphs.graphs)):
            self._places[split, device, chosen] = tensors
        return tensors

    def _tensors(self, split: GraphSplit, number: int) -> GraphTensors:
        """One graph, with the labels of the nodes that count."""
        graph, first = split.graphs[number], split.starts[number]
        features = row_normalised(graph.features) if self.config.normalise else graph.features
        counted = np.full(graph.size, IGNORE, dtype=np.int64)
        own = split.rows[(split.rows >= first) & (split.rows < first + graph.size)] - first
        counted[own] = graph.labels[own]
        edges = Edges.of(torch.from_numpy(graph.pairs.copy()), num_queries=graph.size).with_self_loops()
        return GraphTensors(torch.from_numpy(features), edges, torch.from_numpy(counted))


def _is_text(value: object) -> bool:
    return isinstance(value, str)
