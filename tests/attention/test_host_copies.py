"""Copies on the host: numbers of any type, in memory of their own, also from a GPU."""

import numpy as np
import pytest
import torch

from regard.attention import host_copies
from regard.attention.host_copies import HostCopies


@pytest.mark.parametrize(
    ("dtype", "kept"),
    [(torch.bfloat16, np.float32), (torch.float32, np.float32), (torch.float64, np.float64)],
)
def test_copies_are_wide_and_their_own(dtype: torch.dtype, kept: type) -> None:
    copies, tensor = HostCopies(), torch.randn(3, 4, dtype=dtype, requires_grad=True)
    array = copies.send(tensor)
    copies.wait()
    assert array.dtype == kept
    np.testing.assert_array_equal(array, tensor.detach().to(torch.float64).numpy().astype(kept))
    with torch.no_grad():
        tensor.zero_()
    assert np.abs(array).min() > 0


@pytest.mark.gpu
def test_copies_of_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    for most in (2**26, 8):  # by a stream of its own, and at once
        monkeypatch.setattr(host_copies, "PINNED_BYTES", most)
        copies, tensors = HostCopies(), [torch.randn(50, 60, device="cuda") for _ in range(20)]
        expected = [tensor.cpu().numpy() for tensor in tensors]
        arrays = [copies.send(tensor * 2) for tensor in tensors]  # whose memory is free again at once
        noise = [torch.randn(50, 60, device="cuda") for _ in range(20)]
        copies.wait()
        assert len(noise) == 20
        for array, numbers in zip(arrays, expected, strict=True):
            np.testing.assert_array_equal(array, 2 * numbers)
