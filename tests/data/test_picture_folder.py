from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from regard.data import read_picture_folder
from regard.data.parallel import DataError
from regard.data.picture_folder import squared


def write(folder: Path, count: int, size: tuple[int, int] = (8, 8)) -> list[np.ndarray]:
    chance = np.random.default_rng(0)
    folder.mkdir(parents=True, exist_ok=True)
    images = [chance.integers(0, 256, (*size, 3), dtype=np.uint8) for _ in range(count)]
    for number, image in enumerate(images):
        Image.fromarray(image).save(folder / f"{number:02d}.png")
    return images


def test_pictures_of_the_right_size_stay_as_they_are(tmp_path: Path) -> None:
    images = write(tmp_path, 23)
    splits = read_picture_folder(tmp_path, 8)
    assert {name: split.size for name, split in splits.items()} == {"train": 19, "valid": 2, "test": 2}
    assert np.array_equal(splits["test"].images[1].permute(1, 2, 0).numpy(), images[19])
    assert np.array_equal(splits["train"].images[8].permute(1, 2, 0).numpy(), images[10])
    assert splits["train"].classes == ("",)


def test_folders_are_classes(tmp_path: Path) -> None:
    write(tmp_path / "dogs" / "old", 7)
    write(tmp_path / "cats", 5)
    (tmp_path / "notes.txt").write_text("no picture")
    splits = read_picture_folder(tmp_path, 4)
    assert splits["train"].classes == ("cats", "dogs")
    assert splits["train"].labels.tolist() == [0] * 5 + [1] * 3 + [1] * 2
    assert splits["valid"].images.shape == (1, 3, 4, 4)


def test_the_square_in_the_middle() -> None:
    wide = np.zeros((4, 10, 3), dtype=np.uint8)
    wide[:, 3:7] = 200
    assert (squared(wide, 4) == 200).all()
    halved = squared(np.repeat(np.arange(0, 160, 10, dtype=np.uint8).reshape(4, 4, 1), 3, 2), 2)
    assert halved.shape == (3, 2, 2)
    assert halved.dtype == torch.uint8
    assert halved[0, 0, 0] < halved[0, 0, 1] < halved[0, 1, 0] < halved[0, 1, 1]


def test_what_is_not_a_folder_of_pictures(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no folder"):
        read_picture_folder(tmp_path / "nosuch", 8)
    write(tmp_path, 9)
    with pytest.raises(DataError, match="has too few pictures: got 9; expected 10 or more"):
        read_picture_folder(tmp_path, 8)
