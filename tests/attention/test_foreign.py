"""Models that are not ours under a trace: seen as they are, unchanged, and what cannot be seen is said."""

import importlib.util
import random
import warnings
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.testing import assert_close

from regard.attention import MultiHead, attend, intervene, switch_off, trace
from regard.attention.foreign import has_foreign_modules
from regard.attention.layer_stack import modules_of
from regard.base import RegardError


class Own(nn.Module):
    """Attention as people write it: projections, and torch's fused function in the middle."""

    def __init__(self, dim: int = 8, heads: int = 4, key_heads: int = 2) -> None:
        super().__init__()
        self.heads, self.key_heads, size = heads, key_heads, dim // heads
        self.projection = nn.Linear(dim, size * (heads + 2 * key_heads))
        self.sizes = [size * heads, size * key_heads, size * key_heads]

    def sides(self, x: Tensor) -> list[Tensor]:
        parts = self.projection(x).split(self.sizes, -1)
        numbers = (self.heads, self.key_heads, self.key_heads)
        return [part.unflatten(-1, (number, -1)).transpose(-2, -3) for part, number in zip(parts, numbers, strict=True)]

    def forward(self, x: Tensor) -> Tensor:
        context = F.scaled_dot_product_attention(*self.sides(x), is_causal=True, enable_gqa=True)
        return x + context.transpose(-2, -3).flatten(-2)

    def by_hand(self, x: Tensor) -> Tensor:
        """The weights, by a loop over heads."""
        query, keys, _ = self.sides(x)
        hidden = torch.ones(x.shape[-2], x.shape[-2]).triu(1).bool()
        heads = []
        for head in range(self.heads):
            scores = query[..., head, :, :] @ keys[..., head // 2, :, :].mT / query.shape[-1] ** 0.5
            heads.append(scores.masked_fill(hidden, -torch.inf).softmax(-1))
        return torch.stack(heads, -3)


class Eager(nn.Module):
    """An attention that returns a bias and its weights beside the context, as T5 does; or hides the weights."""

    def __init__(self, returns: bool = True) -> None:
        super().__init__()
        self.returns, self.bias = returns, nn.Parameter(torch.randn(1, 2, 5, 5))

    def forward(self, x: Tensor) -> Any:
        heads = x.unflatten(-1, (2, -1)).transpose(-2, -3)
        weights = (heads @ heads.mT + self.bias).softmax(-1)
        context = (weights @ heads).transpose(-2, -3).flatten(-2)
        return (context, self.bias, weights) if self.returns else context


class Stack(nn.Module):
    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            out = layer(x)
            x = out[0] if isinstance(out, tuple) else out
        return x


class EagerAttention(Eager):
    """The same under a name that says what it is."""


def test_own_code_is_seen_and_not_changed() -> None:
    model, x = nn.Sequential(Own(), Stack(Own(), Own())), torch.randn(3, 6, 8)
    plain = model(x)
    with trace(model, rows=list("abcdef")) as seen:
        output = model(x)
    assert torch.equal(output, plain)
    assert list(seen) == ["0", "1.layers.0", "1.layers.1"]
    assert_close(torch.from_numpy(seen["0"].weights), model[0].by_hand(x).detach(), rtol=0, atol=1e-6)
    assert seen["0"].key_heads == [0, 0, 1, 1]
    assert seen["0"].axes == ("b", "h", "q", "k")
    assert seen["0"].item(1).rows == list("abcdef")
    with trace(model, layers="1.*", heads=[3, 1], rows=[-1]) as some:
        model(x)
    assert list(some) == ["1.layers.0", "1.layers.1"]
    np.testing.assert_allclose(some[1].weights, seen[2].weights[:, [3, 1]][:, :, [-1]], atol=1e-6)
    assert (some[1].head_numbers, some[1].key_heads, some[1].queries) == ([3, 1], [1, 0], [5])


def test_gradients_and_random_numbers_are_the_same() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.3, batch_first=True)  # in training
    x = torch.randn(2, 5, 8, requires_grad=True)
    results = []
    for traced in (False, True):
        torch.manual_seed(1)
        if traced:
            with trace(layer) as seen:
                output = layer(x)
        else:
            output = layer(x)
        results.append((output, *torch.autograd.grad(output.square().sum(), [x, *layer.parameters()])))
    assert all(torch.equal(first, second) for first, second in zip(*results, strict=True))
    np.testing.assert_allclose(seen["self_attn"].weights.sum(-1), 1, atol=1e-6)  # before dropout


@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")
def test_stacks_of_torch_and_their_fast_path() -> None:
    """`nn.Transformer` in training and evaluation; every layer, for any masks; the switch is as it was afterwards."""
    rng = random.Random(3)
    for first in (True, False):
        model = nn.Transformer(8, 2, 2, 2, 16, dropout=0.0, batch_first=first).eval()
        source, target = torch.randn(3, 6, 8), torch.randn(3, 4, 8)
        sides = (source, target) if first else (source.transpose(0, 1), target.transpose(0, 1))
        padding = torch.tensor([[rng.random() < 0.3 and place > 2 for place in range(6)] for _ in range(3)])
        options = {"src_key_padding_mask": padding, "memory_key_padding_mask": padding}
        options["tgt_mask"] = nn.Transformer.generate_square_subsequent_mask(4)
        with torch.no_grad():
            plain = model(*sides, **options)
            for enabled in (True, False):
                torch.backends.mha.set_fastpath_enabled(enabled)
                with trace(model) as seen:
                    output = model(*sides, **options)
                assert torch.backends.mha.get_fastpath_enabled() is enabled
            torch.backends.mha.set_fastpath_enabled(True)
        assert_close(output, plain, rtol=0, atol=1e-6)
        assert list(seen) == [
            "encoder.layers.0.self_attn", "encoder.layers.1.self_attn",
            "decoder.layers.0.self_attn", "decoder.layers.0.multihead_attn",
            "decoder.layers.1.self_attn", "decoder.layers.1.multihead_attn",
        ]  # fmt: skip
        assert seen["decoder.layers.1.multihead_attn"].weights.shape == (3, 2, 4, 6)
        x = source if first else source.transpose(0, 1)
        _, expected = model.encoder.layers[0].self_attn(x, x, x, key_padding_mask=padding, average_attn_weights=False)
        assert_close(torch.from_numpy(seen[0].weights), expected.detach(), rtol=0, atol=1e-6)
        assert not seen["decoder.layers.0.self_attn"].weights[:, :, 0, 1:].any()


def test_layers_of_ours_are_recorded_once() -> None:
    """Inside of a model that is not ours, beside attention that is not ours, and in traces inside of each other."""

    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.ours, self.theirs = MultiHead(8, num_heads=2), Own()

        def forward(self, x: Tensor) -> Tensor:
            x = self.theirs(self.ours(x).context)
            return attend(x, x, x).context

    model, x = Both(), torch.randn(2, 5, 8)
    with trace(model) as outer, trace(model) as inner:
        model(x)
    for seen in (outer, inner):
        assert {name: len(record.calls) for name, record in seen.items()} == {"ours": 1, "theirs": 1, "both": 1}
        assert not seen.unseen
    for each, foreign in (
        (model, True),
        (nn.Sequential(nn.Sequential(MultiHead(8, num_heads=2)), nn.Linear(8, 8)), False),
        (nn.Sequential(nn.MultiheadAttention(8, 2)), True),
    ):
        assert has_foreign_modules(modules_of(each)) == foreign


def test_eager_layers_give_the_weights_that_they_return() -> None:
    model, x = Stack(EagerAttention(), Own(), EagerAttention()).eval(), torch.randn(3, 5, 8)
    _, _, expected = model.layers[0](x)
    with trace(model) as seen:
        model(x)
        model(x)
    assert list(seen) == ["layers.0", "layers.1", "layers.2"]  # in the order in which they ran
    assert len(seen["layers.0"].calls) == 2
    np.testing.assert_array_equal(seen["layers.0"].calls[1], expected.detach().numpy())
    with trace(model, layers="layers.0", rows=[2], heads=[1]) as some:
        model(x)
    np.testing.assert_array_equal(some[0].weights, expected[:, [1]][:, :, [2]].detach().numpy())


def test_several_calls_in_one_module_stay_apart() -> None:
    class Two(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            x = F.scaled_dot_product_attention(x, x, x)
            return F.scaled_dot_product_attention(x, x[..., :2, :], x[..., :2, :])

    model, x = Two(), torch.randn(2, 3, 5, 4)
    with trace(model) as seen:
        model(x)
        model(x)
        F.scaled_dot_product_attention(x, x, x)  # outside of any module
    shapes = {name: [call.shape for call in record.calls] for name, record in seen.items()}
    assert shapes == {
        "two": [(2, 3, 5, 5)] * 2,
        "two:1": [(2, 3, 5, 2)] * 2,
        "scaled_dot_product_attention": [(2, 3, 5, 5)],
    }
    with trace(model, layers="two:*") as some:
        model(x)
    assert list(some) == ["two:1"]


def test_nothing_is_left_when_the_model_raises() -> None:
    class Broken(Own):
        def forward(self, x: Tensor) -> Tensor:
            super().forward(x)
            raise KeyError("broken")

    model, x = Stack(Own(), Broken()), torch.randn(2, 5, 8)
    with pytest.raises(KeyError, match="broken"), trace(model) as seen:
        model(x)
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    assert torch.backends.mha.get_fastpath_enabled()
    assert torch._C._len_torch_function_stack() == 0
    assert list(seen) == ["layers.0", "layers.1"]  # what ran before is there
    model.layers[0](x)
    assert len(seen["layers.0"].calls) == 1


def test_what_cannot_be_seen_is_said() -> None:
    model, x = Stack(Own(), EagerAttention(returns=False)), torch.randn(3, 5, 8)
    message = r"no weights of 1 attention modules \(it attends by other.*layers\.1\. flex"
    with pytest.warns(UserWarning, match=message), trace(model) as seen:
        model(x)
    assert seen.unseen == {"layers.1": "it attends by other functions"}
    assert list(seen) == ["layers.0"]
    with trace(model, layers="layers.0") as seen:  # nobody asked for the other one
        model(x)
    assert not seen.unseen
    with pytest.warns(UserWarning, match="no module that may attend ran in the block"), trace(model):
        pass
    with trace(model, layers="layers.0"):
        pass


def test_calls_whose_weights_cannot_be_made() -> None:
    model, x = Own(), torch.randn(2, 5, 8)
    plain = model(x)
    with pytest.warns(UserWarning, match="inside of a transform of torch.func"), trace(model) as seen:
        output = torch.func.vmap(model)(x)
    assert_close(output, plain)
    assert list(seen.unseen) == ["own"]
    with pytest.raises(RegardError, match="a trace of meta tensors"), trace(model):
        model.to("meta")(x.to("meta"))


def test_a_checkpoint_is_recorded_once() -> None:
    from torch.utils.checkpoint import checkpoint

    model, x = Own(), torch.randn(2, 5, 8, requires_grad=True)
    with trace(model) as seen:
        checkpoint(model, x, use_reentrant=False).sum().backward()
    assert len(seen[0].calls) == 1
    assert x.grad is not None


@pytest.mark.bare
def test_compiled_models_and_flex_attention_say_so() -> None:
    from torch.nn.attention.flex_attention import flex_attention

    class FlexAttention(Own):
        def forward(self, x: Tensor) -> Tensor:
            return flex_attention(*self.sides(x), enable_gqa=True).transpose(-2, -3).flatten(-2)

    model, x = Stack(Own(), FlexAttention()), torch.randn(2, 5, 8)
    with warnings.catch_warnings(record=True) as said, torch.no_grad():
        warnings.simplefilter("always")
        with trace(model) as seen:
            model(x)
    assert list(seen) == ["layers.0"]
    assert seen.unseen == {"layers.1": "it attends by other functions"}
    assert any("1 attention modules" in str(each.message) for each in said)

    class SelfAttention(Own):
        pass

    model = Stack(SelfAttention(), SelfAttention())
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    plain = compiled(x)
    with pytest.warns(UserWarning, match=r"it is compiled.*set_stance\('force_eager'\)"), trace(compiled) as seen:
        output = compiled(x)
    assert torch.equal(output, plain)
    assert list(seen.unseen) == ["_orig_mod.layers.0", "_orig_mod.layers.1"]
    with torch.compiler.set_stance("force_eager"), trace(compiled) as seen:
        compiled(x)
    assert list(seen) == ["_orig_mod.layers.0", "_orig_mod.layers.1"]
    model.layers[0].compile(backend="eager", fullgraph=True)  # a part of it, in the other way
    before = model.layers[0]._compiled_call_impl
    with pytest.warns(UserWarning, match="it is compiled"), trace(model) as seen:
        assert torch.equal(model(x), plain)
    assert (list(seen), list(seen.unseen)) == (["layers.1"], ["layers.0"])
    assert model.layers[0]._compiled_call_impl is before
    assert torch._C._len_torch_function_stack() == 0
    with pytest.raises(RegardError, match=r"cannot be changed: got layers\.0"), intervene(model, "*", switch_off):
        model(x)


@pytest.mark.bare
@pytest.mark.filterwarnings("ignore")
def test_a_compiled_function_inside_of_a_model_runs() -> None:
    function = torch.compile(lambda query, keys, values: F.scaled_dot_product_attention(query, keys, values) * 2.0,
                             backend="eager")  # fmt: skip

    class CompiledAttention(Own):
        def forward(self, x: Tensor) -> Tensor:
            query, keys, values = self.sides(x)
            keys, values = (side.repeat_interleave(2, -3) for side in (keys, values))
            return function(query, keys, values).transpose(-2, -3).flatten(-2)

    model, x = Stack(CompiledAttention()), torch.randn(2, 5, 8)
    plain = model(x)
    with trace(model) as seen:
        assert torch.equal(model(x), plain)
    assert [*seen, *seen.unseen] == ["layers.0"]  # this backend calls torch's functions again, others do not
    assert torch.equal(model(x), plain)


@pytest.mark.bare
@pytest.mark.filterwarnings("ignore")
def test_vision_transformers_of_timm_and_torchvision() -> None:
    for package in ("transformers", "timm", "torchvision"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    from tiny_transformers import import_transformers

    import_transformers()
    import timm
    from torchvision.models import VisionTransformer

    timms = timm.models.vision_transformer.VisionTransformer(
        img_size=8, patch_size=4, embed_dim=16, depth=2, num_heads=4, num_classes=3
    ).eval()
    others = VisionTransformer(8, 4, 2, 4, 16, 32, num_classes=3).eval()
    picture = torch.randn(2, 3, 8, 8)
    for model, names in (
        (timms, ["blocks.0.attn", "blocks.1.attn"]),
        (others, [f"encoder.layers.encoder_layer_{number}.self_attention" for number in (0, 1)]),
    ):
        plain = model(picture)
        with trace(model) as seen:
            output = model(picture)
        assert torch.equal(output, plain)
        assert list(seen) == names
        assert seen[0].weights.shape == (2, 4, 5, 5)
    first = timms.blocks[0].attn
    tokens = timms.blocks[0].norm1(timms._pos_embed(timms.patch_embed(picture)))
    query, keys, _ = first.qkv(tokens).unflatten(-1, (3, 4, 4)).permute(2, 0, 3, 1, 4)
    with trace(timms) as seen:
        timms(picture)
    assert_close(torch.from_numpy(seen[0].weights), (query @ keys.mT / 2).softmax(-1).detach(), rtol=0, atol=1e-5)
