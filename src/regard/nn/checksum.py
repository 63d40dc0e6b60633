"""The checksum of weights: what a model is, whatever a file says of itself."""

import hashlib
from collections.abc import Mapping

import torch
from torch import Tensor


def tensors_checksum(tensors: Mapping[str, Tensor]) -> str:
    """The sha256 of named tensors: names, types, shapes and every number, in the order of the names.

    >>> tensors_checksum({"a": torch.zeros(2)}) == tensors_checksum({"a": torch.zeros(2, 1).squeeze(1)})
    True
    >>> tensors_checksum({"a": torch.zeros(2)}) == tensors_checksum({"a": torch.zeros(2, 1)})
    False
    """
    digest = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()
