"""Few queries and few keys in one program. `child.py` runs this file."""

import random

import pytest
import torch
from cases import DEVICE
from torch import Tensor
from torch.testing import assert_close

from regard.align import Softmax
from regard.attention import Attention, FixedCache, Mask, MultiHead, Rotary, attend
from regard.kernels import few_queries as few_kernels
from regard.kernels.few_queries import NewItem, few_queries
from regard.kernels.limits import are_few
from regard.score import Cosine, ScaledDot, Score

pytestmark = pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS:UserWarning")
CLOSE = {torch.float32: 1e-5, torch.bfloat16: 2e-2, torch.float16: 2e-3}


def exact(query: Tensor, keys: Tensor, values: Tensor, scale: float, seen: Tensor | None) -> tuple[Tensor, Tensor]:
    """In float64, by plain operations."""
    groups = query.shape[1] // keys.shape[1]
    keys, values = (side.double().repeat_interleave(groups, 1) for side in (keys, values))
    scores = query.double() @ keys.mT * scale
    if seen is not None:
        scores = scores.masked_fill(~seen.unsqueeze(1), -torch.inf)
    weights = scores.softmax(-1).nan_to_num(0.0)
    return weights @ values, weights


@pytest.mark.parametrize("seed", [*range(6), *(pytest.param(n, marks=pytest.mark.slow) for n in range(6, 40))])
def test_random_shapes_are_those_of_float64(seed: int) -> None:
    chance = random.Random(seed)
    torch.manual_seed(seed)
    dtype = chance.choice([torch.float32, torch.float32, torch.bfloat16, torch.float16])
    groups, heads = chance.choice([1, 1, 2, 3]), chance.choice([1, 2, 4])
    n, q, k = chance.choice([1, 3]), chance.choice([1, 1, 2, 5, 16]), chance.choice([1, 2, 15, 16, 17, 40, 128])
    a, v = chance.choice([1, 3, 16, 24, 32, 100]), chance.choice([1, 5, 16, 32, 128])
    query = torch.randn(n, q, heads * groups, a, device=DEVICE).to(dtype).transpose(1, 2)
    keys = torch.randn(n, heads, k, 2 * a, device=DEVICE).to(dtype)[..., ::2]  # rows of neighbours no more
    values = torch.randn(n, k, heads, v, device=DEVICE).to(dtype).transpose(1, 2)
    mask = chance.choice([None, (1, 1), (n, 1), (n, q), (1, q)])
    seen = None if mask is None else torch.rand(*mask, k, device=DEVICE) > 0.4
    if seen is not None:
        seen[0] = seen[0] & (chance.random() > 0.3)  # some rows see nothing
    assert are_few(query, keys, values)
    context, weights = few_queries(query, keys, values, scale=0.7, allowed=seen, need_weights=True)
    right, shares = exact(query, keys, values, 0.7, None if seen is None else seen.expand(n, q, k))
    assert weights is not None
    assert (context.dtype, weights.dtype) == (dtype, dtype)
    close = {"rtol": CLOSE[dtype], "atol": CLOSE[dtype]}
    assert_close(context.double(), right, **close)
    assert_close(weights.double(), shares, **close)
    assert (weights[(shares == 0)] == 0).all()
    alone, nothing = few_queries(query, keys, values, scale=0.7, allowed=seen)
    assert nothing is None
    assert torch.equal(alone, context)


@pytest.mark.parametrize(
    ("place", "dtype"), [(0, torch.float32), (1, torch.bfloat16), (14, torch.float16), (15, torch.float32)]
)
def test_a_new_item_is_seen_and_written(place: int, dtype: torch.dtype) -> None:
    torch.manual_seed(place)
    rooms = [torch.full((2, 1, 40, 24), torch.nan, device=DEVICE, dtype=dtype) for _ in range(2)]
    keys, values = (room[:, :, :16] for room in rooms)  # a part of a larger buffer, filled with what nobody may read
    for side in (keys, values):
        side[:, :, :place] = torch.randn(2, 1, place, 24, device=DEVICE).to(dtype)
    query = torch.randn(2, 2, 1, 24, device=DEVICE).to(dtype)
    fresh = [torch.randn(2, 1, 1, 24, device=DEVICE).to(dtype) for _ in range(2)]
    before = [room.clone() for room in rooms]
    now = torch.tensor(place, device=DEVICE)
    context, _ = few_queries(query, keys, values, scale=0.3, new=NewItem(*fresh, now))
    for room, old, item in zip(rooms, before, fresh, strict=True):
        old[:, :, place] = item[:, :, 0]
        assert torch.equal(room.isnan(), old.isnan())
        assert torch.equal(room.nan_to_num(), old.nan_to_num())
    seen = [side[:, :, : place + 1] for side in (keys, values)]
    assert_close(context.double(), exact(query, *seen, 0.3, None)[0], rtol=CLOSE[dtype], atol=CLOSE[dtype])


@pytest.mark.parametrize(("position", "key_heads"), [(None, 2), (Rotary(), 4)], ids=["plain", "rotary"])
def test_a_fixed_cache_equals_the_whole(position: Rotary | None, key_heads: int) -> None:
    torch.manual_seed(0)
    layer = MultiHead(48, num_heads=4, num_key_heads=key_heads, position=position).to(DEVICE).eval()
    x = torch.randn(2, 4, 48, device=DEVICE)
    with torch.no_grad():
        whole = layer(x, mask=Mask.causal()).context
        cache = FixedCache.empty(layer, 2, 16, torch.zeros((), dtype=torch.long, device=DEVICE), like=x)
        for time in range(4):
            out = layer(x[:, time : time + 1], cache=cache)
            assert isinstance(out.cache, FixedCache)
            cache = out.cache
            assert_close(out.context, whole[:, time : time + 1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("score", [ScaledDot(), Cosine(3.0)], ids=["scaled dot", "cosine"])
@pytest.mark.parametrize("queries", [1, 5])
def test_attend_takes_it(score: Score, queries: int, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[object] = []
    real = few_kernels.few_queries
    monkeypatch.setattr(few_kernels, "few_queries", lambda *a, **k: calls.append(a) or real(*a, **k))
    torch.manual_seed(3)
    shapes = (3, 2, queries, 6), (3, 2, 7, 6), (3, 2, 7, 4)
    query, keys, values = (torch.randn(shape, device=DEVICE) for shape in shapes)
    seen = torch.rand(3, 1, 1, 7, device=DEVICE) > 0.5
    seen[1] = False
    layer = Attention(score.to(DEVICE), Softmax(0.7))
    with torch.no_grad():
        ours = layer(query, keys, values, mask=seen)
        right = attend(query, keys, values, score=layer.score, align=layer.align, mask=seen, impl="reference")
    assert len(calls) == 1
    assert ours.weights is not None and right.weights is not None  # noqa: PT018
    assert_close(ours.weights, right.weights, rtol=1e-5, atol=1e-6)
    assert_close(ours.context, right.context, rtol=1e-5, atol=1e-6)
    with torch.no_grad():  # what it does not know goes the other ways
        for options in ({"mask": Mask.padding([1, 2, 3])}, {"bias": torch.zeros(7, device=DEVICE)}, {"impl": "sdpa"}):
            attend(query, keys, values, score=layer.score, need_weights=False, **options)
    layer(query.requires_grad_(), keys, values, mask=seen).context.sum().backward()
    assert len(calls) == 1


def test_what_it_refuses() -> None:
    ok = torch.zeros(2, 2, 3, 8, device=DEVICE)
    assert are_few(ok, ok, ok)
    assert not are_few(ok[0], ok, ok)
    assert not are_few(ok.expand(2, 2, 3, 8).repeat(1, 1, 6, 1), ok, ok)
    assert not are_few(ok, ok, ok.repeat(1, 1, 43, 1))
    assert not are_few(ok.repeat(1, 1, 1, 17), ok, ok)
    assert not are_few(ok.half(), ok, ok)
    assert not are_few(*[ok.double()] * 3)
    assert not are_few(ok.clone().requires_grad_(), ok, ok)
