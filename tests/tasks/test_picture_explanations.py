from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.explanation import Gates, Places
from regard.tasks.picture_explanations import EVERY, MARKED, by_layer, gates_of, glimpse_path

IMAGE = np.zeros((8, 12, 3), np.uint8)


class Mapped(nn.Module):
    """Every place attends to the four corners of a grid, by its own place."""

    def maps(self, images: Tensor, places: Any) -> dict[str, Tensor]:
        weights = torch.zeros(1, len(places), 2, 2)
        weights[0, :, 0, 0] = torch.tensor([row / 8 for row, _ in places])
        weights[0, :, 1, 1] = 1 - weights[0, :, 0, 0]
        return {"block": weights}


class Gated(nn.Module):
    """Gates that are the means of the channels."""

    def gates(self, images: Tensor) -> dict[str, Tensor]:
        return {"one": images.mean((2, 3)), "two": 1 - images.mean((2, 3))}


def test_a_path_has_the_retina_of_its_model() -> None:
    model = SimpleNamespace(retina=SimpleNamespace(size=4, scales=2))
    path = glimpse_path(model, IMAGE, torch.tensor([[0.0, 0.5], [1.0, -1.0]]), "7")
    assert path is not None
    assert (path.size, path.scales, path.label, path.where.tolist()) == (4, 2, "7", [[0.0, 0.5], [1.0, -1.0]])
    assert glimpse_path(nn.Linear(1, 1), IMAGE, torch.zeros(1, 2), "7") is None


def test_maps_of_marked_places_and_of_all() -> None:
    marked, every = by_layer(Mapped(), IMAGE, torch.zeros(1, 3, 8, 12))
    assert isinstance(marked, Places)
    assert isinstance(every, Places)
    assert len(marked.weights) == len(MARKED)
    assert marked.grid is None
    assert every.grid == (8 // EVERY, 12 // EVERY)
    assert every.points is not None
    np.testing.assert_allclose(np.asarray(every.weights)[:, 0, 0], np.asarray(every.points)[:, 0] / 8)
    assert by_layer(nn.Linear(1, 1), IMAGE, torch.zeros(1, 3, 8, 12)) == []


def test_gates_over_many_pictures() -> None:
    images = torch.rand(5, 3, 2, 2)
    (gates,) = gates_of(Gated(), images, torch.tensor([0, 1, 0, 1, 1]), ("cat", "dog"), at_once=2)
    assert isinstance(gates, Gates)
    np.testing.assert_allclose(gates.values["one"], images.mean((2, 3)).numpy(), atol=1e-6)
    assert tuple(gates.labels) == (0, 1, 0, 1, 1)
    assert gates_of(nn.Linear(1, 1), images, torch.zeros(5), ("cat",)) == []
