"""What is done to pictures: the right amounts, fixed by a seed, and never out of range."""

import torch

from regard.data import Weather, jostle, paint_words, wear
from regard.data.weather import blurred, standardised

CALM = Weather(texture=0.0, neighbours=0.0, edges=0.0, shadows=0.0, blur=0.0, noise=0.0, coarse=0.0, contrast=0.0)


def ink(batch: int = 6) -> torch.Tensor:
    marks = torch.zeros(batch, 1, 16, 32)
    marks[..., 4:12, 8:24] = 1.0
    return marks


def test_calm_weather_paints_two_greys_and_leaves_pictures_alone() -> None:
    for lighter in (0.0, 1.0):
        weather = Weather(**{**vars(CALM), "lighter": lighter})
        painted = paint_words(ink(), weather)
        assert all(len(picture.unique()) == 2 for picture in painted)
        front, ground = painted[:, 0, 8, 16], painted[:, 0, 0, 0]
        assert ((front > ground) == bool(lighter)).all()
        assert (front - ground).abs().min() > 0.15
        torch.testing.assert_close(wear(painted, weather), painted, atol=1e-4, rtol=0)
        torch.testing.assert_close(wear(painted, weather, inverted=1.0), 1 - painted, atol=1e-4, rtol=0)


def test_rough_weather_stays_in_range_and_follows_its_seed() -> None:
    rough = Weather(neighbours=1.0, edges=1.0, shadows=1.0, coarse=1.0, noise=0.5, contrast=1.0)
    made = []
    for _ in range(2):
        generator = torch.Generator().manual_seed(5)
        painted = paint_words(ink(), rough, generator=generator)
        made.append(wear(jostle(painted, (16, 24), generator=generator), rough, generator=generator))
    assert made[0].equal(made[1])
    assert made[0].shape == (6, 1, 16, 24)
    assert made[0].min() >= 0
    assert made[0].max() <= 1
    assert not made[0].isnan().any()
    assert not wear(painted, rough).equal(wear(painted, rough))


def test_a_blur_keeps_what_there_is_and_spreads_it() -> None:
    dot = torch.zeros(2, 1, 15, 15, dtype=torch.float64)
    dot[..., 7, 7] = 1.0
    seen = blurred(dot, torch.tensor([[0.0, 1.0, 0.0], [0.8, 0.0, 0.0]], dtype=torch.float64), 1.0)
    torch.testing.assert_close(seen.sum((1, 2, 3)), torch.ones(2, dtype=torch.float64))
    torch.testing.assert_close(seen[0], dot[0], atol=1e-9, rtol=0)
    place = torch.arange(15.0, dtype=torch.float64) - 7
    across, down = ((seen[1, 0].sum(axis) * place.square()).sum() for axis in (0, 1))
    assert across > 3 * down  # it moved from left to right


def test_a_blur_has_strides_that_a_gpu_can_trust() -> None:
    """Average pooling there multiplies the number of a picture by the stride of the channel, even if there is one."""
    seen = blurred(torch.rand(3, 1, 8, 9), torch.rand(3, 3), 1.0)
    assert seen.stride() == torch.empty(seen.shape).stride()


def test_pictures_are_standardised_inside_their_width() -> None:
    images, widths = torch.rand(4, 1, 8, 20, dtype=torch.float64), torch.tensor([20, 7, 13, 20])
    images[3] = 0.5
    seen = standardised(images, widths)
    for picture, shown, width in zip(images, seen, widths.tolist(), strict=True):
        inside = picture[..., :width]
        if width < 20:
            assert (shown[..., width:] == 0).all()
        deviation = max(inside.std(correction=0).item(), 0.02)
        torch.testing.assert_close(shown[..., :width], (inside - inside.mean()) / deviation)
