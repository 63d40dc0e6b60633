"""Errors of a trace that name what there is; mixed models are no error."""

import pytest
import torch
from torch import Tensor, nn

from regard.attention import MultiHead, trace
from regard.base import ConfigError


class Mixed(nn.Module):
    """A layer of four heads over all places, then one of two heads over the first three."""

    def __init__(self) -> None:
        super().__init__()
        self.wide, self.narrow = MultiHead(8, num_heads=4), nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        x = self.wide(x).context[:, :3]
        return self.narrow(x, x, x, need_weights=False)[0]


def test_a_layer_that_has_fewer_gives_what_it_has() -> None:
    model, x = Mixed(), torch.randn(2, 5, 8)
    with trace(model, heads=[0, 3], rows=[4, -1, 1]) as seen:
        model(x)
    assert {name: record.weights.shape for name, record in seen.items()} == {
        "wide": (2, 2, 3, 5),
        "narrow": (2, 1, 2, 3),
    }
    assert (seen["narrow"].head_numbers, seen["narrow"].queries) == ([0], [2, 1])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layers": "deep"}, r"no layer has this name: got 'deep'; expected a pattern for .*narrow"),
        ({"layers": "narow"}, r"got 'narow'.*Did you mean 'narrow'\?"),
        ({"layers": "narrow.out_proj"}, r"no layer has this name: got 'narrow\.out_proj'.*a pattern for narrow, wide"),
        ({"heads": [4, 0]}, r"no layer has these heads: got \[4\]; expected numbers from -4 to 3, in wide, narrow"),
        ({"rows": [-6]}, r"no layer has these rows: got \[-6\]; expected numbers from -5 to 4, in wide, narrow"),
    ],
)
def test_what_no_layer_has(options: dict[str, object], message: str) -> None:
    model, x = Mixed(), torch.randn(2, 5, 8)
    with pytest.raises(ConfigError, match=message), trace(model, **options):
        model(x)
    with trace(model, may_be_empty=True, **options):
        model(x)


def test_a_model_without_attention() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
    message = r"no attention ran in this model: got Sequential with 2 Linear, 1 Sequential, 1 ReLU"
    with pytest.raises(ConfigError, match=message), trace(model):
        model(torch.zeros(1, 8))
    with trace(model):
        pass  # which did not run
    with trace(model, layers=""):
        model(torch.zeros(1, 8))
    with pytest.raises(RuntimeError, match="shapes"), trace(model):
        model(torch.zeros(1, 9))  # its own error, and no other
