import pytest
import torch
import torch.nn.functional as F

from regard.data.handwriting import FRAMINGS, SIDE, Framing, framed
from regard.datasets.digits import digits

MNIST, UCI = FRAMINGS["mnist"], FRAMINGS["digits"]


def paper(digit: torch.Tensor, *, scale: int, at: tuple[int, int], dark: bool) -> torch.Tensor:
    """A digit on a large sheet, somewhere, with a little noise."""
    large = F.interpolate(digit[None, None].float(), scale_factor=scale, mode="bilinear")[0, 0]
    sheet = torch.full((300, 400), 30.0 if dark else 230.0)
    sheet += 3 * torch.randn(300, 400, generator=torch.Generator().manual_seed(0))
    high, wide = large.shape
    sheet[at[0] : at[0] + high, at[1] : at[1] + wide] += large * (0.8 if dark else -0.8)
    return sheet.clamp(0, 255)


def bounds(picture: torch.Tensor) -> tuple[int, int]:
    rows, columns = (picture > 40).any(1).nonzero(), (picture > 40).any(0).nonzero()
    return int(rows[-1] - rows[0]) + 1, int(columns[-1] - columns[0]) + 1


@pytest.mark.parametrize("dark", [True, False])
@pytest.mark.parametrize(("scale", "at"), [(3, (10, 300)), (5, (100, 20)), (8, (60, 90))])
def test_a_digit_of_any_size_anywhere_is_framed_alike(dark: bool, scale: int, at: tuple[int, int]) -> None:
    images = digits()["test"].images[:12, 0]
    near = []
    for digit in images:
        found = framed(paper(digit, scale=scale, at=at, dark=dark), UCI)
        assert found is not None
        assert found.shape == (SIDE, SIDE)
        assert 21 <= max(bounds(found)) <= 25
        near.append(float(torch.corrcoef(torch.stack([found.flatten(), digit.float().flatten()]))[0, 1]))
    assert sorted(near)[2] > 0.75  # the same digit, but for the blur of its edges


def test_mnist_is_centred_by_its_mass() -> None:
    sheet = torch.full((120, 90), 240.0)
    sheet[10:70, 60:66] = 20.0  # an L: most of its mass is at its foot
    sheet[64:70, 30:66] = 20.0
    found = framed(sheet, MNIST)
    assert found is not None
    assert max(bounds(found)) in (19, 20, 21)
    places = torch.arange(SIDE, dtype=torch.float)
    middle = [float((found.sum(axis) * places).sum() / found.sum()) for axis in (1, 0)]
    assert all(abs(each - 13.5) <= 0.6 for each in middle)
    by_box = framed(sheet, Framing(20, False))
    assert by_box is not None
    assert not torch.equal(by_box, found)


def test_pictures_of_the_data_set_stay_as_they_are() -> None:
    images = digits()["test"].images[:100, 0].float()
    kept = sum(torch.equal(framed(image, UCI), image) for image in images)  # type: ignore[arg-type]
    assert kept >= 97


def test_paper_without_ink_is_no_digit() -> None:
    assert framed(torch.full((50, 60), 200.0), MNIST) is None
    assert framed(torch.zeros(1, 1), MNIST) is None


def test_the_user_may_say_which_side_is_ink() -> None:
    sheet = torch.full((60, 60), 255.0)
    sheet[20:40, 28:32] = 0.0
    ink, ground = framed(sheet, MNIST), framed(sheet, MNIST, invert=False)
    assert ink is not None
    assert ground is not None
    assert float(ink.mean()) < float(ground.mean())
