"""A small film for the tests of actions: a bright square that moves right, left, up or stays, by five persons."""

import torch

from regard.data import Clips

ACTIONS = ("left", "right", "stays", "up")
STEPS = torch.tensor([[0.0, -1.0], [0.0, 1.0], [0.0, 0.0], [-1.0, 0.0]])  # rows and columns a frame


def film(persons: int = 5, frames: int = 8, side: int = 24, seed: int = 0) -> Clips:
    """Each person does each action once; persons have squares of different sizes."""
    generator = torch.Generator().manual_seed(seed)
    pictures, boxes, labels, names, groups = [], [], [], [], []
    lines = torch.arange(side) + 0.5
    for person in range(persons):
        for action, name in enumerate(ACTIONS):
            start = side / 2 + 4 * torch.rand(2, generator=generator) - 2 - STEPS[action] * frames / 2
            middles = start + STEPS[action] * torch.arange(frames)[:, None]  # [t 2]
            half = 2.0 + 0.3 * person
            inside = (lines[None, None] - middles[..., None]).abs() < half  # [t 2 side]
            pictures.append((inside[:, 0, :, None] & inside[:, 1, None]).byte()[:, None] * 255)
            y, x = middles.T
            boxes.append(torch.stack([x - half, y - half, x + half, y + half], 1).clamp(0, side) / side)
            labels.append(torch.eye(len(ACTIONS))[action])
            names.append(f"{name} by {person}")
            groups.append(f"person {person}")
    count = len(names)
    return Clips(
        torch.cat(pictures), (frames,) * count, torch.cat(boxes)[:, None], torch.stack(labels)[:, None],
        torch.ones(count, 1).bool(), ACTIONS, tuple(names), tuple(groups),
    )  # fmt: skip
