"""A small language, and settings of a model that learns it in a moment."""

import gzip
from pathlib import Path

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


def write_text(folder: Path) -> Path:
    """All pairs as two files, as a table, and as a compressed table."""
    for side, name in enumerate(("a.en", "a.fr")):
        (folder / name).write_text("".join(pair[side] + "\n" for pair in PAIRS))
    table = "".join("\t".join(pair) + "\n" for pair in PAIRS)
    (folder / "a.tsv").write_text(table)
    (folder / "a.tsv.gz").write_bytes(gzip.compress(table.encode()))
    return folder
