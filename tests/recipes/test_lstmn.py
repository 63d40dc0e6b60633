"""The recipes of LSTMN: twins that differ in the model alone, and one that learns in seconds."""

import math
from collections import Counter
from pathlib import Path

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
