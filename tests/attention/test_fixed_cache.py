"""A cache of fixed size gives what the growing one gives, step by step, for every position."""

import pytest
import torch

from regard.align import Entmax
from regard.attention import ALiBi, Attention, Cache, FixedCache, Learned, MultiHead, Relative, Rotary
from regard.base import ConfigError
from regard.score import Additive

POSITIONS = {"none": None, "rotary": Rotary(), "alibi": ALiBi(4), "relative": Relative(4, 4)}


def layer(position: object = None, **options: object) -> MultiHead:
    made = MultiHead(16, num_heads=4, position=position, **options).double().eval()
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return made


@pytest.mark.parametrize(
    "options",
    [{}, {"num_key_heads": 2}, {"attention": Attention(Additive(4, 4, 3), Entmax(1.5))}],
    ids=["plain", "grouped", "entmax"],
)
@pytest.mark.parametrize("name", POSITIONS)
@torch.no_grad()
def test_equals_the_growing_cache(name: str, options: dict[str, object]) -> None:
    if name == "relative" and "attention" in options:
        return  # it goes with ScaledDot alone
    made, x = layer(POSITIONS[name], **options), torch.randn(3, 7, 16, dtype=torch.float64)
    grown, fixed = Cache(), FixedCache.empty(made, 3, 9, torch.zeros((), dtype=torch.long), like=x)
    for t in range(7):
        expected = made(x[:, t : t + 1], cache=grown, need_weights=True)
        found = made(x[:, t : t + 1], cache=fixed, need_weights=True)
        torch.testing.assert_close(found.context, expected.context)
        torch.testing.assert_close(found.weights[..., : t + 1], expected.weights)
        assert (found.weights[..., t + 1 :] == 0).all()
        grown, fixed = expected.cache, found.cache
        assert int(fixed.length) == t + 1


def test_rows_are_kept_in_another_order_in_the_same_places() -> None:
    made, x = layer(), torch.randn(3, 1, 16, dtype=torch.float64)
    cache = FixedCache.empty(made, 3, 2, torch.zeros((), dtype=torch.long), like=x)
    made(x, cache=cache)
    before, place = cache.keys.clone(), cache.keys.data_ptr()
    cache.keep(None)
    assert torch.equal(cache.keys, before)
    cache.keep(torch.tensor([2, 0, 0]))
    assert torch.equal(cache.keys, before[[2, 0, 0]])
    assert cache.keys.data_ptr() == place


def test_what_it_cannot_do_is_refused() -> None:
    made, x = layer(), torch.randn(3, 2, 16, dtype=torch.float64)
    cache = FixedCache.empty(made, 3, 2, torch.zeros((), dtype=torch.long), like=x)
    with pytest.raises(ConfigError, match="one item of each sequence"):
        made(x, cache=cache)
    made.position = Learned(4, 16)
    with pytest.raises(ConfigError, match="does not know this position"):
        made(x[:, :1], cache=cache)
