"""The rate at every step, as a function of the step alone: nothing to save, nothing to restore."""

import math

from regard.train.settings import Train


def learning_rate(settings: Train, step: int, progress: float, reductions: int = 0) -> float:
    """The rate of a step (from 1), where `progress` (0 to 1) of the training is done.

    `reductions` counts how often the plateau schedule has cut it. "noam" is the Transformer's: `lr` is its peak, at
    step `warmup`; "halving" is Luong's.

    >>> [learning_rate(Train(lr=1.0, schedule="noam", warmup=4), step, 0.0) for step in (1, 4, 16)]
    [0.25, 1.0, 0.5]
    >>> [learning_rate(Train(lr=1.0, schedule="halving"), 1, progress) for progress in (0.4, 0.5, 0.7, 1.0)]
    [1.0, 0.5, 0.25, 0.0625]
    >>> [learning_rate(Train(lr=1.0, schedule="halving", lead=0.2), 1, progress) for progress in (0.1, 0.5, 0.65)]
    [0.5, 1.0, 0.5]
    """
    warm = min(1.0, step / settings.warmup) if settings.warmup else 1.0
    return settings.lr * warm * _share(settings, step, min(max(progress, 0.0), 1.0), reductions)


def _share(settings: Train, step: int, progress: float, reductions: int) -> float:
    if settings.schedule in ("inverse_sqrt", "noam"):
        return math.sqrt(max(settings.warmup, 1) / max(step, settings.warmup, 1))
    if settings.schedule == "linear":
        return 1 - (1 - settings.floor) * progress
    if settings.schedule == "cosine":
        return settings.floor + (1 - settings.floor) * (1 + math.cos(math.pi * progress)) / 2
    if settings.schedule == "halving":
        if progress < settings.lead:
            return 0.5
        progress = (progress - settings.lead) / (1 - settings.lead)
        if progress < settings.hold:
            return 1.0
        halvings = (progress - settings.hold) / max(1 - settings.hold, 1e-9) * settings.halvings
        return 0.5 ** min(int(halvings) + 1, settings.halvings)
    return settings.factor**reductions if settings.schedule == "plateau" else 1.0
