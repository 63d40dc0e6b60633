"""A state in fixed places: filled, viewed, kept in another order, gathered; never in another place."""

from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from regard.attention import FixedCache
from regard.base import RegardError
from regard.decode import Shared
from regard.decode.fixed_state import FixedState


class State(NamedTuple):
    hidden: Tensor  # [n 2]
    keys: Tensor  # [n 1], which no step changes
    memory: Shared  # [a 3]
    cache: FixedCache
    time: Tensor
    name: str


def first(batch: int) -> State:
    number = torch.arange(float(batch))
    time = torch.zeros((), dtype=torch.long)
    cache = FixedCache(torch.zeros(batch, 1, 4, 1), torch.zeros(batch, 1, 4, 1), time)
    shared = Shared(number.unsqueeze(1).expand(-1, 3).clone())
    return State(number.unsqueeze(1).expand(-1, 2).clone(), number.unsqueeze(1).clone(), shared, cache, time, "a")


def places(sentences: int = 4, beams: int = 2, batch: int = 3) -> FixedState:
    made = FixedState(first(batch), sentences=sentences, beams=beams)
    made.fill(first(batch))
    return made


def test_every_sentence_gets_its_beams_and_the_last_one_fills_what_is_left() -> None:
    view = places().view(4, 4)
    assert view.hidden[:, 0].tolist() == [0, 0, 1, 1, 2, 2, 2, 2]
    assert view.memory.value[:, 0].tolist() == [0, 1, 2, 2]
    assert view.cache.keys.shape == (8, 1, 4, 1)
    assert view.time is view.cache.length  # one number stays one
    assert view.name == "a"


def test_a_view_has_fewer_sentences_and_less_room() -> None:
    view = places().view(2, 3)
    assert [len(view.hidden), len(view.memory.value), *view.cache.keys.shape[:3]] == [4, 2, 4, 1, 3]


def test_a_step_is_kept_in_the_order_of_its_origins() -> None:
    made = places()
    view = made.view(3, 4)
    view.cache.keys.copy_(torch.arange(6.0).reshape(6, 1, 1, 1).expand(6, 1, 4, 1))
    after = view._replace(hidden=torch.arange(12.0).view(6, 2), time=view.time + 1)
    after = after._replace(cache=view.cache._replace(length=after.time))
    place = view.hidden.data_ptr()
    made.keep(view, after, torch.tensor([1, 1, 3, 2, 5, 5]))
    seen = made.view(3, 4)
    assert seen.hidden[:, 0].tolist() == [2, 2, 6, 4, 10, 10]
    assert seen.cache.keys[:, 0, 0, 0].tolist() == [1, 1, 3, 2, 5, 5]
    assert seen.keys[:, 0].tolist() == [0, 0, 1, 1, 2, 2]  # what no step changes belongs to the sentence
    assert int(seen.time) == 1
    assert seen.hidden.data_ptr() == place
    made.keep(seen, seen._replace(hidden=seen.hidden + 1), None)
    assert made.view(3, 4).hidden[:, 0].tolist() == [3, 3, 7, 5, 11, 11]


def test_sentences_are_gathered_with_all_their_rows() -> None:
    made = places()
    made.view(4, 4).hidden.copy_(torch.arange(16.0).view(8, 2))
    made.gather(torch.tensor([2, 0]))
    view = made.view(2, 4)
    assert view.hidden[:, 0].tolist() == [8, 10, 0, 2]
    assert view.memory.value[:, 0].tolist() == [2, 0]


@pytest.mark.parametrize(
    "change",
    [
        lambda view: view._replace(hidden=view.hidden[:, :1]),
        lambda view: view._replace(memory=Shared(view.memory.value + 1)),
        lambda view: view._replace(hidden=(view.hidden, view.hidden)),
    ],
    ids=["another width", "shared", "one more"],
)
def test_a_state_that_changes_its_shapes_is_refused(change: Any) -> None:
    made = places()
    view = made.view(4, 4)
    with pytest.raises(RegardError, match="did not keep its shapes"):
        made.keep(view, change(view), None)
