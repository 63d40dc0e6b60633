"""What a task on texts has of its data, and what a run folder keeps of it."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from regard.base import ConfigError, RegardError
from regard.data import LabelledTexts
from regard.models import SelfAttentive, SelfAttentiveConfig
from regard.tasks import TextClassification, TextClassificationConfig

TEXTS = LabelledTexts((["Good soup", "bad soup", "good day", "a bad day"],), [1, 0, 1, 0], ("no", "yes"))
SPLITS = dict.fromkeys(("train", "valid", "test"), TEXTS)


@pytest.fixture
def vectors(tmp_path: Path) -> Path:
    path = tmp_path / "vectors.txt"
    path.write_text("good 1 2 3\nbad 4 5 6\nsoup 7 8 9\n")
    return path


def test_a_model_learns_its_sizes_from_the_data(vectors: Path) -> None:
    task = TextClassification(TextClassificationConfig(), splits=SPLITS)
    config = task.complete(SelfAttentiveConfig())
    assert (config.vocabulary, config.classes, config.texts, config.embed_dim) == (9, 2, 1, 100)
    task = TextClassification(TextClassificationConfig(vectors_file=str(vectors)), splits=SPLITS)
    assert task.complete(SelfAttentiveConfig()).embed_dim == 3


@dataclass(frozen=True)
class OneText:
    vocabulary: int = 0
    classes: int = 0


def test_models_that_cannot_read_pairs() -> None:
    paired = LabelledTexts((TEXTS.texts[0], TEXTS.texts[0]), TEXTS.labels, TEXTS.classes)
    task = TextClassification(TextClassificationConfig(), splits={"train": paired})
    with pytest.raises(ConfigError, match="this model reads one text: got pairs"):
        task.complete(OneText())
    with pytest.raises(TypeError, match="has no classes and no vocabulary"):
        task.complete(nn.Module())


def test_word_vectors_begin_a_model_and_are_counted(vectors: Path) -> None:
    task = TextClassification(TextClassificationConfig(vectors_file=str(vectors)), splits=SPLITS)
    said: list[tuple[str, int, int]] = []
    task.prepare("cpu", lambda what, done, of: said.append((what, done, of)))
    assert said == [("words, of which 3 have a vector of vectors.txt", 5, 5)]
    model = SelfAttentive(task.complete(SelfAttentiveConfig(hidden_dim=4, mlp_dim=4)))
    task.begin(model)
    weight = model.words.weight.detach()
    for word, row in {"good": [1, 2, 3], "bad": [4, 5, 6], "soup": [7, 8, 9]}.items():
        assert weight[task.codec.encode_text(word)[0]].tolist() == row
    unknown = weight[task.codec.encode_text("day")[0]]
    assert unknown.any()
    assert not weight[0].any(), "<pad> stays zero"
    again = SelfAttentive(task.complete(SelfAttentiveConfig(hidden_dim=4, mlp_dim=4)))
    task.begin(again)
    assert torch.equal(again.words.weight, weight), "the others are drawn from a seed"
    with pytest.raises(ConfigError, match="this model takes no word vectors: got Linear"):
        task.begin(nn.Linear(1, 1))


def test_sub_words_have_vectors_too(vectors: Path) -> None:
    config = TextClassificationConfig(units="bpe", vocabulary=22, vectors_file=str(vectors))
    task = TextClassification(config, splits=SPLITS)
    assert task.start is not None
    known = int(task.start.known.sum())
    assert 5 < known == task.start.coverage.covered <= task.start.coverage.words == 18
    others = {number for word in ("good", "bad", "a", "day") for number in task.codec.encode_text(word)}
    alone = set(task.codec.encode_text("soup")) - others
    assert alone, "some piece stands in this word only"
    assert all(task.start.matrix[number].tolist() == [7, 8, 9] for number in alone)
    assert np.isfinite(task.start.matrix.numpy()).all()


def test_a_run_folder_keeps_units_classes_and_counts(vectors: Path, tmp_path: Path) -> None:
    config = TextClassificationConfig(vectors_file=str(vectors))
    task = TextClassification(config, splits=SPLITS)
    task.save(tmp_path)
    stored = json.loads((tmp_path / "texts.json").read_text())
    assert stored == {
        "classes": ["no", "yes"], "texts": 1,
        "vectors": {"from": "vectors.txt", "width": 3, "words": 5, "covered": 3},
    }  # fmt: skip
    vectors.unlink()
    loaded = TextClassification.load(tmp_path, config)
    assert loaded.facts == task.facts
    assert loaded.complete(SelfAttentiveConfig()) == task.complete(SelfAttentiveConfig())
    assert loaded.tokens("It isn't GOOD") == ("it", "is", "n't", "good")
    assert list(loaded.encoded([["good"]])) == list(task.encoded([["good"]]))


def test_damaged_folders(tmp_path: Path) -> None:
    task = TextClassification(TextClassificationConfig(), splits=SPLITS)
    task.save(tmp_path)
    for name, content, message in [
        (
            "texts.json",
            '{"classes": ["a"], "texts": 1}',
            "texts.json is damaged: got ValueError, 1 texts and 1 classes",
        ),
        ("texts.json", "[]", "texts.json"),
        ("units.json", "{", "units.json cannot be read"),
    ]:
        (tmp_path / name).write_text(content)
        with pytest.raises(RegardError, match=message):
            TextClassification.load(tmp_path, TextClassificationConfig())
        task.save(tmp_path)
    (tmp_path / "texts.json").unlink()
    with pytest.raises(RegardError, match=r"texts\.json"):
        TextClassification.load(tmp_path, TextClassificationConfig())


def test_a_run_that_starts_from_another_keeps_words_but_not_classes(tmp_path: Path) -> None:
    TextClassification(TextClassificationConfig(), splits=SPLITS).save(tmp_path)
    task = TextClassification.load(tmp_path, TextClassificationConfig())
    task.splits = {"train": LabelledTexts((["new soup"] * 3,), [0, 1, 2], ("x", "y", "z"))}
    task.prepare("cpu")
    config = task.complete(SelfAttentiveConfig())
    assert (config.vocabulary, config.classes) == (9, 3)


def test_settings_that_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"task\.dataset: got 'imbd'; expected one of .* Did you mean 'imdb'"):
        TextClassification(TextClassificationConfig("imbd"))
    with pytest.raises(ConfigError, match=r"task\.vectors: got 'glove'; expected one of glove50d\. Try: name a file"):
        TextClassificationConfig(vectors="glove")
    with pytest.raises(ConfigError, match=r"task\.vectors and task\.vectors_file: got both"):
        TextClassificationConfig(vectors="glove50d", vectors_file="a.txt")


def test_data_in_words() -> None:
    assert (
        TextClassificationConfig("sst", binary=True, phrases=True).describe_data() == "sst, two classes, with phrases"
    )
    assert TextClassificationConfig("imdb").data_set() == "imdb"
