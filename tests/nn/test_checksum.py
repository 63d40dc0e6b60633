import pytest
import torch

from regard.nn.checksum import tensors_checksum


@pytest.mark.parametrize(
    "other",
    [
        {"a": torch.tensor([1.0, 2.0]), "b": torch.tensor(0, dtype=torch.int64)},  # a number
        {"a": torch.tensor([1.0, -0.0]), "b": torch.tensor(0, dtype=torch.int64)},  # a bit
        {"a": torch.tensor([1.0, 0.0]), "b": torch.tensor(0, dtype=torch.int32)},  # a type
        {"a": torch.tensor([[1.0, 0.0]]), "b": torch.tensor(0, dtype=torch.int64)},  # a shape
        {"a": torch.tensor([1.0, 0.0]), "c": torch.tensor(0, dtype=torch.int64)},  # a name
        {"a": torch.tensor([1.0, 0.0])},
    ],
)
def test_every_difference_counts(other: dict[str, torch.Tensor]) -> None:
    tensors = {"b": torch.tensor(0, dtype=torch.int64), "a": torch.tensor([1.0, 0.0])}
    assert tensors_checksum(tensors) == tensors_checksum(dict(sorted(tensors.items())))
    assert tensors_checksum(tensors) != tensors_checksum(other)


def test_half_precision_and_views() -> None:
    tensor = torch.randn(4, 6).bfloat16()
    assert tensors_checksum({"a": tensor.t()}) == tensors_checksum({"a": tensor.t().contiguous()})
