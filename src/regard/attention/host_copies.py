"""Copies of tensors in the memory of the host, made while a GPU goes on computing."""

from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

PINNED_BYTES = 2**26  # larger tensors are copied at once: memory that a GPU writes by itself is scarce


class HostCopies:
    """Arrays of the numbers of tensors. Those of a GPU are filled in when `wait` has returned.

    A stream of its own carries them to the host, so that the forward pass does not wait, and the memory on the GPU is
    free again as soon as they are there.
    """

    def __init__(self) -> None:
        self._streams: dict[torch.device, torch.cuda.Stream] = {}

    def send(self, tensor: Tensor, *, is_new: bool = False) -> NDArray[Any]:
        """The numbers of a tensor in float32 or better, in memory of their own, or in that of a new tensor."""
        wide = tensor.detach() if tensor.requires_grad else tensor
        if wide.dtype is not torch.float32 and wide.dtype is not torch.float64:
            wide, is_new = wide.to(torch.float32), True
        if not wide.is_cuda:
            return wide.to("cpu", copy=not is_new).numpy() if not (is_new and wide.is_cpu) else wide.numpy()
        if wide.numel() * wide.element_size() > PINNED_BYTES:
            return wide.cpu().numpy()
        if wide.device not in self._streams:
            self._streams[wide.device] = torch.cuda.Stream(wide.device)  # type: ignore[no-untyped-call]
        stream = self._streams[wide.device]
        stream.wait_stream(torch.cuda.current_stream(wide.device))
        host = torch.empty(wide.shape, dtype=wide.dtype, device="cpu", pin_memory=True)
        with torch.cuda.stream(stream):
            host.copy_(wide, non_blocking=True)
        wide.record_stream(stream)
        return host.numpy()

    def wait(self) -> None:
        """Return when every array is filled in."""
        for stream in self._streams.values():
            stream.synchronize()
