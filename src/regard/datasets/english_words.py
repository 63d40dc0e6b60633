"""English words: 63,375 of them, by how usual they are, inside the package (SCOWL, levels 10 to 50)."""

from functools import cache
from importlib.resources import as_file, files

from regard.data.parallel import read_lines
from regard.datasets.dataset import Dataset

FILE = "english_words.txt.xz"
LICENCE = "SCOWL: free for any purpose with its notice, © 2000–2016 Kevin Atkinson; see corpora/README.md"


@cache
def english_words() -> tuple[str, ...]:
    """Words of the letters a to z, the most usual ones first.

    >>> len(english_words()), english_words()[3]
    (63375, 'able')
    """
    with as_file(files("regard") / "datasets" / "corpora" / FILE) as path:
        return tuple(read_lines(path))


DATASET = Dataset(
    "english_words",
    kind="word list",
    read=english_words,
    splits=(),
    licence=LICENCE,
    embedded=True,
    note="63,375 English words, the most usual ones first",
)
