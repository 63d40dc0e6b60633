"""Tasks 1, 2 and 6 of bAbI, with fewer stories: a small sample inside the package.

The file `corpora/README.md` says who made them and what was left out.
"""

from collections.abc import Sequence
from importlib.resources import as_file, files

from regard.data.stories import Stories
from regard.datasets.babi import LICENCE, read_archive
from regard.datasets.dataset import Dataset

FILE = "babi_small.tar.xz"
TASKS = ("1", "2", "6")


def babi_small(size: str = "1k", tasks: Sequence[str] = ()) -> dict[str, Stories]:
    """Train, valid and test questions of tasks 1, 2 and 6, or of some of them; no download.

    >>> {name: split.size for name, split in babi_small(tasks=["1"]).items()}
    {'train': 675, 'valid': 75, 'test': 200}
    """
    with as_file(files("regard") / "datasets" / "corpora" / FILE) as path:
        return read_archive(path, size=size, tasks=tasks, known=TASKS)


DATASET = Dataset(
    "babi_small",
    kind="stories",
    read=babi_small,
    splits=("train", "valid", "test"),
    licence=LICENCE,
    embedded=True,
    note="questions about short stories: one fact, two facts, yes or no",
)
