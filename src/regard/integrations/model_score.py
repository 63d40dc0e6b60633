"""Scores as models of transformers define them: a dot product with the scale of the model, and a soft cap."""

from typing import Any

import torch
from torch import Tensor

from regard.attention.attention import ScoreLike
from regard.score import DotForm, Score
from regard.score.dot import dot


class ScaledBy(Score):
    """e_ij = scale · q_i · k_j, with the scale of the model."""

    def __init__(self, scale: float | int) -> None:
        super().__init__()
        self.scale = scale

    def compare(self, query: Tensor, keys: Tensor) -> Tensor:
        """Scores of queries against keys."""
        return dot(query, keys) * self.scale

    def as_dot(self, query: Tensor, keys: Tensor) -> DotForm:
        """The scale of the model."""
        return DotForm(query, keys, self.scale)


class SoftCapped:
    """e_ij = c tanh(e'_ij / c): the scores of another score, bent so that none is beyond ±c (Gemma 2)."""

    def __init__(self, score: ScoreLike, cap: float | int) -> None:
        self.score, self.cap = score, cap
        self.needs: tuple[str, ...] = getattr(score, "needs", ())

    def __call__(self, query: Tensor, keys: Any, **history: Any) -> Tensor:
        """Scores of queries against keys."""
        capped: Tensor = torch.tanh(self.score(query, keys, **history) / self.cap) * self.cap
        return capped
