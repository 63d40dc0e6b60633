"""The loss of language modelling: cross entropy, and with R-Drop how far two passes are apart."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from regard.base import ConfigError
from regard.data import PAD, StreamBatch, TokenBatch
from regard.nn import predicted_loss, token_divergence
from regard.tasks.task import Loss

Batch = TokenBatch | StreamBatch


def language_loss(predict: Callable[[Batch], Any], batch: Batch, *, consistency: float) -> Loss:
    """Cross entropy, summed over the tokens of the batch, of the logits that `predict` gives.

    With `consistency`, the α of R-Drop, each text passes twice with different dropout: half the cross entropy of both,
    and α/4 of KL(p ‖ q) + KL(q ‖ p).
    """
    if not consistency:
        return Loss(predicted_loss(predict(batch), batch.targets, ignore=PAD))
    twice = batch.with_tensors({name: torch.cat([tensor, tensor]) for name, tensor in batch.tensors().items()})
    logits = predict(twice)
    if not isinstance(logits, Tensor):
        cure = "set task.consistency=0, or model.cutoffs= for none"
        raise ConfigError("task.consistency", got="an adaptive softmax", expected="logits of all tokens", cure=cure)
    first, second = logits.chunk(2)
    apart = token_divergence(first, second, batch.targets != PAD)
    total = predicted_loss(logits, twice.targets, ignore=PAD) / 2 + consistency / 4 * apart
    return Loss(total, {"divergence": apart})
