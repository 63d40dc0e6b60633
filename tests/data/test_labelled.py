"""Labelled texts from files: what is read, how it is split, and what is said of files that are broken."""

import gzip
import json
from pathlib import Path

import pytest

from regard.data import DataError, LabelledTexts, hold_out, read_labelled, split_labelled


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "content", "texts", "labels", "classes"),
    [
        ("a.tsv", "good\tfine film\nbad\tdull\n", (["fine film", "dull"],), [1, 0], ("bad", "good")),
        ("a.tsv", "text\tid\tlabel\nfine\t7\t10\ndull\t8\t9\n", (["fine", "dull"],), [1, 0], ("9", "10")),
        ("a.txt", "no\ta\tb\nyes\tc\td\n", (["a", "c"], ["b", "d"]), [0, 1], ("no", "yes")),
        ("a.tsv", "gold_label\tpremise\thypothesis\nno\ta\tb\nyes\tc\td\n",
         (["a", "c"], ["b", "d"]), [0, 1], ("no", "yes")),
        ("a.jsonl", '{"label": 1, "text": "a"}\n{"label": 0, "text": "b"}\n', (["a", "b"],), [1, 0], ("0", "1")),
        ("a.json", '{"label": true, "text": "a"}\n{"label": false, "text": "b"}\n',
         (["a", "b"],), [1, 0], ("False", "True")),
        ("a.jsonl",
         '{"label": "x", "sentence1": "a", "sentence2": "b"}\n{"label": "y", "sentence1": "c", "sentence2": "d"}\n',
         (["a", "c"], ["b", "d"]), [0, 1], ("x", "y")),
    ],
)  # fmt: skip
def test_files(
    name: str, content: str, texts: tuple[list[str], ...], labels: list[int], classes: tuple[str, ...], tmp_path: Path
) -> None:
    read = read_labelled(write(tmp_path / name, content))
    assert (read.texts, read.labels, read.classes) == (texts, labels, classes)
    packed = tmp_path / f"{name}.gz"
    packed.write_bytes(gzip.compress(content.encode()))
    assert read_labelled(packed).texts == texts


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.tsv", "one column\n", r"a\.tsv, line 1: unknown columns: got 1 column: 'one column'; expected label<"),
        ("a.tsv", "x\ta\ny\n", r"line 2: wrong number of columns: got 1 columns; expected 2, as in the first line"),
        ("a.tsv", "x\ta\ny\tb\tc\n", r"line 2: wrong number of columns: got 3 columns"),
        ("a.tsv", "x\ta\n\tb\n", r"line 2: the label is missing: got ''"),
        ("a.tsv", "x\ta\ny\t \n", r"line 2: the text is empty"),
        ("a.tsv", "x\ta\nx\tb\n", r"these are not classes: got 1 different labels, such as 'x'; expected 2 to 1000"),
        ("a.tsv", "label\ttext\n", r"there are no examples"),
        ("a.tsv", "", r"the file is empty"),
        ("a.jsonl", "{\n", r"a\.jsonl, line 1: this is not JSON"),
        ("a.jsonl", "[1]\n", r"line 1: this is not an example: got \[1\]"),
        ("a.jsonl", '{"label": "x"}\n', r"line 1: fields are missing: got the fields label; expected label and text"),
        ("a.jsonl", '{"label": "x", "text": "a"}\n{"label": "y", "review": "b"}\n', r"line 2: fields are missing"),
        ("a.jsonl", '{"label": null, "text": "a"}\n', r"line 1: the label is missing"),
        ("a.jsonl", '{"label": "x", "text": 5}\n', r"line 1: the text is empty: got 5"),
    ],
)  # fmt: skip
def test_broken_files(name: str, content: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message):
        read_labelled(write(tmp_path / name, content))


def test_bytes_that_are_not_text(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_bytes(b"x\tcaf\xe9\n")
    with pytest.raises(DataError, match=r"a\.tsv, line 1: invalid UTF-8"):
        read_labelled(tmp_path / "a.tsv")
    with pytest.raises(DataError, match="cannot be read"):
        read_labelled(tmp_path / "nothing.tsv")


def test_labels_of_a_test_file_are_those_of_the_training(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "b\tone\nc\ttwo\n")
    assert read_labelled(path, classes=("a", "b", "c")).labels == [1, 2]
    with pytest.raises(DataError, match=r"line 2: unknown label: got 'c'; expected one of a, b"):
        read_labelled(path, classes=("a", "b"))


def test_splits() -> None:
    whole = LabelledTexts(([f"text {n}" for n in range(40)],), [n % 2 for n in range(40)], ("no", "yes"))
    first, again, other = (hold_out(whole, {"valid": 7, "test": 3}, seed=seed) for seed in (0, 0, 1))
    assert {name: split.size for name, split in first.items()} == {"train": 30, "valid": 7, "test": 3}
    assert sorted(text for split in first.values() for text in split.texts[0]) == sorted(whole.texts[0])
    assert first["valid"].texts == again["valid"].texts != other["valid"].texts
    assert all(
        split.labels[row] == int(split.texts[0][row][5:]) % 2 for split in first.values() for row in range(split.size)
    )
    with pytest.raises(DataError, match="nothing is left to train on"):
        hold_out(whole, {"valid": 40}, seed=0)


@pytest.mark.parametrize("size", [40, 41, 43])
def test_runs_of_texts_are_held_out_together(size: int) -> None:
    whole = LabelledTexts(([str(n) for n in range(size)],), [n % 2 for n in range(size)], ("no", "yes"))
    splits = hold_out(whole, {"valid": 10}, seed=3, run=4)
    assert sorted(int(text) for split in splits.values() for text in split.texts[0]) == [*range(size)]
    runs = {name: {int(text) // 4 for text in split.texts[0]} for name, split in splits.items()}
    assert splits["valid"].size == 10
    assert len(runs["valid"] & runs["train"]) <= 1  # one run is cut, to fill the size
    assert len(runs["valid"]) <= 4


def test_equal_texts_are_in_one_split() -> None:
    whole = LabelledTexts(([f"text {n % 10}" for n in range(40)],), [n % 2 for n in range(40)], ("no", "yes"))
    splits = split_labelled(whole, valid=4, test=4)
    kinds = [set(split.texts[0]) for split in splits.values()]
    assert sum(len(kind) for kind in kinds) == 10
    assert sum(split.size for split in splits.values()) == 40


def test_texts_without_labels_are_refused() -> None:
    with pytest.raises(DataError, match="got 1 and 2 texts, 1 labels"):
        LabelledTexts((["a"], ["b", "c"]), [0], ("x", "y"))


def test_json_of_a_text_with_tabs(tmp_path: Path) -> None:
    lines = [json.dumps({"label": label, "text": f"a\t{label}"}) for label in "xy"]
    assert read_labelled(write(tmp_path / "a.jsonl", "\n".join(lines))).texts == (["a\tx", "a\ty"],)
