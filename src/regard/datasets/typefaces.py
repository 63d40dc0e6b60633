"""Typefaces: the glyphs of 91 freely licensed faces as small pictures, inside the package.

The file `corpora/README.md` lists them with their owners and licences. `installed_faces` draws others from font files.
"""

from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path

from regard.base import RegardError, require
from regard.data.glyphs import Glyphs, draw_glyphs, has_glyphs, unpack_glyphs
from regard.datasets.dataset import Dataset

FILE = "typefaces.xz"
LICENCE = "OFL 1.1, Apache 2.0 or Bitstream Vera, by face: see corpora/README.md"
OF_MATPLOTLIB = {
    "DejaVu Sans": "DejaVuSans.ttf", "DejaVu Sans Bold": "DejaVuSans-Bold.ttf", "DejaVu Serif": "DejaVuSerif.ttf",
    "DejaVu Serif Bold": "DejaVuSerif-Bold.ttf", "DejaVu Sans Mono": "DejaVuSansMono.ttf",
    "DejaVu Sans Oblique": "DejaVuSans-Oblique.ttf", "STIX General": "STIXGeneral.ttf",
    "STIX General Bold": "STIXGeneralBol.ttf", "STIX General Italic": "STIXGeneralItalic.ttf",
}  # fmt: skip


@cache
def typefaces() -> Glyphs:
    """The atlas inside the package.

    >>> len(typefaces().faces)
    91
    """
    content = (files("regard") / "datasets" / "corpora" / FILE).read_bytes()
    return unpack_glyphs(content, name=f"corpora/{FILE}")


def installed_faces(fonts: Sequence[str | Path] = ()) -> tuple[Glyphs, str]:
    """An atlas of font files, or of all below folders; and a sentence about those that could not be used.

    Without any, it has the faces that matplotlib brings along.
    """
    paths: dict[str, Path] = {}
    missing: list[str] = []
    for given in fonts:
        place = Path(given)
        inside = sorted(path for path in place.rglob("*") if path.suffix.lower() in (".ttf", ".otf", ".woff"))
        listed = inside if place.is_dir() else [place]
        for path in listed:
            if path.is_file() and has_glyphs(path):
                paths[path.stem] = path
            else:
                missing.append(str(path))
    if not paths:
        folder = Path(str(require("matplotlib", extra="viz").__file__)).parent / "mpl-data" / "fonts" / "ttf"
        paths = {name: folder / file for name, file in OF_MATPLOTLIB.items() if (folder / file).is_file()}
        if not paths:
            raise RegardError("no font is found", got=str(folder), cure="reinstall matplotlib, or name a font file")
    told = ""
    if missing:
        several = "They are" if len(missing) > 1 else "It is"
        told = f"{', '.join(missing)}: not usable. {several} left out; words are set in {', '.join(paths)}."
    return draw_glyphs(paths), told


DATASET = Dataset(
    "typefaces",
    kind="glyphs",
    read=typefaces,
    splits=(),
    licence=LICENCE,
    embedded=True,
    note="glyphs of 91 freely licensed faces",
)
