"""Weizmann: 93 silhouette videos of ten actions by nine persons (Blank, Gorelick, Shechtman, Irani & Basri 2005).

The frames are the publishers' own foreground masks, 144 × 180; grey or coloured video is not in the file. Here they are
reduced by two, so that a pixel is one quarter, one half or all of it inside. The usual protocol leaves one person
out: `task.leave_one_out` does so for each of the nine. Without it, one person is for validation and one for the test.
"""

import zipfile
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from regard.data.clips import Clips, mask_boxes
from regard.data.download import find
from regard.data.parallel import DataError
from regard.data.sources import listed_sources
from regard.datasets.dataset import Dataset

LICENCE = "none stated by its publishers; a research data set, cite Blank et al. 2005"
NAME = "weizmann_silhouettes/weizmann_masks.npz"
SOURCES = listed_sources(
    f"""
7ce41a38be7744c0465e5abae89031bb15cdba39271bfd0450e98ded5611b846   551294 {NAME}
""",
    licence=LICENCE,
)
CLASSES = ("bend", "jack", "jump", "pjump", "run", "side", "skip", "walk", "wave1", "wave2")
REDUCED = 2  # pixels of the file along each side of one of ours
_ARRAYS = ("packed", "length", "name", "person", "action", "width")


def weizmann() -> dict[str, Clips]:
    """The splits by person: the last one in the alphabet is the test, the one before it is for validation."""
    clips = read_masks(find(SOURCES[NAME]))
    persons = sorted(set(clips.groups))
    if len(persons) < 3:
        raise DataError("silhouettes of too few persons", got=len(persons), expected="3 or more")
    own = {"train": persons[:-2], "valid": persons[-2:-1], "test": persons[-1:]}
    return {
        split: clips.take([number for number, person in enumerate(clips.groups) if person in chosen])
        for split, chosen in own.items()
    }


def read_masks(path: Path) -> Clips:
    """All sequences of the file: frames in bits, with name, person and action of each sequence."""
    try:
        with np.load(path, allow_pickle=False) as arrays:
            packed, lengths, names, persons, actions, width = (arrays[name] for name in _ARRAYS)
        masks = torch.from_numpy(np.unpackbits(packed, axis=2)[:, :, : int(width)])
        numbers = [CLASSES.index(str(action)) for action in actions]
        boxes = mask_boxes(masks.bool()).unsqueeze(1)
        small = (F.avg_pool2d(masks.unsqueeze(1).float(), REDUCED) * 255).round().byte()
        labels = F.one_hot(torch.tensor(numbers), len(CLASSES)).float().unsqueeze(1)
        return Clips(
            small, tuple(int(length) for length in lengths), boxes, labels, torch.ones(len(numbers), 1).bool(),
            CLASSES, tuple(map(str, names)), tuple(map(str, persons)),
        )  # fmt: skip
    except (OSError, ValueError, TypeError, KeyError, IndexError, RuntimeError, zipfile.BadZipFile) as error:
        expected = f"arrays {', '.join(_ARRAYS)}, and actions among {', '.join(CLASSES)}"
        raise DataError(f"{path} cannot be read", got=str(error), expected=expected) from error


DATASET = Dataset(
    "weizmann",
    kind="clips",
    read=weizmann,
    splits=("train", "valid", "test"),
    licence=LICENCE,
    sources=SOURCES,
    note="93 silhouette videos of ten actions by nine persons",
)
