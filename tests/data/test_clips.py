"""Clips that are cut out of sequences: which frames, which window, which box."""

import pytest
import torch

from regard.base import ShapeError
from regard.data import Clips, Views, cut_clips, draw_rows, even_views, join_clips, mask_boxes, random_views


def sequences() -> Clips:
    """Three sequences of 5, 9 and 1 frames; a frame is all of the brightness of its number. The person moves right."""
    total = 15
    frames = (10 * torch.arange(total)).byte().view(-1, 1, 1, 1).expand(-1, 1, 6, 12).clone()
    left = torch.arange(total) / 20
    boxes = torch.stack([left, torch.full((total,), 0.25), left + 0.2, torch.full((total,), 0.75)], 1).unsqueeze(1)
    labels = torch.eye(3)[:, None]
    names = ("a", "b", "c")
    return Clips(frames, (5, 9, 1), boxes, labels, torch.ones(3, 1).bool(), names, names, ("x", "y", "x"))


def cut(pool: Clips, views: Views, frames: int, window: float | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    found = cut_clips(pool, torch.tensor(pool.starts), torch.tensor(pool.lengths), views, frames=frames, height=6,
                      width=12, window=window)  # fmt: skip
    return found.clips, found.boxes


def test_which_frames() -> None:
    pool = sequences()
    clips, _ = cut(pool, even_views(torch.tensor([1, 0, 2]), 2, stride=2.0, mirror=False), 4)
    numbers = (clips[:, 0, :, 0, 0] * 25.5).round().int().tolist()
    assert numbers == [[5, 7, 9, 11], [7, 9, 11, 13],  # the first and the last clip with every second frame
                       [0, 1, 3, 4], [0, 1, 3, 4],  # too short: all of it
                       [14, 14, 14, 14], [14, 14, 14, 14]]  # fmt: skip
    middle, _ = cut(pool, even_views(torch.tensor([1]), 1, stride=1.0, mirror=True), 3)
    assert (middle[0, 0, :, 0, 0] * 25.5).round().int().tolist() == [8, 9, 10]


def test_windows_and_mirrors() -> None:
    pool = sequences()
    pool.frames[:] = 0
    pool.frames[:, :, 2:4, 5:7] = 255  # what is to be seen lies still
    view = even_views(torch.tensor([1]), 1, stride=1.0, mirror=False)
    clips, boxes = cut(pool, view, 4)
    assert torch.equal(clips[0, 0, 0], pool.frames[0, 0] / 255)
    torch.testing.assert_close(boxes[0, 0], pool.boxes[5 + 4, 0])  # the middle frame of the clip is the third of four
    mirrored = view._replace(mirrored=torch.tensor([True]), rows=torch.tensor([1]))
    other, other_boxes = cut(pool, mirrored, 4)
    torch.testing.assert_close(other, clips.flip(-1))
    left, top, right, bottom = boxes[0, 0].tolist()
    torch.testing.assert_close(other_boxes[0, 0], torch.tensor([1 - right, top, 1 - left, bottom]))
    _, around = cut(pool, view, 4, window=0.5)  # half the height, around the person
    middle = (around[0, 0, :2] + around[0, 0, 2:]) / 2
    torch.testing.assert_close(middle, torch.tensor([0.5, 0.5]))
    torch.testing.assert_close(around[0, 0, 2] - around[0, 0, 0], torch.tensor(0.4))
    moved = view._replace(right=torch.tensor([0.1]), down=torch.tensor([-0.2]), zoom=torch.tensor([2.0]))
    _, boxes = cut(pool, moved, 4, window=0.5)
    torch.testing.assert_close((boxes[0, 0, :2] + boxes[0, 0, 2:]) / 2, torch.tensor([0.4, 0.7]))


def test_views_at_random_stay_in_their_ranges() -> None:
    rows = draw_rows(torch.tensor([3, 5, 8]), 2000, generator=torch.Generator().manual_seed(0))
    assert torch.bincount(rows).nonzero().flatten().tolist() == [3, 5, 8]
    views = random_views(rows, stride=2.0, speed=1.5, zoom=1.2, shift=0.1, mirror=True,
                         generator=torch.Generator().manual_seed(1))  # fmt: skip
    for values, low, high in ((views.stride, 2 / 1.5, 3.0), (views.zoom, 1 / 1.2, 1.2), (views.right, -0.1, 0.1),
                              (views.down, -0.1, 0.1), (views.begin, 0.0, 1.0)):  # fmt: skip
        assert low - 1e-6 <= values.min() < low + 0.05 * (high - low)
        assert high - 0.05 * (high - low) < values.max() <= high + 1e-6
    assert 0.45 < views.mirrored.float().mean() < 0.55
    still = random_views(rows, stride=2.0, speed=1.0, zoom=1.0, shift=0.0, mirror=False)
    assert (still.stride == 2).all()
    assert not still.mirrored.any()


def test_taking_and_joining() -> None:
    pool = sequences()
    some, rest = pool.take([2, 0]), pool.take([1])
    assert (some.lengths, some.names, some.groups) == ((1, 5), ("c", "a"), ("x", "x"))
    assert some.frames[:, 0, 0, 0].tolist() == [140, 0, 10, 20, 30, 40]
    again = join_clips([some, rest])
    assert again.names == ("c", "a", "b")
    assert again.frames.equal(torch.cat([some.frames, rest.frames]))
    assert again.labels[:, 0].argmax(1).tolist() == [2, 0, 1]
    assert pool.take([]).size == 0
    with pytest.raises(
        ShapeError, match=r"frames of clips: got torch.uint8 \[15, 1, 6, 12\]; expected uint8 \[14 c h w\]"
    ):
        Clips(pool.frames, (5, 9), pool.boxes, pool.labels, pool.counted, *[("a", "b", "c")] * 3)


def test_boxes_of_masks_by_hand() -> None:
    generator = torch.Generator().manual_seed(3)
    masks = torch.rand(20, 5, 8, generator=generator) < 0.1
    masks[0] = False
    for mask, box in zip(masks, mask_boxes(masks).tolist(), strict=True):
        rows, columns = mask.nonzero(as_tuple=True)
        if not len(rows):
            assert box == [0, 0, 1, 1]
            continue
        expected = [columns.min() / 8, rows.min() / 5, (columns.max() + 1) / 8, (rows.max() + 1) / 5]
        torch.testing.assert_close(torch.tensor(box), torch.stack(expected))
