"""Recipes of structured self-attention: twins differ in what they should, and the smallest one learns."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from regard import api
from regard.recipes import RECIPES

LARGE = [name for name in RECIPES if name.startswith("self_attentive/") and not name.endswith("/smoke")]


@pytest.mark.parametrize("twin", ["imdb_max_pool", "imdb_mean_pool", "snli_max_pool"])
def test_twins_are_trained_alike(twin: str) -> None:
    own, other = RECIPES[f"self_attentive/{twin.partition('_')[0]}"](), RECIPES[f"self_attentive/{twin}"]()
    assert (own.task, own.train) == (other.task, other.train)
    free = ("pooling", "classifier", "mlp_dim", "pair")
    assert replace(other.model, **{name: getattr(own.model, name) for name in free}) == own.model
    assert own.model.pooling == "attention" != other.model.pooling


@pytest.mark.parametrize("name", LARGE)
def test_steps_are_whole_epochs(name: str) -> None:
    recipe = RECIPES[name]()
    sizes = {"imdb": 22_500, "yelp": 8000, "sst": 159_274, "snli": 99_890, "snli_full": 549_367}
    size = 77_616 if recipe.task.binary else sizes[recipe.task.dataset]
    batches = -(-size // recipe.task.batch_size)
    epochs = recipe.train.steps / batches
    assert abs(epochs - round(epochs)) < 0.01, epochs
    assert recipe.train.capture == (recipe.task.fit is not None), "captured graphs need few shapes"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> api.Model:
    return api.train(RECIPES["self_attentive/smoke"](), tmp_path_factory.mktemp("runs") / "smoke")


def test_the_smallest_one_learns_what_counting_words_cannot(trained: api.Model) -> None:
    evaluation = trained.evaluate("test")
    assert evaluation.figures["accuracy"] > 95  # chance has 50, and the opinion alone 75
    assert [answer.text for answer in trained.classify(["the soup was good .", "the soup was not good ."])] == [
        "positive", "negative",
    ]  # fmt: skip


def test_its_folder_explains_itself(trained: api.Model) -> None:
    loaded = api.load(trained.folder)
    text = "it did not rain , the story was awful ."
    first, again = trained.classify(text), loaded.classify(text)
    assert first.described == again.described
    assert first.explanations == again.explanations
    records = [json.loads(line) for line in (Path(trained.folder) / "metrics.jsonl").read_text().splitlines()]
    losses = [record["loss"] for record in records if record["kind"] == "train"]
    assert losses[-1] < 0.3 * losses[0]
    assert all("penalty" in record for record in records if record["kind"] == "train")


def test_hops_look_at_some_words_more_than_at_others(trained: api.Model) -> None:
    texts = trained.task.splits["test"].texts[0][:60]
    for answer in trained.classify(texts):
        [shading] = answer.explanations
        assert shading.weights.shape == (4, len(shading.words))
        assert shading.together().max() > 1.5 / len(shading.words)
