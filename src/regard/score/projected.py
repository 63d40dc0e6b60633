"""Any score after a learnt projection of both sides, for scores that need one width where queries and keys differ."""

from typing import Any

from torch import Tensor, nn

from regard.score.edge import Edges
from regard.score.score import AdditiveForm, DotForm, Prepared, Score, check_positive, check_type, check_width


class Projected(Score):
    """e_ij = score(W q_i, U k_j), W [dim, query_dim], U [dim, key_dim] learnt; the keys are projected once.

    `Projected(ScaledDot(), 512, 1024, 64)` is one head of a Transformer, `Projected(Cosine(8.0), …)` a learnt match.
    """

    def __init__(self, score: Score, query_dim: int, key_dim: int, dim: int) -> None:
        super().__init__()
        check_positive("Projected", query_dim=query_dim, key_dim=key_dim, dim=dim)
        self.score = score
        self.needs = score.needs  # type: ignore[misc]  # that of the score inside, and so on
        self.is_dot, self.is_additive = score.is_dot, score.is_additive  # type: ignore[misc]
        self.has_edge_form = score.has_edge_form  # type: ignore[misc]
        self.to_query = nn.Linear(query_dim, dim, bias=False)  # W
        self.to_keys = nn.Linear(key_dim, dim, bias=False)  # U

    def prepare(self, keys: Tensor) -> Prepared:
        """U k_j, prepared by the score inside."""
        check_width(
            "keys",
            keys,
            self.to_keys.in_features,
            cure="give the widths in this order: Projected(score, query_dim, key_dim, dim)",
        )
        check_type("keys", keys, self.to_keys.weight)
        return self.score.prepare(self.to_keys(keys))

    def compare(self, query: Tensor, keys: Tensor, **history: Any) -> Tensor:
        """Scores of projected queries against prepared keys."""
        return self.score.compare(self._project(query), keys, **history)

    def compare_edges(self, query: Tensor, keys: Tensor, edges: Edges) -> Tensor:
        """Scores of the pairs of an edge list, after the projections."""
        return self.score.compare_edges(self._project(query), keys, edges)

    def as_dot(self, query: Tensor, keys: Tensor) -> DotForm:
        """The form of the score inside."""
        return self.score.as_dot(self._project(query), keys)

    @property
    def features(self) -> int:
        """Those of the score inside."""
        return self.score.features

    def as_additive(self, query: Tensor, keys: Tensor) -> AdditiveForm:
        """The form of the score inside."""
        return self.score.as_additive(self._project(query), keys)

    def _project(self, query: Tensor) -> Tensor:
        check_width(
            "query",
            query,
            self.to_query.in_features,
            cure="give the widths in this order: Projected(score, query_dim, key_dim, dim)",
        )
        check_type("query", query, self.to_query.weight)
        projected: Tensor = self.to_query(query)
        return projected
