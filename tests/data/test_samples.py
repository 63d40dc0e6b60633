"""Sample pictures: each name gives a picture that opens, and a wrong name says which was meant."""

from importlib.resources import files

import pytest

from regard.base import RegardError
from regard.data.images import read_image
from regard.data.samples import SAMPLES, sample


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_is_a_picture(name: str) -> None:
    assert sample(name) == sample(f"sample:{name}")
    image = read_image(f"sample:{name}")
    assert min(image.shape[:2]) >= 16
    assert image.std() > 5
    assert sample(name).stat().st_size < 50_000


def test_what_lies_there_is_on_the_menu_and_in_the_readme() -> None:
    folder = files("regard") / "datasets" / "samples"
    assert {path.name for path in folder.iterdir()} == {*SAMPLES, "README.md"}
    readme = (folder / "README.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in readme for name in SAMPLES)


def test_a_wrong_name() -> None:
    with pytest.raises(RegardError, match=r"no such sample picture: got 'digt\.png'.* Did you mean 'digit\.png'"):
        read_image("sample:digt.png")
    with pytest.raises(RegardError, match="no such sample picture"):
        read_image("sample:../../__init__.py")
