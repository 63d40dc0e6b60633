"""What a trainer may ask of a task, and who answers."""

import math

import torch

from regard.data import TokenBatches, collate
from regard.tasks import Batch, Evaluation, Loss, Task, TrainingBatches, Translation, TranslationConfig


def test_translation_is_a_task() -> None:
    assert isinstance(Translation(TranslationConfig()), Task)
    assert isinstance(TokenBatches([([5], [6])], batch_size=1), TrainingBatches)
    assert isinstance(collate([([5], [6])]), Batch)
    assert not isinstance([], TrainingBatches)
    assert not isinstance(object(), Batch)


def test_better() -> None:
    high, low = (
        Evaluation({"bleu": 3.0, "loss": 1.0}, "bleu"),
        Evaluation({"loss": 1.0}, "loss", higher_is_better=False),
    )
    assert high.better_than(None)
    assert high.better_than(2.9)
    assert not high.better_than(3.0)
    assert low.better_than(None)
    assert low.better_than(1.1)
    assert not low.better_than(1.0)
    assert not Evaluation({"loss": math.nan}, "loss").better_than(1.0)


def test_a_loss_may_have_figures() -> None:
    assert Loss(torch.ones(())).figures == {}
    assert Loss(torch.ones(()), {"reward": torch.zeros(())}).figures["reward"] == 0
