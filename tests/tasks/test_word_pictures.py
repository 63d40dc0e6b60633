"""What a reader is shown: new renders, photographs beside them, held-out words that training does not see."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from few_words import SMALL, photographs

from regard.base import ConfigError
from regard.data import BOS, EOS, LETTERS, PAD
from regard.tasks import WordReading
from regard.tasks.word_pictures import targets_of

CPU = torch.device("cpu")


def texts(labels: torch.Tensor) -> list[str]:
    return ["".join(LETTERS[number] for number in row if number >= 0) for row in labels.tolist()]


def test_training_and_held_out_words_are_apart_and_held_out_ones_stay() -> None:
    task = WordReading(SMALL)
    train = {text for _ in range(20) for text in texts(task.training_words(8, CPU).labels)}
    held = set(task.held_out("rendered").texts) | set(task.held_out("valid").texts)
    assert not train & held
    again = WordReading(SMALL).held_out("curved")
    assert again.images.equal(task.held_out("curved").images)
    assert again.images.dtype == torch.uint8
    assert not again.images.equal(task.held_out("rendered").images)
    assert task.tests == ["test", "rendered", "curved"]
    assert task.held_out("test") is task.held_out("rendered")
    with pytest.raises(ConfigError, match="unknown split: got 'tset'"):
        task.held_out("tset")


def test_a_share_of_each_batch_is_photographed() -> None:
    config = replace(SMALL, real=("iiit5k",), real_share=0.25, tested=("iiit5k",))
    task = WordReading(config, photographs={"iiit5k": photographs(shade=40)})
    shown = task.training_words(8, CPU)
    labels = texts(shown.labels)
    assert all(label.startswith("a") and label[1:].isdecimal() for label in labels[6:])
    assert {label for _ in range(30) for label in texts(task.training_words(8, CPU).labels)[6:]} == {
        f"a{number}" for number in range(12)
    }
    assert shown.images.shape == (8, 1, 16, 48)
    assert task.tests == ["test", "iiit5k", "rendered", "curved"]
    assert task.held_out("test").texts == tuple(f"a{number}" for number in range(15, 20))
    assert task.held_out("valid").texts == ("a12", "a13", "a14")
    assert task.held_out("test").images.float().mean((1, 2, 3)).tolist() == [float(40 + n) for n in range(15, 20)]


def test_words_in_their_ratio_are_padded() -> None:
    config = replace(SMALL, keep_ratio=True, real=("files",), real_share=0.5)
    task = WordReading(config, photographs={"files": photographs()})
    shown = task.training_words(8, CPU)
    for image, width in zip(shown.images, shown.widths.tolist(), strict=True):
        assert (image[..., width:] == 0).all()
        assert 8 <= width <= 48
    held = task.held_out("test")  # 10 × 45 … 49 in a picture of 16 × 48: too wide, so as wide as it goes
    assert held.widths.tolist() == [48] * 5
    assert set(task.held_out("rendered").widths.tolist()) != {48}


def test_letters_become_inputs_and_targets() -> None:
    inputs, outputs = targets_of(torch.tensor([[3, 10, -1], [0, 1, 2], [-1, -1, -1]]))
    assert inputs.tolist() == [[BOS, 7, 14, PAD], [BOS, 4, 5, 6], [BOS, PAD, PAD, PAD]]
    assert outputs.tolist() == [[7, 14, EOS, PAD], [4, 5, 6, EOS], [EOS, PAD, PAD, PAD]]


def test_one_s_own_words_and_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="real=files needs a file and a folder"):
        WordReading(replace(SMALL, real=("files",))).training_words(2, CPU)
    with pytest.raises(ConfigError, match=r"task\.real: got 'mnist'"):
        WordReading(replace(SMALL, real=("mnist",)))
    with pytest.raises(ConfigError, match="texts need their pictures"):
        WordReading.from_files(SMALL, "words.tsv", None)
    with pytest.raises(ConfigError, match=r"task\.letters: got 'äb'"):
        replace(SMALL, letters="äb")
    with pytest.raises(ConfigError, match="shortest=9 and longest=8"):
        replace(SMALL, shortest=9)
    given = WordReading.from_files(SMALL, "words.tsv", str(tmp_path))
    assert (given.real, given.table, given.folder) == (("files",), "words.tsv", str(tmp_path))


def test_a_test_set_that_is_not_here_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    monkeypatch.setenv("REGARD_OFFLINE", "1")
    task = WordReading(replace(SMALL, tested=("iiit5k",)))
    assert "scene_text/iiit5k_train" in task.missing("iiit5k")
    assert task.missing("curved") == ""
