"""Graphs of one's own: files of edges and nodes, what is wrong with them, splits, and batches."""

from pathlib import Path

import numpy as np
import pytest
import torch

from regard.data import DataError, Graph, GraphBatches, GraphSplit, read_graph, row_normalised, undirected
from regard.data.pictures import IGNORE

NODES = "node\tlabel\tsplit\tx\ty\na\tred\ttrain\t1\t0\nb\tblue\tvalid\t0\t1\nc\tred\ttest\t2\t-1\nd\t\t\t3\t0.5\n"
EDGES = "source\ttarget\na\tb\nb\tc\nb\ta\nd\td\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "edges.tsv").write_text(EDGES)
    (tmp_path / "nodes.tsv").write_text(NODES)
    return tmp_path


def test_a_folder_and_two_files_are_the_same(folder: Path) -> None:
    for splits in (read_graph(folder), read_graph(folder / "edges.tsv", folder / "nodes.tsv")):
        train = splits["train"]
        [graph] = train.graphs
        assert (graph.names, train.classes, train.names) == (("a", "b", "c", "d"), ("blue", "red"), graph.names)
        assert graph.labels.tolist() == [1, 0, 1, IGNORE]
        assert graph.features.tolist() == [[1, 0], [0, 1], [2, -1], [3, 0.5]]
        assert sorted(map(tuple, graph.pairs.T.tolist())) == [(0, 1), (1, 0), (1, 2), (2, 1)]  # both ways, no loop
        assert {name: split.rows.tolist() for name, split in splits.items()} == {
            "train": [0],
            "valid": [1],
            "test": [2],
        }
        assert all(split.graphs[0] is graph for split in splits.values())


def test_directed_edges_let_the_target_see_the_source(folder: Path) -> None:
    [graph] = read_graph(folder, directed=True)["train"].graphs
    assert sorted(map(tuple, graph.pairs.T.tolist())) == [(0, 1), (1, 0), (2, 1), (3, 3)]  # (target, source)


def test_commas_and_no_line_of_names_above_edges(tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("a,b\n\n b , c \n")
    (tmp_path / "nodes.csv").write_text(NODES.replace("\t", ","))
    [graph] = read_graph(tmp_path)["train"].graphs
    assert graph.pairs.shape == (2, 4)


def test_splits_are_drawn_where_the_file_has_none(tmp_path: Path) -> None:
    lines = "".join(f"n{number},{number % 3},{number}\n" for number in range(50)) + "u,,7\n"
    (tmp_path / "nodes.csv").write_text("node,label,x\n" + lines)
    (tmp_path / "edges.csv").write_text("n1,n2\n")
    splits = read_graph(tmp_path)
    assert {name: split.size for name, split in splits.items()} == {"train": 30, "valid": 10, "test": 10}
    rows = np.concatenate([split.rows for split in splits.values()])
    assert sorted(rows.tolist()) == list(range(50))  # each labelled node once
    assert read_graph(tmp_path)["test"].rows.tolist() == splits["test"].rows.tolist()
    assert splits["train"].rows.tolist() != list(range(30))


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("nodes", "", r"nodes\.tsv: the file is empty"),
        ("nodes", "nod\tlabel\tx\n", r"there is no column 'node': got .*Did you mean 'nod'"),
        ("nodes", "node\tlabel\tsplit\n", r"line 1: there are no features"),
        ("nodes", "node\tlabel\tx\n", r"nodes\.tsv has no nodes"),
        ("nodes", "node\tlabel\tx\na\tred\n", r"nodes\.tsv, line 2 has the wrong number of columns: got 2; expected 3"),
        (
            "nodes",
            "node\tlabel\tx\na\tr\t1\na\tr\t1\n",
            r"line 3: a node is there twice: got 'a'; expected once, in line 2",
        ),
        ("nodes", "node\tlabel\tx\na\tr\tone\n", r"line 2, column x: a feature is not a number: got 'one'"),
        ("nodes", "node\tlabel\tx\na\tr\tnan\n", r"line 2, column x: a feature is not a number: got 'nan'"),
        ("nodes", "node\tlabel\tx\na\tr\t1e99\n", r"line 2, column x: a feature is not a number"),
        ("nodes", NODES.replace("valid", "vaild"), r"line 3: unknown split: got 'vaild'.*Did you mean 'valid'"),
        ("nodes", NODES.replace("valid", ""), r"nodes\.tsv has no labelled nodes for the split valid"),
        ("nodes", NODES.replace("\tred\ttest", "\t\ttest"), r"node 3: a node of a split has no label: got test"),
        ("edges", "a\tb\tc\n", r"edges\.tsv, line 1 is not an edge: got .*expected two names"),
        ("edges", "a\tb\na\tzz\n", r"edges\.tsv, line 2: there is no such node: got 'zz'"),
    ],
)
def test_files_that_are_broken(folder: Path, file: str, content: str, message: str) -> None:
    (folder / f"{file}.tsv").write_text(content)
    with pytest.raises(DataError, match=message):
        read_graph(folder)


def test_files_that_are_missing(folder: Path) -> None:
    with pytest.raises(DataError, match=r"a graph needs a file of edges and one of nodes: got .*edges\.tsv"):
        read_graph(folder / "edges.tsv")
    (folder / "nodes.tsv").unlink()
    with pytest.raises(DataError, match=r"has no nodes: got .*expected one of nodes\.tsv, nodes\.csv, nodes\.txt"):
        read_graph(folder)


def test_both_directions_each_once_without_loops() -> None:
    assert undirected([[0, 1], [1, 0], [2, 2], [2, 1]]).tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert undirected(np.empty((0, 2))).shape == (2, 0)


def test_rows_have_the_sum_one() -> None:
    features = np.random.default_rng(0).normal(size=(20, 7)).astype(np.float32)
    features[3] = 0
    sums = np.abs(row_normalised(features)).sum(1)
    np.testing.assert_allclose(np.delete(sums, 3), 1, rtol=1e-6)
    assert sums[3] == 0


def graphs(*sizes: int) -> GraphSplit:
    made = [
        Graph(np.zeros((size, 2), np.float32), np.zeros((2, 0), np.int64), np.zeros(size, np.int64), ("n",) * size)
        for size in sizes
    ]
    return GraphSplit(tuple(made), np.array([0, 2, sum(sizes) - 1]), ("one",))


def test_how_many_nodes_of_each_graph_count() -> None:
    split = graphs(3, 1, 4)
    assert (split.starts.tolist(), split.counts.tolist(), split.size) == ([0, 3, 4, 8], [2, 0, 1], 3)


def test_parts_that_do_not_fit() -> None:
    with pytest.raises(DataError, match=r"do not fit together: got features \[3, 2\], 2 labels and 3 names"):
        Graph(np.zeros((3, 2), np.float32), np.zeros((2, 0), np.int64), np.zeros(2, np.int64), ("a", "b", "c"))


def test_batches_are_graphs_and_count_nodes() -> None:
    counts = np.array([5, 1, 2, 4])
    batches = GraphBatches(counts, batch_size=2, seed=3)
    epoch = [next(batches) for _ in range(2)]
    assert sorted(number for batch in epoch for number in batch.numbers) == [0, 1, 2, 3]
    assert [batch.count for batch in epoch] == [int(counts[list(batch.numbers)].sum()) for batch in epoch]
    state, following = batches.state_dict(), next(batches)
    batches.load_state_dict(state)
    assert next(batches).numbers == following.numbers == following.variant
    moved = following.with_tensors({"rows": torch.tensor([9])})
    assert (moved.rows.tolist(), moved.numbers) == ([9], following.numbers)
    whole = GraphBatches(np.array([7]), batch_size=4)
    assert [(next(whole).numbers, next(whole).count) for _ in range(2)] == [((0,), 7)] * 2
