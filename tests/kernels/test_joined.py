"""Tensors that lie side by side, against `torch.cat` and against their own steps."""

import pytest
import torch
from torch import Tensor

from regard.kernels.joined import join, room_alike


def is_view(part: Tensor, whole: Tensor) -> bool:
    return part.untyped_storage().data_ptr() == whole.untyped_storage().data_ptr()


@pytest.mark.parametrize("seed", range(30))
def test_join_is_cat(seed: int) -> None:
    chance = torch.Generator().manual_seed(seed)

    def upto(most: int) -> int:
        return int(torch.randint(1, most + 1, (), generator=chance))

    sizes = [upto(4) for _ in range(upto(4))]
    axis = seed % 2 - 1 if seed % 3 else 0
    shape = [upto(4), upto(4), sum(sizes)] if axis == -1 else [sum(sizes), upto(4), upto(4)]
    whole = torch.randn(shape, generator=chance)
    parts = list(whole.split(sizes, axis))
    joined = join(parts, axis)
    assert torch.equal(joined, whole)
    assert is_view(joined, whole)
    for other in (parts[::-1], [part.clone() for part in parts], [*parts, parts[0]]):
        assert torch.equal(join(other, axis), torch.cat(other, axis))
    if len(parts) > 1:
        copied = join([part.clone() for part in parts], axis)
        assert not is_view(copied, whole)


def test_join_of_none_and_of_spread_ones() -> None:
    spread = torch.zeros(1).expand(3)
    assert join([spread, spread], 0).shape == (6,)
    assert join([torch.zeros(0, 2), torch.zeros(3, 2)], 0).shape == (3, 2)
    whole = torch.randn(4, 6)
    with pytest.raises(RuntimeError, match="Sizes of tensors must match"):
        join([whole[:2, :3], whole[:, 3:]], -1)
    assert join([torch.zeros(2), torch.zeros(2, dtype=torch.double)], 0).dtype == torch.double


def test_room_has_the_steps_of_what_it_is_for() -> None:
    whole = torch.randn(2, 5, 3, 4, 6)  # items, words, sides, heads, width
    three = [side.transpose(1, 2) for side in whole.unbind(2)]
    rooms = room_alike(*three)
    for room, side in zip(rooms, three, strict=True):
        assert room.shape == side.shape
        assert room.stride() == side.stride()
        assert is_view(room, rooms[0])
        assert not is_view(room, whole)
        room.fill_(1.0)
    assert rooms[0].untyped_storage().nbytes() == whole.untyped_storage().nbytes()
    assert all((room == 1).all() for room in rooms)


def test_room_of_two_that_share_beside_one_that_does_not() -> None:
    whole, query = torch.randn(2, 5, 2, 3), torch.randn(2, 4, 3)
    keys, values = whole.unbind(2)
    rooms = room_alike(query, keys, values)
    assert is_view(rooms[1], rooms[2])
    assert not is_view(rooms[0], rooms[1])
    assert [room.stride() for room in rooms] == [query.stride(), keys.stride(), values.stride()]


def test_room_is_apart_where_numbers_meet_or_gaps_are() -> None:
    whole = torch.randn(6, 4)
    for tensors in ((whole, whole), (whole[:2], whole[4:]), (whole[:, :1], whole[:, 2:3]), (whole[:3], whole[3:, :2])):
        rooms = room_alike(*tensors)
        assert not is_view(rooms[0], rooms[1])
        assert [room.shape for room in rooms] == [tensor.shape for tensor in tensors]
    [room] = room_alike(torch.zeros(1).expand(3, 2))
    room.copy_(torch.arange(6.0).view(3, 2))
    assert room[2, 1] == 5
