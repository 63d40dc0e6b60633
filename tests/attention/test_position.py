"""Positions: sinusoids, rotations, linear biases, and the relative terms of Transformer-XL."""

import math

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from regard.attention import (
    POSITIONS,
    ALiBi,
    Learned,
    Mask,
    MultiHead,
    Position,
    Relative,
    Rotary,
    Sinusoidal,
    relative_shift,
    rotate,
    sinusoid,
)
from regard.attention.position import type_of_products
from regard.base import ConfigError, ShapeError

SIZES = [(4, 4), (2, 5), (1, 3), (5, 2), (1, 1)]


def test_menu() -> None:
    names = ["sinusoidal", "learned", "rotary", "alibi", "relative"]
    assert list(POSITIONS.items()) == list(zip(names, (Sinusoidal, Learned, Rotary, ALiBi, Relative), strict=True))
    assert isinstance(Rotary(), Position)
    assert isinstance(ALiBi(2), Position)
    assert isinstance(Relative(2, 4), Position)


# ── sinusoids ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("base", [10000.0, 100.0])
@pytest.mark.parametrize("dim", [2, 6, 16])
def test_formula(dim: int, base: float) -> None:
    table = sinusoid(torch.arange(-5.0, 50.0), dim, base=base)
    assert table.shape == (55, dim)
    for row, position in enumerate(range(-5, 50)):
        for i in range(dim // 2):
            angle = position / base ** (2 * i / dim)
            expected = torch.tensor([math.sin(angle), math.cos(angle)])
            assert_close(table[row, 2 * i : 2 * i + 2], expected, rtol=0, atol=1e-5)


def test_double_precision() -> None:
    positions = torch.arange(0, 5000, 37, dtype=torch.float64)
    angles = positions.unsqueeze(-1) / 10000 ** (torch.arange(0, 16, 2, dtype=torch.float64) / 16)
    assert_close(sinusoid(positions, 16)[:, 0::2], angles.sin(), rtol=0, atol=1e-10)
    assert_close(sinusoid(positions, 16)[:, 1::2], angles.cos(), rtol=0, atol=1e-10)


@pytest.mark.parametrize("shift", [1, 7, -3])
def test_a_shift_is_a_rotation(shift: int) -> None:
    positions, dim = torch.arange(100, dtype=torch.float64), 8
    matrix = torch.zeros(dim, dim, dtype=torch.float64)
    for i in range(dim // 2):
        angle = shift / 10000 ** (2 * i / dim)
        matrix[2 * i, 2 * i] = matrix[2 * i + 1, 2 * i + 1] = math.cos(angle)
        matrix[2 * i, 2 * i + 1], matrix[2 * i + 1, 2 * i] = math.sin(angle), -math.sin(angle)
    assert_close(sinusoid(positions + shift, dim), sinusoid(positions, dim) @ matrix.mT, rtol=0, atol=1e-6)


@pytest.mark.parametrize("shift", [0, 1, 9])
def test_products_depend_on_the_shift_alone(shift: int) -> None:
    positions = torch.arange(200, dtype=torch.float64)
    products = (sinusoid(positions, 32) * sinusoid(positions + shift, 32)).sum(-1)
    assert_close(products, products[:1].expand(200), rtol=0, atol=1e-6)
    if shift:
        assert products[0] < 16 - 0.1  # and they do depend on it: 16 is the product at no shift


@pytest.mark.parametrize("layer", [Sinusoidal(6), Learned(12, 6)], ids=["sinusoidal", "learned"])
def test_offset_is_a_slice(layer: torch.nn.Module) -> None:
    x = torch.randn(2, 10, 6)
    whole = layer(x)
    assert_close(layer(x[:, 4:7], offset=4), whole[:, 4:7])
    assert_close(layer(x[0]), whole[0])
    assert not torch.allclose(layer(x[:, 4:7]), whole[:, 4:7])


def test_sinusoidal_adds_the_table() -> None:
    x = torch.randn(2, 5, 8)
    assert_close(Sinusoidal(8)(x) - x, sinusoid(torch.arange(5.0), 8).expand(2, 5, 8))
    assert_close(Sinusoidal(8, base=50.0)(x) - x, sinusoid(torch.arange(5.0), 8, base=50.0).expand(2, 5, 8))
    assert_close(Sinusoidal(8)(x, offset=torch.tensor(3)), Sinusoidal(8)(x, offset=3))
    assert Sinusoidal(8)(x.bfloat16()).dtype == torch.bfloat16
    assert not list(Sinusoidal(8).parameters())
    assert "8" in repr(Sinusoidal(8))


def test_learned_adds_its_rows_and_learns_them() -> None:
    layer, x = Learned(7, 4), torch.randn(2, 3, 4)
    out = layer(x, offset=2)
    assert torch.equal(out, x + layer.weight[2:5])
    out.sum().backward()
    assert torch.equal(layer.weight.grad[:, 0], torch.tensor([0.0, 0, 2, 2, 2, 0, 0]))
    assert layer(x.bfloat16()).dtype == torch.bfloat16
    assert "max_positions=7, dim=4" in repr(layer)


# ── rotary ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_rotation_keeps_lengths_and_turns_pairs() -> None:
    x, positions = torch.randn(2, 3, 5, 8, dtype=torch.float64), torch.arange(5, dtype=torch.float64)
    turned = rotate(x, positions)
    assert_close(turned.norm(dim=-1), x.norm(dim=-1))
    as_complex = torch.view_as_complex(x.unflatten(-1, (4, 2)))
    angle = positions[:, None] / 10000 ** (torch.arange(0, 8, 2, dtype=torch.float64) / 8)
    expected = torch.view_as_real(as_complex * torch.polar(torch.ones_like(angle), angle)).flatten(-2)
    assert_close(turned, expected, rtol=0, atol=1e-6)
    assert torch.equal(turned[..., 0, :], x[..., 0, :])


def test_rotary_scores_depend_on_distance() -> None:
    query, key = torch.randn(8, dtype=torch.float64), torch.randn(8, dtype=torch.float64)
    turned_query, turned_keys, bias = Rotary()(query.expand(1, 6, 8), key.expand(1, 6, 8))
    assert bias is None
    scores = (turned_query @ turned_keys.mT)[0]
    for distance in range(-5, 6):
        line = scores.diagonal(-distance)
        assert_close(line, line[:1].expand_as(line), rtol=0, atol=1e-6)
    assert_close(scores[0, 0], query @ key)
    assert (scores[0, 1:] - scores[0, 0]).abs().min() > 1e-4


@pytest.mark.parametrize(("q", "k"), SIZES)
def test_rotary_queries_are_the_last_ones(q: int, k: int) -> None:
    query, keys = torch.randn(2, 3, q, 8), torch.randn(2, 3, k, 8)
    turned = Rotary(base=100.0)(query, keys)
    assert_close(turned.query, rotate(query, torch.arange(k - q, k).float(), base=100.0))
    assert_close(turned.keys, rotate(keys, torch.arange(k).float(), base=100.0))


# ── ALiBi ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("heads", "exponents"),
    [
        (1, [8]),
        (4, [2, 4, 6, 8]),
        (8, [1, 2, 3, 4, 5, 6, 7, 8]),
        (12, [1, 2, 3, 4, 5, 6, 7, 8, 0.5, 1.5, 2.5, 3.5]),
    ],
)
def test_slopes(heads: int, exponents: list[float]) -> None:
    assert_close(ALiBi(heads).slopes, torch.tensor([2.0**-e for e in exponents]))


@pytest.mark.parametrize(("q", "k"), SIZES)
def test_linear_bias(q: int, k: int) -> None:
    layer, query, keys = ALiBi(3), torch.randn(2, 3, q, 4), torch.randn(2, 3, k, 4)
    same_query, same_keys, bias = layer(query, keys)
    assert same_query is query
    assert same_keys is keys
    expected = [[[-s * abs(i + k - q - j) for j in range(k)] for i in range(q)] for s in layer.slopes.tolist()]
    assert_close(bias, torch.tensor(expected))
    assert not layer.state_dict()  # nothing to save


# ── relative ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("lead", [(), (2,), (2, 3)], ids=len)
@pytest.mark.parametrize(("q", "k"), SIZES)
def test_shift_against_a_loop(q: int, k: int, lead: tuple[int, ...]) -> None:
    scores = torch.randn(*lead, q, k + q - 1)
    expected = torch.empty(*lead, q, k)
    for i in range(q):
        for j in range(k):
            distance = i + k - q - j
            expected[..., i, j] = scores[..., i, k - 1 - distance]
    assert torch.equal(relative_shift(scores, k), expected)


@pytest.mark.parametrize(("q", "k"), [(4, 4), (2, 5), (1, 3)])
def test_shift_equals_the_published_trick_on_the_causal_part(q: int, k: int) -> None:
    scores = torch.randn(q, k + q - 1)
    past = scores[:, :k]  # the published table has no columns for later keys
    published = torch.cat([torch.zeros(q, 1), past], 1).view(k + 1, q)[1:].view(q, k)
    causal = Mask.causal().dense(q, k)
    assert torch.equal(relative_shift(scores, k)[causal], published[causal])


def relative_layer(heads: int = 2, width: int = 4, dim: int | None = None, **settings: bool) -> MultiHead:
    position = Relative(heads, width, dim=dim, **settings)
    torch.nn.init.normal_(position.content)
    torch.nn.init.normal_(position.place)
    return MultiHead(heads * width, num_heads=heads, position=position).double()


def four_terms(layer: MultiHead, query: Tensor, keys: Tensor) -> Tensor:
    """Scores [h q k] of one sentence, one number at a time."""
    position, heads, width = layer.position, layer.num_heads, layer.dim // layer.num_heads
    q, k = query.shape[0], keys.shape[0]
    projected_query = layer.to_query(query).view(q, heads, width)
    projected_keys = layer.to_keys(keys).view(k, heads, width)
    matrix = position.to_keys.weight.view(heads, width, position.dim)
    scores = torch.empty(heads, q, k, dtype=query.dtype)
    for h in range(heads):
        u, v = position.content[h, 0], position.place[h, 0]
        for i in range(q):
            for j in range(k):
                place = matrix[h] @ sinusoid(torch.tensor(float(i + k - q - j)), position.dim).to(query.dtype)
                a, b = projected_query[i, h], projected_keys[j, h]
                scores[h, i, j] = (a @ b + a @ place + u @ b + v @ place) / math.sqrt(width)
    return scores


@pytest.mark.parametrize("dim", [None, 6])
@pytest.mark.parametrize(("q", "k"), [(4, 4), (2, 5)])
def test_relative_against_four_terms(q: int, k: int, dim: int | None) -> None:
    layer = relative_layer(dim=dim)
    keys = torch.randn(1, k, 8, dtype=torch.float64)
    query = keys[:, -q:]
    for mask in (None, Mask.causal()):
        earlier = keys[:, :-q] if q < k else None
        out = layer(query, earlier=earlier, mask=mask, need_weights=True)
        scores = four_terms(layer, query[0], keys[0])
        if mask is not None:
            scores = scores.masked_fill(~mask.dense(q, k), -math.inf)
        assert_close(out.weights[0], scores.softmax(-1), rtol=1e-6, atol=1e-7)
        assert_close(layer(query, earlier=earlier, mask=mask).context, out.context)


@pytest.mark.parametrize("chunk", [1, 3, 4])
def test_one_segment_equals_chunks_with_memory(chunk: int) -> None:
    layer = relative_layer()
    x = torch.randn(2, 8, 8, dtype=torch.float64)
    whole = layer(x, mask=Mask.causal()).context
    for start in range(0, 8, chunk):
        memory, segment = x[:, :start].detach(), x[:, start : start + chunk]
        out = layer(segment, earlier=memory, mask=Mask.causal())
        assert_close(out.context, whole[:, start : start + chunk], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("q", "k"), [(4, 4), (2, 5), (1, 1), (1, 6)])
def test_below_a_causal_mask_later_keys_need_no_columns(q: int, k: int) -> None:
    layer, lean = relative_layer(), relative_layer(causal=True)
    lean.load_state_dict(layer.state_dict())
    keys = torch.randn(2, k, 8, dtype=torch.float64, requires_grad=True)
    results = []
    for each in (layer, lean):
        out = each(keys[:, k - q :], earlier=keys[:, : k - q], mask=Mask.causal())
        gradients = torch.autograd.grad(out.context.square().sum(), [keys, *each.parameters()])
        results.append([out.context, *gradients])
    for one, other in zip(*results, strict=True):
        assert_close(one, other, rtol=1e-10, atol=1e-11)
    query = torch.randn(2, q, 4, dtype=torch.float64)
    widths = [each.position(query, keys[0, :, :4].expand(2, -1, -1)).bias.shape for each in (layer, lean)]
    assert widths == [(2, q, k)] * 2


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("q", "k"), [(4, 4), (2, 5), (1, 1)])
def test_layers_can_share_one_table_of_distances(q: int, k: int, causal: bool) -> None:
    layer = relative_layer(dim=6, causal=causal)
    x, mask = torch.randn(2, k, 8, dtype=torch.float64), Mask.causal()
    query, earlier = x[:, k - q :], x[:, : k - q]
    table = layer.position.distances(q, k, dtype=torch.float64, device=x.device)
    assert table.shape == (k if causal else k + q - 1, 6)
    assert_close(table[0], sinusoid(torch.tensor(k - 1.0, dtype=torch.float64), 6))
    own = layer(query, earlier=earlier, mask=mask).context
    assert torch.equal(layer(query, earlier=earlier, mask=mask, distances=table).context, own)
    rounded = layer(query, earlier=earlier, mask=mask, distances=table.bfloat16()).context
    assert torch.equal(rounded, own)  # a table of another type is made anew
    with pytest.raises(ShapeError, match="the table of distances is another one"):
        layer(query, earlier=earlier, mask=mask, distances=table[1:])


def test_a_table_of_distances_needs_relative_positions() -> None:
    layer, x = relative_layer(), torch.randn(1, 3, 8, dtype=torch.float64)
    table = layer.position.distances(3, 3, dtype=x.dtype, device=x.device)
    for other in (None, Rotary()):
        layer.position = other
        with pytest.raises(ConfigError, match="a table of distances is for position=Relative"):
            layer(x, distances=table)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_type_of_products(dtype: torch.dtype) -> None:
    x, weight = torch.ones(2, 2, dtype=dtype), torch.ones(2, 2, dtype=dtype)
    assert type_of_products(x) == (x @ weight).dtype == dtype
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert type_of_products(x) == (x @ weight).dtype


def test_with_more_queries_than_keys_nothing_is_left_out() -> None:
    layer, lean = Relative(2, 4), Relative(2, 4, causal=True)
    lean.load_state_dict(layer.state_dict())
    query, keys = torch.randn(2, 5, 4), torch.randn(2, 3, 4)
    assert torch.equal(layer(query, keys).bias, lean(query, keys).bias)


def test_a_narrow_bias_has_the_type_of_the_query() -> None:
    wide, narrow = Relative(2, 4).bfloat16(), Relative(2, 4, wide=False).bfloat16()
    narrow.load_state_dict(wide.state_dict())
    query = torch.randn(2, 30, 4).bfloat16()
    expected, bias = wide(query, query).bias, narrow(query, query).bias
    assert bias.dtype == torch.bfloat16
    with torch.autocast("cpu", torch.bfloat16):  # parameters are float32, and what a layer projects is not
        positioned = narrow.float()(query, query)
    assert {part.dtype for part in positioned} == {torch.bfloat16}
    assert (bias - expected).abs().max() < 0.02 * expected.abs().max()


def test_relative_learns_every_part() -> None:
    layer = relative_layer()
    layer(torch.randn(2, 5, 8, dtype=torch.float64)).context.square().sum().backward()
    for parameter in layer.position.parameters():
        assert parameter.grad.abs().min() > 0


# ── settings ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "make",
    [
        lambda: Sinusoidal(5),
        lambda: Sinusoidal(0),
        lambda: sinusoid(torch.zeros(2), 3),
        lambda: Relative(1, 3),
        lambda: Relative(2, 4, dim=7),
        lambda: Rotary()(torch.zeros(1, 2, 3), torch.zeros(1, 2, 3)),
    ],
)
def test_odd_widths(make) -> None:
    with pytest.raises(ConfigError, match="an even number"):
        make()


@pytest.mark.parametrize(
    "make", [lambda: Learned(0, 4), lambda: Learned(4, 0), lambda: ALiBi(0), lambda: Relative(0, 4, dim=4)]
)
def test_sizes_below_one(make) -> None:
    with pytest.raises(ConfigError, match="1 or more"):
        make()


@pytest.mark.parametrize("position", [ALiBi(2), Relative(2, 4)], ids=lambda p: type(p).__name__)
def test_a_bias_is_as_wide_as_scores_are(position) -> None:
    """−slope · distance in bfloat16 would be off by one at a distance of 400."""
    query = torch.randn(1, 2, 400, 4)
    half = position.bfloat16()(query.bfloat16(), query.bfloat16()).bias
    assert half.dtype == torch.float32
    exact = position.double()(query.bfloat16().double(), query.bfloat16().double()).bias
    bound = 0.02 if isinstance(position, Relative) else 1e-6  # its projected sinusoids are in bfloat16
    assert (half - exact).abs().max() < bound * exact.abs().max()
    position.float()


def test_relative_positions_of_nothing() -> None:
    layer = MultiHead(8, num_heads=2, position=Relative(2, 4))
    assert layer(torch.randn(3, 0, 8)).context.shape == (3, 0, 8)
