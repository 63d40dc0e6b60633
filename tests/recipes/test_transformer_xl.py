"""The recipes of Transformer-XL: twins that differ in the memory alone, and one that learns in seconds."""

import math
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from regard import api
from regard.datasets.agreement import agreement
from regard.models import TransformerXL
from regard.recipes import RECIPES

TRAINED_ON_A_GPU = ["ptb", "wikitext2", "enwik8", "enwik8_without_memory", "shakespeare"]


@pytest.mark.bare  # the hook would take as long again
def test_the_smoke_run_learns_what_frequencies_do_not_tell(tmp_path: Path) -> None:
    model = api.train(RECIPES["transformer_xl/smoke"](), tmp_path / "run")
    tokens = agreement()["test"].replace("\n", " <eos> ").split()
    counts = Counter(agreement()["train"].replace("\n", " <eos> ").split())
    total = sum(counts.values())
    unigram = math.exp(-sum(math.log(counts[token] / total) for token in tokens) / len(tokens))
    evaluation = model.evaluate("test")
    assert evaluation.details["count"] == len(tokens)
    assert evaluation.figures["perplexity"] < 5 < unigram / 4
    forgetful = model.evaluate("test", memory=0).figures["perplexity"]
    assert forgetful > evaluation.figures["perplexity"] + 0.2  # segments end in the middle of sentences
    assert model.evaluate("test", memory=64).figures["perplexity"] < evaluation.figures["perplexity"] + 0.05
    written = model.generate("the dogs that the", max_tokens=12)
    assert written.text.startswith("the dogs that the ")
    assert written.explanations[-1].title.startswith("how far back each head looks")


def test_the_twin_differs_in_the_memory_alone() -> None:
    ours, twin = RECIPES["transformer_xl/enwik8"](), RECIPES["transformer_xl/enwik8_without_memory"]()
    assert (ours.model.memory, twin.model.memory) == (256, 0)
    assert replace(twin.model, memory=256) == ours.model
    assert ours.train == twin.train
    assert twin.task.generation.memory is None
    remembering = replace(twin.task.generation, memory=ours.task.generation.memory)
    assert replace(twin.task, generation=remembering) == ours.task


@pytest.mark.parametrize("name", TRAINED_ON_A_GPU)
def test_streams_are_captured_and_remember(name: str) -> None:
    recipe = RECIPES[f"transformer_xl/{name}"]()
    assert recipe.task.context == "stream"
    assert recipe.train.capture
    memory = recipe.task.generation.memory
    assert name == "enwik8_without_memory" or memory > recipe.model.memory >= recipe.task.length


@pytest.mark.parametrize(("name", "vocabulary", "least", "most"), [("ptb", 10_002, 15, 24), ("enwik8", 209, 38, 42)])
def test_sizes_are_those_of_the_paper(name: str, vocabulary: int, least: float, most: float) -> None:
    with torch.device("meta"):
        model = TransformerXL(replace(RECIPES[f"transformer_xl/{name}"]().model, vocabulary=vocabulary))
    assert least < sum(parameter.numel() for parameter in model.parameters()) / 1e6 < most
