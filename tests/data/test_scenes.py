"""Generated scenes: labels are what is to be seen, and what the other does cannot be told from one's own box."""

import pytest
import torch

from regard.base import ConfigError, ShapeError
from regard.data import ActedClips, Scenes, act_scenes, drawn_scenes
from regard.data.scenes import CHANCES, CONTEXT, GAP, OWN

SIZE = (16, 32, 64)
PERSON = slice(4, 12)  # the chances that decide the first actor alone; those of the second follow


def acted(count: int, seed: int) -> tuple[torch.Tensor, ActedClips]:
    chances = drawn_scenes(count, seed=seed).chances
    return chances, act_scenes(chances, *SIZE)


def test_labels_are_what_is_to_be_seen() -> None:
    """Actors are found again in the pixels: what is not ground, left and right of the middle between both."""
    _, scenes = acted(48, 5)
    brightness = (scenes.clips - scenes.clips[:, :, :1, :1, :1]).abs().sum(1)  # [b t h w]: the corner is ground
    middles = (scenes.boxes[..., 0] + scenes.boxes[..., 2]) / 2 * SIZE[2]
    columns, rows = torch.arange(SIZE[2]) + 0.5, torch.arange(SIZE[1]) + 0.5
    border = middles.mean(1)
    for person in range(2):
        own_side = (columns < border[:, None]) == (middles[:, person] < border)[:, None]
        seen = brightness * own_side[:, None, None]
        mass = seen.sum((2, 3))
        x = (seen.sum(2) * columns).sum(-1) / mass  # [b t]
        y = (seen.sum(3) * rows).sum(-1) / mass
        goes_right, jumps = x[:, -1] > x[:, 0], y.amax(1) - y.amin(1) > 2
        labels = scenes.labels.bool()
        other_right = middles[:, 1 - person] > middles[:, person]
        assert torch.equal(labels[:, person, 0], jumps)
        assert torch.equal(labels[:, person, 1], goes_right)
        assert torch.equal(labels[:, 1 - person, 2], jumps)
        assert torch.equal(labels[:, 1 - person, 3], goes_right == other_right), "it comes nearer"
        assert torch.equal(labels[:, person, 4], labels[:, 0, 1] == labels[:, 1, 1])
        at = torch.arange(len(x)), torch.full((len(x),), SIZE[0] // 2)
        assert (x[at] - middles[:, person]).abs().max() < 0.6, "the box is around the actor in the middle frame"


def test_the_own_box_cannot_tell_what_the_other_does() -> None:
    """With all else as it is, the other does something else: one's own pixels stay, labels of context change."""
    chances, before = acted(64, 6)
    changed = chances.clone()
    changed[:, PERSON.stop :] = torch.rand(64, CHANCES - PERSON.stop, generator=torch.Generator().manual_seed(7))
    changed[:, PERSON.stop] = chances[:, PERSON.stop]  # how high it stands
    after = act_scenes(changed, *SIZE)
    assert torch.equal(before.boxes[:, 0], after.boxes[:, 0])
    assert torch.equal(before.labels[:, 0, : len(OWN)], after.labels[:, 0, : len(OWN)])
    for number in range(len(CONTEXT)):
        share = (before.labels[:, 0, len(OWN) + number] != after.labels[:, 0, len(OWN) + number]).float().mean()
        assert 0.25 < share < 0.75
    left, top, right, bottom = (before.boxes[:, 0] * torch.tensor([64, 32, 64, 32])).round().long().unbind(1)
    for scene in range(64):
        inside = (..., slice(top[scene], bottom[scene]), slice(left[scene], right[scene]))
        assert torch.equal(before.clips[scene][inside], after.clips[scene][inside]), "at all times"


def test_one_half_of_each_label_is_true_whatever_the_own_ones_are() -> None:
    scenes = act_scenes(drawn_scenes(4000, seed=8).chances, 4, 16, 23)  # small: labels do not depend on the size
    labels = scenes.labels.flatten(0, 1)
    assert ((labels.mean(0) - 0.5).abs() < 0.03).all()
    for own in range(len(OWN)):
        for value in (0.0, 1.0):
            context = labels[labels[:, own] == value][:, len(OWN) :].mean(0)
            assert ((context - 0.5).abs() < 0.04).all()


def test_sizes_and_seeds() -> None:
    chances, scenes = acted(40, 9)
    assert scenes.clips.shape == (40, 3, *SIZE)
    assert scenes.counted.all()
    assert torch.equal(drawn_scenes(40, seed=9).chances, chances)
    middles = (scenes.boxes[..., 0] + scenes.boxes[..., 2]) / 2 * SIZE[2]
    assert (middles[:, 0] - middles[:, 1]).abs().min() >= GAP - 1e-3
    assert 0 <= scenes.clips.min() <= scenes.clips.max() <= 1
    assert act_scenes(chances, 8, 16, 32).clips.shape == (40, 3, 8, 16, 32)
    with pytest.raises(ConfigError, match="scenes with two actors: got 16 frames of 32 × 32; expected"):
        act_scenes(chances, 16, 32, 32)
    with pytest.raises(ShapeError, match=r"chances of scenes: got \[3, 4\]; expected \[n 20\]"):
        Scenes(torch.zeros(3, 4))
