"""What a model is shown of captioned pictures; test_captioning.py has features and views in training."""

import pytest
import torch

from regard.base import ConfigError
from regard.datasets.shapes import shapes
from regard.tasks.captioned_pictures import CaptionedPictures, CaptionedPictureSettings
from regard.tasks.features import EncoderConfig

SPLITS = shapes((4, 2, 2))
PATCHES = EncoderConfig("patches", size=56, keep=False)


def test_features_are_made_once_for_each_split() -> None:
    shown = CaptionedPictures(CaptionedPictureSettings("shapes", encoder=PATCHES, mirrored=True), splits=SPLITS)
    told: list[tuple[str, int, int]] = []
    shown.prepare("cpu", progress=lambda *facts: told.append(facts))
    assert told
    train = shown._store("train", torch.device("cpu"))
    assert len(train) == 2 * len(SPLITS["train"])  # and mirror images
    assert shown._store("train", torch.device("cpu")) is train
    views = shown.training_views(torch.tensor([0, 3]))
    assert views.shape == (2, *train.shape[1:])
    for view, number in zip(views, (0, 3), strict=True):
        assert view.equal(train[number]) or view.equal(train[number + 4])


@pytest.mark.parametrize(("settings", "message"), [
    ({"dataset": "shape"}, r"task\.dataset: got 'shape'.*Did you mean 'shapes'"),
    ({"finetune": True, "encoder": PATCHES}, "task.finetune: got patches"),
    ({"jitter": 4}, "task.jitter: got finetune=false"),
])  # fmt: skip
def test_settings_that_do_not_fit_together(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        CaptionedPictures(CaptionedPictureSettings(**settings))  # type: ignore[arg-type]


def test_files_need_both_paths() -> None:
    with pytest.raises(ConfigError, match="dataset='files' needs a file and a folder"):
        CaptionedPictures(CaptionedPictureSettings("files")).splits  # noqa: B018
