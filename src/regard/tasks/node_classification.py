"""Labels of nodes: graphs in, a class for each node out, and which neighbours were looked at.

Splits are nodes of one graph, all of which a model sees while it learns (transductive), or graphs of their own
(inductive). A batch is some graphs joined into one, or the one graph whole. A model takes features [n f] and `Edges`,
and gives logits [n c]; what attention it has, a trace finds, over edges.

The best weights are chosen by two figures, as in Veličković et al. 2018: they are kept when accuracy and loss on the
validation nodes are both at least as good as ever; `train.patience` counts evaluations in which neither of them is.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.attention import Trace, trace
from regard.base import ConfigError, RegardError, check_settings, did_you_mean, to_json
from regard.base.ranges import Count
from regard.data import GraphBatches, GraphRows, GraphSplit
from regard.data.pictures import IGNORE
from regard.explanation import Displayed, EdgeWeights
from regard.nn import device_of, evaluating
from regard.tasks.display import Column, Display, Figure
from regard.tasks.graph_nodes import GraphNodes, GraphTensors, NodeClassificationConfig
from regard.tasks.inputs import checked_split
from regard.tasks.labels import label_details, label_figures, percent
from regard.tasks.samples import first_of_each
from regard.tasks.task import Evaluation, Example, Loss, Progress, StoredTask, TaskEntry


@dataclass(frozen=True)
class NodeSettings:
    """How nodes are classified: what `--set` may change."""

    nbest: Count = 1  # classes of each node, the likeliest first
    neighbours: Count = 24  # that are drawn, those with the largest weights; the node itself is one more

    def __post_init__(self) -> None:
        check_settings(self)


@dataclass(frozen=True, eq=False)
class LabelledNode(Displayed):
    """What a model takes a node for."""

    source: str  # the name of the node
    text: str  # the class
    probability: float
    explanations: tuple[EdgeWeights, ...] = ()  # the weights of the last layer over its neighbours

    @property
    def described(self) -> str:
        """The class and how sure the model is."""
        return f"{self.text} ({percent(self.probability)})"


class NodeClassification(GraphNodes, StoredTask):
    """The task: `batches`, `loss` and `evaluate` for the trainer, `predict` for everybody else."""

    display = Display(
        figures=(
            Figure("accuracy", "accuracy, %", 1, better="higher"),
            Figure("error", "error, %", better="lower", signature="accuracy"),
            Figure("loss", "loss (nats a node)", 3, better="lower"),
        ),
        counts="accuracy",
        unit="nodes",
        things="nodes",
        examples="Nodes",
        overview=(Column("ours, accuracy in %", ("accuracy",)),),
        table=(Column("accuracy, %", ("accuracy",)),),
        more=(Column("loss", ("loss",), 3),),
        signatures={"accuracy": "Accuracy"},
        note="Accuracy is the share of the nodes of a split whose class is right.",
    )
    settings_type = NodeSettings

    # ── training ────────────────────────────────────────────────────────────────────────────────────────────────────

    def batches(self, *, seed: int, rank: int = 0, world: int = 1) -> GraphBatches:
        """Graphs without end, for one of `world` ranks; each graph goes to one of them."""
        counts, size = self.splits["train"].counts, self.config.batch_size
        return GraphBatches(counts, batch_size=size, seed=seed, rank=rank, world=world)

    def loss(self, model: Callable[..., Any], batch: GraphRows) -> Loss:
        """Cross entropy of the training nodes, summed, and how many of them are wrong."""
        graph = self.on_device("train", batch.rows.device, batch.numbers)
        logits = model(graph.features, graph.edges).float()
        total = F.cross_entropy(logits, graph.labels, ignore_index=IGNORE, reduction="sum")
        wrong = (logits.argmax(-1) != graph.labels) & (graph.labels != IGNORE)
        return Loss(total, {"error": 100.0 * wrong.sum()})

    # ── evaluation ──────────────────────────────────────────────────────────────────────────────────────────────────

    @torch.no_grad()
    def evaluate(
        self,
        model: nn.Module,
        split: str,
        settings: NodeSettings | None = None,
        *,
        full: bool = False,
        progress: Progress | None = None,
    ) -> Evaluation:
        """Accuracy and error in percent, and the loss, of the nodes of a split."""
        nodes, start = self.splits[checked_split(split, self.splits)], time.perf_counter()
        graph = self.on_device(split, device_of(model))
        logits, _ = _run(model, graph, traced=False)
        rows = torch.from_numpy(nodes.rows)
        counted, labels = logits[rows].unsqueeze(1), torch.from_numpy(nodes.labels)[rows].unsqueeze(1)
        figures = label_figures(counted, labels)
        if progress is not None:
            progress("nodes", nodes.size, nodes.size)
        details: dict[str, Any] = {}
        if full:
            details = {
                "split": split,
                "count": nodes.size,
                "seconds": time.perf_counter() - start,
                "settings": to_json(settings or NodeSettings()),
                "signatures": {"accuracy": f"share in % of {nodes.size:,} nodes whose class is right"},
                **label_details(counted, labels, self.facts.classes),
            }
        return Evaluation(figures, best="accuracy", details=details, beside="loss")

    # ── predictions ─────────────────────────────────────────────────────────────────────────────────────────────────

    def is_single(self, inputs: Any) -> bool:
        """The name or the number of a node is one input; a list has several of them."""
        return isinstance(inputs, str | int)

    def predict(
        self, model: nn.Module, inputs: Sequence[Any], settings: NodeSettings | None = None
    ) -> list[list[LabelledNode]]:
        """The classes of nodes, which are called by their names, with the weights of their neighbours."""
        settings = settings or NodeSettings()
        places = [self._place(name) for name in inputs]
        labelled: dict[tuple[str, int], list[LabelledNode]] = {}
        for split in dict.fromkeys(split for split, _ in places):  # each graph is run once
            rows = [row for own, row in places if own == split]
            for row, classes in zip(rows, self._labelled(model, split, rows, settings), strict=True):
                labelled[split, row] = classes
        return [labelled[place] for place in places]

    @torch.no_grad()
    def _labelled(
        self, model: nn.Module, split: str, rows: Sequence[int], settings: NodeSettings
    ) -> list[list[LabelledNode]]:
        """The best classes of these nodes of a split, counted with its graphs laid end to end."""
        logits, seen = _run(model, self.on_device(split, device_of(model)), traced=True)
        classes, labelled = self.facts.classes, []
        for row in rows:
            best = logits[row].softmax(-1).topk(min(settings.nbest, len(classes)))
            likeliest = zip(best.values.tolist(), best.indices.tolist(), strict=True)
            name = self.splits[split].names[row]
            explained = tuple(self._explained(seen, split, row, settings)[-1:])
            labelled.append([LabelledNode(name, classes[number], share, explained) for share, number in likeliest])
        return labelled

    def layers(self, model: nn.Module, prediction: LabelledNode) -> list[EdgeWeights]:
        """The neighbours of the node in each layer, by head."""
        split, row = self._place(prediction.source)
        with torch.no_grad():
            _, seen = _run(model, self.on_device(split, device_of(model)), traced=True)
        return self._explained(seen, split, row, NodeSettings())

    def _explained(self, seen: Trace, split: str, row: int, settings: NodeSettings) -> list[EdgeWeights]:
        """What a node took from its neighbours, layer by layer: those with the largest weights."""
        explained = []
        for name, record in seen.items():
            if record.edges is None:
                continue
            targets, sources = record.edges[0].pairs
            own = np.flatnonzero(targets == row)
            weights = np.asarray(record.calls[0])[..., own]
            mean = weights.reshape(-1, len(own)).mean(0) if len(own) else np.zeros(0)
            order = np.argsort(-np.where(sources[own] == row, np.inf, mean), kind="stable")[: settings.neighbours + 1]
            shown = [row, *(node for node in sources[own][order].tolist() if node != row)]
            places = [shown.index(node) for node in sources[own][order].tolist()]
            hidden = f", {len(own) - len(order)} more not shown" if len(order) < len(own) else ""
            title = f"{self._described(split, row)} and its neighbours, {name}{hidden}"
            labels = [self._described(split, node) for node in shown]
            explained.append(EdgeWeights(weights[..., order], places, [0] * len(places), labels, title))
        return explained

    def _described(self, split: str, row: int) -> str:
        """A node and its class, where it is known."""
        nodes = self.splits[split]
        label = int(nodes.labels[row])
        return f"{nodes.names[row]} ({nodes.classes[label]})" if label != IGNORE else nodes.names[row]

    def _place(self, name: Any) -> tuple[str, int]:
        """The split in whose graphs a node is, and its number there."""
        if isinstance(name, bool) or not isinstance(name, str | int):
            raise ConfigError("this is not a node", got=type(name).__name__, expected="the name of a node, such as 12")
        for split in ("test", "valid", "train"):
            if (row := self._numbers(split).get(str(name).strip())) is not None:
                return split, row
        known = list(self._numbers("test"))
        some = f"one of {', '.join(known[:6])}, …" if len(known) > 6 else f"one of {', '.join(known)}"
        cure = did_you_mean(str(name), known)
        raise RegardError("there is no such node", got=repr(name), expected=some, cure=cure)

    def _numbers(self, split: str) -> dict[str, int]:
        """The numbers of the nodes of a split by their names."""
        if split not in self._by_name:
            names = self.splits[checked_split(split, self.splits)].names
            self._by_name[split] = {name: number for number, name in enumerate(names)}
        return self._by_name[split]

    # ── examples ────────────────────────────────────────────────────────────────────────────────────────────────────

    def choose(self, split: str, count: int) -> list[int]:
        """Nodes of all classes, first those that have as many neighbours as half of the others."""
        nodes = self.splits[checked_split(split, self.splits)]
        degrees = _degrees(nodes)[nodes.rows]
        distance = np.abs(degrees - np.median(degrees))
        order = sorted(range(nodes.size), key=lambda number: (distance[number], number))
        kinds = [int(nodes.labels[nodes.rows[number]]) for number in order]
        return [order[place] for place in first_of_each(kinds, count)]

    def examples(self, model: nn.Module, split: str, numbers: Sequence[int]) -> list[Example]:
        """These nodes of a split with their classes, and what the model takes them for."""
        nodes = self.splits[checked_split(split, self.splits)]
        rows = [int(nodes.rows[number]) for number in numbers]
        labelled = self._labelled(model, split, rows, NodeSettings()) if rows else []
        return [
            Example(best.source, nodes.classes[int(nodes.labels[row])], best.described, best)
            for row, (best, *_) in zip(rows, labelled, strict=True)
        ]


def _run(model: nn.Module, graph: GraphTensors, *, traced: bool) -> tuple[Tensor, Trace]:
    """Logits [n c] of all nodes, on the CPU, and what was attended to."""
    with evaluating(model), trace(model, layers="*" if traced else "", may_be_empty=True) as seen:
        logits = model(graph.features, graph.edges).float().cpu()
    return logits, seen


def _degrees(nodes: GraphSplit) -> NDArray[np.int64]:
    """How many nodes each node sees, with the graphs laid end to end."""
    return np.concatenate([np.bincount(graph.pairs[0], minlength=graph.size) for graph in nodes.graphs])


TASK = TaskEntry(
    "node_classification",
    NodeClassification,
    NodeClassificationConfig,
    verb="label",
    inputs="names of nodes",
    example="12",
)
