"""Canvases: every pixel comes from where it should, and a seed decides all of it."""

from collections import Counter

import pytest
import torch

from regard.base import ConfigError
from regard.data.canvas import Canvas, paint
from regard.data.pictures import Pictures
from regard.datasets.digits import digits

NAMES = tuple("0123456789")


def pool(size: int = 12, side: int = 6) -> Pictures:
    """No black pixel anywhere, so a digit's square is seen whole; the grey level is the digit's own number."""
    images = torch.arange(1, size + 1, dtype=torch.uint8)[:, None, None, None].expand(-1, 1, side, side).clone()
    images[:, :, 0, 0] += 100  # the upper left corner is marked
    return Pictures(images, torch.arange(size) % 10, NAMES)


def grey(images: torch.Tensor) -> torch.Tensor:
    return (images * 255).round().long()


def test_a_digit_lies_somewhere() -> None:
    rows = torch.arange(12).repeat(20)
    images, labels = paint(rows, pool(), Canvas(15))
    assert images.shape == (240, 1, 15, 15)
    assert labels.equal(rows % 10)
    corners = []
    for row, image in zip(rows.tolist(), grey(images)[:, 0], strict=True):
        y, x = (int(v) for v in (image == row + 101).nonzero()[0])
        corners.append((y, x))
        assert image[y : y + 6, x : x + 6].equal(pool().images[row, 0].long())
        assert (image > 0).sum() == 36
    for axis in (0, 1):
        assert {corner[axis] for corner in corners} == set(range(10))  # every place, the last one too


def test_clutter_comes_from_other_digits_of_the_pool() -> None:
    two = Pictures(
        torch.stack([torch.zeros(1, 6, 6), torch.full((1, 6, 6), 7)]).to(torch.uint8), torch.tensor([0, 1]), NAMES
    )
    canvas = Canvas(15, clutter=3, patch=2)
    black, white = (paint(torch.full((60,), row), two, canvas).images for row in (0, 1))
    assert grey(black).flatten(1).sum(1).eq(3 * 4 * 7).all()  # three pieces of the other one, added
    assert grey(white).flatten(1).sum(1).eq(36 * 7).all()  # the other one is black


def test_pieces_are_pieces() -> None:
    """A digit with a number of its own at each place: what clutter shows stands together in it."""
    side = 6
    numbered = torch.arange(1, side * side + 1, dtype=torch.uint8).view(1, 1, side, side)
    both = Pictures(torch.cat([torch.zeros_like(numbered), numbered]), torch.tensor([0, 1]), NAMES)
    images = grey(paint(torch.zeros(200, dtype=torch.long), both, Canvas(15, clutter=1, patch=3)).images)[:, 0]
    windows = {tuple(w.flatten().tolist()) for w in numbered[0, 0].long().unfold(0, 3, 1).unfold(1, 3, 1).flatten(0, 1)}
    seen = set()
    for image in images:
        y, x = (int(v) for v in image.nonzero()[0])
        seen.add(tuple(image[y : y + 3, x : x + 3].flatten().tolist()))
        assert (image > 0).sum() == 9
    assert seen == windows


def test_no_brighter_than_white() -> None:
    bright = Pictures(torch.full((3, 1, 6, 6), 200, dtype=torch.uint8), torch.zeros(3, dtype=torch.long), NAMES)
    images = paint(torch.zeros(50, dtype=torch.long), bright, Canvas(8, clutter=4, patch=4)).images
    assert set(grey(images).unique().tolist()) == {0, 200, 255}


def test_the_seed_decides() -> None:
    canvas, rows = Canvas(15, digits=2, clutter=2, patch=3), torch.arange(12)
    first, again, other = (
        paint(rows, pool(), canvas, generator=torch.Generator().manual_seed(seed)) for seed in (1, 1, 2)
    )
    assert first.images.equal(again.images)
    assert first.labels.equal(again.labels)
    assert not first.images.equal(other.images)


def test_several_digits_read_from_left_to_right_and_keep_apart() -> None:
    rows = torch.arange(12).repeat(30)
    images, labels = paint(rows, pool(), Canvas(20, digits=2))
    assert labels.shape == (360, 2)
    places = grey(images)[:, 0]
    for row, image, pair in zip(rows.tolist(), places, labels.tolist(), strict=True):
        corners = (image > 100).nonzero().tolist()
        assert len(corners) == 2
        (y, x), (other_y, other_x) = sorted(corners, key=lambda corner: (corner[1], corner[0]))
        assert max(abs(y - other_y), abs(x - other_x)) >= 6
        assert pair == [(int(image[c[0], c[1]]) - 101) % 10 for c in ((y, x), (other_y, other_x))]
        assert row % 10 in pair
        assert (image > 0).sum() == 72


def test_what_is_asked() -> None:
    rows, many = torch.arange(2000) % 12, Canvas(20, digits=2)
    ten = Pictures(pool().images[:10], torch.arange(10), NAMES)
    seed = 3
    answers = {}
    for target in ("sequence", "pair", "sum"):
        canvas = Canvas(20, digits=2, target=target)
        answers[target] = paint(rows % 10, ten, canvas, generator=torch.Generator().manual_seed(seed)).labels
    sequence = answers["sequence"]
    assert answers["sum"].equal(sequence.sum(1))
    names = Canvas(20, digits=2, target="pair").classes(NAMES)
    assert len(names) == 55
    assert [names[label] for label in answers["pair"].tolist()] == [
        "".join(map(str, sorted(pair))) for pair in sequence.tolist()
    ]
    assert Canvas(20, digits=2, target="sum").classes(NAMES) == tuple(map(str, range(19)))
    assert many.classes(NAMES) == Canvas().classes(NAMES) == NAMES
    doubles = Counter(names[label][0] == names[label][1] for label in answers["pair"].tolist())
    assert 0.07 < doubles[True] / 2000 < 0.13  # of 100 ordered pairs 10: a mixed pair is twice as frequent as a double


def test_the_sample_fits() -> None:
    train = digits()["train"]
    painted = paint(torch.arange(16), train, Canvas(60, clutter=4))
    digit = train.images[:16].long().flatten(1).sum(1)
    assert (grey(painted.images).flatten(1).sum(1) >= 0.8 * digit).all()


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"size": 20, "digits": 0}, "canvas.digits: got 0; expected 1 to 100"),
        ({"size": 20, "clutter": -1}, "canvas.clutter: got -1"),
        ({"size": 20, "digits": 3, "target": "pair"}, "canvas.target 'pair': got 3 digits; expected 2"),
        ({"clutter": 4}, "canvas.size: got none; expected a size for several digits or clutter"),
    ],
)
def test_wrong_settings(settings: dict[str, object], text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Canvas(**settings)
    assert text in str(caught.value)


def test_digits_must_fit() -> None:
    for canvas, text in (
        (Canvas(5), "canvas.size: got 5; expected at least 6"),
        (Canvas(11, digits=2), "canvas.size: got 11; expected 12 for several digits"),
        (Canvas(20, clutter=1, patch=7), "canvas.patch: got 7, 12 digits of 6×6; expected inside a digit"),
    ):
        with pytest.raises(ConfigError) as caught:
            canvas.check(pool())
        assert text in str(caught.value)
    colours = Pictures(torch.zeros(2, 3, 6, 6, dtype=torch.uint8), torch.zeros(2), NAMES)
    with pytest.raises(ConfigError, match="for grey pictures with one label: got 3 channels"):
        Canvas(20).check(colours)
    Canvas().check(colours)  # no canvas
