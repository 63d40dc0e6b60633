"""Draws src/regard/datasets/corpora/typefaces.xz: the glyphs of freely licensed fonts, from packages of fonts.

    npm pack @fontsource/lobster @fontsource/oswald …     # each unpacked into FOLDER/<name>/package
    python tools/make_typefaces.py FOLDER

Faces of matplotlib come first. A font that lacks a character is left out with a sentence. The table of faces, their
copyright lines and licences is printed as Markdown, for the README beside the file.
"""

import json
import re
import sys
from pathlib import Path

import matplotlib

from regard.data.glyphs import draw_glyphs, has_glyphs, pack_glyphs
from regard.datasets.typefaces import OF_MATPLOTLIB

OUT = Path(__file__).resolve().parents[1] / "src/regard/datasets/corpora/typefaces.xz"
BOTH = {"roboto", "montserrat", "open-sans", "lato", "poppins", "oswald", "merriweather", "playfair-display", "lora",
        "raleway", "roboto-condensed", "roboto-slab", "barlow-condensed", "josefin-sans", "rubik", "arvo"}  # fmt: skip
SLANTED = {"roboto", "merriweather", "lora", "open-sans", "playfair-display"}
STYLES = {"400-normal": "", "700-normal": " Bold", "700-italic": " Bold Italic", "400-italic": " Italic"}


def main(folder: Path) -> None:
    """Draws the atlas and prints the table."""
    fonts = Path(matplotlib.__file__).parent / "mpl-data/fonts/ttf"
    files = {name: fonts / file for name, file in OF_MATPLOTLIB.items()}
    rows = {"DejaVu Sans, Serif and Mono": "matplotlib | Bitstream Vera | © 2003 Bitstream, Inc.",
            "STIX General": "matplotlib | OFL 1.1 | © 2001–2010 the STI Pub Companies"}  # fmt: skip
    for package in sorted(path.parent for path in folder.glob("*/package/package.json")):
        slug, told = package.parent.name, json.loads((package / "package.json").read_text())
        if not told.get("name", "").startswith("@fontsource/"):
            continue
        family = slug.replace("-", " ").title()
        wanted = ["400-normal"] + ["700-normal"] * (slug in BOTH) + ["700-italic"] * (slug in SLANTED)
        added = False
        for style in wanted:
            [file, *_] = [*package.glob(f"files/{slug}-latin-{style}.woff"), None]
            if file is None or not has_glyphs(file):
                print(f"{family}{STYLES[style]} is left out: no file, or not every character", file=sys.stderr)
                continue
            files[family + STYLES[style]], added = file, True
        if added:
            text = (package / "LICENSE").read_text()
            [owner, *_] = [*re.findall(r"^.*Copyright.*$", text, re.MULTILINE), "see the package"]
            owner = re.split(r"\S+\.ttf:|\(?https?:|\|", owner.strip())[0]
            owner = re.sub(r"Copyright( \(c\)| ©)?,?", "", owner, flags=re.IGNORECASE).strip(" ,")
            if "OFL" not in told["license"]:
                owner = "the authors of the font"
            rows[family] = f"npm @fontsource/{slug} {told['version']} | {told['license']} | © {owner}"
    glyphs = draw_glyphs(files)
    OUT.write_bytes(pack_glyphs(glyphs))
    print(f"{len(glyphs.faces)} faces, {OUT.stat().st_size:,} bytes", file=sys.stderr)
    print("| family | package | licence | copyright |\n|---|---|---|---|")
    for family, row in rows.items():
        print(f"| {family} | {row} |")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
