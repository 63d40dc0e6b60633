"""The splits of generated scenes: their own seeds, the same every time."""

import torch

from regard.datasets.two_actors import two_actors


def test_splits_differ_and_stay() -> None:
    splits, again = two_actors(50), two_actors(50)
    rows = torch.cat([split.chances for split in splits.values()])
    assert len(rows.unique(dim=0)) == 150
    for name, split in splits.items():
        assert split.chances.equal(again[name].chances)
        assert split.classes[2:] == split.context
