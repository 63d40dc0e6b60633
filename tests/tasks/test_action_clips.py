"""The clips of a task: scenes and films, who is left out, what is blank outside of a box, and what a run keeps."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from film import film

from regard.base import ConfigError, RegardError
from regard.data import ActedClips
from regard.models import VideoActionConfig
from regard.tasks import ActionRecognition, ActionRecognitionConfig
from regard.tasks.action_clips import ACTIONS

CPU = torch.device("cpu")
SMALL = ActionRecognitionConfig(frames=4, height=16, width=32, batch_size=4, held_out=6)
FILM = ActionRecognitionConfig("weizmann", several=False, frames=4, height=12, width=12, batch_size=4,
                               leave_one_out=True, stride=1.5, mirror=True)  # fmt: skip


def filmed(config: ActionRecognitionConfig) -> ActionRecognition:
    task = ActionRecognition(config)
    task.__dict__["splits"] = dict.fromkeys(("train", "valid", "test"), film())
    return task


def test_training_scenes_are_new_and_held_out_ones_stay() -> None:
    task = ActionRecognition(SMALL)
    assert task.complete(VideoActionConfig()) == VideoActionConfig(channels=3, classes=5, members=1)
    torch.manual_seed(1)
    first, second = task.draw(4, CPU, 0), task.draw(4, CPU, 0)
    assert first.clips.shape == (4, 3, 4, 16, 32)
    assert not torch.equal(first.boxes, second.boxes)
    torch.manual_seed(1)
    assert torch.equal(task.draw(4, CPU, 0).clips, first.clips), "the noise of the step decides"
    held_out = [task.held_out("test", torch.tensor([5, 0]), 1).clips for _ in range(2)]
    assert torch.equal(*held_out)
    with pytest.raises(ConfigError, match="unknown split: got 'tests'"):
        task.held_out("tests", torch.tensor([0]), 1)


@pytest.mark.parametrize("inside", [False, True])
def test_a_network_never_sees_the_person_it_is_tested_on(inside: bool) -> None:
    task = filmed(ActionRecognitionConfig(**{**vars(FILM), "validate_inside": inside}))
    groups = task.splits["train"].groups
    assert task.members == 5
    tested = []
    for member in range(5):
        people = {split: {groups[row] for row in task.rows_of(split, member)} for split in ("train", "valid", "test")}
        assert people["test"] == {f"person {member}"}
        assert not people["test"] & (people["train"] | people["valid"])
        assert len(people["train"]) == (3 if inside else 4)
        assert bool(people["valid"] & people["train"]) is not inside
        tested += task.rows_of("test", member)
    assert sorted(tested) == list(range(20)), "each clip is judged once"
    torch.manual_seed(0)
    drawn = task.draw(200, CPU, 2)
    sizes = (drawn.clips[:, 0, 2] > 0.5).sum((1, 2))  # squares of person 2 have a size of their own
    assert drawn.clips.shape == (200, 1, 4, 12, 12)
    assert len(sizes.unique()) > 2
    assert set(task._table(2, CPU).tolist()) == set(task.rows_of("train", 2))


def test_blank_outside_of_the_box() -> None:
    config = ActionRecognitionConfig(**{**vars(SMALL), "box_only": True})
    plain, task = ActionRecognition(SMALL), ActionRecognition(config)
    rows = torch.arange(6)
    whole, blank = plain.held_out("test", rows, 1), task.held_out("test", rows, 1)
    assert blank.clips.shape == (12, 3, 4, 16, 32)
    assert torch.equal(blank.boxes.view(6, 2, 4), whole.boxes)
    assert torch.equal(blank.labels.view(6, 2, 5), whole.labels)
    for number, (clip, box) in enumerate(zip(blank.clips, blank.boxes[:, 0], strict=True)):
        left, top, right, bottom = box.tolist()
        columns, rows_ = (torch.arange(32) + 0.5) / 32, (torch.arange(16) + 0.5) / 16
        inside = ((rows_ >= top) & (rows_ <= bottom))[:, None] & ((columns >= left) & (columns <= right))
        assert torch.equal(clip, whole.clips[number // 2] * inside)


def test_a_run_is_loaded_without_its_data(tmp_path: Path) -> None:
    task = filmed(FILM)
    task.save(tmp_path)
    loaded = ActionRecognition.load(tmp_path, FILM)  # whose file is not there
    assert loaded.facts == task.facts
    assert loaded.complete(VideoActionConfig()).members == 5
    (tmp_path / ACTIONS).write_text('{"classes": ["a"], "channels": 2, "context": [], "groups": []}')
    with pytest.raises(RegardError, match=r"actions\.json cannot be read"):
        ActionRecognition.load(tmp_path, FILM)
    (tmp_path / ACTIONS).unlink()
    assert ActionRecognition.load(tmp_path, SMALL).facts.channels == 3


def test_settings_in_words() -> None:
    assert SMALL.describe_data() == "two_actors"
    assert FILM.describe_data() == "weizmann, one group left out"
    own = ActionRecognition.from_files(SMALL, "folder", None)
    assert (own.data_set(), own.clips_folder) == ("own", "folder")
    with pytest.raises(ConfigError, match=r"--target: got labels\.csv; expected nothing: labels are in the JSON"):
        ActionRecognition.from_files(SMALL, "folder", "labels.csv")
    with pytest.raises(ConfigError, match=r"task\.leave_one_out: got two_actors, which has no groups"):
        ActionRecognitionConfig(leave_one_out=True)
    with pytest.raises(ConfigError, match=r"task\.validate_inside: got no leave_one_out"):
        ActionRecognitionConfig(validate_inside=True)
    with pytest.raises(ConfigError, match=r"task\.dataset: got 'two_actor'; expected one of weizmann, two_actors"):
        ActionRecognition(ActionRecognitionConfig("two_actor")).splits  # noqa: B018
    assert isinstance(filmed(FILM).held_out("test", torch.tensor([3]), 2), ActedClips)


@pytest.mark.parametrize("leave", [False, True])
def test_a_folder_of_the_user(leave: bool, tmp_path: Path) -> None:
    for number in range(6):
        np.save(tmp_path / f"c{number}.npy", np.full((5, 20, 30), 40 * number, np.uint8))
        facts = {"boxes": [[2, 3, 12, 18]], "labels": [["walks" if number % 2 else "jumps"]], "group": f"{number // 2}"}
        (tmp_path / f"c{number}.json").write_text(json.dumps(facts))
    config = ActionRecognition.from_files(replace(SMALL, leave_one_out=False, several=False), str(tmp_path), None)
    task = ActionRecognition(replace(config, leave_one_out=leave))
    assert task.facts.classes == ("jumps", "walks")
    assert task.members == (3 if leave else 1)
    drawn = task.draw(7, CPU, 0)
    assert drawn.clips.shape == (7, 3, 4, 16, 32)
    torch.testing.assert_close(drawn.boxes[0, 0], torch.tensor([2 / 30, 3 / 20, 12 / 30, 18 / 20]))
    assert len(task.rows_of("test", 0)) == 2
