"""Pictures of words: labels, one's own folders, zips."""

import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from few_words import ZIPPED_SPLITS, write_zipped_words
from PIL import Image

from regard.base import ConfigError
from regard.data import (
    DataError,
    WordPictures,
    normalised,
    read_words,
    read_zipped_splits,
    read_zipped_words,
    split_words,
)
from regard.data.words import encode_words, join_pictures, spell, spelled


def folder_of_words(folder: Path, count: int = 12) -> Path:
    """Pictures word_0.png … of growing width, and words.tsv and words.csv beside them."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for number in range(count):
        grey = np.full((20, 20 + 4 * number), 20 * number, np.uint8)
        Image.fromarray(grey).save(folder / f"word_{number}.png")
        lines.append((f"word_{number}.png", f"No. {number}, yes"))
    (folder / "words.tsv").write_text("".join(f"{name}\t{text}\n" for name, text in lines))
    (folder / "words.csv").write_text("file,text\n" + "".join(f'{name},"{text}"\n' for name, text in lines))
    return folder


def test_labels_are_lower_case_letters_and_digits() -> None:
    assert normalised("Ünder-WAY's 24/7") == "nderways247"
    rng = np.random.default_rng(0)
    for _ in range(50):
        text = "".join(rng.choice(list("az09m"), rng.integers(0, 9)))
        assert spelled([*spell(text), 2, 5]) == text  # 2 is the end
        row = encode_words([text], 6)[0].tolist()
        assert [number for number in row if number >= 0] == [number - 4 for number in spell(text[:6])]


def test_a_folder_with_either_table(tmp_path: Path) -> None:
    folder = folder_of_words(tmp_path / "words")
    tabbed, commas = (read_words(folder, folder / f"words.{kind}") for kind in ("tsv", "csv"))
    assert tabbed.texts == commas.texts
    assert tabbed.texts[3] == "No. 3, yes"
    assert tabbed.images.equal(commas.images)
    torch.testing.assert_close(tabbed.aspects, 1 + torch.arange(12) / 5)
    assert int(tabbed.images[5].float().mean()) == 100
    splits = split_words(tabbed, valid=2, test=3)
    assert {name: split.size for name, split in splits.items()} == {"train": 7, "valid": 2, "test": 3}
    assert sorted(name for split in splits.values() for name in split.names) == sorted(tabbed.names)
    with pytest.raises(ConfigError, match="too many words are held out"):
        split_words(tabbed, valid=6, test=6)


def test_what_is_wrong_with_a_folder(tmp_path: Path) -> None:
    folder = folder_of_words(tmp_path / "words")
    table = folder / "words.tsv"
    good = table.read_text()
    for lines, message in (
        (good + "word_0.png\n", "line 13: no text: got 'word_0.png'; expected picture<TAB>text"),
        (good + "gone.png\tx\n", "line 13: a picture is missing: got gone.png"),
        (good + "words.csv\tx\n", "line 13: no picture: got words.csv"),
        ("word_0.png\tx\n", "has too few words: got 1; expected 10 or more"),
    ):
        table.write_text(lines)
        with pytest.raises(DataError, match=message):
            read_words(folder, table)
    with pytest.raises(DataError, match="is not a folder"):
        read_words(folder / "none", table)
    with pytest.raises(DataError, match="do not fit their texts"):
        WordPictures(join_pictures([np.zeros((4, 4, 3), np.uint8)], ["a"]).images, ("a", "b"), torch.zeros(2))


def test_zipped_words(tmp_path: Path) -> None:
    folder = folder_of_words(tmp_path / "words")
    with zipfile.ZipFile(tmp_path / "words.zip", "w") as packed:
        for path in folder.glob("*.png"):
            packed.write(path, path.name)
    words = read_zipped_words(tmp_path / "words.zip", folder / "words.csv")
    assert words.images.equal(read_words(folder, folder / "words.csv").images)
    (folder / "words.csv").write_text("name,word\na,b\n")
    with pytest.raises(DataError, match="has another heading: got name,word"):
        read_zipped_words(tmp_path / "words.zip", folder / "words.csv")


def test_the_last_words_of_a_zipped_training_set_are_held_out(tmp_path: Path) -> None:
    write_zipped_words(tmp_path, "set")
    splits = read_zipped_splits(lambda file: tmp_path / f"set_{file}", held_out=2)
    assert {split: words.texts for split, words in splits.items()} == ZIPPED_SPLITS
    assert splits["valid"].images[:, 0, 0, 0].tolist() == [4, 5]
    few = read_zipped_splits(lambda file: tmp_path / f"set_{file}", held_out=100)
    assert [few[split].size for split in ("train", "valid")] == [1, 5]  # there must be something to learn from
