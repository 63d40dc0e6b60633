import numpy as np
import pytest

from regard.base import ShapeError
from regard.tasks.drawn_digit import centred_digit


def drawn(height=200, width=160):
    """A hooked stroke, dark on light, off the middle."""
    page = np.full((height, width), 255, dtype=np.uint8)
    page[20:32, 30:90] = 0
    page[20:120, 78:90] = 0
    return page


def test_a_digit_fits_twenty_pixels_and_its_mass_is_in_the_middle():
    digit = centred_digit(drawn())
    rows, columns = np.nonzero(digit)
    assert digit.shape == (28, 28)
    assert (rows.max() - rows.min() + 1, columns.max() - columns.min() + 1) == (20, 12)
    shares = digit / digit.sum()
    assert (shares.sum(1) * np.arange(28)).sum() == pytest.approx(13.5, abs=0.51)
    assert (shares.sum(0) * np.arange(28)).sum() == pytest.approx(13.5, abs=0.51)


def test_ink_is_white_whatever_the_page_was():
    assert np.array_equal(centred_digit(drawn()), centred_digit(255 - drawn()))
    assert np.array_equal(centred_digit(drawn()), centred_digit(np.repeat(drawn()[..., None], 3, 2)))
    assert not np.array_equal(centred_digit(drawn()), centred_digit(drawn(), invert=False))


def test_place_and_size_of_the_drawing_do_not_matter():
    moved = np.roll(drawn(), (40, 30), (0, 1))
    assert np.array_equal(centred_digit(moved), centred_digit(drawn()))
    larger = np.repeat(np.repeat(drawn(), 2, 0), 2, 1)
    assert np.array_equal(centred_digit(larger), centred_digit(drawn()))


def test_grey_levels_are_means_of_what_a_pixel_covers():
    page = np.zeros((40, 40), dtype=np.uint8)
    page[:, :20] = 200
    page[0, 20] = 40  # ink: the box is 40 × 21
    digit = centred_digit(page)
    assert digit.max() == 200
    assert set(np.unique(digit[5:])) <= {0, 190, 200, 95, 105}


def test_a_page_without_ink_stays_black_and_a_single_dot_is_a_square():
    assert not centred_digit(np.zeros((30, 30), dtype=np.uint8)).any()
    dot = np.zeros((30, 30), dtype=np.uint8)
    dot[3, 4] = 255
    assert (centred_digit(dot) == 255).sum() == 400
    with pytest.raises(ShapeError, match="a picture is made of bytes"):
        centred_digit(np.zeros((3, 3)))
