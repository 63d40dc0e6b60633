"""Multi-head attention: against torch's, against heads done by hand, and step by step."""

import copy
from collections.abc import Callable

import pytest
import torch
from table import cases
from torch import Tensor, nn
from torch.testing import assert_close

from regard.align import Entmax
from regard.attention import (
    ALiBi,
    Attention,
    AttentionOutput,
    Cache,
    Mask,
    Memory,
    MultiHead,
    Relative,
    Rotary,
    attend,
)
from regard.base import ConfigError
from regard.score import Additive, Cosine, ScaledDot

TOLERANCE = {torch.float64: {"rtol": 1e-10, "atol": 1e-10}, torch.float32: {"rtol": 1e-5, "atol": 1e-5}}


def double(*shape: int, requires_grad: bool = False) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=requires_grad)


def randomize(layer: nn.Module) -> nn.Module:
    """Give values to what starts at zero, so that nothing can hide there."""
    for parameter in layer.parameters():
        if (parameter == 0).all():
            nn.init.normal_(parameter)
    return layer


# ── torch.nn.MultiheadAttention ─────────────────────────────────────────────────────────────────────────────────────


@cases("dtype", TOLERANCE, ids=str)
@cases("masked", [False, True])
@cases("widths", [(None, None), (6, None), (6, 10), (None, 10)], ids=str)
@cases("bias", [True, False])
def test_equals_torch(bias: bool, widths: tuple[int | None, int | None], masked: bool, dtype: torch.dtype) -> None:
    kdim, vdim = widths
    other = nn.MultiheadAttention(8, 4, bias=bias, kdim=kdim, vdim=vdim, batch_first=True, dtype=dtype)
    randomize(other)
    layer = MultiHead.from_torch(other)
    shapes = (2, 5, 8), (2, 6, kdim or 8), (2, 6, vdim or 8)
    inputs = [torch.randn(shape, dtype=dtype, requires_grad=True) for shape in shapes]
    mask = Mask.padding([6, 3]) & Mask.causal() if masked else None
    forbidden = None if mask is None else mask.to_torch_attention(5, 6).repeat_interleave(4, 0)
    expected, weights = other(*inputs, attn_mask=forbidden, average_attn_weights=False)
    gradients = torch.autograd.grad(expected.square().sum(), inputs)
    for need_weights in (True, False):
        out = layer(*inputs, mask=mask, need_weights=need_weights)
        assert_close(out.context, expected, **TOLERANCE[dtype])
        if need_weights:
            assert_close(out.weights, weights, **TOLERANCE[dtype])
        assert_close(torch.autograd.grad(out.context.square().sum(), inputs), gradients, **TOLERANCE[dtype])


def test_copies_settings() -> None:
    other = nn.MultiheadAttention(8, 2, dropout=0.3, batch_first=True, dtype=torch.float64).eval().requires_grad_(False)
    layer = MultiHead.from_torch(other)
    assert layer.attention.dropout == 0.3
    assert not layer.to_query.weight.requires_grad
    assert not layer.training
    assert not layer.attention.training
    assert layer.to_query.weight.dtype == torch.float64
    with torch.no_grad():
        other.in_proj_weight.zero_()
    assert (layer.to_query.weight != 0).any()  # a copy, not a view
    sparse = Attention(align=Entmax(1.5))
    assert MultiHead.from_torch(other, attention=sparse).attention is sparse


def test_an_empty_row_is_zero_where_torch_has_nan() -> None:
    other = randomize(nn.MultiheadAttention(8, 2, batch_first=True, dtype=torch.float64))
    layer = MultiHead.from_torch(other)
    x = double(2, 3, 8, requires_grad=True)
    mask = Mask.padding([0, 3])
    expected, _ = other(x, x, x, key_padding_mask=mask.to_torch_key_padding(3))
    assert expected[0].isnan().all()
    for need_weights in (True, False):
        out = layer(x, mask=mask, need_weights=need_weights)
        assert_close(out.context[0], layer.to_output.bias.expand(3, 8))  # the projection of a zero context
        assert_close(out.context[1], expected[1])
        (gradient,) = torch.autograd.grad(out.context.sum(), x)
        assert torch.equal(gradient[0], torch.zeros(3, 8, dtype=torch.float64))
        assert gradient.isfinite().all()
    assert torch.equal(layer(x, mask=mask, need_weights=True).weights[0], torch.zeros(2, 3, 3, dtype=torch.float64))


@pytest.mark.parametrize("options", [{"add_bias_kv": True}, {"add_zero_attn": True}], ids=str)
def test_torch_settings_without_counterpart(options: dict) -> None:
    with pytest.raises(ConfigError, match="no counterpart"):
        MultiHead.from_torch(nn.MultiheadAttention(8, 2, batch_first=True, **options))


# ── heads by hand ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_block_diagonal_heads_are_independent_attentions() -> None:
    layer = MultiHead(6, num_heads=3, bias=False).double()
    blocks = {}
    with torch.no_grad():
        for name in ("to_query", "to_keys", "to_values"):
            blocks[name] = [double(2, 2) for _ in range(3)]
            getattr(layer, name).weight.copy_(torch.block_diag(*blocks[name]))
        layer.to_output.weight.copy_(torch.eye(6))
    x = double(2, 5, 6)
    out = layer(x, mask=Mask.causal(), need_weights=True)
    for head in range(3):
        own = x[..., 2 * head : 2 * head + 2]
        inputs = (own @ blocks[name][head].mT for name in ("to_query", "to_keys", "to_values"))
        alone = attend(*inputs, mask=Mask.causal())
        assert_close(out.context[..., 2 * head : 2 * head + 2], alone.context)
        assert_close(out.weights[:, head], alone.weights)


@pytest.mark.parametrize("num_key_heads", [1, 2, 4])
@pytest.mark.parametrize("prepared", [True, False])
def test_grouped_heads_equal_repeated_ones(num_key_heads: int, prepared: bool) -> None:
    layer = randomize(MultiHead(8, num_heads=4, num_key_heads=num_key_heads)).double()
    full = MultiHead(8, num_heads=4).double()
    state = layer.state_dict()
    for name in ("to_keys", "to_values"):
        for part in ("weight", "bias"):
            heads = state[f"{name}.{part}"].unflatten(0, (num_key_heads, 2))
            state[f"{name}.{part}"] = heads.repeat_interleave(4 // num_key_heads, 0).flatten(0, 1)
    full.load_state_dict(state)
    query, keys = double(2, 3, 8), double(2, 5, 8)
    out = layer(query, layer.prepare(keys) if prepared else keys, need_weights=True)
    expected = full(query, keys, need_weights=True)
    assert_close((out.context, out.weights), (expected.context, expected.weights))
    assert layer.to_keys.out_features == 2 * num_key_heads


@pytest.mark.parametrize("lead", [(), (2,), (2, 3)], ids=len)
def test_any_leading_axes(lead: tuple[int, ...]) -> None:
    layer = MultiHead(8, num_heads=2).double()
    query, keys = double(*lead, 4, 8), double(*lead, 5, 8)
    for need_weights in (True, False):
        out = layer(query, keys, need_weights=need_weights)
        flat = layer(query.reshape(-1, 4, 8), keys.reshape(-1, 5, 8))
        assert_close(out.context, flat.context.reshape(*lead, 4, 8))
    assert layer(query, keys, need_weights=True).weights.shape == (*lead, 2, 4, 5)


@pytest.mark.parametrize("need_weights", [True, False])
def test_an_empty_batch(need_weights: bool) -> None:
    assert MultiHead(8, num_heads=2)(torch.zeros(0, 3, 8), need_weights=need_weights).context.shape == (0, 3, 8)


def test_arguments_default_to_each_other() -> None:
    layer = MultiHead(8, num_heads=2).double()
    x, keys = double(2, 4, 8), double(2, 5, 8)
    assert torch.equal(layer(x).context, layer(x, x, x).context)
    assert torch.equal(layer(x, keys).context, layer(x, keys, keys).context)
    assert layer(x).weights is None
    assert type(layer(x)) is AttentionOutput


def test_bias_and_previous_reach_the_heads() -> None:
    layer = MultiHead(8, num_heads=2, position=ALiBi(2)).double()
    bare = MultiHead(8, num_heads=2).double()
    bare.load_state_dict(layer.state_dict())
    x, bias = double(2, 4, 8), double(2, 4, 4)
    added = ALiBi(2)(double(2, 4, 4), double(2, 4, 4)).bias
    assert_close(layer(x, bias=bias).context, bare(x, bias=bias + added).context)
    assert_close(layer(x).context, bare(x, bias=added).context)


# ── step by step ────────────────────────────────────────────────────────────────────────────────────────────────────

POSITIONS: dict[str, Callable[[], nn.Module | None]] = {
    "none": lambda: None,
    "rotary": lambda: Rotary(),
    "alibi": lambda: ALiBi(4),
    "relative": lambda: Relative(4, 2),
}
SCORES: dict[str, Callable[[], nn.Module]] = {"scaled_dot": ScaledDot, "additive": lambda: Additive(2, 2, 5)}


@cases("need_weights", [True, False])
@cases("chunk", [1, 3])
@cases("score", SCORES)
@cases("num_key_heads", [4, 2])
@pytest.mark.parametrize("position", POSITIONS)
def test_cache_equals_the_whole_pass(
    position: str, num_key_heads: int, score: str, chunk: int, need_weights: bool
) -> None:
    if (position, score) == ("relative", "additive"):
        score = "scaled_dot"  # the only one that relative positions go with
    layer = MultiHead(
        8,
        num_heads=4,
        num_key_heads=num_key_heads,
        attention=Attention(SCORES[score]()),
        position=POSITIONS[position](),
    )
    randomize(layer).double()
    x = double(2, 7, 8)
    whole = layer(x, mask=Mask.causal()).context
    cache, contexts = Cache(), []
    for start in range(0, 7, chunk):
        out = layer(x[:, start : start + chunk], mask=Mask.causal(), cache=cache, need_weights=need_weights)
        cache = out.cache
        contexts.append(out.context)
    assert cache.length == 7
    assert cache.keys.shape == (2, num_key_heads, 7, 2)
    assert_close(torch.cat(contexts, 1), whole, rtol=1e-10, atol=1e-10)


def test_cache_reorder_follows_the_beam() -> None:
    layer = MultiHead(8, num_heads=2, num_key_heads=1).double()
    x, index = double(3, 4, 8), torch.tensor([2, 0, 0])
    cache = layer(x[:, :3], mask=Mask.causal(), cache=Cache()).cache.reorder(index)
    step = layer(x[index, 3:], mask=Mask.causal(), cache=cache)
    assert_close(step.context, layer(x[index], mask=Mask.causal()).context[:, 3:])


def test_no_cache_unless_asked() -> None:
    layer = MultiHead(8, num_heads=2)
    x = torch.randn(1, 3, 8)
    assert layer(x).cache is None
    assert isinstance(layer(x, cache=Cache()).cache, Cache)


@pytest.mark.parametrize("num_key_heads", [4, 2])
@pytest.mark.parametrize("score", [*SCORES, "cosine"])
def test_prepared_memory_equals_raw(score: str, num_key_heads: int) -> None:
    attention = Attention(Cosine(2.0) if score == "cosine" else SCORES[score]())
    layer = MultiHead(8, num_heads=4, num_key_heads=num_key_heads, key_dim=6, value_dim=10, attention=attention)
    layer = randomize(layer).double()
    query, keys, values = double(3, 5, 8), double(3, 6, 6), double(3, 6, 10)
    memory, mask, index = layer.prepare(keys, values), Mask.padding([6, 2, 4]), torch.tensor([1, 1, 0])
    assert isinstance(memory, Memory)
    for need_weights in (True, False):
        raw = layer(query, keys, values, mask=mask, need_weights=need_weights)
        out = layer(query, memory, mask=mask, need_weights=need_weights)
        assert_close(out.context, raw.context)
        picked = layer(query, memory.reorder(index), need_weights=need_weights)
        assert_close(picked.context, layer(query, keys[index], values[index]).context)


def test_prepared_memory_of_a_callable_score() -> None:
    layer = MultiHead(8, num_heads=2, attention=Attention(lambda query, keys: query @ keys.mT))
    query, keys = torch.randn(2, 3, 8), torch.randn(2, 5, 8)
    assert_close(layer(query, layer.prepare(keys)).context, layer(query, keys).context)


# ── training ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_learned_entmax_trains_every_head() -> None:
    align = Entmax(1.5, learned=True, num_heads=4)
    layer = MultiHead(8, num_heads=4, attention=Attention(align=align))
    optimizer = torch.optim.SGD(align.parameters(), lr=1.0)
    x, target = torch.randn(2, 6, 8), torch.randn(2, 6, 8)
    loss = (layer(x).context - target).square().sum()
    loss.backward()
    assert align.theta.grad.shape == (4, 1, 1)
    assert (align.theta.grad != 0).all()
    optimizer.step()
    assert align.alpha.flatten().unique().numel() == 4  # each head on its own way
    for parameter in layer.parameters():
        assert parameter.grad is not None


def test_dropout_is_off_in_evaluation() -> None:
    layer = MultiHead(8, num_heads=2, attention=Attention(dropout=0.5))
    clean = MultiHead(8, num_heads=2)
    clean.load_state_dict(layer.state_dict())
    x = torch.randn(2, 5, 8)
    for need_weights in (True, False):
        expected = clean(x, need_weights=need_weights)
        assert torch.equal(layer.eval()(x, need_weights=need_weights).context, expected.context)
        trained = layer.train()(x, need_weights=need_weights)
        assert not torch.allclose(trained.context, expected.context)
        assert trained.weights is None if not need_weights else torch.equal(trained.weights, expected.weights)


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("position", POSITIONS)
def test_the_future_does_not_change_the_past(position: str, need_weights: bool) -> None:
    layer = randomize(MultiHead(8, num_heads=4, position=POSITIONS[position]())).double()
    x = double(2, 6, 8)
    changed = x.clone()
    changed[:, 4:] += 1.0
    before = layer(x, mask=Mask.causal(), need_weights=need_weights).context
    after = layer(changed, mask=Mask.causal(), need_weights=need_weights).context
    assert_close(before[:, :4], after[:, :4], rtol=0, atol=1e-14)
    assert ((before[:, 4:] - after[:, 4:]).abs() > 1e-6).any(-1).all()


def test_module_can_be_copied_and_loaded() -> None:
    layer = randomize(MultiHead(8, num_heads=4, position=ALiBi(4), attention=Attention(Additive(2, 2, 3))))
    again = copy.deepcopy(layer)
    again.load_state_dict(layer.state_dict())
    x = torch.randn(1, 3, 8)
    assert torch.equal(again(x).context, layer(x).context)


# ── settings ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("sizes", "text"),
    [
        ({"dim": 8, "num_heads": 0}, "the number of heads"),
        ({"dim": 8, "num_heads": 2, "num_key_heads": 0}, "the number of heads"),
        ({"dim": 10, "num_heads": 4}, "num_heads does not divide dim.*use dim=8"),
        ({"dim": 0, "num_heads": 4}, "num_heads does not divide dim"),
        ({"dim": 8, "num_heads": 4, "num_key_heads": 3}, "num_key_heads does not divide num_heads"),
        ({"dim": 8, "num_heads": 4, "head_dim": 0}, "the widths of MultiHead: got dim=8, head_dim=0"),
    ],
    ids=str,
)
def test_sizes_that_do_not_fit(sizes: dict, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        MultiHead(**sizes)


@pytest.mark.parametrize("num_key_heads", [None, 1])
def test_heads_of_any_width(num_key_heads: int | None) -> None:
    layer = MultiHead(9, num_heads=2, head_dim=6, num_key_heads=num_key_heads)
    x = torch.randn(3, 5, 9)
    out = layer(x, mask=Mask.causal(), need_weights=True)
    assert out.context.shape == (3, 5, 9)
    assert out.weights.shape == (3, 2, 5, 5)
    query = layer.to_query(x)[..., 6:]  # the second head
    keys, values = (projection(x)[..., -6:] for projection in (layer.to_keys, layer.to_values))
    expected = (query @ keys.mT / 6**0.5).masked_fill(~Mask.causal().dense(5, 5), -torch.inf).softmax(-1)
    torch.testing.assert_close(out.weights[:, 1], expected)
    first = layer.to_output.weight[:, 6:] @ (expected @ values).mT
    rest = layer.to_output.weight[:, :6] @ (out.weights[:, 0] @ layer.to_values(x)[..., :6]).mT
    torch.testing.assert_close(out.context, (first + rest).mT + layer.to_output.bias)


def test_impl_is_said_once() -> None:
    assert MultiHead(8, num_heads=2, impl="reference").attention.impl == "reference"
    assert MultiHead(8, num_heads=2).attention.impl == "auto"
    with pytest.raises(ConfigError, match="impl is said twice"):
        MultiHead(8, num_heads=2, attention=Attention(), impl="sdpa")


def test_cache_and_positions_exclude_foreign_keys() -> None:
    x = torch.randn(1, 3, 8)
    with pytest.raises(ConfigError, match="keys=, cache= and earlier= exclude each other: got keys, cache"):
        MultiHead(8, num_heads=2)(x, x, cache=Cache())
    with pytest.raises(ConfigError, match="positions depend on the query: got Rotary"):
        MultiHead(8, num_heads=2, position=Rotary()).prepare(x)


@pytest.mark.parametrize("position", [None, "rotary", "alibi", "relative"])
def test_earlier_states_are_seen_but_do_not_ask(position: str | None) -> None:
    layer = randomize(MultiHead(8, num_heads=4, position=POSITIONS[position]() if position else None)).double()
    x = double(2, 7, 8)
    whole = layer(x, mask=Mask.causal(), need_weights=True)
    later = layer(x[:, 4:], earlier=x[:, :4], mask=Mask.causal(), need_weights=True)
    assert_close(later.context, whole.context[:, 4:])
    assert_close(later.weights, whole.weights[:, :, 4:])


def test_repr_names_the_sizes() -> None:
    assert "8, num_heads=4, num_key_heads=2" in repr(MultiHead(8, num_heads=4, num_key_heads=2))
    assert "num_key_heads" not in repr(MultiHead(8, num_heads=4))
