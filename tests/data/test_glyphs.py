"""Atlases of glyphs: drawn from fonts, packed, and read again."""

from pathlib import Path

import matplotlib
import pytest
import torch

from regard.base import ConfigError
from regard.data import CHARACTERS, DataError, Glyphs, draw_glyphs, pack_glyphs, unpack_glyphs
from regard.data.glyphs import HIGH, PEN, WIDE, has_glyphs

FONTS = Path(matplotlib.__file__).parent / "mpl-data/fonts/ttf"


def test_fonts_of_matplotlib_are_drawn_packed_and_read_again() -> None:
    drawn = draw_glyphs({"sans": FONTS / "DejaVuSans.ttf", "mono": FONTS / "DejaVuSansMono.ttf"})
    assert drawn.faces == ("sans", "mono")
    assert set(drawn.advances[1].tolist()) == {int(drawn.advances[1, 0])}  # a monospaced face
    left, right, top, bottom = drawn.ink.unbind(-1)
    assert (left < right).all()
    assert (top < bottom).all()
    for face, number in ((0, 3), (1, CHARACTERS.index("W")), (0, CHARACTERS.index("g"))):  # by brute force
        rows, columns = torch.nonzero(drawn.masks[face, number] > 64, as_tuple=True)
        box = [int(columns.min()), int(columns.max()) + 1, int(rows.min()), int(rows.max()) + 1]
        assert drawn.ink[face, number].tolist() == box
    heights = (bottom - top)[0]
    assert heights[CHARACTERS.index("H")] > heights[CHARACTERS.index("x")]  # capitals are higher
    assert bottom[0, CHARACTERS.index("g")] > bottom[0, CHARACTERS.index("h")]  # one goes below the line
    again = unpack_glyphs(pack_glyphs(drawn))
    assert again.faces == drawn.faces
    assert again.advances.equal(drawn.advances)
    assert (again.masks.int() - drawn.masks.int()).abs().max() <= 9  # sixteen levels of grey
    assert again.take(["mono"]).masks.equal(again.masks[1:])
    assert drawn.masks.shape[2:] == (HIGH, WIDE)
    assert 0 < PEN < WIDE


def test_what_cannot_be_drawn_or_read() -> None:
    assert not has_glyphs(FONTS / "STIXSizOneSymReg.ttf")  # signs of mathematics
    assert not has_glyphs("nosuch.ttf")
    with pytest.raises(DataError, match=r"nosuch\.ttf: the font odd cannot be read"):
        draw_glyphs({"odd": "nosuch.ttf"})
    with pytest.raises(DataError, match="no font file is given"):
        draw_glyphs({})
    with pytest.raises(DataError, match="an atlas of glyphs cannot be read"):
        unpack_glyphs(b"nothing")
    with pytest.raises(DataError, match="an atlas of glyphs does not fit"):
        Glyphs(torch.zeros(1, 2, 3, 4), torch.zeros(1, 2), ("a",))
    with pytest.raises(ConfigError, match="no such typeface: got 'Comic'"):
        unpack_glyphs(pack_glyphs(draw_glyphs({"sans": FONTS / "DejaVuSans.ttf"}))).take(["Comic"])
