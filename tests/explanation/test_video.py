import numpy as np
import pytest

from regard.base import ConfigError, ShapeError
from regard.explanation import Video, side_by_side

FRAMES = np.arange(3 * 4 * 6 * 3, dtype=np.uint8).reshape(3, 4, 6, 3)
EXAMPLE = Video(
    side_by_side(FRAMES), np.full((1, 3, 2, 2), 1 / 12), [[0, 0, 2, 3], [3, 1, 6, 4]], [1], ["jumps"], 2, "t"
)


def random_example(rng):
    queries, frames, persons = (int(rng.integers(1, 5)) for _ in range(3))
    high, wide, down, across = (int(rng.integers(1, 9)) for _ in range(4))
    picture = rng.integers(0, 256, (high, frames * wide, 3), dtype=np.uint8)
    boxes = np.sort(rng.random((persons, 2, 2)), axis=1).reshape(persons, 4)
    labels = [str(rng.choice(["", "jumps", "мир", "<b>"])) for _ in range(queries)]
    weights = rng.random((queries, frames, down, across)) * rng.integers(0, 2)
    asks, middle, title = rng.integers(0, persons, queries), int(rng.integers(0, frames)), str(rng.choice(["", "t"]))
    return Video(picture, weights, boxes, asks, labels, middle, title)


def test_frames_come_back():
    assert np.array_equal(EXAMPLE.frames(), FRAMES)


def test_shares_are_from_an_even_one_to_the_largest():
    weights = np.zeros((2, 1, 2, 2))
    weights[0, 0] = [[0.7, 0.1], [0.1, 0.1]]
    weights[1, 0] = 0.25
    shares = Video(np.zeros((2, 2, 3), np.uint8), weights, [[0, 0, 1, 1]], [0, 0], ["a", "b"]).shares()
    assert shares[0, 0].tolist() == [[1, 0], [0, 0]]
    assert not shares[1].any()


def test_html_has_a_row_for_each_query():
    twice = Video(
        EXAMPLE.image, np.repeat(EXAMPLE.weights, 2, 0) * [[[[1.0, 2.0]]]], EXAMPLE.boxes, [0, 1], ["a", "<b>"]
    )
    page = twice.html()
    assert page.count("<svg") == 2
    assert "&lt;b&gt;" in page
    assert page.count("fill-opacity") == 2 * 3 * 2  # the right column of each frame


@pytest.mark.parametrize(("change", "error", "message"), [
    ({"weights": np.ones((1, 4, 2, 2))}, ShapeError, "frames of a video: got weights .* for a picture of 4 × 18"),
    ({"weights": np.ones((1, 3, 0, 2))}, ShapeError, "frames of a video"),
    ({"weights": np.ones((3, 2, 2))}, ShapeError, "weights of a video have the wrong number of axes"),
    ({"boxes": [[2, 0, 0, 3]], "asks": [0]}, ConfigError, "boxes of a video: got .*; expected left ≤ right"),
    ({"asks": [2]}, ConfigError, "the persons who ask: got 2 to 2; expected whole numbers from 0 to 1"),
    ({"asks": [0, 1]}, ShapeError, "each query belongs to a person: got 2 for 1 queries"),
    ({"middle": 3}, ConfigError, "the number of the middle frame: got 3; expected 0 to 2"),
    ({"labels": []}, ShapeError, "labels do not fit the weights"),
])  # fmt: skip
def test_wrong_videos(change, error, message):
    fields = {
        name: getattr(EXAMPLE, name) for name in ("image", "weights", "boxes", "asks", "labels", "middle", "title")
    }
    with pytest.raises(error, match=message):
        Video(**(fields | change))
