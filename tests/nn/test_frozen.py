"""A copy for search: the same numbers in the same places, whatever happens to the model."""

import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from regard.nn.frozen import Frozen


def model() -> nn.Sequential:
    first = weight_norm(nn.Linear(3, 4), dim=0)
    made = nn.Sequential(first, nn.BatchNorm1d(4), nn.GRU(4, 5, batch_first=True))
    made[1].running_mean.normal_()
    return made


@torch.no_grad()
def test_the_copy_computes_the_same_and_stays_in_place() -> None:
    original, x = model().train(), torch.randn(2, 3)
    frozen = Frozen(original)
    places = [parameter.data_ptr() for parameter in frozen.model.parameters()]
    for _ in range(2):
        torch.testing.assert_close(frozen.model(x)[0], original.eval()(x)[0])
        for parameter in original.parameters():
            parameter.add_(torch.randn_like(parameter))
        original[1].running_mean.add_(1.0)
        frozen.refresh(original)
    assert [parameter.data_ptr() for parameter in frozen.model.parameters()] == places
    assert not any(parameter.requires_grad for parameter in frozen.model.parameters())
    assert not frozen.model.training


@torch.no_grad()
def test_weights_that_are_computed_are_plain_in_the_copy_alone() -> None:
    original, x = model().eval(), torch.randn(2, 3)
    before = original(x)[0]
    frozen = Frozen(original)
    assert type(frozen.model[0]) is nn.Linear
    assert isinstance(frozen.model[0].weight, nn.Parameter)
    assert torch.equal(original(x)[0], before)
    assert not isinstance(original[0].weight, nn.Parameter)


@torch.no_grad()
def test_another_precision() -> None:
    original = model().eval()
    frozen = Frozen(original, torch.bfloat16)
    assert {parameter.dtype for parameter in frozen.model.parameters()} == {torch.bfloat16}
    original[0].bias.fill_(2.0)
    frozen.refresh(original)
    assert (frozen.model[0].bias == 2).all()


@torch.no_grad()
def test_recurrent_weights_in_half_precision_have_one_storage() -> None:
    """In cuDNN's order, from its beginning on; torch itself leaves those of bfloat16 apart."""
    original, x = nn.Sequential(nn.Linear(3, 4), nn.LSTM(4, 5, batch_first=True)), torch.randn(2, 3).bfloat16()
    frozen = Frozen(original, torch.bfloat16)
    weights = [*frozen.model[1].parameters()]
    assert [weight.storage_offset() for weight in weights] == [0, 80, 180, 200]
    assert len({weight.untyped_storage().data_ptr() for weight in weights}) == 1
    assert weights[0].untyped_storage().nbytes() == 2 * 220
    original[1].weight_hh_l0.mul_(3)
    frozen.refresh(original)
    assert torch.equal(frozen.model(x)[0], original.bfloat16()(x)[0])


def test_shared_weights_stay_shared() -> None:
    original = nn.ModuleList([nn.Embedding(4, 3), nn.Linear(3, 4, bias=False)])
    original[1].weight = original[0].weight
    frozen = Frozen(original, torch.bfloat16)
    assert frozen.model[1].weight is frozen.model[0].weight
