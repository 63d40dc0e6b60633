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


def test_two_figures_that_count() -> None:
    """The rule of Veličković et al. 2018: keep what is as good in both as ever, wait while neither is."""
    both = Evaluation({"accuracy": 80.0, "loss": 1.0}, "accuracy", beside="loss")
    assert both.better_than(None, None)
    assert both.better_than(80.0, 1.0)  # an equal figure is as good
    assert both.better_than(79.0, 1.5)
    assert not both.better_than(81.0, 1.5)
    assert not both.better_than(79.0, 0.9)
    assert both.goes_on(81.0, 1.0)
    assert both.goes_on(80.0, 0.5)
    assert not both.goes_on(81.0, 0.9)
    assert both.records(None, None) == (80.0, 1.0)
    assert both.records(81.0, 1.5) == (81.0, 1.0)
    assert both.records(79.0, 0.9) == (80.0, 0.9)
    alone = Evaluation({"accuracy": 80.0}, "accuracy")
    assert not alone.goes_on(80.0)
    assert alone.records(79.0) == (80.0, None)
    lost = Evaluation({"accuracy": math.nan, "loss": math.nan}, "accuracy", beside="loss")
    assert not lost.better_than(80.0, 1.0)
    assert not lost.goes_on(80.0, 1.0)
    assert lost.records(80.0, 1.0) == (80.0, 1.0)


def test_a_loss_may_have_figures() -> None:
    assert Loss(torch.ones(())).figures == {}
    assert Loss(torch.ones(()), {"reward": torch.zeros(())}).figures["reward"] == 0
