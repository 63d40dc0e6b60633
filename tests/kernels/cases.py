"""Fused additive attention against the reference, case by case: on a GPU, or anywhere with TRITON_INTERPRET=1.

`child.py` runs this file in a process of its own, since Triton reads that variable when it is imported.
"""

import math
import os
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from regard.attention import Mask, attend
from regard.base import ConfigError, ImplementationUnavailable, ShapeError
from regard.kernels import fused_additive, fused_additive_with_weights, reasons_against_triton, single_query
from regard.kernels.single_query import fused_single_dot
from regard.kernels.steps import FusedSteps, _Step
from regard.models import Bahdanau, BahdanauConfig, Luong, LuongConfig
from regard.nn.step_attention import StepAttention
from regard.score import Additive, Cosine, Dot, ScaledDot
from regard.score.additive import additive
from regard.score.dot import dot

pytestmark = [
    pytest.mark.filterwarnings("ignore:.* encountered in :RuntimeWarning"),  # numpy, of what is masked after
    pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS:UserWarning"),  # its first call in a thread
]

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cpu" if INTERPRETED else "cuda"
ROUNDING = {torch.float32: 3e-6, torch.float16: 2e-3, torch.bfloat16: 2e-2}
NAMES = ("query", "keys", "values", "v")


def inputs(
    n: int = 2, q: int = 18, k: int = 21, a: int = 10, d: int = 7, *, dtype: Any = torch.float32, scale: float = 1.0
) -> list[Tensor]:
    shapes = ((n, q, a), (n, k, a), (n, k, d), (a,))
    tensors = [torch.randn(shape, device=DEVICE) for shape in shapes]
    return [(x * scale if i < 2 else x).to(dtype) for i, x in enumerate(tensors)]


def mask_of(rules: dict[str, Any]) -> Mask | None:
    masks = [Mask.causal()] if rules.get("causal") else []
    masks += [Mask.padding(rules["lengths"])] if "lengths" in rules else []
    masks += [Mask.window(*rules["window"])] if "window" in rules else []
    masks += [Mask.of(rules["allowed"])] if "allowed" in rules else []
    result: Mask | None = None
    for mask in masks:
        result = mask if result is None else result & mask
    return result


def reference(
    tensors: list[Tensor], grad: Tensor, rules: dict[str, Any]
) -> tuple[Tensor, Tensor, Tensor, list[Tensor]]:
    """Context, weights, scores and gradients, in the dtype of `tensors`."""
    query, keys, values, v = (x.detach().requires_grad_() for x in tensors)
    scores = additive(query, keys, v)
    out = attend(
        query, keys, values, score=lambda query, keys: additive(query, keys, v), mask=mask_of(rules), impl="reference"
    )
    gradients = torch.autograd.grad(out.context, (query, keys, values, v), grad.to(out.context.dtype))
    return out.context, out.weights, scores, list(gradients)


def fused(tensors: list[Tensor], grad: Tensor, rules: dict[str, Any]) -> tuple[Tensor, Tensor, list[Tensor]]:
    leaves = [x.detach().requires_grad_() for x in tensors]
    context, log_sum = fused_additive(*leaves, **rules)
    assert context.dtype == tensors[2].dtype
    assert log_sum.dtype == torch.float32
    assert not log_sum.requires_grad
    return context, log_sum, list(torch.autograd.grad(context, leaves, grad))


def near(name: str, found: Tensor, eager: Tensor, exact: Tensor, rounding: float) -> None:
    """At most twice as far from the truth as plain PyTorch in the same dtype."""
    assert torch.isfinite(found).all(), name
    error, allowed = ((x.double() - exact).abs().max().item() for x in (found, eager))
    floor = rounding * max(1.0, exact.abs().max().item())
    assert error <= 2.0 * allowed + floor, f"{name}: {error:.2e}, eager {allowed:.2e}"


def check(tensors: list[Tensor], *, of_scores: float = 3e-6, **rules: Any) -> None:
    """Context, weights and gradients; scores may be off by `of_scores` where those of plain PyTorch are not."""
    rounding = ROUNDING[tensors[2].dtype]
    grad = torch.randn(*tensors[0].shape[:2], tensors[2].shape[2], device=DEVICE).to(tensors[2].dtype)
    exact = reference([x.double() for x in tensors], grad, rules)
    eager = reference(tensors, grad, rules)
    context, log_sum, gradients = fused(tensors, grad, rules)
    near("context", context, eager[0], exact[0], rounding)
    seen = exact[1].sum(-1) > 0
    assert torch.equal(log_sum == -torch.inf, ~seen)
    weights = torch.where(exact[1] > 0, (exact[2] - log_sum.double().unsqueeze(-1)).exp(), 0.0)
    near("weights", weights, eager[1], exact[1], of_scores)
    for name, *three in zip(NAMES, gradients, eager[3], exact[3], strict=True):
        near(name, *three, rounding)
    assert (context[~seen] == 0).all()
    assert (gradients[0][~seen] == 0).all()


@pytest.mark.slow
@pytest.mark.parametrize("q", [pytest.param(1, id="single"), pytest.param(40, id="many")])
@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_no_further_off_than_twice_plain_pytorch(q: int, scale: float) -> None:
    """Without any floor: the root of the mean square over three draws, since of one alone luck would decide."""
    torch.manual_seed(0)
    errors: dict[str, list[tuple[float, float]]] = {}
    for _ in range(3):
        tensors = inputs(16 if q == 1 else 1, q, 50, 16, 8, scale=scale)
        tensors[3] /= 4
        grad = torch.randn(len(tensors[0]), q, 8, device=DEVICE)
        exact, eager = reference([x.double() for x in tensors], grad, {}), reference(tensors, grad, {})
        context, _, gradients = fused(tensors, grad, {})
        for name, found, plain, true in zip(
            ("context", *NAMES), (context, *gradients), (eager[0], *eager[3]), (exact[0], *exact[3]), strict=True
        ):
            off = [((x.double() - true).norm() / true.norm()).item() for x in (found, plain)]
            errors.setdefault(name, []).append((off[0], off[1]))
    for name, pairs in errors.items():
        found, plain = (math.hypot(*each) for each in zip(*pairs, strict=True))
        assert 0.0 < found <= 2.0 * plain, f"{name}: {found:.2e}, plain PyTorch {plain:.2e}"


SIZES = [(2, 18, 21, 10, 7), (1, 2, 1, 1, 1), (1, 17, 40, 24, 3)]


@pytest.mark.parametrize("sizes", SIZES)
def test_many_sizes(sizes: tuple[int, ...]) -> None:
    check(inputs(*sizes))


@pytest.mark.parametrize("dtype", [torch.float32, pytest.param(torch.bfloat16, marks=pytest.mark.slow)], ids=str)
def test_many_large_scores(dtype: torch.dtype) -> None:
    """Σ|v| beyond where scores are summed plainly, and safe to raise as they are: all go the careful way."""
    torch.manual_seed(0)
    tensors = inputs(2, 18, 40, 22, 7, dtype=dtype)
    tensors[3] *= 2
    check(tensors, causal=True)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_many_half(dtype: torch.dtype) -> None:
    check(inputs(dtype=dtype))


def test_many_mixed() -> None:
    query, keys, values, v = inputs(1, dtype=torch.float16)
    check([query, keys, values.float(), v.float()])


@pytest.mark.parametrize("scale", [4.0, pytest.param(30.0, marks=pytest.mark.slow)])
def test_many_large(scale: float) -> None:
    check(inputs(scale=scale))


def test_many_large_and_opposite() -> None:
    query, keys, values, v = inputs(1, 3, 5)
    check([query + 25.0, keys - 24.0, values, v])
    one = torch.arange(10, device=DEVICE) == 3
    check([query + 100.0 * one, keys - 99.0 * one, values, v])
    turns = torch.tensor([1.0, -1.0, 1.0, -1.0, -1.0], device=DEVICE)[:, None]
    check([query + 30.0, keys + 30.0 * turns, values, v])


@pytest.mark.parametrize("v", [[0.0] * 6, [1.0, 0.0, -1e-12, 3.0, 1e-6, 0.5]])
def test_many_small_v(v: list[float]) -> None:
    query, keys, values, _ = inputs(1, 3, 5, 6)
    check([query, keys, values, torch.tensor(v, device=DEVICE)])


def allowed(*shape: int) -> Tensor:
    return torch.rand(*shape, device=DEVICE) < 0.6


RULES: dict[str, Any] = {
    "causal": lambda: {"causal": True},
    "window": lambda: {"window": (4, 1), "lengths": torch.tensor([0, 13], device=DEVICE)},
    "causal window": lambda: {"window": (3, 9), "causal": True},
    "dense": lambda: {"allowed": allowed(2, 18, 21), "causal": True},
    "rows": lambda: {"allowed": allowed(1, 18, 21) & (torch.arange(18, device=DEVICE) != 4)[:, None]},
    "columns": lambda: {"allowed": allowed(2, 1, 21), "lengths": torch.tensor([21, 1], device=DEVICE).int()},
}


@pytest.mark.parametrize("name", RULES)
def test_many_rules(name: str) -> None:
    check(inputs(), **RULES[name]())


@pytest.fixture
def series(monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """Scores of bfloat16 are made of sines, however few they are; the numbers of terms of all calls."""
    from regard.kernels import series

    counts: list[Tensor] = []
    fill = series.fill

    def watched(*arguments: Any, **options: Any) -> Tensor:
        counts.append(fill(*arguments, **options))
        return counts[-1]

    monkeypatch.setattr(series, "fill", watched)
    monkeypatch.setattr(series, "SMALLEST_WORK", 0)
    monkeypatch.setattr(series, "FEWEST_KEYS", 1)
    return counts


@pytest.mark.parametrize("name", ["plain", *(pytest.param(name, marks=pytest.mark.slow) for name in RULES)])
def test_series_rules(name: str, series: list[Tensor]) -> None:
    torch.manual_seed(0)
    check(inputs(dtype=torch.bfloat16), of_scores=1e-2, **(RULES[name]() if name in RULES else {}))
    assert all((count > 0).all() for count in series)
    assert series


@pytest.mark.parametrize("sizes", [(1, 2, 1, 1, 1), pytest.param((3, 150, 290, 40, 24), marks=pytest.mark.slow)])
def test_series_sizes(sizes: tuple[int, ...], series: list[Tensor]) -> None:
    torch.manual_seed(0)
    check(inputs(*sizes, dtype=torch.bfloat16), of_scores=1e-2)
    assert series


QUICK = (3, 12)  # of the seeds: their cases are small


@pytest.mark.parametrize("seed", [pytest.param(n, marks=[pytest.mark.slow] * (n not in QUICK)) for n in range(16)])
def test_series_random(seed: int, series: list[Tensor]) -> None:
    """Any sizes, one row or key too few for a tile or one too many, views, sizes of inputs, masks and lengths."""
    torch.manual_seed(seed)
    draw = torch.Generator().manual_seed(seed)

    def one_of(*choices: Any) -> Any:
        return choices[int(torch.randint(len(choices), (), generator=draw))]

    n, q, k = one_of(1, 2, 3), one_of(2, 15, 31, 33, 64, 65), one_of(1, 2, 16, 63, 65, 90)
    a, d = one_of(1, 3, 31, 32, 33, 64, 70), one_of(1, 5, 16, 33)
    query, keys, values, v = inputs(n, q, k, a, d, dtype=torch.bfloat16, scale=one_of(0.1, 1.0, 1.0, 2.0, 20.0))
    query, keys = (x.transpose(0, 1).contiguous().transpose(0, 1) if one_of(True, False) else x for x in (query, keys))
    if one_of(True, False):
        values = values.new_zeros(n, k, 2 * d)[..., ::2].copy_(values)
    rules: dict[str, Any] = {}
    if one_of(True, False):
        rules["lengths"] = torch.randint(0, k + 1, (n,), generator=draw).to(DEVICE)
    if one_of(True, False):
        rules["causal"] = True
    if one_of(True, False, False):
        rules["window"] = one_of((0, 0), (7, 2), (40, 40))
    if one_of(True, False, False):
        rules["allowed"] = allowed(one_of(1, n), one_of(1, q), k)
    check([query, keys, values, v / math.sqrt(a)], of_scores=1e-2, **rules)
    assert series


def test_series_scores(series: list[Tensor]) -> None:
    """Each tanh within one rounding of bfloat16; items of any size, rows far apart, and features of any weight."""
    from regard.kernels import masks, tiled

    torch.manual_seed(0)
    query, keys, _, v = inputs(7, 33, 70, 40, 1, dtype=torch.bfloat16)
    sizes = torch.tensor([0.0, 0.01, 1.0, 1.5, 2.5, 8.0, 1.0], device=DEVICE)[:, None, None]
    query, keys = query * sizes.bfloat16(), keys * sizes.bfloat16()
    query[6], keys[6] = query[6] + 30.0, keys[6] - 30.0  # whose sums are small
    v[::3] *= 1e-3
    rules = masks.rules(query, keys, None, None, None, 1 << 30, 1 << 30, 0.0)
    scores, _ = tiled.score_tiles(query, keys, v, rules, 37, tiled.blocks(33, 70, 40, 1), for_gradients=False)
    exact = torch.tanh(query.double().unsqueeze(2) + keys.double().unsqueeze(1)) @ v.double()
    error = (scores[:, :33, :70] - exact).abs().amax((1, 2)) / v.double().norm()
    assert (error < 2.0**-8).all(), error
    (counts,) = series
    assert counts[5] == 0
    assert (counts[[0, 1, 2, 3, 4, 6]] > 0).all()
    assert counts[0] < counts[2] < counts[4] <= 24


@pytest.mark.parametrize("splits", [1, pytest.param(6, marks=pytest.mark.slow)])
def test_series_gradients_of_items_of_any_size(
    splits: int, series: list[Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An item that needs too many terms takes the other kernels, and the others are not disturbed."""
    from regard.kernels import series_gradients

    monkeypatch.setattr(series_gradients, "PROGRAMS", 3 * splits)
    torch.manual_seed(0)
    query, keys, values, v = inputs(3, 17, 21, 10, 5, dtype=torch.bfloat16)
    sizes = torch.tensor([0.3, 12.0, 1.5], device=DEVICE)[:, None, None]
    query, keys = query * sizes.bfloat16(), keys * sizes.bfloat16()
    check([query, keys, values, v / 2], of_scores=1e-2, lengths=torch.tensor([21, 15, 9], device=DEVICE))
    assert [[count > 0 for count in counts.tolist()] for counts in series] == [[True, False, True]]


def test_series_of_what_is_not_finite(series: list[Tensor]) -> None:
    """Padding may hold anything; an infinite query attends as tanh says; what is undefined stays in its own row."""
    torch.manual_seed(0)
    query, keys, values, v = inputs(3, 20, 30, 16, 8, dtype=torch.bfloat16)
    keys[0, 11:], keys[1, 29] = math.inf, math.nan
    query[2, 4, 0] = -math.inf
    query[1, 3] = math.nan
    lengths = torch.tensor([11, 29, 30], device=DEVICE)
    context, _ = fused_additive(query, keys, values, v, lengths=lengths)
    assert context[1, 3].isnan().all()
    context[1, 3] = 0.0
    assert context.isfinite().all()
    (counts,) = series
    assert counts[0] > 0
    assert counts[2] == 0
    doubles = [x.double() for x in (query, keys, values, v)]
    exact = attend(
        *doubles[:3], score=lambda query, keys: additive(query, keys, doubles[3]), mask=Mask.padding(lengths)
    ).context
    exact[1, 3] = 0.0
    assert (context.double() - exact).abs().max() < 2e-2


def test_many_causal_with_few_keys() -> None:
    check(inputs(1, 6, 3), causal=True)


@pytest.mark.parametrize("scale", [1.0, pytest.param(30.0, marks=pytest.mark.slow)])
def test_many_tiles_and_chunks(scale: float) -> None:
    """Three tiles along each axis, a chunk for each tile of queries, walks that are split."""
    from regard.kernels import gradients, masks, tiled

    tensors = inputs(1, 40, 35, 6, 20, scale=scale)
    tensors[3][2:] *= 0.1
    rules = {"lengths": torch.tensor([33], device=DEVICE), "window": (20, 9)}
    blocks = tiled.Blocks(
        queries=16,
        keys=16,
        mix_queries=16,
        mix_keys=16,
        own=16,
        mean_queries=16,
        mean_keys=16,
        features=16,
        chunk=16 * 48,
        backward_chunk=16 * 48,
    )
    grad = torch.randn(1, 40, 20, device=DEVICE)
    around = masks.Rules(lengths=rules["lengths"], before=20, after=9)
    context, log_sum, _ = tiled.forward(*tensors, around, blocks)
    found = gradients.backward(grad, *tensors, log_sum, around, blocks)
    exact, eager = reference([x.double() for x in tensors], grad, rules), reference(tensors, grad, rules)
    near("context", context, eager[0], exact[0], 3e-6)
    for name, *three in zip(NAMES, found, eager[3], exact[3], strict=True):
        near(name, *three, 3e-6)


def test_many_with_split_keys() -> None:
    """Few queries and many keys: parts of the keys are looked at side by side, one of them empty for some rows."""
    from regard.kernels import masks, tiled

    tensors = inputs(2, 5, 150, 4, 6)
    rules = {"lengths": torch.tensor([150, 0], device=DEVICE), "window": (70, 3)}
    blocks = tiled.Blocks(queries=16, keys=32, mix_queries=16, mix_keys=16, programs=8)
    around = masks.Rules(lengths=rules["lengths"], before=70, after=3)
    context, log_sum, _ = tiled.forward(*tensors, around, blocks)
    grad = torch.ones(2, 5, 6, device=DEVICE)
    exact, eager = reference([x.double() for x in tensors], grad, rules), reference(tensors, grad, rules)
    near("context", context, eager[0], exact[0], 3e-6)
    assert context[1].count_nonzero() == 0
    assert log_sum[1].eq(-torch.inf).all()


@pytest.mark.slow
def test_many_chunks_change_nothing() -> None:
    """Chunks of one item, and of half its rows, draw the same noise and see the same keys."""
    from regard.kernels import gradients, masks, tiled

    tensors, seed = inputs(2, 20, 18, 3, 4), torch.tensor([7], device=DEVICE)
    mask = allowed(2, 20, 18)
    rules = masks.rules(tensors[0], tensors[1], None, mask, seed, 15, 9, 0.5)
    context, log_sum, _ = tiled.forward(*tensors, rules)
    blocks = tiled.Blocks(queries=16, keys=32, own=16, mean_queries=16, mean_keys=16, features=16)
    whole, *others = (
        gradients.backward(context, *tensors, log_sum, rules, replace(blocks, backward_chunk=size))
        for size in (2**20, 1024, 512)
    )
    for some in others:
        for name, one, other in zip(NAMES, whole, some, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6, msg=name)


@pytest.mark.parametrize("q", [pytest.param(1, id="single"), pytest.param(6, id="many")])
def test_dropout(q: int) -> None:
    n, k, p = 3 if q > 1 else 8, 24, 0.25
    seed = torch.tensor([11], device=DEVICE)
    query, keys, values, v = inputs(n, q, k, 4, k)
    eye = torch.eye(k, device=DEVICE).expand(n, k, k)
    plain, log_sum = fused_additive(query, keys, eye, v)
    dropped, same = fused_additive(query, keys, eye, v, dropout=p, seed=seed)
    assert torch.equal(log_sum, same)
    kept = dropped > 0
    assert abs(kept.float().mean().item() - (1 - p)) < 4 * (p * (1 - p) / kept.numel()) ** 0.5
    torch.testing.assert_close(dropped, torch.where(kept, plain / (1 - p), 0.0), rtol=1e-5, atol=1e-7)
    assert not torch.equal(kept[0], kept[1])
    other, _ = fused_additive(query, keys, eye, v, dropout=p)  # from torch's generator
    assert not torch.equal(other > 0, kept)
    grad = torch.randn(n, q, k, device=DEVICE)
    _, _, found = fused([query, keys, values, v], grad, {"dropout": p, "seed": seed})
    leaves = [x.double().requires_grad_() for x in (query, keys, values, v)]
    weights = torch.softmax(additive(leaves[0], leaves[1], leaves[3]), -1)
    exact = torch.autograd.grad((weights * kept / (1 - p)) @ leaves[2], leaves, grad.double())
    for name, one, two in zip(NAMES, found, exact, strict=True):
        torch.testing.assert_close(one.double(), two, rtol=1e-4, atol=2e-5, msg=name)
    without, _ = fused_additive(query, keys, eye, v, dropout=0.0, seed=seed)
    assert torch.equal(without, plain)


@pytest.mark.parametrize("q", [pytest.param(1, id="single"), pytest.param(3, id="many")])
def test_odd_memory(q: int) -> None:
    """Transposed, sliced and expanded inputs; an expanded gradient; results in memory full of NaN."""
    query, keys, values, v = inputs(2, q, 5)
    strange = [
        query.transpose(1, 2).contiguous().transpose(1, 2),
        keys[:1].expand(2, -1, -1),
        torch.cat([values, values], -1)[..., :7],
        torch.stack([v, v], -1)[:, 0],
    ]
    plain = [query, keys[:1].repeat(2, 1, 1), values, v]
    ones = torch.ones(2, q, 7, device=DEVICE)
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)  # fills what torch.empty gives
    try:
        assert torch.empty(1, device=DEVICE).isnan()
        found = fused(strange, ones[:1, :1, :1].expand_as(ones), {})
    finally:
        torch.use_deterministic_algorithms(before)
    wanted = fused(plain, ones, {})
    assert torch.equal(found[0], wanted[0])
    assert torch.equal(found[1], wanted[1])
    for name, one, two in zip(NAMES, found[2], wanted[2], strict=True):
        assert torch.equal(one, two), name  # twice the same, bit by bit


@pytest.mark.parametrize("q", [pytest.param(1, id="single"), pytest.param(2, id="many")])
def test_not_a_number_is_not_hidden(q: int) -> None:
    query, keys, values, v = inputs(1, q, 3, 4, 2)
    for scale in (1.0, 5.0, 40.0):
        broken = query * scale
        broken[0, 0, 1] = torch.nan
        context, log_sum = fused_additive(broken, keys * scale, values, v)
        assert log_sum[0, 0].isnan()
        assert context[0, 0].isnan().all()
        assert torch.isfinite(context[0, 1:]).all()


@pytest.mark.slow
@pytest.mark.parametrize("q", [pytest.param(1, id="single"), pytest.param(2, id="many")])
def test_operations_are_whole(q: int) -> None:
    query, keys, values, v = (x.requires_grad_() for x in inputs(1, q, 3, 4, 2))
    lengths, seed = torch.tensor([2], device=DEVICE), torch.tensor([3], device=DEVICE)
    forward, backward = torch.ops.regard.additive_forward, torch.ops.regard.additive_backward
    rest = (lengths, torch.ones(1, 1, 3, dtype=torch.bool, device=DEVICE), seed, 9, 9, 0.2)
    torch.library.opcheck(forward, (query, keys, values, v, *rest))
    shapes = ("test_schema", "test_faketensor")  # what no query may see is not written, and so need not repeat
    for keep in (False, True):
        torch.library.opcheck(forward, (query, keys, values, v, *rest, False, keep), test_utils=shapes)
        context, log_sum, sums, weights = forward(query, keys, values, v, *rest, False, keep)
        assert sums.shape == ((1, 2) if q == 1 else (1, 16, 16) if keep else (0, 2))
        saved = [x.detach() for x in (context, query, keys, values, v, context, log_sum, sums)]
        torch.library.opcheck(backward, (*saved, *rest), test_utils=shapes)
    assert weights.numel() == 0
    torch.library.opcheck(forward, (query, keys, values, v, *rest, True))
    *_, weights = forward(query, keys, values, v, *rest, True)
    given = (*saved, *rest, weights.detach())
    torch.library.opcheck(backward, given, test_utils=shapes)


def test_autocast_leaves_it_alone() -> None:
    tensors, grad = inputs(1, 2, 3, 4, 2), torch.ones(1, 2, 2, device=DEVICE)
    wanted = fused(tensors, grad, {})
    with torch.autocast(DEVICE, torch.bfloat16):
        found = fused(tensors, grad, {})
    for one, two in zip(found[2], wanted[2], strict=True):
        assert torch.equal(one, two)


def test_nothing_to_do() -> None:
    query, keys, values, v = inputs(2, 3, 4)
    for empty in ([query[:0], keys[:0], values[:0], v], [query, keys[:, :0], values[:, :0], v]):
        context, log_sum, gradients = fused(empty, torch.ones(*empty[0].shape[:2], 7, device=DEVICE), {})
        assert (context == 0).all()
        assert (log_sum == -torch.inf).all()
        assert all((gradient == 0).all() for gradient in gradients)


def test_bad_input() -> None:
    query, keys, values, v = inputs(2, 3, 4)
    assert reasons_against_triton(DEVICE, query, keys, values) == []
    with pytest.raises(ShapeError, match=r"keys does not fit: got \[2, 4, 9\]; expected \[2, 4, 10\]"):
        fused_additive(query, keys[..., :9], values, v)
    with pytest.raises(ShapeError, match=r"values does not fit"):
        fused_additive(query, keys, values[:, :3], v)
    with pytest.raises(ShapeError, match="lengths does not fit"):
        fused_additive(query, keys, values, v, lengths=torch.tensor([1, 2, 3], device=DEVICE))
    with pytest.raises(ConfigError, match="window"):
        fused_additive(query, keys, values, v, window=(-1, 0))
    with pytest.raises(ConfigError, match=r"dropout: got 1\.5"):
        fused_additive(query, keys, values, v, dropout=1.5)
    with pytest.raises(ImplementationUnavailable, match=r"values are torch.float64.*Try: use blocked_additive"):
        fused_additive(query, keys, values.double(), v)


# ── one query ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("sizes", [(2, 1, 21, 10, 7), (1, 1, 1, 1, 1), (2, 1, 600, 3, 20)])
def test_single_sizes(sizes: tuple[int, ...]) -> None:
    check(inputs(*sizes))


def test_single_wide() -> None:
    query, keys, values, v = inputs(2, 1, 9, 300, 520)
    check([query, keys, values, v / 300**0.5], lengths=torch.tensor([5, 9], device=DEVICE))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_single_half(dtype: torch.dtype) -> None:
    check(inputs(2, 1, dtype=dtype))


def test_single_large() -> None:
    check(inputs(2, 1, scale=30.0))
    query, keys, values, v = inputs(2, 1)
    check([query + 100.0, keys - 99.0, values, v])


def test_single_rules() -> None:
    check(inputs(2, 1), causal=True, lengths=torch.tensor([0, 13], device=DEVICE))
    check(inputs(2, 1), window=(4, 1), lengths=torch.tensor([19, 21], device=DEVICE))
    check(inputs(2, 1), allowed=allowed(2, 1, 21))
    check(inputs(2, 1), allowed=allowed(1, 1, 21), window=(15, 0))


def test_single_padding_is_not_read() -> None:
    query, keys, values, v = inputs(3, 1, 37)
    seen = torch.arange(37, device=DEVICE) < torch.tensor([16, 0, 34], device=DEVICE)[:, None, None]
    hidden = ~seen.mT
    seen[2, :, 3:9] = False  # a gap is no padding
    holes = [side.masked_fill(hidden, torch.nan) for side in (keys, values)]
    whole, _ = fused_additive(query, keys, values, v, allowed=seen)
    found, _ = fused_additive(query, *holes, v, allowed=seen)
    assert torch.equal(found, whole)
    assert found[1].count_nonzero() == 0
    assert torch.equal(
        fused_single_dot(query, *holes, allowed=seen), fused_single_dot(query, keys, values, allowed=seen)
    )


def dot_reference(tensors: list[Tensor], grad: Tensor, scale: float, rules: dict[str, Any]) -> list[Tensor]:
    query, keys, values = (x.detach().requires_grad_() for x in tensors)
    score = lambda query, keys: scale * dot(query, keys)  # noqa: E731
    context = attend(query, keys, values, score=score, mask=mask_of(rules), impl="reference").context
    return [context, *torch.autograd.grad(context, (query, keys, values), grad.to(context.dtype))]


@pytest.mark.parametrize("kind", [Dot, ScaledDot, Cosine])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_single_dot_with_weights_of_a_step(kind: Any, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    true_one = single_query.single_dot_with_weights

    def counting(*given: Tensor, **rules: Any) -> tuple[Tensor, Tensor]:
        made.append(1)
        return true_one(*given, **rules)

    monkeypatch.setattr(single_query, "single_dot_with_weights", counting)
    query, keys, values, _ = inputs(3, 1, 37, dtype=dtype)
    lengths = torch.tensor([37, 5, 0], device=DEVICE)
    dense = allowed(3, 1, 37)
    dense[1] = False
    for mask in (None, Mask.padding(lengths), Mask.of(dense)):
        exact = attend(query.double(), keys.double(), values.double(), score=kind(), mask=mask)
        with torch.no_grad():
            found = attend(query, keys, values, score=kind(), mask=mask)
        close = 3e-2 if dtype == torch.bfloat16 else 1e-5
        assert_close(found.context.double(), exact.context, rtol=close, atol=close)
        assert found.weights is not None
        assert exact.weights is not None
        assert found.weights.dtype == dtype
        assert_close(found.weights.double(), exact.weights, rtol=close, atol=close)
        assert (found.weights[exact.weights == 0] == 0).all()
    assert len(made) == 3
    attend(query.requires_grad_(), keys, values, score=kind()).context.sum().backward()  # which needs another way
    assert len(made) == 3


@pytest.mark.parametrize(
    ("sizes", "dtype", "rules"),
    [
        ((2, 1, 21, 10, 7), torch.float32, {}),
        ((1, 1, 1, 1, 1), torch.float32, {}),
        ((2, 1, 9, 300, 520), torch.float32, {"lengths": [5, 9]}),
        ((3, 1, 40, 24, 8), torch.bfloat16, {"allowed": True}),
        ((2, 1, 6, 8, 16), torch.float16, {"lengths": [6, 0]}),
        ((2, 1, 21, 4, 3), torch.float32, {"window": (4, 1), "causal": True}),
    ],
)
def test_single_dot(sizes: tuple[int, ...], dtype: torch.dtype, rules: dict[str, Any]) -> None:
    tensors = inputs(*sizes, dtype=dtype)[:3]
    rules = {"lengths": torch.tensor(rules["lengths"], device=DEVICE)} if "lengths" in rules else dict(rules)
    rules = {"allowed": allowed(sizes[0], 1, sizes[2])} if "allowed" in rules else rules
    grad = torch.randn(sizes[0], 1, sizes[4], device=DEVICE).to(dtype)
    exact, eager = (dot_reference(x, grad, 0.3, rules) for x in ([x.double() for x in tensors], tensors))
    leaves = [x.detach().requires_grad_() for x in tensors]
    context = fused_single_dot(*leaves, scale=0.3, **rules)
    found = [context, *torch.autograd.grad(context, leaves, grad)]
    for name, *three in zip(("context", *NAMES), found, eager, exact, strict=False):
        near(name, *three, ROUNDING[dtype])
    if 0 in (rules.get("lengths") if "lengths" in rules else [1]):
        assert all(part[-1].count_nonzero() == 0 for part in found)


def test_single_dot_is_whole_and_refuses_what_it_cannot_do() -> None:
    query, keys, values = (x.requires_grad_() for x in inputs(2, 1, 3, 4, 2)[:3])
    rest = (torch.tensor([2, 3], device=DEVICE), torch.ones(1, 1, 3, dtype=torch.bool, device=DEVICE), 9, 9, 0.5)
    torch.library.opcheck(torch.ops.regard.single_dot_forward, (query, keys, values, *rest))
    assert fused_single_dot(query, keys[:, :0], values[:, :0]).count_nonzero() == 0
    with pytest.raises(ImplementationUnavailable, match="there are 2 queries, not one"):
        fused_single_dot(torch.cat([query, query], 1), keys, values)
    wide = torch.ones(2, 3, 2049, device=DEVICE)
    with pytest.raises(ImplementationUnavailable, match="values are 2049 wide, more than 2048"):
        fused_single_dot(query, keys, wide)


@pytest.mark.parametrize("has_v", [True, False])
@pytest.mark.parametrize(("sizes", "dtype"), [((2, 4, 35, 20, 8), torch.float32), ((3, 2, 5, 140, 6), torch.bfloat16)])
def test_steps(sizes: tuple[int, ...], dtype: torch.dtype, has_v: bool) -> None:
    """One memory for some steps that wait for each other, one of which nobody asks for."""
    n, steps, k, a, d = sizes
    query, keys, values, v = inputs(n, steps, k, a, d, dtype=dtype)
    mask, back = allowed(n, 1, k), torch.randn(d, a, device=DEVICE).to(dtype) / d**0.5
    grad = torch.randn(n, steps, d, device=DEVICE).to(dtype)

    def run(tensors: list[Tensor], fused: bool) -> list[Tensor]:
        leaves = [x.detach().requires_grad_() for x in tensors]
        query, keys, values, v = leaves
        memory = FusedSteps(keys, values, v if has_v else None, scale=0.3, allowed=mask, steps=steps + 1)
        contexts = [torch.zeros_like(values[:, :1])]
        for t in range(steps):
            now = query[:, t : t + 1] + contexts[-1] @ back.to(query.dtype)
            score = (lambda q, k: additive(q, k, v)) if has_v else (lambda q, k: 0.3 * dot(q, k))
            plain = partial(attend, keys=keys, values=values, score=score, mask=mask, impl="reference")
            contexts.append(memory(now) if fused else plain(now).context)
        out = torch.cat(contexts[1:], 1)
        wanted = leaves if has_v else leaves[:3]
        if fused:  # that of the query alone first: it leaves nothing behind
            torch.autograd.grad(out[:, 0], query, grad[:, 0], retain_graph=True)
        return [out, *torch.autograd.grad(out, wanted, grad.to(out.dtype))]

    tensors = [query, keys, values, v / a**0.5]
    exact, eager = run([x.double() for x in tensors], False), run(tensors, False)
    for name, *three in zip(("context", *NAMES), run(tensors, True), eager, exact, strict=False):
        near(name, *three, 2 * ROUNDING[dtype])


@pytest.mark.parametrize("score", ["additive", "concat", "general", "scaled_dot"])
def test_steps_of_a_model(score: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A whole training pass with them, and without."""
    sizes = {"embed_dim": 6, "hidden_dim": 8, "score": score, "published_start": False}
    model: Any = Luong(LuongConfig(11, 11, layers=1, **sizes))
    if score == "additive":
        model = Bahdanau(BahdanauConfig(11, 11, align_dim=7, maxout_dim=5, **sizes))
    model.to(DEVICE)
    source, lengths = torch.randint(4, 11, (3, 6), device=DEVICE), torch.tensor([6, 3, 1], device=DEVICE)

    def gradients() -> list[Tensor]:
        logits = model(source, lengths, source[:, :4]).logits
        return [logits, *torch.autograd.grad(logits.square().sum(), list(model.parameters()))]

    made = []
    monkeypatch.setattr(_Step, "forward", counted(_Step.forward, made))
    found = gradients()
    assert len(made) == 4
    monkeypatch.setattr(StepAttention, "_fuse", lambda *_: None)
    for one, other in zip(found, gradients(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    assert len(made) == 4


def counted(function: Any, calls: list[int]) -> Any:
    def run(*given: Any) -> Any:
        calls.append(1)
        return function(*given)

    return staticmethod(run)


def test_single_is_one_of_many() -> None:
    from regard.kernels import masks, single_query, tiled

    tensors, rules = inputs(2, 1), masks.Rules(before=5, dropout=0.3, seed=torch.tensor([5], device=DEVICE))
    one, many = single_query.forward(*tensors, rules, block=16), tiled.forward(*tensors, rules)
    for name, first, second in zip(("context", "log_sum"), one[:2], many[:2], strict=True):
        torch.testing.assert_close(first, second, rtol=1e-5, atol=1e-5, msg=name)


def odd(x: Tensor, how: str) -> Tensor:
    """The numbers of x, or for expanded ones some of them, in another order in memory."""
    if how == "expanded":
        return x[:1].expand(x.shape)
    if how == "transposed":
        return x.mT.contiguous().mT if x.ndim > 1 else torch.stack([x, x], 1)[:, 0]
    wider = torch.cat([x, x], -1)
    return torch.cat([wider, wider], 0)[::2][: len(x), ..., : x.shape[-1]] if x.ndim > 1 else wider[::2][: len(x)]


VIEWS = ["expanded", "transposed", "sliced"]


@pytest.mark.parametrize("q", [pytest.param(1, id="single"), pytest.param(6, id="many")])
@pytest.mark.parametrize("how", VIEWS)
def test_views_of_every_tensor(how: str, q: int) -> None:
    """Whatever lies otherwise in memory than it looks: queries, keys, values, v, lengths, masks and gradients."""
    tensors = [odd(x, how) for x in inputs(3, q, 9, 6, 5)]
    lengths = odd(torch.tensor([9, 2, 5], device=DEVICE), how)
    mask = odd(allowed(3, q, 9), how)
    rules = {"lengths": lengths, "allowed": mask, "window": (7, 3)}
    grad = odd(torch.randn(3, q, 5, device=DEVICE), how)
    exact = reference([x.double() for x in tensors], grad, rules)
    eager = reference(tensors, grad, rules)
    context, _, gradients = fused(tensors, grad, rules)
    near("context", context, eager[0], exact[0], 3e-6)
    for name, *three in zip(NAMES, gradients, eager[3], exact[3], strict=True):
        near(name, *three, 3e-6)


@pytest.mark.parametrize("lead", [(1, 3), (2, 3)], ids=str)
def test_many_heads_of_one_sentence_with_padding(lead: tuple[int, ...]) -> None:
    """Lengths of one sentence for all its heads: a view of stride 0, which was read past its end."""
    torch.manual_seed(0)
    score = Additive(20, 20, 8).to(DEVICE)
    given = [torch.randn(*lead, n, 20, device=DEVICE) for n in (15, 33, 33)]
    mask = Mask.padding(torch.tensor([5, 30][: lead[0]]))
    ways = "triton", "reference"
    found, expected = (attend(*given, score=score, mask=mask, need_weights=False, impl=impl).context for impl in ways)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("how", VIEWS)
def test_single_dot_of_views(how: str) -> None:
    query, keys, values = (odd(torch.randn(3, n, 6, device=DEVICE), how).requires_grad_() for n in (1, 9, 9))
    lengths, mask = odd(torch.tensor([9, 2, 5], device=DEVICE), how), odd(allowed(3, 1, 9), how)
    found = fused_single_dot(query, keys, values, scale=0.5, lengths=lengths, allowed=mask)
    around = mask_of({"lengths": lengths, "allowed": mask})
    expected = attend(0.5 * query, keys, values, score=dot, mask=around, impl="reference").context
    torch.testing.assert_close(found, expected)
    grad = odd(torch.randn(3, 1, 6, device=DEVICE), how)
    both = (torch.autograd.grad(x, (query, keys, values), grad) for x in (found, expected))
    for one, other in zip(*both, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("q", [pytest.param(1, id="single"), pytest.param(5, id="many")])
def test_second_derivatives(q: int) -> None:
    tensors = [x.requires_grad_() for x in inputs(2, q, 6, 5, 4)]
    rules = {"lengths": torch.tensor([6, 3], device=DEVICE), "causal": True}
    mask = mask_of(rules)

    def second(context: Tensor) -> tuple[Tensor, ...]:
        first = torch.autograd.grad(context.square().sum(), tensors, create_graph=True)
        return torch.autograd.grad(sum(x.square().sum() for x in first), tensors)

    query, keys, values, v = tensors
    plain = attend(query, keys, values, score=lambda q, k: additive(q, k, v), mask=mask, impl="reference").context
    for one, other in zip(second(fused_additive(*tensors, **rules)[0]), second(plain), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_many_transforms_are_refused() -> None:
    query, keys, values, v = inputs(1, 3, 4, 5, 2)
    with pytest.raises(ImplementationUnavailable, match=r"fused_additive cannot run here: a transform of torch\.func"):
        torch.func.jvp(lambda q: fused_additive(q, keys, values, v)[0], (query,), (query,))
    with pytest.raises(ImplementationUnavailable, match="fused_single_dot cannot run here: a transform"):
        torch.func.vmap(lambda q: fused_single_dot(q, keys, keys))(query[:, None, :1])


# ── weights with their gradient ─────────────────────────────────────────────────────────────────────────────────────


def check_weights(tensors: list[Tensor], how: str | None = None, **rules: Any) -> None:
    """Context, weights, and the gradients of a loss that uses both, beside plain PyTorch."""
    rounding = ROUNDING[tensors[2].dtype]
    (n, q, _), k, d = tensors[0].shape, tensors[1].shape[1], tensors[2].shape[2]
    outer, grad = torch.randn(n, q, k, device=DEVICE), torch.randn(n, q, d, device=DEVICE).to(tensors[2].dtype)
    outer = outer if how is None else odd(outer, how)

    def plain(tensors: list[Tensor]) -> list[Tensor]:
        query, keys, values, v = leaves = [x.detach().requires_grad_() for x in tensors]
        out = attend(query, keys, values, score=partial(additive, v=v), mask=mask_of(rules), impl="reference")
        assert out.weights is not None
        loss = (out.context.double() * grad.double()).sum() + (out.weights.double() * outer.double()).sum()
        return [out.context, out.weights, *torch.autograd.grad(loss, leaves)]

    leaves = [x.detach().requires_grad_() for x in tensors]
    context, weights = fused_additive_with_weights(*leaves, **rules)
    assert weights.dtype == torch.float32
    assert torch.equal(context, fused_additive(*tensors, **rules)[0])  # what was asked besides changes nothing
    found = [context, weights, *torch.autograd.grad((context, weights), leaves, (grad, outer))]
    exact, eager = plain([x.double() for x in tensors]), plain(tensors)
    for name, *three in zip(("context", "weights", *NAMES), found, eager, exact, strict=True):
        near(name, *three, 3e-6 if name == "weights" and tensors[0].dtype == torch.float32 else rounding)
    assert torch.equal(weights == 0, exact[1] == 0)
    unseen = exact[1].sum(-1) == 0
    assert found[2][unseen].count_nonzero() == 0


@pytest.mark.parametrize(
    "name",
    ["none", *(pytest.param(name, marks=[pytest.mark.slow] * (name not in ("dense", "window"))) for name in RULES)],
)
def test_many_weights(name: str) -> None:
    check_weights(inputs(), **(RULES[name]() if name in RULES else {}))


@pytest.mark.parametrize("sizes", [(1, 1, 1, 1, 1), (2, 1, 300, 3, 20), (1, 17, 40, 24, 3)])
def test_weights_of_many_sizes(sizes: tuple[int, ...]) -> None:
    check_weights(inputs(*sizes))


def test_single_weights() -> None:
    check_weights(inputs(2, 1), lengths=torch.tensor([0, 13], device=DEVICE))
    check_weights(inputs(2, 1), window=(4, 1), lengths=torch.tensor([19, 21], device=DEVICE))
    check_weights(inputs(3, 1), allowed=allowed(3, 1, 21))
    check_weights(inputs(2, 1, scale=30.0))


@pytest.mark.parametrize("q", [pytest.param(1, id="single"), pytest.param(6, id="many")])
@pytest.mark.parametrize("dtype", [torch.bfloat16, pytest.param(torch.float16, marks=pytest.mark.slow)], ids=str)
def test_weights_in_half_precision(q: int, dtype: torch.dtype) -> None:
    check_weights(inputs(2, q, dtype=dtype), causal=True)


@pytest.mark.parametrize("q", [pytest.param(1, id="single"), pytest.param(6, id="many")])
@pytest.mark.parametrize("how", VIEWS)
def test_weights_of_views(how: str, q: int) -> None:
    check_weights([odd(x, how) for x in inputs(3, q, 9, 6, 5)], how, lengths=torch.tensor([9, 0, 5], device=DEVICE))


def test_many_kept_scores_give_the_gradients_of_scores_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kept where somebody learns, the whole fits into a chunk of the backward pass, and no compiler looks on."""
    from regard.kernels import additive, tiled

    tensors, grad = inputs(), torch.randn(2, 18, 7, device=DEVICE)
    kept: list[tuple[int, ...]] = []
    backward = torch.ops.regard.additive_backward

    def watch(*given: Any) -> Any:
        kept.append(tuple(given[7].shape))
        return backward(*given)

    monkeypatch.setattr(additive, "_backward", watch)
    rules: dict[str, Any] = {"lengths": torch.tensor([21, 13], device=DEVICE), "causal": True}
    first = fused(tensors, grad, rules)
    small = partial(tiled.Blocks, queries=32, keys=32, mix_queries=32, mix_keys=32, own=32, mean_queries=32)
    few = small(mean_keys=32, backward_chunk=2 * 32 * 32 - 1)
    monkeypatch.setattr(tiled, "blocks", lambda *sizes: few)
    second = fused(tensors, grad, rules)
    assert kept == [(2, 32, 32), (0, 2)]
    for one, other in zip((*first[:2], *first[2]), (*second[:2], *second[2]), strict=True):
        torch.testing.assert_close(one, other, rtol=2e-5, atol=2e-6)
    with torch.no_grad():
        *_, sums, _ = additive._forward(*tensors, None, None, None, 9, 9, 0.0, False, False)
    assert sums.shape == (0, 2)


def test_many_weights_large() -> None:
    check_weights(inputs(1, 6, 9, scale=30.0))


@pytest.mark.slow
def test_many_weights_of_chunks_and_parts() -> None:
    """A chunk for each tile of queries, keys in parts side by side."""
    from regard.kernels import gradients, masks, tiled

    tensors, outer = inputs(2, 20, 70, 4, 6), torch.randn(2, 20, 70, device=DEVICE)
    rules = {"lengths": torch.tensor([70, 0], device=DEVICE), "window": (40, 3)}
    around = masks.Rules(lengths=rules["lengths"], before=40, after=3)
    small = {
        "queries": 16,
        "keys": 16,
        "mix_queries": 16,
        "mix_keys": 16,
        "own": 16,
        "mean_queries": 16,
        "mean_keys": 16,
    }
    blocks = tiled.Blocks(**small, features=16, chunk=16 * 80, backward_chunk=16 * 80)
    weights, grad = torch.empty(2, 20, 70, device=DEVICE), torch.randn(2, 20, 6, device=DEVICE)
    _, log_sum, _ = tiled.forward(*tensors, around, blocks, weights=weights)
    found = gradients.backward(grad, *tensors, log_sum, around, blocks, grad_weights=outer)
    query, keys, values, v = leaves = [x.double().requires_grad_() for x in tensors]
    out = attend(query, keys, values, score=partial(additive, v=v), mask=mask_of(rules), impl="reference")
    assert out.weights is not None
    torch.testing.assert_close(weights.double(), out.weights, rtol=1e-5, atol=1e-6)
    expected = torch.autograd.grad((out.context, out.weights), leaves, (grad.double(), outer.double()))
    for name, one, other in zip(NAMES, found, expected, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-4, atol=1e-5, msg=name)


@pytest.mark.parametrize("q", [pytest.param(1, id="single"), pytest.param(6, id="many")])
def test_weights_alone_and_dropout(q: int) -> None:
    """Values of width 0; and weights beside a context with dropout, with an infinite gradient of a zero."""
    query, keys, values, v = (x.requires_grad_() for x in inputs(2, q, 9, 4, 9))
    rules = {"lengths": torch.tensor([9, 4], device=DEVICE)}
    _, alone = fused_additive_with_weights(query, keys, values[..., :0], v, **rules)
    eye, seed = torch.eye(9, device=DEVICE).expand(2, 9, 9), torch.tensor([3], device=DEVICE)
    context, weights = fused_additive_with_weights(query, keys, eye, v, dropout=0.5, seed=seed, **rules)
    torch.testing.assert_close(alone, weights)
    scores = additive(query, keys, v).masked_fill(
        torch.arange(9, device=DEVICE) >= rules["lengths"][:, None, None], -torch.inf
    )
    plain = scores.softmax(-1)
    torch.testing.assert_close(weights, plain, rtol=1e-5, atol=1e-6)
    first, second = torch.randn(2, 2, q, 9, device=DEVICE)
    factors = torch.where(plain > 0, context / plain, 0.0).detach()
    wild = second.masked_fill(plain == 0, torch.inf)
    for made, outer, expected in (
        ((alone,), (wild,), second),
        ((context, weights), (first, wild), factors * first + second),
    ):
        found = torch.autograd.grad(made, (query, keys, v), outer, retain_graph=True)
        wanted = torch.autograd.grad(plain, (query, keys, v), expected, retain_graph=True)
        for name, one, other in zip(("query", "keys", "v"), found, wanted, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=2e-5, msg=name)


@pytest.mark.parametrize("q", [pytest.param(1, id="single"), pytest.param(3, id="many")])
def test_second_derivatives_through_weights(q: int) -> None:
    tensors = [x.requires_grad_() for x in inputs(2, q, 6, 5, 4)]
    rules = {"lengths": torch.tensor([6, 3], device=DEVICE), "causal": True}

    def second(context: Tensor, weights: Tensor) -> tuple[Tensor, ...]:
        first = torch.autograd.grad(context.square().sum() + weights.pow(3).sum(), tensors, create_graph=True)
        return torch.autograd.grad(sum(x.square().sum() for x in first), tensors)

    query, keys, values, v = tensors
    plain = attend(query, keys, values, score=partial(additive, v=v), mask=mask_of(rules), impl="reference")
    for one, other in zip(second(*fused_additive_with_weights(*tensors, **rules)), second(*plain[:2]), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
