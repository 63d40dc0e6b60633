"""The loss of language modelling: cross entropy, and with R-Drop how far two passes are apart."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from regard.base import ConfigError
from regard.data import PAD, StreamBatch, TokenBatch
from regard.nn import predicted_loss, two_pass_loss
from regard.tasks.task import Loss

Batch = TokenBatch | StreamBatch


def language_loss(predict: Callable[[Batch], Any], batch: Batch, *, consistency: float) -> Loss:
    """Cross entropy, summed over the tokens of the batch, of the logits that `predict` gives.

    With `consistency`, the α of R-Drop, each text passes twice with different dropout: see `two_pass_loss`.
    """
    if not consistency:
        return Loss(predicted_loss(predict(batch), batch.targets, ignore=PAD))
    twice = batch.with_tensors({name: torch.cat([tensor, tensor]) for name, tensor in batch.tensors().items()})
    logits = predict(twice)
    if not isinstance(logits, Tensor):
        cure = "set task.consistency=0, or model.cutoffs= for none"
        raise ConfigError("task.consistency", got="an adaptive softmax", expected="logits of all tokens", cure=cure)
    both = predicted_loss(logits, twice.targets, ignore=PAD)
    total, apart = two_pass_loss(both, logits, batch.targets != PAD, consistency=consistency)
    return Loss(total, {"divergence": apart})
