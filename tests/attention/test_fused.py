"""Fused paths through `attend` against the reference: every mask, leading axes, gradients, temperature, empty rows."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from regard.align import Softmax
from regard.attention import Attention, Mask, MultiHead, attend, fused
from regard.base import MaskError
from regard.score import Additive, Concat, Projected, ScaledDot, Score

Q, K = 6, 7
MASKS: dict[str, Any] = {
    "none": None,
    "causal": Mask.causal(),
    "padding": Mask.padding([7, 0, 4]),
    "window": Mask.window(2, 1),
    "all three": Mask.window(3, 1) & Mask.padding([7, 3, 1]) & Mask.causal(),
    "padding of every head": Mask.padding(torch.tensor([[7, 3], [1, 2], [0, 7]])),
    "queries": Mask.query_padding([5, 0, 3]),
    "either": Mask.causal() | Mask.block(2),
    "dense": Mask.of(torch.rand(3, 2, Q, K, generator=torch.Generator().manual_seed(0)) > 0.5),
    "dense, for all": torch.rand(Q, K, generator=torch.Generator().manual_seed(1)) > 0.5,
    "dense keys": torch.rand(3, 1, K, generator=torch.Generator().manual_seed(1)) > 0.5,
}
SCORES = {
    "additive": lambda: Additive(5, 6, 4),
    "concat": lambda: Concat(5, 6, 4),
    "projected": lambda: Projected(Additive(4, 4, 3), 5, 6, 4),
}


def example(*lead: int) -> tuple[Tensor, Tensor, Tensor]:
    sizes = (Q, 5), (K, 6), (K, 3)
    return tuple(torch.randn(*lead, *size, dtype=torch.float64, requires_grad=True) for size in sizes)  # type: ignore[return-value]


def results(impl: str, score: Score, given: tuple[Tensor, ...], **options: Any) -> list[Tensor]:
    """The context, and the gradients of inputs and parameters."""
    context = attend(*given, score=score, need_weights=False, impl=impl, **options).context
    outer = torch.randn(context.shape, generator=torch.Generator().manual_seed(2), dtype=context.dtype)
    return [context, *torch.autograd.grad(context, [*given, *score.parameters()], outer)]


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("score", SCORES)
def test_blocked_is_the_reference(score: str, mask: Any) -> None:
    made, given = SCORES[score]().double(), example(3, 2)
    options = {"mask": mask, "align": Softmax(0.6)}
    for found, expected in zip(
        *(results(impl, made, given, **options) for impl in ("blocked", "reference")), strict=True
    ):
        assert_close(found, expected)


@pytest.mark.parametrize("lead", [(), (1,), (2, 1, 3)], ids=str)
def test_leading_axes(lead: tuple[int, ...]) -> None:
    made, given = SCORES["additive"]().double(), example(*lead)
    for found, expected in zip(*(results(impl, made, given) for impl in ("blocked", "reference")), strict=True):
        assert_close(found, expected)


def test_keys_that_all_sentences_share() -> None:
    made = SCORES["additive"]().double()
    query, (_, keys, values) = example(3, 2)[0], example()
    given = query, keys, values
    for found, expected in zip(*(results(impl, made, given) for impl in ("blocked", "reference")), strict=True):
        assert_close(found, expected)
    prepared = made.prepare(keys)
    assert_close(
        attend(query, prepared, values, score=made, impl="blocked").context, attend(*given, score=made).context
    )


def test_lengths_beyond_the_keys_are_refused() -> None:
    with pytest.raises(MaskError, match="a length is beyond the keys"):
        attend(*example(2), score=SCORES["additive"]().double(), mask=Mask.padding([7, 8]), impl="blocked")
    with pytest.raises(MaskError, match="does not fit"):
        attend(*example(2), score=SCORES["additive"]().double(), mask=Mask.padding([7, 7, 7]), impl="blocked")


def test_dropout_acts_on_the_weights_alone() -> None:
    torch.manual_seed(0)
    score, (query, keys, _) = Additive(5, 6, 4), (part.detach().float() for part in example(400))
    values = torch.ones(400, K, 1)
    layer = Attention(score, dropout=0.25, impl="blocked")
    sums = layer(query, keys, values, need_weights=False).context
    assert sums.std() > 0.05
    assert_close(sums.mean(), torch.tensor(1.0), rtol=0, atol=0.02)
    assert_close(layer.eval()(query, keys, values).context, torch.ones(400, Q, 1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_dtypes(dtype: torch.dtype) -> None:
    score, given = Additive(5, 6, 4).to(dtype), [part.detach().to(dtype) for part in example(3)]
    found = attend(*given, score=score, mask=Mask.padding([7, 2, 0]), impl="blocked")
    exact = attend(
        *(part.double() for part in given), score=score.double(), mask=Mask.padding([7, 2, 0]), impl="reference"
    )
    assert found.context.dtype == dtype
    assert_close(
        found.context.double(), exact.context, atol=8 * torch.finfo(dtype).eps, rtol=8 * torch.finfo(dtype).eps
    )
    assert found.weights is not None
    assert exact.weights is not None
    assert_close(
        found.weights.double(), exact.weights, atol=4 * torch.finfo(dtype).eps, rtol=4 * torch.finfo(dtype).eps
    )


def test_heads_with_an_additive_score() -> None:
    layer = MultiHead(8, num_heads=2, attention=Attention(Additive(4, 4, 5), impl="blocked")).double()
    x = torch.randn(2, 6, 8, dtype=torch.float64)
    found = layer(x, mask=Mask.causal()).context
    layer.attention.impl = "reference"
    assert_close(found, layer(x, mask=Mask.causal()).context)


def test_the_same_through_the_fused_dot() -> None:
    given = example(3, 2)
    query, keys, values = given[0], given[1][..., :5], given[2]
    for name, mask in MASKS.items():
        both = [
            attend(query, keys, values, score=ScaledDot(), mask=mask, impl=impl).context
            for impl in ("sdpa", "reference")
        ]
        assert_close(*both, msg=name)


@pytest.mark.parametrize("lead", [(), (3,), (3, 2), (3, 1, 2)], ids=str)
@pytest.mark.parametrize("name", ["queries", "dense keys", "dense, for all", "window", "padding"])
def test_a_mask_has_all_its_keys_where_a_kernel_reads_them(
    name: str, lead: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One number for all keys is a row of stride 0, which kernels on a GPU read past its end."""
    if not lead and name in ("queries", "dense keys", "padding"):
        return
    given: list[Tensor] = []

    def spy(*sides: Tensor, attn_mask: Tensor, **rest: Any) -> Tensor:
        given.append(attn_mask)
        return kernel(*sides, attn_mask=attn_mask, **rest)

    kernel = torch.nn.functional.scaled_dot_product_attention
    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", spy)
    query, keys, values = (torch.randn(*lead, n, 4) for n in (Q, K, K))
    found = attend(query, keys, values, mask=MASKS[name], need_weights=False, impl="sdpa").context
    assert [mask.shape[-1] for mask in given] == [K]
    assert given[0].ndim == 4
    assert_close(found, attend(query, keys, values, mask=MASKS[name], impl="reference").context)


def test_causal_attention_to_more_keys_needs_no_mask_where_a_kernel_does_without(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As in half precision on a GPU: torch gets a rule in place of a tensor; first and second derivatives agree."""
    torch.manual_seed(0)
    sides = [torch.randn(2, 3, n, 4, dtype=torch.float64, requires_grad=True) for n in (4, 7, 7)]
    asked_for: list[tuple[int, int]] = []

    def spy(queries: int, keys: int) -> Tensor:
        asked_for.append((queries, keys))
        return rule(queries, keys)

    rule = fused._lower_right
    monkeypatch.setattr(fused, "_lower_right", spy)
    assert not fused._reads_lower_right(4, 7, torch.bfloat16, torch.device("cpu"))
    cuda = torch.device("cuda")
    asked = [(4, 7, torch.bfloat16), (7, 4, torch.bfloat16), (1, 7, torch.bfloat16), (4, 7, torch.float32)]
    assert [fused._reads_lower_right(*sizes, cuda) for sizes in asked] == [True, False, False, False]
    monkeypatch.setattr(fused, "_reads_lower_right", lambda queries, keys, *_: 1 < queries < keys)
    results = []
    for impl in ("sdpa", "reference"):
        context = attend(*sides, mask=Mask.causal(), need_weights=False, impl=impl).context
        first = torch.autograd.grad(context.square().sum(), sides, create_graph=True)
        second = torch.autograd.grad(sum(grad.square().sum() for grad in first), sides)
        results.append((context, *first, *second))
    assert asked_for == [(4, 7)]
    for ours, theirs in zip(*results, strict=True):
        assert_close(ours, theirs)
