"""The sample of digits inside the package."""

import hashlib
from importlib.resources import files

import torch
import torch.nn.functional as F

from regard.datasets import digits as module
from regard.datasets.digits import digits


def test_the_sample() -> None:
    splits = digits()
    assert {name: split.size for name, split in splits.items()} == {"train": 1297, "valid": 200, "test": 300}
    for split in splits.values():
        assert split.images.shape[1:] == (1, 28, 28)
        assert int(split.images.max()) == 255
        assert not split.images[:, :, :2].any()  # the border
        assert not split.images[..., -2:].any()
        assert split.labels.bincount().min() >= 18
    assert splits["train"].labels[:10].tolist() == list(range(10))
    assert splits["train"].classes == tuple("0123456789")


def test_enlarged_as_torch_does_it() -> None:
    small = torch.randint(0, 17, (20, 8, 8), dtype=torch.uint8)
    large = F.interpolate(small[:, None].double(), scale_factor=3, mode="bilinear", align_corners=False)
    found = module._enlarged(small)[..., 2:-2, 2:-2]
    assert (found - large * 255 / 16).abs().max() <= 0.5 + 1e-9


def test_licence_and_attribution_come_along() -> None:
    corpora = files("regard") / "datasets" / "corpora"
    text = (corpora / "README.md").read_text(encoding="utf-8")
    assert "CC BY 4.0" in text
    assert "CC BY 4.0" in module.DATASET.licence
    assert hashlib.sha256((corpora / module.FILE).read_bytes()).hexdigest() in text
