r"""Graphs whose nodes have features and labels: in memory, from files that may be broken, and in batches.

A graph of your own is two files. The edges have two names of nodes a line, tab- or comma-separated; a line of names,
`source<TAB>target`, may stand above. The nodes have a line of names above: `node`, `label`, perhaps `split` (train,
valid or test), and features, which are numbers. An empty label is unknown:

    node,label,split,age,income
    ann,red,train,31,2.5
    bob,,,44,1.0
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.base import did_you_mean, shown
from regard.data.batches import Numbers
from regard.data.parallel import DataError, Place, read_lines
from regard.data.pictures import IGNORE, RowBatches

SPLITS = ("train", "valid", "test")
KINDS = ("tsv", "csv", "txt")  # how the two files of a folder may end
_EDGES, _NODES = ("source", "target"), ("node", "label")


@dataclass(frozen=True, eq=False)
class Graph:
    """Nodes with features and labels, and the edges over which they see each other.

    >>> pair = Graph(np.eye(2, dtype=np.float32), undirected([[0, 1]]), np.array([0, 1]), ("a", "b"))
    >>> pair.size, pair.pairs.tolist()
    (2, [[0, 1], [1, 0]])
    """

    features: NDArray[np.float32]  # [n f]
    pairs: Numbers  # [2 e]: node pairs[0, k] sees node pairs[1, k]; each pair once
    labels: Numbers  # [n], IGNORE where nobody knows it
    names: tuple[str, ...]  # of the nodes

    def __post_init__(self) -> None:
        sizes = {len(self.features), len(self.labels), len(self.names)}
        if self.features.ndim != 2 or len(sizes) != 1:
            got = f"features {list(self.features.shape)}, {len(self.labels)} labels and {len(self.names)} names"
            raise DataError("the parts of a graph do not fit together", got=got, expected="one of each for every node")

    @property
    def size(self) -> int:
        """How many nodes there are."""
        return len(self.labels)


@dataclass(frozen=True, eq=False)
class GraphSplit:
    """Graphs laid end to end, and the nodes that count.

    Splits of one graph share it and have other rows; splits of many graphs have graphs of their own.
    """

    graphs: tuple[Graph, ...]
    rows: Numbers  # numbers of nodes, with the graphs laid end to end
    classes: tuple[str, ...]

    @property
    def size(self) -> int:
        """The number of nodes that this split trains on or is judged by."""
        return len(self.rows)

    @cached_property
    def starts(self) -> Numbers:
        """The number of the first node of each graph, and at the end how many nodes there are."""
        return np.cumsum([0, *(graph.size for graph in self.graphs)])

    @cached_property
    def counts(self) -> Numbers:
        """How many nodes of each graph count."""
        return np.diff(np.searchsorted(np.sort(self.rows), self.starts))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of all nodes, with the graphs laid end to end."""
        return tuple(name for graph in self.graphs for name in graph.names)

    @cached_property
    def labels(self) -> Numbers:
        """The labels of all nodes; IGNORE where nobody knows it."""
        return np.concatenate([graph.labels for graph in self.graphs])


def undirected(pairs: Any) -> Numbers:
    """Both directions of pairs [e 2] of nodes as [2 e'], sorted, each once and without loops."""
    ends = np.asarray(pairs, dtype=np.int64).reshape(-1, 2)
    ends = ends[ends[:, 0] != ends[:, 1]]
    both = np.concatenate([ends, ends[:, ::-1]])
    return np.ascontiguousarray(np.unique(both, axis=0).T)


def row_normalised(features: NDArray[np.float32]) -> NDArray[np.float32]:
    """Features whose absolute values have the sum 1 in each row; a row of zeros stays as it is.

    >>> row_normalised(np.array([[1.0, 3.0], [0.0, 0.0]], dtype=np.float32)).tolist()
    [[0.25, 0.75], [0.0, 0.0]]
    """
    total = np.abs(features).sum(1, keepdims=True, dtype=np.float64)
    return (features / np.where(total == 0, 1.0, total)).astype(np.float32)


def read_graph(edges: Place, nodes: Place | None = None, *, directed: bool = False) -> dict[str, GraphSplit]:
    """The splits of a graph of your own: two files, or one folder that has edges.tsv and nodes.tsv (or .csv, .txt).

    Nodes see each other in both directions; with `directed` the target of an edge sees its source, and not the reverse.
    Without a column `split`, a fifth of the labelled nodes is for validation and a fifth for the test, always the same.
    """
    edges_file, nodes_file = _two_files(Path(edges), None if nodes is None else Path(nodes))
    names, labels, splits, features = _read_nodes(nodes_file)
    classes = tuple(sorted({label for label in labels if label}))
    numbers = {name: number for number, name in enumerate(names)}
    ends = np.array(list(_read_edges(edges_file, numbers)), dtype=np.int64).reshape(-1, 2)  # source, target
    pairs = np.unique(ends[:, ::-1], axis=0).T if directed else undirected(ends)
    known = np.array([classes.index(label) if label else IGNORE for label in labels], dtype=np.int64)
    graph = Graph(features, np.ascontiguousarray(pairs), known, tuple(names))
    rows = _own_splits(splits, known, nodes_file) if splits else _drawn_splits(known)
    for split, own in rows.items():
        if not len(own):
            cure = "label more nodes, or fill the column split"
            raise DataError(f"{nodes_file} has no labelled nodes for the split {split}", got="none", cure=cure)
    return {split: GraphSplit((graph,), rows[split], classes) for split in SPLITS}


def _two_files(edges: Path, nodes: Path | None) -> tuple[Path, Path]:
    """The file of edges and that of nodes; of a folder, those of these names in it."""
    if nodes is not None:
        return edges, nodes
    if not edges.is_dir():
        cure = "name a folder that has both by --source, or the nodes by --target"
        raise DataError("a graph needs a file of edges and one of nodes", got=str(edges), cure=cure)
    files = []
    for name in ("edges", "nodes"):
        there = [edges / f"{name}.{kind}" for kind in KINDS if (edges / f"{name}.{kind}").is_file()]
        if not there:
            expected = f"one of {', '.join(f'{name}.{kind}' for kind in KINDS)}"
            raise DataError(f"{edges} has no {name}", got=shown(sorted(p.name for p in edges.iterdir())[:8]),
                            expected=expected)  # fmt: skip
        files.append(there[0])
    return files[0], files[1]


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The numbers of the lines that are not empty, and their cells; the first line tells what separates them."""
    mark = ""
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            continue
        mark = mark or ("\t" if "\t" in line else ",")
        yield number, [cell.strip() for cell in line.split(mark)]


def _read_nodes(path: Path) -> tuple[list[str], list[str], list[str], NDArray[np.float32]]:
    """Names, labels, splits (nothing, if there is no such column) and features of the nodes of a file."""
    rows = _rows(path)
    first, head = next(rows, (1, []))
    for name in _NODES:
        if name not in head:
            cure = did_you_mean(name, head) or "give the columns names: node, label, perhaps split, then features"
            raise DataError(f"{path}, line {first}: there is no column {name!r}", got=shown(head[:8]), cure=cure)
    special = {name: head.index(name) for name in (*_NODES, "split") if name in head}
    columns = [place for place, name in enumerate(head) if name not in special]
    if not columns:
        raise DataError(f"{path}, line {first}: there are no features", got=shown(head), expected="a column or more")
    names: dict[str, int] = {}
    labels, splits, features = [], [], []
    for number, cells in rows:
        where = f"{path}, line {number}"
        if len(cells) != len(head):
            raise DataError(f"{where} has the wrong number of columns", got=len(cells), expected=len(head))
        name = cells[special["node"]]
        if name in names:
            raise DataError(f"{where}: a node is there twice", got=shown(name), expected=f"once, in line {names[name]}")
        names[name] = number
        labels.append(cells[special["label"]])
        if "split" in special:
            splits.append(_checked_split(cells[special["split"]], where))
        features.append([_number(cells[place], f"{where}, column {head[place]}") for place in columns])
    if not names:
        raise DataError(f"{path} has no nodes", got="a line of names alone", expected="a line for each node")
    return list(names), labels, splits, np.array(features, dtype=np.float32)


def _checked_split(name: str, where: str) -> str:
    if name and name not in SPLITS:
        cure = did_you_mean(name, SPLITS)
        raise DataError(f"{where}: unknown split", got=shown(name), expected="train, valid, test or nothing", cure=cure)
    return name


def _number(text: str, where: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not abs(number) <= float(np.finfo(np.float32).max):
        raise DataError(f"{where}: a feature is not a number", got=shown(text), expected="a finite number")
    return number


def _read_edges(path: Path, numbers: Mapping[str, int]) -> Iterator[tuple[int, int]]:
    """Source and target of each edge; a line of names may stand above."""
    for place, (number, cells) in enumerate(_rows(path)):
        if len(cells) != 2:
            expected = "two names of nodes, tab- or comma-separated"
            raise DataError(f"{path}, line {number} is not an edge", got=shown(cells), expected=expected)
        if place == 0 and tuple(cells) == _EDGES and not set(cells) <= set(numbers):
            continue
        for name in cells:
            if name not in numbers:
                cure = did_you_mean(name, numbers) or "add the node to the file of nodes"
                raise DataError(f"{path}, line {number}: there is no such node", got=shown(name), cure=cure)
        yield numbers[cells[0]], numbers[cells[1]]


def _own_splits(splits: Sequence[str], labels: Numbers, path: Path) -> dict[str, Numbers]:
    """The rows of each split as the file has them."""
    for row, (split, label) in enumerate(zip(splits, labels, strict=True), 1):
        if split and label == IGNORE:
            cure = "give it a label, or empty its split"
            raise DataError(f"{path}, node {row}: a node of a split has no label", got=split, cure=cure)
    return {name: np.flatnonzero(np.array(splits) == name) for name in SPLITS}


def _drawn_splits(labels: Numbers) -> dict[str, Numbers]:
    """Three fifths of the labelled nodes, and a fifth twice, from a fixed seed."""
    rows = np.random.default_rng(0).permutation(np.flatnonzero(labels != IGNORE))
    place = np.arange(len(rows)) % 5
    return {"train": np.sort(rows[place < 3]), "valid": np.sort(rows[place == 3]), "test": np.sort(rows[place == 4])}


@dataclass(frozen=True, eq=False)
class GraphRows:
    """A batch: numbers of graphs, and how many of their nodes count."""

    rows: Tensor  # [g], where the model is
    numbers: tuple[int, ...]  # the same, where Python reads them
    count: int

    @property
    def variant(self) -> tuple[int, ...]:
        """What a captured step is chosen by: each set of graphs is another computation."""
        return self.numbers

    def tensors(self) -> dict[str, Tensor]:
        """Returns the tensors that a captured step reads: the numbers of the nodes."""
        return {"rows": self.rows}

    def with_tensors(self, tensors: Mapping[str, Tensor]) -> "GraphRows":
        """The same batch, read from another place."""
        return replace(self, rows=tensors["rows"])


class GraphBatches(RowBatches):
    """Graphs without end, shuffled anew for each epoch; of one graph, the whole graph again and again."""

    cure = "resume with the graphs and the batch_size that the run began with"

    def __init__(self, counts: Numbers, *, batch_size: int, seed: int = 0, rank: int = 0, world: int = 1) -> None:
        super().__init__(len(counts), batch_size=min(batch_size, len(counts)), seed=seed, rank=rank, world=world)
        self.counts = counts

    def collate(self, rows: Numbers) -> GraphRows:  # type: ignore[override]
        """These graphs, each once."""
        graphs = np.unique(rows)
        return GraphRows(torch.from_numpy(graphs), tuple(graphs.tolist()), int(self.counts[graphs].sum()))
