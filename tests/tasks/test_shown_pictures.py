"""What a classifier is shown; test_classification.py has canvases, crops and normalisation in training."""

import pytest
import torch

from regard.base import ConfigError
from regard.data import Canvas, Pictures
from regard.tasks.shown_pictures import PictureSettings, ShownPictures

PICTURES = Pictures(torch.arange(4 * 9).reshape(4, 1, 3, 3).to(torch.uint8), torch.tensor([0, 1, 1, 0]), ("no", "yes"))
SPLITS = {"train": PICTURES, "valid": PICTURES, "test": PICTURES}


def test_what_the_data_decide() -> None:
    shown = ShownPictures(PictureSettings(), splits=SPLITS)
    assert shown.classes == ("no", "yes")
    assert (shown.labels, shown.image_size, shown.facts.channels) == (1, 3, 1)


def test_held_out_canvases_are_the_same_for_everybody() -> None:
    settings = PictureSettings(canvas=Canvas(12))
    first, second = (ShownPictures(settings, splits=SPLITS).held_out("test") for _ in range(2))
    assert first.images.equal(second.images)
    assert not first.images.equal(ShownPictures(settings, splits=SPLITS).held_out("valid").images)
    assert first.images.shape == (4, 1, 12, 12)


def test_a_picture_of_any_size_is_fitted() -> None:
    shown = ShownPictures(PictureSettings(), splits=SPLITS)
    white = torch.full((6, 3, 3), 255, dtype=torch.uint8)
    assert shown.prepared(white).shape == (1, 3, 3)
    assert shown.prepared(white).max() == 0  # a bright rim is paper
    assert shown.prepared(white, invert=False).max() == 255


@pytest.mark.parametrize(("settings", "message"), [
    ({"dataset": "mnits"}, r"task\.dataset: got 'mnits'.*Did you mean 'mnist'"),
    ({"canvas": Canvas(9), "mirror": True}, "a canvas is neither cropped nor mirrored"),
    ({"standardise": True, "mean": (0.5,)}, "a picture is normalised in one way"),
])  # fmt: skip
def test_settings_that_do_not_fit_together(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ShownPictures(PictureSettings(**settings), splits=SPLITS)  # type: ignore[arg-type]
