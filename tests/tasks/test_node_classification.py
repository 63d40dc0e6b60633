"""Labels of nodes: the loss, the figures, predictions by name with neighbours, and examples."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from regard.base import ConfigError, RegardError
from regard.models import GAT, GATConfig
from regard.score import Edges
from regard.tasks import NodeClassification, NodeClassificationConfig, NodeSettings

CPU = torch.device("cpu")


class Knows(nn.Module):
    """Gives the label of each node of a split, but for the first `wrong` nodes that count."""

    def __init__(self, task: NodeClassification, split: str, wrong: int = 0) -> None:
        super().__init__()
        nodes = task.splits[split]
        self.labels = torch.from_numpy(nodes.labels.copy()).clamp(min=0)
        rows = torch.from_numpy(nodes.rows[:wrong])
        self.labels[rows] = (self.labels[rows] + 1) % len(nodes.classes)
        self.scale, self.classes = nn.Parameter(torch.tensor(50.0)), len(nodes.classes)

    def forward(self, features: Tensor, edges: Edges) -> Tensor:
        return self.scale * nn.functional.one_hot(self.labels, self.classes)


def task_of(dataset: str = "one_community_graph", **settings: int) -> NodeClassification:
    return NodeClassification(NodeClassificationConfig(dataset, **settings))


@pytest.fixture(scope="module")
def model() -> tuple[NodeClassification, GAT]:
    torch.manual_seed(0)
    task = task_of()
    return task, GAT(task.complete(GATConfig(hidden_dim=4, heads=2))).eval()


@pytest.mark.parametrize(("dataset", "size"), [("one_community_graph", 1), ("communities", 3)])
def test_the_loss_is_a_sum_over_the_training_nodes_of_the_batch(dataset: str, size: int) -> None:
    task = task_of(dataset, batch_size=size)
    batch = next(task.batches(seed=0))
    loss = task.loss(lambda features, edges: torch.zeros(len(features), 4), batch)
    assert len(batch.numbers) == size
    torch.testing.assert_close(loss.total, torch.tensor(batch.count * math.log(4)))
    labels = task.on_device("train", CPU, batch.numbers).labels
    assert loss.figures["error"].item() == 100 * (labels > 0).sum().item()  # class 0 is said of all


def test_other_nodes_do_not_touch_the_loss() -> None:
    """Of 600 nodes, the logits of training nodes alone have a gradient."""
    task = task_of()
    logits = torch.randn(600, 4, requires_grad=True)
    task.loss(lambda features, edges: logits, next(task.batches(seed=0))).total.backward()
    assert logits.grad is not None
    assert sorted(task.splits["train"].rows.tolist()) == logits.grad.abs().sum(1).nonzero().squeeze(1).tolist()


def test_figures_are_of_the_nodes_of_the_split() -> None:
    task = task_of()
    evaluation = task.evaluate(Knows(task, "valid", wrong=13), "valid", full=True)
    size = task.splits["valid"].size
    assert evaluation.figures["accuracy"] == pytest.approx(100 * (size - 13) / size)
    assert evaluation.figures["error"] == pytest.approx(100 * 13 / size)
    assert evaluation.figures["loss"] == pytest.approx(50 * 13 / size)
    assert (evaluation.best, evaluation.beside, evaluation.details["count"]) == ("accuracy", "loss", size)
    assert len(evaluation.details["outputs"]) == size == sum(map(sum, evaluation.details["confusion"]))
    assert task.evaluate(Knows(task, "test"), "test").details == {}
    with pytest.raises(ConfigError, match="unknown split: got 'tset'"):
        task.evaluate(Knows(task, "test"), "tset")


def test_nodes_are_called_by_name_and_have_the_weights_of_their_neighbours(
    model: tuple[NodeClassification, GAT],
) -> None:
    task, module = model
    [graph] = task.splits["test"].graphs
    ((best, second, *_), (other, *_)) = task.predict(module, ["17", 4], NodeSettings(nbest=4))
    assert (best.source, other.source) == ("17", "4")
    assert best.probability >= second.probability
    assert best.described.startswith(best.text)
    [edges] = best.explanations
    neighbours = sorted({17, *graph.pairs[1][graph.pairs[0] == 17].tolist()})
    classes = [task.facts.classes[label] for label in graph.labels]
    assert sorted(edges.nodes) == sorted(f"{node} ({classes[node]})" for node in neighbours)
    assert edges.nodes[0] == f"17 ({classes[17]})"
    np.testing.assert_allclose(edges.weights.sum(-1), 1, rtol=1e-5)  # one head, all neighbours
    assert set(edges.targets.tolist()) == {0}
    layers = task.layers(module, best)
    assert [each.weights.shape[0] for each in layers] == [2, 1]
    np.testing.assert_allclose(layers[-1].weights, edges.weights)


def test_few_neighbours_are_those_with_the_largest_weights(model: tuple[NodeClassification, GAT]) -> None:
    task, module = model
    [graph] = task.splits["test"].graphs
    busy = int(np.bincount(graph.pairs[0]).argmax())
    [[best]] = task.predict(module, [busy], NodeSettings(neighbours=3))
    [[full]] = task.predict(module, [busy], NodeSettings(neighbours=500))
    [few], [everything] = best.explanations, full.explanations
    assert len(few.nodes) == 4
    assert few.nodes[0] == everything.nodes[0]
    assert "more not shown" in few.title
    assert "more not shown" not in everything.title
    others = np.sort(everything.weights[0][everything.sources != 0])[::-1]
    np.testing.assert_allclose(np.sort(few.weights[0][few.sources != 0])[::-1], others[:3])


def test_nodes_of_any_split_and_what_is_not_a_node(model: tuple[NodeClassification, GAT]) -> None:
    several = task_of("communities")
    torch.manual_seed(1)
    module = GAT(several.complete(GATConfig(hidden_dim=4, heads=2))).eval()
    [[first], [second]] = several.predict(module, ["0:3", "29:59"])
    assert (first.source, second.source) == ("0:3", "29:59")
    joined = several.splits["test"].names
    assert [node.partition(" ")[0] in joined for node in second.explanations[0].nodes] == [True] * len(
        second.explanations[0].nodes
    )
    assert several.is_single("0:3")
    assert several.is_single(3)
    assert not several.is_single(["0:3"])
    with pytest.raises(RegardError, match=r"there is no such node: got '600'; expected one of 0, 1, 2, 3, 4, 5, …"):
        model[0].predict(model[1], ["600"])
    for wrong in (1.5, None, True):
        with pytest.raises(ConfigError, match="this is not a node"):
            model[0].predict(model[1], [wrong])
    assert model[0].predict(model[1], []) == []


def test_examples_are_of_all_classes(model: tuple[NodeClassification, GAT]) -> None:
    task, module = model
    numbers = task.choose("test", 4)
    examples = task.examples(module, "test", numbers)
    assert {example.reference for example in examples} == set(task.facts.classes)
    assert [example.source for example in examples] == [
        task.splits["test"].names[task.splits["test"].rows[number]] for number in numbers
    ]
    assert task.examples(module, "test", []) == []
