"""Words set in lines, bent and unbent, and placed in pictures."""

import pytest
import torch

from regard.data import LETTERS, Lettering, draw_words, write_words
from regard.data.glyphs import CHARACTERS, HIGH, MARKS
from regard.data.lettering import (
    LINE,
    Pose,
    bend_points,
    choose_characters,
    draw_pose,
    pick,
    place_words,
    set_line,
    unbend_points,
)
from regard.data.words import encode_words
from regard.datasets.typefaces import typefaces
from tests.index_guard import IndexGuard

FACES = typefaces().take(["DejaVu Sans", "STIX General Italic"])
ALL = torch.arange(len(LETTERS))
PLAIN = Lettering(curved=0.0, tilt=0.0, perspective=0.0, slant=0.0, capitals=0.0, strings=0.0, marks=0.0)


def test_words_and_strings_are_drawn_as_asked() -> None:
    table = encode_words(["exit", "cafe9"], 8)
    words = draw_words(table, 200, PLAIN, letters=ALL)
    assert {tuple(row) for row in words.tolist()} == {tuple(row) for row in table.tolist()}
    strings = draw_words(table, 500, Lettering(strings=1.0), letters=torch.arange(10))
    lengths = (strings >= 0).sum(1)
    assert strings.max() == 9
    assert set(lengths.tolist()) == set(range(1, 9))
    assert ((strings >= 0).int().diff(dim=1) <= 0).all()  # nothing after the end
    again = [draw_words(table, 9, Lettering(), letters=ALL, generator=torch.Generator().manual_seed(3)) for _ in "12"]
    assert again[0].equal(again[1])


def test_capitals_and_marks() -> None:
    words = encode_words(["ab1"], 4).expand(400, -1)
    loud = choose_characters(words, Lettering(capitals=1.0, marks=0.0))
    assert {"".join(CHARACTERS[number] for number in row if number >= 0) for row in loud.tolist()} == {"AB1"}
    marked = choose_characters(words, Lettering(capitals=0.0, marks=1.0))
    texts = {"".join(CHARACTERS[number] for number in row if number >= 0) for row in marked.tolist()}
    assert {text.strip(MARKS).lower() for text in texts} == {"ab1"}  # the label is what is left
    assert any(text[0] in MARKS for text in texts)
    assert any(text[-1] in MARKS for text in texts)


def test_a_line_is_its_glyphs_side_by_side() -> None:
    characters = torch.tensor([[CHARACTERS.index(letter) for letter in "Tow"], [CHARACTERS.index("i"), -1, -1]])
    line = set_line(characters, torch.tensor([0, 1]), FACES, spacing=torch.zeros(2))
    wanted = torch.zeros(HIGH, LINE)
    pen = 0
    for number in characters[0].tolist():  # by a loop
        cell = FACES.masks[0, number].float()
        wanted[:, pen : pen + cell.shape[1]] += cell
        pen += int(FACES.advances[0, number])
    torch.testing.assert_close(line.masks[0, 0], wanted.clamp(max=255) / 255)
    for row in range(2):
        rows, columns = torch.nonzero(line.masks[row, 0] > 64 / 255, as_tuple=True)
        box = [int(columns.min()), int(columns.max()) + 1, int(rows.min()), int(rows.max()) + 1]
        assert line.box[row].tolist() == box
    long = set_line(torch.full((1, 25), CHARACTERS.index("W")), torch.tensor([0]), FACES)
    assert long.box[0, 1] <= LINE  # set closer, so that nothing is cut off


def test_bending_and_unbending_are_inverse() -> None:
    aspect = torch.rand(40) * 8 + 0.5
    pose = draw_pose(aspect, Lettering(curved=0.5))
    points = torch.rand(40, 30, 2) - 0.5
    points[..., 0] *= aspect.unsqueeze(1)
    double = Pose(pose.bend.double(), pose.matrix.double())
    again = unbend_points(bend_points(points.double(), double), double)
    torch.testing.assert_close(again, points.double(), atol=1e-6, rtol=0)
    flat = draw_pose(aspect, PLAIN)
    torch.testing.assert_close(bend_points(points, flat), points, atol=0.05, rtol=0)  # all but straight


def test_a_straight_word_fills_its_picture() -> None:
    words = encode_words(["hello", "i"], 6)
    characters = choose_characters(words, PLAIN)
    line = set_line(characters, torch.tensor([0, 0]), FACES)
    pose = draw_pose(torch.ones(2), PLAIN)
    ink = place_words(line, pose, (32, 64), margins=torch.zeros(2, 4))
    for picture in ink[:, 0]:
        rows, columns = torch.nonzero(picture > 0.25, as_tuple=True)
        assert rows.min() <= 1
        assert rows.max() >= 30
        assert columns.min() <= 1
        assert columns.max() >= 62
    half = place_words(line, pose, (32, 64), margins=torch.zeros(2, 4), widths=torch.tensor([32, 64]))
    assert half[0, 0, :, 32:].max() == 0
    assert half[0, 0, :, :32].max() > 0.5
    torch.testing.assert_close(half[1], ink[1])


def test_words_that_keep_their_ratio() -> None:
    words = encode_words(["i", "international"], 14).repeat(8, 1)
    ink, widths = write_words(words, FACES, PLAIN, (32, 128), keep_ratio=True)
    assert ink.shape == (16, 1, 32, 128)
    assert widths[::2].max() < widths[1::2].min()
    assert widths.min() >= 16
    assert widths.max() <= 128


def test_chance_never_picks_what_is_not_there() -> None:
    chance = torch.tensor([0.0, 1 - 2**-24, 1.0, 7.0, -1.0, torch.nan, torch.inf, -torch.inf])
    for count in (1, 3, 91, 40_001, 2**24):
        numbers = pick(chance, count)
        assert numbers[:2].tolist() == [0, count - 1]
        assert numbers.min() >= 0
        assert numbers.max() < count


def test_the_guard_sees_what_a_gpu_would_stop_at() -> None:
    table, far = torch.zeros(3), torch.tensor([3.0, torch.nan])
    for wrong in (lambda: table[torch.tensor([-1])], lambda: table.gather(0, torch.tensor([-1])), lambda: far.long()):
        with pytest.raises((AssertionError, RuntimeError)), IndexGuard():
            wrong()


@pytest.mark.slow
@pytest.mark.bare
@pytest.mark.parametrize("seed", range(12))
def test_no_index_leaves_its_table_whatever_is_drawn(seed: int) -> None:
    torch.manual_seed(seed)
    table = encode_words(["a", "w" * 20, "i" * 20, "0", "exit"], 20)
    wild = Lettering(curved=0.5, arc=90.0, tilt=45.0, perspective=2.0, slant=1.0, strings=0.5, marks=1.0)
    for style in (Lettering(), wild):
        for keep in (False, True):
            with IndexGuard() as guard:
                words = draw_words(table, 500, style, letters=ALL)
                ink, widths = write_words(words, typefaces(), style, (32, 128), keep_ratio=keep)
            assert guard.checked > 10
            assert ink.isfinite().all()
            assert ((ink >= 0) & (ink <= 1)).all()
            assert ((widths >= 16) & (widths <= 128)).all()
