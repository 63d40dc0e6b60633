"""The recipes of LSTMN: twins that differ in the model alone, and two that learn in seconds."""

import math
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from regard import api
from regard.datasets.agreement import agreement
from regard.recipes import RECIPES


def test_the_twins_are_trained_alike() -> None:
    ours, twin = RECIPES["lstmn/ptb"](), RECIPES["lstmn/ptb_lstm"]()
    assert (ours.task, ours.train) == (twin.task, twin.train)
    assert ours.task.context == "sentence"
    for name in ("hidden_dim", "embed_dim", "layers", "dropout", "tied"):
        assert getattr(ours.model, name) == getattr(twin.model, name), name
    assert (ours.model.hidden_dim, ours.model.layers) == (300, 1)


@pytest.mark.bare  # the hook would take as long again
def test_the_smoke_run_learns_what_frequencies_do_not_tell(tmp_path: Path) -> None:
    model = api.train(RECIPES["lstmn/smoke"](), tmp_path / "run")
    text = agreement()["test"]
    tokens = text.replace("\n", " <eos> ").split()
    counts = Counter(agreement()["train"].replace("\n", " <eos> ").split())
    total = sum(counts.values())
    unigram = math.exp(-sum(math.log(counts[token] / total) for token in tokens) / len(tokens))
    evaluation = model.evaluate("test")
    assert evaluation.details["count"] == len(tokens)
    assert evaluation.figures["perplexity"] < 7 < unigram / 3
    written = model.generate("the dogs that the", max_tokens=12)
    assert written.text.startswith("the dogs that the ")


@pytest.mark.parametrize(("name", "size", "epochs"), [("sst2", 77_616, 12), ("sst5", 159_274, 8), ("snli", 99_890, 12)])
def test_classifiers_are_trained_for_whole_epochs(name: str, size: int, epochs: int) -> None:
    recipe = RECIPES[f"lstmn/{name}"]()
    assert recipe.train.steps / -(-size // recipe.task.batch_size) == pytest.approx(epochs, abs=0.01)
    assert recipe.train.capture
    assert recipe.task.fit is not None, "captured graphs need few shapes"
    assert recipe.task.phrases == name.startswith("sst")
    assert recipe.task.binary == (name == "sst2")


@pytest.mark.parametrize("name", ["snli", "multi30k_de_en"])
def test_shallow_and_deep_fusion_are_trained_alike(name: str) -> None:
    deep, shallow = RECIPES[f"lstmn/{name}"](), RECIPES[f"lstmn/{name}_shallow"]()
    assert (deep.task, deep.train) == (shallow.task, shallow.train)
    assert replace(shallow.model, fusion="deep") == deep.model != shallow.model


@pytest.mark.bare
def test_the_classifier_learns_what_counting_words_cannot(tmp_path: Path) -> None:
    model = api.train(RECIPES["lstmn/reviews"](), tmp_path / "run")
    assert model.evaluate("test").figures["accuracy"] > 90  # chance has 50, and the opinion alone 75
    texts = ["the soup was good .", "the soup was not good ."]
    assert [answer.text for answer in model.classify(texts)] == ["positive", "negative"]
    [matrix] = model.layers(model.classify(texts[1]))
    assert matrix.rows == matrix.columns == ("the", "soup", "was", "not", "good", ".")
    assert api.load(tmp_path / "run").classify(texts[1]).described == model.classify(texts[1]).described
