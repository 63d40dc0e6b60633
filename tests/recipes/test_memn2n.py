"""Recipes of memory networks: epochs, rates and the ladder as published; the small one learns."""

import json
import math
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from regard import api
from regard.datasets.agreement import agreement
from regard.recipes import RECIPES
from regard.train.schedule import learning_rate


@pytest.mark.parametrize(("name", "linear", "epochs", "size"), [("babi", 20, 100, 900), ("babi_joint", 30, 60, 18_000)])
def test_epochs_and_rates_of_the_paper(name: str, linear: int, epochs: int, size: int) -> None:
    recipe = RECIPES[f"memn2n/{name}"]()
    train, batch = recipe.train, recipe.task.batch_size
    assert (batch, recipe.task.linear_epochs) == (32, linear)
    assert train.steps == -(-(linear + epochs) * size // batch)
    assert (train.optimiser, train.momentum, train.average) == ("sgd", 0, 1)
    assert train.clip == 40 / batch  # of a mean; the paper's is of a sum
    for epoch in range(linear + epochs):
        progress = (epoch + 0.5) / (linear + epochs)
        after = epoch - linear
        expected = 0.005 if after < 0 else 0.01 * 0.5 ** (after // (epochs // 4))
        assert learning_rate(train, 1, progress) == pytest.approx(batch * expected)


@pytest.mark.parametrize("kind", ["babi", "babi_joint"])
def test_each_step_of_the_ladder_adds_one_thing(kind: str) -> None:
    full, *steps = (RECIPES[f"memn2n/{kind}{step}"]() for step in ("", "_pe_ls", "_pe", "_bow"))
    with_start, position, bag = steps
    assert replace(with_start.model, noise=0.1) == full.model
    assert (with_start.task, with_start.train) == (full.task, full.train)
    assert position.model == with_start.model
    assert (position.task.linear_epochs, position.train.lead) == (0, 0)
    assert replace(bag.model, encoding="centred") == position.model
    assert (bag.task, bag.train) == (position.task, position.train)
    assert len({recipe.note for recipe in (full, *steps)}) == 4


@pytest.mark.bare  # the hook would take as long again
def test_the_small_one_learns(tmp_path: Path) -> None:
    """Six rooms: chance is wrong in 83 of 100 questions, and the commonest answer hardly less often."""
    model = api.train(RECIPES["memn2n/smoke"](), tmp_path / "run")
    figures = model.evaluate("test").figures
    assert figures["error"] < 10
    support = model.evaluate("test").details["support_by_hop"]
    assert max(support) > 0.7  # some hop has found the supporting facts
    answer = model.answer("Mary moved to the garden. John went to the office. Where is John?")
    assert answer.text == "office"
    records = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert next(record["error"] for record in records if record["kind"] == "valid") > 40


def test_a_run_goes_on_where_it_was(tmp_path: Path) -> None:
    """In the middle of the linear start: what follows is what would have followed."""
    recipe = RECIPES["memn2n/smoke"]()
    quick = replace(recipe, task=replace(recipe.task, linear_epochs=1, tasks=("1",)))
    every = replace(quick.train, steps=30, schedule="constant", save_every=12, evaluate_every=15, log_every=3)
    whole = api.train(replace(quick, train=every), tmp_path / "whole")
    api.train(replace(quick, train=replace(every, steps=12)), tmp_path / "cut")
    resumed = api.train(replace(quick, train=every), tmp_path / "cut", resume=True)
    for first, second in zip(whole.module.parameters(), resumed.module.parameters(), strict=True):
        assert first.equal(second)


def test_the_language_model_of_the_paper() -> None:
    """6 hops, 150 words, 150 wide; SGD on sums over 128 predictions, clipped at 50, divided by 1.5 on a plateau."""
    recipe = RECIPES["memn2n/ptb_published"]()
    train, task = recipe.train, recipe.task
    assert (recipe.model.hops, recipe.model.memories, recipe.model.width) == (6, 150, 150)
    predictions = task.batch_size * task.length
    assert (predictions, task.context, task.before) == (128, "windows", recipe.model.memories - 1)
    assert (train.optimiser, train.momentum, train.schedule) == ("sgd", 0, "plateau")
    assert (train.lr / predictions, train.clip * predictions) == (pytest.approx(0.01), pytest.approx(50))
    rates = [learning_rate(train, 1, 0.0, reductions) for reductions in range(3)]
    assert rates == pytest.approx([1.28, 1.28 / 1.5, 1.28 / 1.5**2])
    assert train.evaluate_every * predictions == pytest.approx(929_589, rel=1e-3)  # one epoch


def _trigram_perplexity(train: list[str], test: list[str]) -> float:
    """The perplexity of counts of three tokens, each count being 0.1 too large."""
    threes, twos = Counter(zip(train, train[1:], train[2:], strict=False)), Counter(pairwise(train))
    nats = [
        -math.log((threes[a, b, c] + 0.1) / (twos[a, b] + 0.1 * len({*train})))
        for a, b, c in zip(test, test[1:], test[2:], strict=False)
    ]
    return math.exp(sum(nats) / len(nats))


@pytest.mark.bare
def test_the_small_language_model_learns_what_three_words_do_not_tell(tmp_path: Path) -> None:
    """The verb agrees with a subject that stands further back than two words."""
    texts = {split: text.replace("\n", " <eos> ").split() for split, text in agreement().items()}
    model = api.train(RECIPES["memn2n/agreement"](), tmp_path / "run")
    perplexity = model.evaluate("test").figures["perplexity"]
    assert perplexity < 4.8 < _trigram_perplexity(texts["train"], texts["test"]) - 0.2
    written = model.generate("the dogs that the", max_tokens=12)
    assert written.text.startswith("the dogs that the ")
    first, second = written.explanations
    assert first.weights.shape == second.weights.shape == (17, 17)  # <eos>, four words and twelve
    assert [first.layer, second.layer] == ["hops.attentions.0", "hops.attentions.1"]
