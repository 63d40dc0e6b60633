"""bAbI: the right files of the archive for each size and task, held-out questions, and errors."""

import hashlib
import io
import lzma
import tarfile
from pathlib import Path

import pytest

from regard.base import ConfigError
from regard.data.download import DownloadError
from regard.data.parallel import DataError
from regard.data.sources import Source
from regard.datasets.babi import SOURCES, babi

NAME = "babi/tasks_1-20_v1-2_en.tar.xz"
TASKS = {"1": "single-supporting-fact", "2": "two-supporting-facts", "3": "three-supporting-facts"}


def packed(files: dict[str, str]) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    return lzma.compress(content.getvalue())


def story(folder: str, task: str, split: str, count: int) -> str:
    lines = [f"1 Mary saw {folder} {task} {split}.\n2 Who saw {number}?\tmary{number}\t1\n" for number in range(count)]
    return "".join(lines)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    files = {}
    for task, words in TASKS.items():
        for part, count in (("en", 10), ("en-10k", 20)):
            for split in ("train", "test"):
                if (part, task, split) != ("en-10k", "3", "train"):  # as in the archive
                    name = f"tasks_1-20_v1-2/{part}/qa{task}_{words}_{split}.txt"
                    files[name] = story(part, task, split, count if split == "train" else 2)
    files["tasks_1-20_v1-2/README"] = "not a story"
    data = packed(files)
    (tmp_path / "babi").mkdir()
    (tmp_path / NAME).write_bytes(data)
    monkeypatch.setitem(SOURCES, NAME, Source(NAME, None, hashlib.sha256(data).hexdigest(), len(data), "free"))
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    return tmp_path


def test_all_tasks_with_a_tenth_held_out(folder: Path) -> None:
    splits = babi()
    assert {name: (split.size, split.tasks) for name, split in splits.items()} == {
        "train": (27, ("1", "2", "3")), "valid": (3, ("1", "2", "3")), "test": (6, ("1", "2", "3")),
    }  # fmt: skip
    first, held = splits["train"].questions[0], splits["valid"].questions[0]
    assert (first.story, first.question, first.answer) == (("Mary saw en 1 train.",), "Who saw 0?", "mary0")
    assert held.answer == "mary9"
    assert splits["test"].questions[0].story == ("Mary saw en 1 test.",)


def test_one_task_and_the_larger_set(folder: Path) -> None:
    splits = babi("10k", ["2"])
    assert [(split.size, split.tasks) for split in splits.values()] == [(18, ("2",)), (2, ("2",)), (2, ("2",))]
    assert splits["train"].questions[0].story == ("Mary saw en-10k 2 train.",)
    assert babi("10k")["test"].tasks == ("1", "2")  # the third cannot be trained on


def test_errors(folder: Path) -> None:
    with pytest.raises(DataError, match=r"bAbI 10k has no training file of task 3.*Try: leave it out, or take"):
        babi("10k", ["1", "3"])
    with pytest.raises(ConfigError, match="no such task of bAbI: got '21'; expected some of 1, 2"):
        babi(tasks=["21"])
    with pytest.raises(ConfigError, match="the size of bAbI: got '5k'; expected one of 1k, 10k"):
        babi("5k")
    (folder / NAME).write_bytes(b"damaged")
    with pytest.raises(DownloadError, match="babi"):
        babi()


def test_a_damaged_line_is_named_with_its_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = packed({"x/en/qa1_single-supporting-fact_train.txt": "1 Mary left.\nJohn left.\n"})
    (folder / NAME).write_bytes(data)
    monkeypatch.setitem(SOURCES, NAME, Source(NAME, None, hashlib.sha256(data).hexdigest(), len(data), "free"))
    with pytest.raises(DataError, match=r"qa1_single-supporting-fact_train\.txt, line 2 is not a line of a story"):
        babi()
