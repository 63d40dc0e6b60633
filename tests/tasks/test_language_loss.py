"""The loss of language modelling by hand; how a model's state goes on is in test_language_modelling.py."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.base import ConfigError
from regard.data import PAD, StreamBatch, StreamBatches
from regard.tasks.language_loss import Batch, language_loss


def batch() -> StreamBatch:
    """Three streams of 11 tokens; the last window of the last one is half empty."""
    batches = StreamBatches(
        torch.randint(4, 9, (31,), generator=torch.Generator().manual_seed(0)).numpy(), streams=3, length=6
    )
    next(batches)
    made = next(batches)
    assert (made.targets == PAD).any()
    return made


def shaken(given: Batch) -> Tensor:
    """Other logits in each row, as under dropout."""
    noise = torch.arange(given.inputs.numel() * 9.0).sin().double().view(*given.inputs.shape, 9)
    return noise + F.one_hot(given.inputs, 9)


def by_hand(logits: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(logits.mT, targets, ignore_index=PAD, reduction="sum")


def test_one_pass_is_cross_entropy() -> None:
    given = batch()
    loss = language_loss(shaken, given, consistency=0.0)
    torch.testing.assert_close(loss.total, by_hand(shaken(given), given.targets))
    assert not loss.figures


@pytest.mark.parametrize("alpha", [0.5, 3.0])
def test_two_passes(alpha: float) -> None:
    given, seen = batch(), list[Batch]()

    def predict(twice: Batch) -> Tensor:
        seen.append(twice)
        return shaken(twice)

    loss = language_loss(predict, given, consistency=alpha)
    [twice] = seen
    assert torch.equal(twice.inputs, given.inputs.repeat(2, 1))
    logits = shaken(twice)
    p, q = logits.log_softmax(-1).chunk(2)
    real = given.targets != PAD
    apart = sum(F.kl_div(one[real], other[real], reduction="sum", log_target=True) for one, other in ((p, q), (q, p)))
    assert apart > 1
    torch.testing.assert_close(loss.figures["divergence"], apart)
    torch.testing.assert_close(loss.total, by_hand(logits, given.targets.repeat(2, 1)) / 2 + alpha / 4 * apart)


def test_an_adaptive_softmax_has_no_second_pass() -> None:
    with pytest.raises(ConfigError, match=r"task\.consistency: got an adaptive softmax"):
        language_loss(lambda _: object(), batch(), consistency=1.0)
