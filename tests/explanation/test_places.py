import numpy as np
import pytest

from regard.base import ConfigError, ShapeError
from regard.data.images import Box, fit_box
from regard.explanation import Places

IMAGE = np.zeros((40, 60, 3), dtype=np.uint8)
WEIGHTS = np.full((2, 2, 3), 1 / 6)


def test_a_box_of_either_kind_covers_the_same():
    assert Places(IMAGE, WEIGHTS).corners() == (0, 0, 60, 40)
    assert Places(IMAGE, WEIGHTS, box=(5, 10, 20, 30)).corners() == (10, 5, 40, 25)
    box = Box(left=10, top=5, right=40, bottom=25)
    assert Places(IMAGE, WEIGHTS, box=box).box == (5, 10, 20, 30)
    assert Places(IMAGE, WEIGHTS, box=box).corners() == tuple(box)
    whole = fit_box(40, 60, whole=False)
    assert Places(IMAGE, WEIGHTS, box=whole).corners() == pytest.approx(tuple(whole))


def test_labels_may_be_missing():
    assert Places(IMAGE, WEIGHTS, labels="").labels == ()
    assert Places(IMAGE, WEIGHTS, labels=["a", "dog"]).labels == ("a", "dog")


def test_the_places_of_a_raster_are_the_middles_of_its_cells():
    places = Places(IMAGE, np.zeros((6, 1, 1)), grid=(2, 3))
    assert places.spots().tolist() == [[y, x] for y in (9.5, 29.5) for x in (9.5, 29.5, 49.5)]
    inside = Places(IMAGE, np.zeros((1, 1, 1)), grid=(1, 1), box=(20, 30, 20, 30))
    assert inside.spots().tolist() == [[29.5, 44.5]]
    assert Places(IMAGE, WEIGHTS).spots() is None
    assert Places(IMAGE, WEIGHTS, points=[[0, 0], [39, 59]]).spots().tolist() == [[0, 0], [39, 59]]


@pytest.mark.parametrize(("change", "error", "message"), [
    ({"weights": np.zeros((2, 2))}, ShapeError, r"weights of places have the wrong number of axes: got shape \[2, 2\]"),
    ({"weights": np.zeros((2, 0, 2))}, ShapeError, "weights of places have no grid"),
    ({"labels": ["a"]}, ShapeError, "labels do not fit the weights: got 1 labels; expected 2"),
    ({"labels": "ab"}, ConfigError, "labels: got 'ab'; expected a list of texts"),
    ({"box": (0, 0, 0, 5)}, ConfigError, r"the box of a grid: got .*; expected \(top, left, height, width\)"),
    ({"box": (0, 0, 5)}, ConfigError, "the box of a grid"),
    ({"points": [[0, 0]]}, ShapeError, r"points do not fit the weights: got shape \[1, 2\]; expected \[2 2\]"),
    ({"points": [[0, 0], [0, 60]]}, ConfigError, "a point is outside of the picture"),
    ({"grid": (2, 2)}, ShapeError, "places do not fill their raster: got 2 places for 2 × 2; expected 4"),
    ({"grid": (2,)}, ConfigError, r"the raster of places: got \(2,\); expected \(rows, columns\)"),
])  # fmt: skip
def test_wrong_places(change, error, message):
    with pytest.raises(error, match=message):
        Places(**{"image": IMAGE, "weights": WEIGHTS, **change})
