"""bAbI: 20 tasks of questions about short stories, in English, with 1,000 or 10,000 training questions each.

Weston et al. 2015, arXiv 1502.05698; version 1.2 of the files, packed anew as one archive. Task 3 of the larger set has
no training file there, so that set has 19 tasks. Supporting facts are kept; nothing is trained on them.
"""

import io
import re
import tarfile
from collections.abc import Sequence
from pathlib import Path

from regard.base import ConfigError
from regard.data.download import find
from regard.data.parallel import DataError
from regard.data.sources import listed_sources
from regard.data.stories import Question, Stories, hold_out, parse_stories
from regard.datasets.dataset import Dataset

TASKS = tuple(str(number) for number in range(1, 21))
SIZES = {"1k": "en", "10k": "en-10k"}  # training questions of a task, and the folder that has them
LICENCE = "CC BY 3.0; attribution: Facebook AI Research, the bAbI tasks (Weston et al. 2015)"
SOURCES = listed_sources(
    """
487627e4ad5169f0adbc2b0ac7ed61a84a364953e9f8c91083e466fe220175f5  1736320 babi/tasks_1-20_v1-2_en.tar.xz
""",
    licence=LICENCE,
)
_FILE = re.compile(r"(?:.*/)?(en|en-10k)/qa(\d+)_[\w-]+_(train|test)\.txt")


def babi(size: str = "1k", tasks: Sequence[str] = ()) -> dict[str, Stories]:
    """Train, valid and test questions of these tasks, "1" to "20", or of all; 10 % of the training are for validation.

    The test questions are the same for both sizes.
    """
    return read_archive(find(SOURCES["babi/tasks_1-20_v1-2_en.tar.xz"]), size=size, tasks=tasks)


def read_archive(path: Path, *, size: str, tasks: Sequence[str], known: Sequence[str] = TASKS) -> dict[str, Stories]:
    """The splits of an archive that has the files of bAbI under their own names."""
    if size not in SIZES:
        raise ConfigError("the size of bAbI", got=repr(size), expected=f"one of {', '.join(SIZES)}")
    for task in tasks:
        if task not in known:
            raise ConfigError("there is no such task of bAbI", got=repr(task), expected=f"some of {', '.join(known)}")
    files: dict[tuple[str, str], list[Question]] = {}
    try:
        with tarfile.open(path) as archive:
            for member in archive:
                name = _FILE.fullmatch(member.name)
                if name is None or name[1] != SIZES[size] or (tasks and name[2] not in tasks):
                    continue
                content = archive.extractfile(member)
                assert content is not None
                lines = io.TextIOWrapper(content, encoding="utf-8").read().splitlines()
                files[name[2], name[3]] = list(parse_stories(lines, member.name, task=name[2]))
    except (tarfile.TarError, EOFError, OSError) as error:
        raise DataError(f"{path} cannot be read", got=str(error), expected="an archive of bAbI files") from error
    there = [task for task in tasks or known if (task, "train") in files]
    if missing := sorted(set(tasks) - set(there), key=int):
        cure = "leave it out, or take task.size=1k"
        raise DataError(f"bAbI {size} has no training file of task {missing[0]}", got=path, cure=cure)
    train, valid = hold_out(Stories([question for task in there for question in files[task, "train"]]))
    test = Stories([question for task in there for question in files.get((task, "test"), [])])
    return {"train": train, "valid": valid, "test": test}


DATASET = Dataset(
    "babi",
    kind="stories",
    read=babi,
    splits=("train", "valid", "test"),
    licence=LICENCE,
    sources=SOURCES,
    note="20 kinds of questions about short stories: 1,000 or 10,000 of each to train on",
)
