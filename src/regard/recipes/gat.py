"""Graph attention networks (Veličković et al. 2018) on citations, and on generated graphs that training did not see.

Settings of section 3.3: Adam at 0.005, L2 of 5e-4 (the weight decay of Adam adds the gradient of half the square, as
the authors' loss does), dropout of 60 % three times in a layer, and an end after 100 evaluations, one after each
update, in which neither accuracy nor loss on the validation nodes was as good as ever. PPI is not at hand: `inductive`
has its shape of model in small, and graphs that a file of this package draws.
"""

from dataclasses import replace
from typing import Any

from regard.models import GATConfig, gat_citations, gat_inductive
from regard.recipes.recipe import Recipe
from regard.tasks import NodeClassificationConfig
from regard.train import Train

TRAIN = Train(steps=10_000, lr=0.005, weight_decay=5e-4, clip=None, patience=100, log_every=20, evaluate_every=1,
              save_every=500, keep=1)  # fmt: skip


def cora() -> Recipe:
    """Papers that cite each other, 140 labels of 2,708."""
    return _recipe("cora", "8 heads of 8, then 1", "83.0 ± 0.7 (GAT, 100 runs)")


def cora_constant() -> Recipe:
    """The twin of `cora`: every neighbour weighs the same."""
    return _recipe("cora", "constant attention, 1 / degree", "", attention="constant")


def cora_gatv2() -> Recipe:
    """Cora with the score of GATv2."""
    return _recipe("cora", "score of GATv2", "", score="gatv2")


def citeseer() -> Recipe:
    """Papers that cite each other, 120 labels of 3,327."""
    return _recipe("citeseer", "8 heads of 8, then 1", "72.5 ± 0.7 (GAT, 100 runs)")


def inductive() -> Recipe:
    """Twenty generated graphs to train on, two at a time, and five others to test on."""
    model = replace(gat_inductive(), hidden_dim=16)
    return Recipe(
        paper="gat",
        model=model,
        task=NodeClassificationConfig(dataset="communities", batch_size=2),
        train=replace(TRAIN, steps=600, weight_decay=0.0, evaluate_every=10, save_every=200, patience=20),
        note="graphs not seen in training, 4 × 16 twice with a skip connection, 6 heads averaged",
    )


def smoke() -> Recipe:
    """One generated graph, on a CPU, in a few seconds."""
    model = GATConfig(input_dropout=0.0, weight_dropout=0.2, feature_dropout=0.0)
    return Recipe(
        paper="gat",
        model=model,
        task=NodeClassificationConfig(dataset="one_community_graph"),
        train=replace(TRAIN, steps=200, lr=0.01, evaluate_every=5, save_every=100, patience=20),
        note="a generated graph on a CPU",
    )


def _recipe(dataset: str, note: str, published: str, **changes: Any) -> Recipe:
    model = replace(gat_citations(), **changes)
    task = NodeClassificationConfig(dataset=dataset)
    return Recipe(paper="gat", model=model, task=task, train=TRAIN, note=note, published=published)
