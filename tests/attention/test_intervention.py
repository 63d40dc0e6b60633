"""Interventions: heads off, uniform weights, weights of another input, forbidden keys; in any model, and gone again."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.testing import assert_close

from regard.attention import (
    Change,
    MakeUniform,
    MultiHead,
    Place,
    TakeWeights,
    forbid_keys,
    intervene,
    switch_off,
    trace,
)
from regard.base import ConfigError, RegardError, ShapeError


class Attention(nn.Module):
    """Grouped-query attention with an output projection; without the fused function it computes all by hand."""

    def __init__(self, dim: int = 8, heads: int = 4) -> None:
        super().__init__()
        self.heads, self.size = heads, dim // heads
        self.to_query, self.to_keys, self.to_values = (
            nn.Linear(dim, dim),
            nn.Linear(dim, dim // 2),
            nn.Linear(dim, dim // 2),
        )
        self.output = nn.Linear(dim, dim)

    def split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (-1, self.size)).transpose(-2, -3)

    def sides(self, x: Tensor) -> list[Tensor]:
        return [self.split(layer(x)) for layer in (self.to_query, self.to_keys, self.to_values)]

    def forward(self, x: Tensor) -> Tensor:
        context = F.scaled_dot_product_attention(*self.sides(x), is_causal=True, enable_gqa=True)
        return self.output(context.transpose(-2, -3).flatten(-2))

    def by_hand(self, x: Tensor, change: dict[int, Tensor]) -> Tensor:
        """The output with the weights of some heads replaced by a loop over heads."""
        query, keys, values = self.sides(x)
        hidden = torch.ones(x.shape[-2], x.shape[-2]).triu(1).bool()
        contexts = []
        for head in range(self.heads):
            scores = (query[:, head] @ keys[:, head // 2].mT) / self.size**0.5
            weights = change.get(head, scores.masked_fill(hidden, -torch.inf).softmax(-1))
            contexts.append(weights @ values[:, head // 2])
        return self.output(torch.cat(contexts, -1))


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = Attention(), nn.MultiheadAttention(8, 2), MultiHead(8, num_heads=2)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.first(x)
        y = x.transpose(0, 1)
        x = x + self.second(y, y, y)[0].transpose(0, 1)
        return x + self.third(x).context


def test_a_head_that_is_off_equals_zeroed_columns_of_the_output_projection() -> None:
    model, x = Model(), torch.randn(3, 5, 8)
    plain = model(x)
    for name, projection, heads in (("first", "output", 4), ("second", "out_proj", 2), ("third", "to_output", 2)):
        layer = getattr(model, name)
        for head in range(heads):
            with intervene(model, name, switch_off, heads=[head]):
                output = model(x)
            kept = getattr(layer, projection)
            size = 8 // heads
            with torch.no_grad():
                weight = kept.weight.clone()
                kept.weight[:, head * size : (head + 1) * size] = 0.0
                expected = model(x)
                kept.weight.copy_(weight)
            assert_close(output, expected, rtol=0, atol=1e-6)
            assert (output - plain).abs().max() > 1e-3
    assert torch.equal(model(x), plain)  # nothing is left


def test_changes_against_a_loop_by_hand() -> None:
    layer, x, other = Attention(), torch.randn(2, 5, 8), torch.randn(2, 5, 8)
    with trace(layer) as seen:
        layer(x)
    with trace(layer) as elsewhere:
        layer(other)
    weights, others = (torch.from_numpy(each[0].weights) for each in (seen, elsewhere))
    uniform = torch.ones(5, 5).tril() / torch.arange(1, 6)[:, None]
    without = weights.clone()
    without[..., [0, 3]] = 0.0
    without = torch.nan_to_num(without / without.sum(-1, keepdim=True))
    assert without[:, :, 0].eq(0).all()  # the first query may see the first key alone
    cases = [
        (MakeUniform(), dict.fromkeys((1, 2), uniform)),
        (TakeWeights(elsewhere), {head: others[:, head] for head in (1, 2)}),
        (forbid_keys([0, -2]), {head: without[:, head] for head in (1, 2)}),
        (lambda given: given.flip(-1), {head: weights[:, head].flip(-1) for head in (1, 2)}),
        (switch_off, {head: torch.zeros(5, 5) for head in (1, 2)}),
    ]
    for change, replaced in cases:
        with intervene(layer, "*", change, heads=[2, -3]):
            assert_close(layer(x), layer.by_hand(x, replaced), rtol=0, atol=1e-6)
    with intervene(layer, "*", MakeUniform()):  # all heads
        assert_close(layer(x), layer.by_hand(x, dict.fromkeys(range(4), uniform)), rtol=0, atol=1e-6)
    with intervene(layer, "*", TakeWeights(seen)):
        assert_close(layer(x), layer.by_hand(x, {}), rtol=0, atol=1e-6)


def test_other_heads_and_layers_compute_what_they_always_do() -> None:
    model, x = Model(), torch.randn(2, 5, 8)
    contexts: list[Tensor] = []
    handle = model.first.output.register_forward_pre_hook(lambda _, inputs: contexts.append(inputs[0]))
    plain = model(x)
    with intervene(model, "first", switch_off, heads=[0]):
        model(x)
    handle.remove()
    assert torch.equal(contexts[0][..., 2:], contexts[1][..., 2:])
    assert contexts[1][..., :2].eq(0).all()
    with intervene(model, "second", lambda weights: weights):
        assert_close(model(x), plain, rtol=0, atol=1e-6)


def test_gradients_go_through_a_change() -> None:
    layer, x = Attention().double(), torch.randn(1, 4, 8, dtype=torch.float64, requires_grad=True)

    def soften(weights: Tensor) -> Tensor:
        return 0.5 * weights + 0.5 * weights.mean(-1, keepdim=True)

    def changed(x: Tensor) -> Tensor:
        with intervene(layer, "*", soften, heads=[1, 2]):
            return layer(x)

    assert torch.autograd.gradcheck(changed, (x,))


def test_nested_interventions_and_a_trace_around() -> None:
    model, x = Model(), torch.randn(2, 5, 8)
    with intervene(model, "first", switch_off, heads=[0]), intervene(model, "first", switch_off, heads=[3]):
        both = model(x)
    with intervene(model, "first", switch_off, heads=[0, 3]):
        assert_close(model(x), both, rtol=0, atol=1e-6)
    with trace(model) as around, intervene(model, "*", switch_off), trace(model) as inside:
        model(x)
    assert list(around) == list(inside) == ["first", "second", "third"]


def test_nothing_is_left_after_an_error() -> None:
    model, x = Model(), torch.randn(2, 5, 8)
    plain = model(x)

    def broken(weights: Tensor) -> Tensor:
        raise KeyError("broken")

    with pytest.raises(KeyError, match="broken"), intervene(model, "second", broken):
        model(x)
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    assert torch._C._len_torch_function_stack() == 0
    assert torch.backends.mha.get_fastpath_enabled()
    assert torch.equal(model(x), plain)


def test_weights_that_a_layer_returns_are_the_changed_ones() -> None:
    layer, x = nn.MultiheadAttention(8, 2, batch_first=True), torch.randn(2, 5, 8)
    for average in (True, False):
        with intervene(layer, "*", MakeUniform()):
            _, weights = layer(x, x, x, average_attn_weights=average)
        assert_close(weights, torch.full((2, 5, 5) if average else (2, 2, 5, 5), 0.2))
    single = x[0]
    with intervene(layer, "*", switch_off, heads=[1]):
        context, _ = layer(single, single, single)
    assert context.shape == single.shape


def test_a_change_knows_its_place() -> None:
    places = []

    class Note(Change):
        def change(self, weights: Tensor, place: Place) -> Tensor:
            places.append((place.name, place.heads, place.call, None if place.allowed is None else place.allowed.shape))
            return weights

    model, x = Model(), torch.randn(2, 5, 8)
    with intervene(model, "*", Note(), heads=[-1]):
        model(x)
        model(x)
    first, second, third = ("first", [3], (5, 5)), ("second", [1], None), ("third", [1], None)
    expected = [(name, heads, call, shape) for call in (0, 1) for name, heads, shape in (first, second, third)]
    assert places == expected


def test_mistakes() -> None:
    model, x = Model(), torch.randn(2, 5, 8)
    with trace(model, layers="first", heads=[1]) as seen:
        model(x)
    for layers, change, heads, kind, message in (
        ("fourth", switch_off, None, ConfigError, r"no layer has this name: got 'fourth'.*first"),
        ("*.output", switch_off, None, ConfigError, r"got '\*\.output'; expected a pattern for first, second, third"),
        (
            "first",
            switch_off,
            [9],
            ConfigError,
            r"these heads: got \[9\]; expected numbers from -4 to 3, in first",
        ),
        (
            "first",
            lambda weights: weights[..., :1],
            None,
            ShapeError,
            r"the changed weights of first: got \[2, 4, 5, 1\]",
        ),
        ("second", TakeWeights(seen), None, ConfigError, r"no weights of this layer: got second; expected first"),
        ("first", TakeWeights(seen), [0], ConfigError, r"has no such heads: got \[0\]; expected \[1\]"),
        ("first", forbid_keys([7]), None, ConfigError, r"forbid_keys: got \[7\]; expected numbers from -5 to 4"),
    ):
        with pytest.raises(kind, match=message), intervene(model, layers, change, heads=heads):
            model(x)
    with pytest.raises(ShapeError, match="do not fit"), intervene(model, "first", TakeWeights(seen), heads=[1]):
        model(x[:, :3])
    slow = MultiHead(8, num_heads=2, impl="reference")
    wrapped = nn.ModuleDict({"attention": slow})
    with pytest.raises(RegardError, match="cannot be changed: got attention"), intervene(wrapped, "*", switch_off):
        wrapped["attention"](x)
