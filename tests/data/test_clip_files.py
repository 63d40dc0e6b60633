"""Clips of the user: arrays and folders of frames, boxes in JSON, and what is wrong with them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from regard.data import DataError
from regard.data.clip_files import MAX_FRAMES, around, read_clip, read_own_clips, scaled_frames, split_by_group

FRAMES = np.arange(5 * 8 * 10 * 3).reshape(5, 8, 10, 3).astype(np.uint8)
BOXES = [[1, 2, 4, 6], [5.5, 0, 10, 8]]


def written(folder: Path, name: str = "clip", frames: Any = FRAMES, **facts: Any) -> Path:
    np.save(folder / f"{name}.npy", frames)
    (folder / f"{name}.json").write_text(json.dumps({"boxes": BOXES} | facts))
    return folder / f"{name}.npy"


def test_the_same_clip_in_every_form(tmp_path: Path) -> None:
    array = read_clip(written(tmp_path, frame=1, labels=["a", ["a", "b"]], group="Ann"))
    assert np.array_equal(array.frames, FRAMES)
    assert array.boxes == ((1, 2, 4, 6), (5.5, 0, 10, 8))
    assert (array.frame, array.labels, array.group) == (1, (("a",), ("a", "b")), "Ann")
    np.savez(tmp_path / "packed.npz", frames=FRAMES)
    (tmp_path / "packed.json").write_text(json.dumps({"boxes": BOXES}))
    (tmp_path / "folder").mkdir()
    for number, frame in enumerate(FRAMES):
        Image.fromarray(frame).save(tmp_path / "folder" / f"{number:03}.png")
    (tmp_path / "folder" / "boxes.json").write_text(json.dumps({"boxes": BOXES}))
    for clip in (read_clip(tmp_path / "packed.npz"), read_clip(tmp_path / "folder"),
                 read_clip({"frames": torch.from_numpy(FRAMES), "boxes": BOXES})):  # fmt: skip
        assert np.array_equal(clip.frames, FRAMES)
        assert (clip.boxes, clip.frame, clip.labels) == (array.boxes, 2, None)
    grey = read_clip({"frames": FRAMES[..., 0] > 9, "boxes": BOXES})
    assert set(np.unique(grey.frames)) == {0, 255}


@pytest.mark.parametrize(("change", "message"), [
    ({"boxes": None}, r"clip\.npy: boxes: got None; expected \[\[left, top, right, bottom\], …\] in pixels"),
    ({"boxes": [[4, 2, 1, 6]]}, r"a box is not in the frame: got \[4\.0, .*\]; expected left < right ≤ 10"),
    ({"boxes": [[0, 0, 11, 8]]}, "a box is not in the frame"),
    ({"boxes": [["x", 0, 1, 8]]}, "boxes: got"),
    ({"boxes": []}, "boxes: got"),
    ({"frame": 5}, "the frame of the boxes: got 5; expected 0 to 4"),
    ({"labels": ["a"]}, "labels: got .*; expected the labels of each of 2 boxes"),
    ({"labels": [["a"], [1]]}, "labels: got"),
    ({"frames": FRAMES.astype(np.float32)}, r"frames are bytes: got float32 \[5, 8, 10, 3\]; expected uint8 \[t h w\]"),
    ({"frames": FRAMES[0]}, r"a box is not in the frame"),  # 8 frames of 10 × 3
    ({"frames": np.zeros((MAX_FRAMES + 1, 1, 1), np.uint8)}, "is too long"),
])  # fmt: skip
def test_what_is_wrong_with_a_clip(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message):
        read_clip(written(tmp_path, **change))


def test_what_is_wrong_with_files(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nothing\.npy does not exist: expected a folder of frames, or an array"):
        read_clip(tmp_path / "nothing.npy")
    (tmp_path / "text.npy").write_text("no array")
    with pytest.raises(DataError, match=r"text\.npy is no array of frames: got .*Try: write it by numpy\.save"):
        read_clip(tmp_path / "text.npy")
    np.save(tmp_path / "alone.npy", FRAMES)
    with pytest.raises(DataError, match=r"alone\.npy has no boxes: got no JSON beside it; expected .*alone\.json"):
        read_clip(tmp_path / "alone.npy")
    np.savez(tmp_path / "two.npz", a=FRAMES, b=FRAMES)
    with pytest.raises(DataError, match=r"two\.npz has no frames: got arrays a, b; expected an array"):
        read_clip(tmp_path / "two.npz")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="empty has no frames: got no pictures"):
        read_clip(tmp_path / "empty")
    for number, size in enumerate(((4, 4), (4, 5))):
        Image.new("RGB", size).save(tmp_path / "empty" / f"{number}.png")
    with pytest.raises(DataError, match="frames differ in size: got 4 × 4, 5 × 4; expected one size"):
        read_clip(tmp_path / "empty")
    with pytest.raises(DataError, match="a clip is incomplete: got no boxes; expected frames and boxes"):
        read_clip({"frames": FRAMES})


def test_a_folder_of_labelled_clips(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="has too few clips: got 0; expected 3 or more"):
        read_own_clips(tmp_path, height=4, width=5)
    for number in range(6):
        boxes = BOXES[: 1 + number % 2]
        labels = [["walks"], ["jumps", "walks"]][: 1 + number % 2]
        written(tmp_path, f"c{number}", boxes=boxes, labels=labels, group=f"person {number // 2}")
    clips = read_own_clips(tmp_path, height=4, width=5)
    assert (clips.size, clips.classes, clips.frames.shape) == (6, ("jumps", "walks"), (30, 3, 4, 5))
    assert clips.counted.tolist() == [[True, False], [True, True]] * 3
    assert clips.labels[1].tolist() == [[0, 1], [1, 1]]
    torch.testing.assert_close(clips.boxes[7, 1], torch.tensor([0.55, 0, 1, 1]))
    splits = split_by_group(clips)
    groups = [set(split.groups) for split in splits.values()]
    assert [len(own) for own in groups] == [1, 1, 1]
    assert len(set.union(*groups)) == 3
    (tmp_path / "c0.json").write_text(json.dumps({"boxes": BOXES[:1]}))
    with pytest.raises(DataError, match=r"c0\.npy has no labels: expected labels of each box"):
        read_own_clips(tmp_path, height=4, width=5)
    with pytest.raises(DataError, match=r"clips cannot be split: got 2 groups; expected 3 or more groups"):
        split_by_group(clips.take([0, 1, 2, 3]))
    with pytest.raises(DataError, match="is no folder"):
        read_own_clips(tmp_path / "c0.npy", height=4, width=5)


def test_frames_around_that_of_the_boxes() -> None:
    clip = read_clip({"frames": FRAMES, "boxes": BOXES, "frame": 3})
    assert around(clip, 4, 1.0) == [1, 2, 3, 4]
    assert around(clip, 4, 2.0) == [0, 1, 3, 4]  # the first and the last again
    assert scaled_frames(FRAMES, 8, 10, 3).permute(0, 2, 3, 1).numpy().tolist() == FRAMES.tolist()
    grey = scaled_frames(np.full((1, 2, 2, 3), 100, np.uint8), 2, 2, 1)
    assert grey.flatten().tolist() == [100] * 4
