"""Neural Turing machines (Graves et al. 2014): five algorithms, each beside a stacked LSTM without a memory."""

from dataclasses import replace
from typing import Any

from regard.models import NTMConfig, NTMLSTMConfig
from regard.recipes.recipe import Recipe
from regard.tasks import AlgorithmicConfig
from regard.train import Train

TRAIN = Train(steps=20_000, lr=3e-3, clip=10.0, schedule="cosine", warmup=200, floor=0.1, capture=True, log_every=500,
              evaluate_every=2000, save_every=5000, keep=1)  # fmt: skip


def smoke() -> Recipe:
    """Short sequences of three bits, on a CPU, in less than half a minute."""
    return Recipe(
        paper="ntm",
        model=NTMConfig(hidden_dim=32, slots=12, slot_dim=6),
        task=AlgorithmicConfig(bits=3, longest=3, tested=(3, 4), batch_size=32, held_out=256),
        train=Train(steps=150, lr=1e-2, clip=10.0, schedule="cosine", floor=0.1, log_every=50, evaluate_every=75,
                    save_every=75, keep=1),
        note="copying a few bits, on a CPU",
    )  # fmt: skip


def copy() -> Recipe:
    """Copying 1 to 20 vectors of eight bits, tested on up to 120."""
    recipe = _recipe(AlgorithmicConfig(), "copy", "near 0 bits; almost perfect at length 50 (figures 3 to 5)")
    return replace(recipe, train=replace(TRAIN, steps=2500, evaluate_every=500, save_every=2500))


def copy_lstm() -> Recipe:
    """The same by a stacked LSTM, which needs more updates."""
    twin = _twin(copy(), "copy, by an LSTM without a memory", "fails beyond length 20 (figure 5)")
    return replace(twin, train=replace(TRAIN, steps=8000, save_every=8000))


def repeat_copy() -> Recipe:
    """Copying 1 to 10 vectors 1 to 10 times, and marking the end."""
    task = AlgorithmicConfig("repeat_copy", longest=10, tested=(5, 10, 15, 20))
    return _slower(_recipe(task, "repeat copy"))


def repeat_copy_lstm() -> Recipe:
    """The same by a stacked LSTM of twice the width."""
    return _twin(repeat_copy(), "repeat copy, by an LSTM without a memory", hidden_dim=512)


def recall() -> Recipe:
    """Given one of 2 to 6 items, say the next."""
    task = AlgorithmicConfig("recall", bits=6, shortest=2, longest=6, tested=(2, 4, 6, 8, 10, 12, 15, 20))
    recipe = _recipe(task, "associative recall", hidden_dim=256, read_heads=4, write_heads=4)
    return replace(recipe, train=replace(TRAIN, steps=6000, evaluate_every=500, save_every=3000))


def recall_lstm() -> Recipe:
    """The same by a stacked LSTM."""
    return _twin(recall(), "associative recall, by an LSTM without a memory")


def ngrams() -> Recipe:
    """Predicting bits of 6-gram sources from what came before, beside the best estimator."""
    task = AlgorithmicConfig("ngrams", bits=1, shortest=200, longest=200, tested=())
    return _slower(_recipe(task, "dynamic N-grams"))


def ngrams_lstm() -> Recipe:
    """The same by a stacked LSTM of half the width."""
    return _twin(ngrams(), "dynamic N-grams, by an LSTM without a memory", hidden_dim=128)


def sort() -> Recipe:
    """The 16 vectors of highest priority out of 20, in order."""
    task = AlgorithmicConfig("sort", shortest=20, longest=20, tested=())
    return _recipe(task, "priority sort", layers=2, read_heads=5, write_heads=5)


def sort_lstm() -> Recipe:
    """The same by a stacked LSTM of half the width."""
    return _twin(sort(), "priority sort, by an LSTM without a memory", hidden_dim=128)


def _recipe(task: AlgorithmicConfig, note: str, published: str = "", **sizes: Any) -> Recipe:
    return Recipe("ntm", NTMConfig(**sizes), task, TRAIN, note=note, published=published)


def _slower(recipe: Recipe) -> Recipe:
    """A third of the rate: sequences of a hundred steps and more do not learn at the full one."""
    return replace(recipe, train=replace(TRAIN, lr=1e-3))


def _twin(recipe: Recipe, note: str, published: str = "", **sizes: Any) -> Recipe:
    """The same task and training, for the network without a memory, which learns at the full rate everywhere."""
    model, train = NTMLSTMConfig(**sizes), replace(recipe.train, lr=TRAIN.lr)
    return replace(recipe, paper="ntm_lstm", model=model, train=train, note=note, published=published)
