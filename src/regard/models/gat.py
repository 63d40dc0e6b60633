"""Graph attention networks: Veličković, Cucurull, Casanova, Romero, Liò & Bengio 2018, arXiv 1710.10903.

Every node attends to its neighbours and to itself, over the edges of the graph alone. Equation numbers are the paper's.
`score="gatv2"` takes the score of Brody, Alon & Yahav 2022 (arXiv 2105.14491), where the best neighbour depends on the
node that asks. `attention="constant"` is the twin without attention, whose weights are 1 / degree.
"""

import math
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.align import ALIGNS
from regard.attention import EdgeAttention
from regard.base import ShapeError, check_settings
from regard.base.ranges import Few, Natural, OneOf, Share, Width
from regard.nn import Dropout
from regard.score import Edges, GraphAdditive, LeakyAdditive, Score


@dataclass(frozen=True)
class GATConfig:
    """Sizes of the paper for Cora and Citeseer (section 3.3)."""

    features: Natural = 0  # numbers of a node; the data decide
    classes: Natural = 0  # labels; the data decide
    hidden_dim: Width = 8  # of each head of a hidden layer, F′
    heads: Few = 8  # of a hidden layer, concatenated, K
    output_heads: Few = 1  # of the last layer, averaged
    layers: Few = 2  # how many edges away a node sees
    score: Literal["gat", "gatv2"] = "gat"  # which score judges an edge: that of 2018, or that of GATv2
    attention: Literal["learned", "constant"] = "learned"  # constant: every neighbour weighs the same, 1 / degree
    align: str = "softmax"  # name of the alignment, of ALIGNS, among those that work over edges
    input_dropout: Share = 0.6  # of what enters a layer
    weight_dropout: Share = 0.6  # of the weights of the edges
    feature_dropout: Share = 0.6  # of the projected nodes that are summed up
    skip: bool = False  # whether hidden layers after the first one add what they got to what they give

    def __post_init__(self) -> None:
        check_settings(self, "model")
        OneOf([name for name, kind in ALIGNS.items() if kind.has_edge_form]).check("model.align", self.align)


def gat_citations() -> GATConfig:
    """Cora and Citeseer: 8 heads of 8, then one head for each class; 60 % dropout everywhere."""
    return GATConfig()


def gat_inductive() -> GATConfig:
    """Graphs that training did not see, as for PPI: 4 × 256 twice with a skip connection, then 6 heads averaged."""
    return GATConfig(hidden_dim=256, heads=4, output_heads=6, layers=3, skip=True,
                     input_dropout=0.0, weight_dropout=0.0, feature_dropout=0.0)  # fmt: skip


class ConstantScore(Score):
    """e_ij = 1: every alignment then gives the same weight to all neighbours."""

    def compare(self, query: Tensor, keys: Tensor) -> Tensor:
        """Gives every pair of a query and a key the score 1."""
        return torch.ones(*query.shape[:-1], keys.shape[-2], dtype=query.dtype, device=query.device)

    def compare_edges(self, query: Tensor, keys: Tensor, edges: Edges) -> Tensor:
        """Gives every edge the score 1."""
        return torch.ones(*query.shape[:-2], len(edges), dtype=query.dtype, device=query.device)


class GraphAttention(nn.Module):
    """One layer: each head projects the nodes and lets every node attend to those that it has an edge to.

    Heads are concatenated (eq. 5) or, with `average`, averaged (eq. 6). The nonlinearity belongs to the model.
    """

    def __init__(self, in_dim: int, dim: int, heads: int, config: GATConfig, *, average: bool = False) -> None:
        super().__init__()
        self.heads, self.average = heads, average
        self.project = nn.Linear(in_dim, heads * dim, bias=False)  # W of all heads
        own_query = config.score == "gatv2" and config.attention == "learned"
        self.project_query = nn.Linear(in_dim, heads * dim, bias=False) if own_query else None
        score: Score = ConstantScore()
        if config.attention == "learned":
            score = (LeakyAdditive if own_query else GraphAdditive)(dim, num_heads=heads)
        align = ALIGNS[config.align].for_queries(dim, window=10)
        self.attention = EdgeAttention(score, align, dropout=config.weight_dropout, heads=True)
        self.input_dropout, self.feature_dropout = Dropout(config.input_dropout), Dropout(config.feature_dropout)
        self.bias = nn.Parameter(torch.zeros(dim if average else heads * dim))
        bound = math.sqrt(6 / (in_dim + dim))  # Glorot, for the matrix [in_dim, dim] of each head
        for projection in (self.project, self.project_query):
            if projection is not None:
                nn.init.uniform_(projection.weight, -bound, bound)

    def forward(self, nodes: Float[Tensor, "n f"], edges: Edges) -> Float[Tensor, "n g"]:
        """What each node takes from its neighbours, [n heads·dim], or [n dim] if heads are averaged."""
        nodes = self.input_dropout(nodes)
        keys = self._by_head(self.project(nodes))  # W h_j: [heads n dim]
        query = keys if self.project_query is None else self._by_head(self.project_query(nodes))
        values = self.feature_dropout(keys)
        context = self.attention(query, keys, values, edges, need_weights=False).context  # Σ_j α_ij W h_j, eqs. 1–4
        joined: Tensor = context.mean(0) if self.average else context.transpose(0, 1).flatten(1)
        return joined + self.bias

    def _by_head(self, nodes: Tensor) -> Tensor:
        """[n heads·dim] → [heads n dim]."""
        return nodes.view(len(nodes), self.heads, nodes.shape[-1] // self.heads).transpose(0, 1)


class GAT(nn.Module):
    """Layers of graph attention: nodes with features in, scores of classes for every node out."""

    def __init__(self, config: GATConfig) -> None:
        super().__init__()
        self.config = config
        hidden = config.heads * config.hidden_dim
        widths = [config.features, *[hidden] * (config.layers - 1)]
        self.layers = nn.ModuleList(
            GraphAttention(width, config.hidden_dim, config.heads, config) for width in widths[:-1]
        )
        self.output = GraphAttention(widths[-1], config.classes, config.output_heads, config, average=True)

    def forward(self, features: Float[Tensor, "n f"], edges: Edges) -> Float[Tensor, "n c"]:
        """Logits of the classes of all nodes. Each node is its own neighbour, whether `edges` has the loop or not."""
        if features.shape[-1] != self.config.features:
            cure = "pass nodes with the features that the model was built for"
            raise ShapeError("features of nodes", got=features.shape[-1], expected=self.config.features, cure=cure)
        edges, nodes = edges.with_self_loops(), features
        for number, layer in enumerate(self.layers):
            attended = layer(nodes, edges)
            nodes = F.elu(attended + nodes if self.config.skip and number > 0 else attended)
        logits: Tensor = self.output(nodes, edges)
        return logits
