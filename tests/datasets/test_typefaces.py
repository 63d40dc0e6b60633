"""The atlas inside the package, and atlases of installed fonts."""

from pathlib import Path

import matplotlib

from regard.datasets.typefaces import OF_MATPLOTLIB, installed_faces, typefaces

FONTS = Path(matplotlib.__file__).parent / "mpl-data/fonts/ttf"


def test_every_face_has_every_character_and_an_owner() -> None:
    glyphs = typefaces()
    assert len(set(glyphs.faces)) == len(glyphs.faces) >= 15
    ink = glyphs.ink
    assert (ink[..., 1] - ink[..., 0] >= 1).float().mean() > 0.999
    readme = (Path(__file__).parents[2] / "src/regard/datasets/corpora/README.md").read_text()
    for face in glyphs.faces:
        family = face.removesuffix(" Italic").removesuffix(" Bold").removesuffix(" Oblique")
        assert f"| {family}" in readme or family.startswith("DejaVu"), face


def test_fonts_that_are_missing_are_named_and_matplotlib_helps_out() -> None:
    own, told = installed_faces([FONTS / "DejaVuSans.ttf"])
    assert (own.faces, told) == (("DejaVuSans",), "")
    some, told = installed_faces([FONTS / "DejaVuSans.ttf", "nosuch.ttf"])
    assert some.faces == ("DejaVuSans",)
    assert told == "nosuch.ttf: not usable. It is left out; words are set in DejaVuSans."
    fallback, told = installed_faces(["nosuch.ttf"])
    assert fallback.faces == tuple(OF_MATPLOTLIB)
    assert told.startswith("nosuch.ttf: not usable.")
    assert fallback.take(["STIX General"]).advances.equal(typefaces().take(["STIX General"]).advances)
