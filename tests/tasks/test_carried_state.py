"""The carried state: fixed places, no gradient, a new start where a stream begins, and the way through a file."""

from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from regard.base import RegardError
from regard.tasks.carried_state import CarriedState, leaves, with_leaves


class Pair(NamedTuple):
    first: Tensor
    second: tuple[Tensor, Tensor]


def state(value: float) -> Pair:
    numbers = torch.full((3, 2), value)
    return Pair(numbers, (numbers[:, 0] > 0, numbers[:, 0].long()))


def test_form() -> None:
    made = with_leaves(state(1.0), iter(leaves(state(5.0))))
    assert isinstance(made, Pair)
    assert made.second[1].tolist() == [5, 5, 5]
    with pytest.raises(RegardError, match="a state is a tensor, or a tuple of states: got dict"):
        leaves({"a": torch.zeros(1)})


def test_streams_begin_anew() -> None:
    carried, all_begin = CarriedState(), torch.tensor([True] * 3)
    assert carried.before(state(0.0), all_begin).first.tolist() == [[0, 0]] * 3
    carried.keep(state(7.0))
    some = carried.before(state(0.0), torch.tensor([True, False, True]))
    assert some.first[:, 0].tolist() == [0, 7, 0]
    assert some.second[0].tolist() == [False, True, False]


def test_places_stay_and_have_no_gradient() -> None:
    carried = CarriedState()
    before = carried.before(state(0.0), torch.tensor([True] * 3))
    places = carried.tensors()
    learnt = torch.ones(3, 2, requires_grad=True)
    carried.keep(before._replace(first=2 * learnt))
    assert all(carried.tensors()[name] is place for name, place in places.items())
    assert not carried.before(state(0.0), torch.tensor([False] * 3)).first.requires_grad


def test_through_a_file() -> None:
    carried, other = CarriedState(), CarriedState()
    carried.before(state(0.0), torch.tensor([True] * 3))
    carried.keep(state(4.0))
    other.load({name: tensor.clone() for name, tensor in carried.tensors().items()})
    assert other.before(state(0.0), torch.tensor([False] * 3)).first.tolist() == [[4, 4]] * 3
    with pytest.raises(RegardError, match="the carried state is of another model"):
        other.before(Pair(torch.zeros(2, 2), (torch.zeros(2), torch.zeros(2))), torch.tensor([False] * 2))
