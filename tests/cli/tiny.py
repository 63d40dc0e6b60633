"""A small language, some painted shapes, odd pictures, and settings of models that learn in a moment."""

import gzip
import io
from pathlib import Path

import numpy as np
from PIL import Image

from regard.datasets.shapes import shapes

NOUNS = {"cat": "chat", "dog": "chien", "bird": "oiseau", "fish": "poisson", "man": "homme", "girl": "fille"}
VERBS = {"sees": "voit", "likes": "aime", "eats": "mange", "finds": "trouve"}
KINDS = {"red": "rouge", "big": "grand", "old": "vieux", "new": "neuf", "small": "petit"}
PAIRS = [
    (f"the {kind} {noun} {verb} the bird.", f"le {NOUNS[noun]} {KINDS[kind]} {VERBS[verb]} le {NOUNS['bird']}.")
    for noun in NOUNS
    for verb in VERBS
    for kind in KINDS
]
TRAIN = [
    "train.steps=4",
    "train.log_every=2",
    "train.evaluate_every=4",
    "train.save_every=2",
    "train.schedule=constant",
]
SIZES = [
    *(f"model.{name}_dim=8" for name in ("embed", "hidden", "align", "maxout")),
    "task.batch_size=16",
    "task.search.beams=2",
    *TRAIN,
]

BAD = {  # what each bad picture is told
    "broken.png": "{path}: the picture is broken: got ",
    "empty.png": "{path}: the picture is empty: got 0 bytes; expected a PNG, JPEG, WebP, … file",
    "text.png": "{path}: this is no picture: got 18 bytes that begin with b'this is '; expected PNG, JPEG, WebP, ….",
    "huge.png": "{path}: the picture is too large: got 9000 × 8000 = 72 million pixels; expected at most 64,000,000",
    "folder.png": "{path}: cannot be read: got is a directory; expected a picture. Try: check the path.",
    "missing.png": "{path}: cannot be read: got no such file or directory; expected a picture. Try: check the path.",
}
ODD = ("plain.jpg", "grey.png", "cmyk.jpg", "clear.webp", "moving.gif", "dot.png", "large.png")


class Terminal(io.StringIO):
    """What commands take for a terminal, and what they show there."""

    def isatty(self) -> bool:
        return True


def write_text(folder: Path) -> Path:
    """All pairs as two files, as a table, and as a compressed table."""
    for side, name in enumerate(("a.en", "a.fr")):
        (folder / name).write_text("".join(pair[side] + "\n" for pair in PAIRS))
    table = "".join("\t".join(pair) + "\n" for pair in PAIRS)
    (folder / "a.tsv").write_text(table)
    (folder / "a.tsv.gz").write_bytes(gzip.compress(table.encode()))
    return folder


def write_captions(folder: Path) -> Path:
    """Painted shapes in a folder, and their captions beside it."""
    folder.mkdir()
    made = shapes((30, 0, 0))["train"]
    for name in made.names:
        (folder / name).write_bytes(made.read(name))
    lines = [f"{name}\t{texts[0]}\n" for name, texts in zip(made.names, made.captions, strict=True)]
    (folder.parent / "captions.tsv").write_text("".join(lines))
    return folder


def odd_pictures(folder: Path) -> Path:
    """Pictures of every kind that people have, sound ones and broken ones."""
    folder.mkdir()
    pixels = np.random.default_rng(0).integers(0, 256, (24, 30, 3)).astype(np.uint8)
    plain = Image.fromarray(pixels)
    plain.save(folder / "plain.jpg")
    plain.convert("L").save(folder / "grey.png")
    plain.convert("CMYK").save(folder / "cmyk.jpg")
    plain.convert("RGBA").save(folder / "clear.webp")
    frames = [Image.fromarray(255 - pixels), plain]
    plain.save(folder / "moving.gif", save_all=True, append_images=frames)
    Image.new("RGB", (1, 1), "red").save(folder / "dot.png")
    Image.new("L", (5000, 4000), 128).save(folder / "large.png")  # 20 million pixels
    Image.new("1", (9000, 8000)).save(folder / "huge.png")  # 72 million
    whole = io.BytesIO()
    plain.save(whole, "PNG")
    (folder / "broken.png").write_bytes(whole.getvalue()[:-900])
    (folder / "empty.png").touch()
    (folder / "text.png").write_text("this is no picture")
    (folder / "folder.png").mkdir()
    return folder
