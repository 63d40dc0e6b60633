"""The weights of one fused call: those that torch's own functions use, for any arguments, rows and heads."""

import random
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.testing import assert_close

from regard.attention import fused_call
from regard.attention.fused_call import of_multi_head, of_sdpa


def identity(keys: Tensor) -> Tensor:
    """Values that give the weights back: the context of the identity is the weights."""
    num_keys = keys.shape[-2]
    return torch.eye(num_keys, dtype=keys.dtype).expand(*keys.shape[:-2], num_keys, num_keys)


def random_mask(rng: random.Random, shape: list[int]) -> Tensor | None:
    """None, a boolean mask or numbers with −∞; some axes of 1 serve all; every row sees the first key."""
    kind = rng.choice(["none", "boolean", "numbers"])
    if kind == "none":
        return None
    size = [each if rng.random() < 0.6 else 1 for each in shape[:-1]] + shape[-1:]
    size = size[rng.randrange(len(size) - 1) :]
    mask = torch.rand(size) < 0.6
    mask[..., 0] = True
    return mask if kind == "boolean" else torch.randn(size).masked_fill(~mask, -torch.inf)


def test_weights_of_scaled_dot_product_attention() -> None:
    """Random calls: heads or none, shared key heads, masks of both kinds, causal, scales, rows and heads."""
    rng = random.Random(5)
    for _ in range(120):
        queries, num_keys, width = rng.randint(1, 6), rng.randint(1, 7), rng.randint(1, 5)
        group, key_heads = rng.choice([1, 1, 2, 3]), rng.randint(1, 2)
        lead = rng.choice([[], [2], [2, key_heads]])
        group = group if len(lead) == 2 else 1
        heads = [*lead[:-1], lead[-1] * group] if lead else []
        query, keys = torch.randn(*heads, queries, width), torch.randn(*lead, num_keys, width)
        causal = rng.random() < 0.3
        options: dict[str, Any] = {"is_causal": causal, "scale": rng.choice([None, 0.3]), "enable_gqa": group > 1}
        options["attn_mask"] = None if causal else random_mask(rng, [*heads, queries, num_keys])
        expected = F.scaled_dot_product_attention(query, keys, identity(keys), **options)
        call = of_sdpa(query, keys, identity(keys), **options)
        assert call.num_heads == (heads[-1] if len(lead) == 2 else None)
        assert_close(call.weights(), expected, rtol=0, atol=1e-6)
        assert_close(call.context(call.whole_weights()), expected, rtol=0, atol=1e-6)
        rows = [rng.randrange(queries) for _ in range(rng.randint(0, 3))]
        some = [rng.randrange(heads[-1]) for _ in range(2)] if len(lead) == 2 else None
        part = expected[..., rows, :]
        part = part if some is None else part[..., some, :, :]
        assert_close(call.weights(rows, some), part, rtol=0, atol=1e-6)
        assert call.key_heads(some) == (None if group == 1 else [head // group for head in some or ()])
        if some is not None:
            changed = call.context(call.whole_weights(some), some)
            assert_close(changed, expected[..., some, :, :], rtol=0, atol=1e-6)
        allowed = call.allowed()
        if allowed is not None:
            assert torch.equal(allowed.expand(expected.shape), expected > 0)


@pytest.mark.parametrize("batched", [True, False])
def test_weights_of_multi_head_attention(batched: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that `nn.MultiheadAttention` can be told: own widths, added keys, masks of both kinds, padding."""
    rng, calls = random.Random(7), []
    function = F.multi_head_attention_forward
    monkeypatch.setattr(F, "multi_head_attention_forward", lambda *a, **o: calls.append((a, o)) or function(*a, **o))
    for _ in range(30):
        heads, batch, queries, num_keys = rng.randint(1, 3), rng.randint(1, 3), rng.randint(1, 5), rng.randint(2, 6)
        own = rng.random() < 0.5
        layer = nn.MultiheadAttention(
            6 * heads, heads, bias=rng.random() < 0.7, add_bias_kv=rng.random() < 0.4, add_zero_attn=rng.random() < 0.4,
            kdim=5 if own else None, vdim=4 if own else None, batch_first=True,
        )  # fmt: skip
        lead = [batch] if batched else []
        query = torch.randn(*lead, queries, 6 * heads)
        keys, values = (torch.randn(*lead, num_keys, width if own else 6 * heads) for width in (5, 4))
        values = values if own else keys
        padding = torch.rand(*lead, num_keys) < 0.4
        padding[..., 0] = False
        hidden = torch.rand(*([batch * heads] if batched and rng.random() < 0.5 else []), queries, num_keys) < 0.3
        hidden[..., 0] = False
        if rng.random() < 0.5:
            hidden = torch.randn(hidden.shape).masked_fill(hidden, -torch.inf)
            padding = torch.zeros(padding.shape).masked_fill(padding, -torch.inf)
        options = {
            "key_padding_mask": padding if rng.random() < 0.6 else None,
            "attn_mask": hidden if rng.random() < 0.6 else None,
        }
        calls.clear()
        context, expected = layer(query, keys, values, average_attn_weights=False, **options)
        [(args, given)] = calls
        call = of_multi_head(*args, **given)
        assert call.num_heads == heads
        assert_close(call.weights(), expected, rtol=0, atol=2e-6)
        joined = call.context(call.whole_weights()).transpose(-2, -3).flatten(-2)
        assert_close(F.linear(joined, layer.out_proj.weight, layer.out_proj.bias), context, rtol=0, atol=2e-6)
        rows, some = [queries - 1], [0]
        assert_close(call.weights(rows, some), expected[..., some, :, :][..., rows, :], rtol=0, atol=2e-6)


def test_rules_of_torch_that_hold_no_numbers() -> None:
    from torch.nn.attention.bias import causal_lower_right, causal_upper_left

    query, keys = torch.randn(2, 3, 4, 5), torch.randn(2, 3, 6, 5)
    for rule in (causal_lower_right(4, 6), causal_upper_left(4, 6)):
        expected = F.scaled_dot_product_attention(query, keys, identity(keys), attn_mask=rule)
        assert_close(of_sdpa(query, keys, identity(keys), attn_mask=rule).weights(), expected, rtol=0, atol=1e-6)


def test_an_empty_row_has_weights_of_zero() -> None:
    query, keys = torch.randn(1, 2, 3, 4), torch.randn(1, 2, 5, 4)
    mask = torch.ones(3, 5, dtype=torch.bool)
    mask[1] = False
    for given in (mask, torch.zeros(3, 5).masked_fill(~mask, -torch.inf)):
        weights = of_sdpa(query, keys, keys, attn_mask=given).weights()
        assert weights[:, :, 1].eq(0).all()
        assert_close(weights[:, :, [0, 2]].sum(-1), torch.ones(1, 2, 2))


def test_blocks_of_rows_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    query, keys = torch.randn(2, 4, 9, 5), torch.randn(2, 2, 9, 5)
    call = of_sdpa(query, keys, keys, is_causal=True, enable_gqa=True)
    expected, chosen = call.weights(), call.weights([8, 0, 3, 5], [3, 1])
    monkeypatch.setattr(fused_call, "AT_ONCE", 150)
    assert_close(call.weights(), expected)
    assert_close(call.weights([8, 0, 3, 5], [3, 1]), chosen)
    assert_close(chosen, expected[:, [3, 1]][:, :, [8, 0, 3, 5]])


def test_half_precision_adds_in_float32() -> None:
    """The weights are nearer to those of float64 than what the same formula gives in bfloat16."""
    query, keys = (4 * torch.randn(2, 4, 30, 16)).bfloat16(), torch.randn(2, 4, 30, 16).bfloat16()
    exact = (query.double() @ keys.double().mT / 4).softmax(-1)
    eager = (query @ keys.mT / 4).softmax(-1, dtype=torch.float32).bfloat16()
    call = of_sdpa(query, keys, keys)
    assert call.weights().dtype == torch.float32
    assert (call.weights() - exact).abs().max() < 1e-5 < (eager - exact).abs().max()
    assert call.context(call.weights()).dtype == torch.bfloat16
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert_close(of_sdpa(query.float(), keys.float(), keys.float()).weights(), call.weights())


def test_a_layer_costs_few_operations() -> None:
    """Counted, so that the cost of a trace cannot grow unnoticed: the second layer has the rule of the first one."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Count(TorchDispatchMode):
        names: list[str]

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            self.names.append(func.overloadpacket.__name__)
            return func(*args, **(kwargs or {}))

    memo: dict[Any, Tensor] = {}
    for causal in (True, False):
        for turn in range(2):
            query, keys = torch.randn(1, 4, 9, 8), torch.randn(1, 2, 9, 8)
            call = of_sdpa(query, keys, keys, is_causal=causal, enable_gqa=True)
            with torch.no_grad(), Count() as count:
                count.names = []
                weights = call.weights([2, 8], None, memo)
            assert_close(weights, call.whole_weights()[:, :, [2, 8]], rtol=0, atol=3e-7)
            views = {"view", "_unsafe_view", "transpose", "alias", "detach"}
            names = [name for name in count.names if name not in views]
            assert turn == 0 or names == ["index_select", "baddbmm", "_softmax"]


def test_nothing_of_all_pairs_is_made_for_one_row() -> None:
    """A row of one head of 4,096 queries over 4,096 keys: no operation makes more numbers than the keys have."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Largest(TorchDispatchMode):
        most = 0

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            is_view = isinstance(result, Tensor) and result._base is not None
            if isinstance(result, Tensor) and not is_view:
                self.most = max(self.most, result.numel())
            return result

    query, keys = torch.randn(1, 4, 4096, 8), torch.randn(1, 2, 4096, 8)
    with torch.no_grad(), Largest() as seen:
        call = of_sdpa(query, keys, keys, is_causal=True, enable_gqa=True)
        weights = call.weights([-1 % 4096], [3])
    assert weights.shape == (1, 1, 1, 4096)
    assert 4096 <= seen.most <= keys.numel()
    assert_close(weights[0, 0, 0], (keys[0, 1] @ query[0, 3, -1] / 8**0.5).softmax(-1), rtol=0, atol=1e-6)
