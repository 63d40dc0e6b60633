"""Masks that are a band of keys."""

import pytest
import torch

from regard.attention import Band, Local1D, Mask
from regard.attention.band import band_of
from regard.base import ConfigError, MaskError


@pytest.mark.parametrize(
    "mask",
    [
        Mask.causal(),
        Mask.window(2, 1),
        Mask.window(3) & Mask.causal(),
        Mask.padding([2, 5]) & Mask.causal(),
        Mask.padding([4, 0]),
        Local1D(3, 2).mask(),
    ],
    ids=repr,
)
@pytest.mark.parametrize(("queries", "keys"), [(5, 5), (3, 5), (6, 5)])
def test_a_mask_as_a_band_is_the_same_mask(mask: Mask, queries: int, keys: int) -> None:
    band = band_of(mask)
    assert band is not None
    seen = band.dense(queries, keys)
    assert torch.equal(seen, mask.dense(queries, keys).expand(seen.shape))
    rows = torch.tensor([queries - 1, 0])
    assert torch.equal(band.dense(queries, keys, rows=rows), seen[..., rows, :])


def test_other_masks_are_not_bands() -> None:
    for mask in (Mask.of(torch.ones(2, 2, dtype=torch.bool)), Mask.causal() | Mask.window(1), ~Mask.causal()):
        assert band_of(mask) is None
    everything = band_of(None)
    assert everything is not None
    assert everything.dense(2, 3).all()


def test_keys_before_the_start_are_not_seen() -> None:
    band = Band(after=0, starts=torch.tensor([2, 0]))
    assert band.dense(2, 3).int().tolist() == [[[0, 0, 0], [0, 0, 1]], [[1, 1, 0], [1, 1, 1]]]
    both = band & Mask.causal()
    assert torch.equal(both.dense(2, 3), band.dense(2, 3))
    assert band.dense(2, 3) is band.dense(2, 3)  # layers share it
    assert band.dense(1, 3).shape == (2, 1, 3)
    with torch.inference_mode():
        frozen = band.dense(2, 3)
    assert frozen.is_inference()
    assert not band.dense(2, 3).is_inference()  # which a gradient could not be made from


def test_lengths_of_padding() -> None:
    band = band_of(Mask.padding([1, 3]))
    assert band is not None
    assert band.lengths(3, torch.device("cpu")).tolist() == [1, 3]
    assert Band().lengths(3, torch.device("cpu")) is None
    with pytest.raises(MaskError, match="a length is beyond the keys"):
        band.lengths(2, torch.device("cpu"))


@pytest.mark.parametrize("wrong", [{"before": -1}, {"after": -2}, {"block_size": 0}])
def test_wrong_numbers(wrong: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match="a band of keys: got before="):
        Band(**wrong)
