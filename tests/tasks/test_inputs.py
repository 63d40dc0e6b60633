from pathlib import Path

import numpy as np
import pytest
import torch

from regard.base import ConfigError, RegardError, ShapeError
from regard.tasks.inputs import as_bytes, as_pixels, checked_split, checked_texts, picture_name


def test_texts_come_in_many_forms() -> None:
    assert checked_texts(["a", "b"]) == checked_texts(("a", "b")) == checked_texts(iter("ab")) == ["a", "b"]
    assert checked_texts(np.array(["a", "b"])) == ["a", "b"]


@pytest.mark.bare
def test_what_is_not_text_is_refused() -> None:
    wrong: list[tuple[object, type[Exception], str]] = [
        ("text", ConfigError, "several texts are expected: got one string"),
        (5, ConfigError, "texts: got int; expected a string, or a list of strings"),
        (["a", 3], ConfigError, "text 2: got int, 3; expected a string"),
        (["caf\udce9"], RegardError, "text 1 is no Unicode"),
    ]
    for texts, kind, message in wrong:
        with pytest.raises(kind, match=message):
            checked_texts(texts)  # type: ignore[arg-type]


def test_pictures_come_in_many_forms(tmp_path: Path) -> None:
    from PIL import Image

    grey = np.arange(12, dtype=np.uint8).reshape(3, 4)
    Image.fromarray(grey).save(tmp_path / "a.png")
    wanted = np.repeat(grey[..., None], 3, axis=2)
    for picture in (tmp_path / "a.png", str(tmp_path / "a.png"), (tmp_path / "a.png").read_bytes(), grey, wanted,
                    torch.from_numpy(grey)):  # fmt: skip
        np.testing.assert_array_equal(as_pixels(picture), wanted)
    with pytest.raises(ShapeError, match=r"made of bytes: got float64 \[3, 4, 3\]"):
        as_pixels(wanted / 255)
    assert picture_name(tmp_path / "a.png", 1) == str(tmp_path / "a.png")
    assert picture_name(grey, 3) == "picture 3"
    np.testing.assert_array_equal(as_bytes(torch.from_numpy(grey)[None]), wanted)


def test_a_split_that_is_there() -> None:
    assert checked_split("test", {"train": 1, "test": 2}) == "test"
    with pytest.raises(ConfigError, match=r"unknown split: got 'tst'; expected one of train, test\. .*'test'"):
        checked_split("tst", ["train", "test"])
