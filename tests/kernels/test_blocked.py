"""Additive attention in blocks, against the eager reference."""

import itertools
import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from regard.attention import Mask, attend
from regard.base import ConfigError, RegardError, ShapeError
from regard.kernels import blocked
from regard.kernels.blocked import blocked_additive, pays
from regard.score import additive

Inputs = tuple[Tensor, Tensor, Tensor, Tensor]


@pytest.fixture(params=["one block", "many blocks"])
def _blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "many blocks":
        monkeypatch.setattr(blocked, "BLOCK", 1 << 10)
        monkeypatch.setattr(blocked, "ROWS", 1 << 5)


@pytest.fixture
def _threads() -> Iterator[None]:
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def inputs(
    n: int, q: int, k: int, a: int, d: int, *, scale: float = 1.0, dtype: torch.dtype = torch.float64
) -> tuple[Inputs, Tensor]:
    """Query, keys, values, v; and a gradient of the context. Their numbers are the same in every dtype."""
    shapes = (n, q, a), (n, k, a), (n, k, d), (a,), (n, q, d)
    query, keys, values, v, grad = (torch.randn(shape, dtype=torch.float64).bfloat16().to(dtype) for shape in shapes)
    return (query * scale, keys * scale, values, v / 4), grad


def reference(parts: Inputs, mask: Mask | None = None) -> Tensor:
    query, keys, values, v = parts
    return attend(query, keys, values, score=lambda x, y: additive(x, y, v), mask=mask, impl="reference").context


def with_grads(context: Tensor, parts: Inputs, grad: Tensor) -> list[Tensor]:
    return [context.detach(), *torch.autograd.grad(context, parts, grad.to(context.dtype))]


def learnt(parts: Inputs) -> Inputs:
    query, keys, values, v = (part.detach().clone().requires_grad_() for part in parts)
    return query, keys, values, v


def compare(parts: Inputs, grad: Tensor, mask: Mask | None = None, **rules: Any) -> None:
    """Context, sum and gradients are those of the reference, to 1e-10."""
    parts = learnt(parts)
    context, log_sum = blocked_additive(*parts, **rules)
    for ours, theirs in zip(
        with_grads(context, parts, grad), with_grads(reference(parts, mask), parts, grad), strict=True
    ):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-10)
    scores = additive(parts[0], parts[1], parts[3])
    if mask is not None:
        scores = scores.masked_fill(~mask.dense(*scores.shape[-2:]), -math.inf)
    torch.testing.assert_close(log_sum, scores.logsumexp(-1).detach(), rtol=0, atol=1e-10)
    assert not log_sum.requires_grad


@pytest.mark.usefixtures("_blocks")
@pytest.mark.parametrize(
    ("n", "q", "k", "a", "d"),
    [(1, 1, 1, 1, 1), (2, 7, 11, 5, 3), (3, 1, 13, 4, 2), (2, 9, 1, 3, 4), (5, 3, 2, 2, 1), (1, 17, 19, 130, 7)],
)
def test_odd_sizes(n: int, q: int, k: int, a: int, d: int) -> None:
    compare(*inputs(n, q, k, a, d))


@pytest.mark.parametrize(("n", "q", "k", "d"), [(0, 3, 4, 2), (2, 0, 4, 2), (2, 3, 0, 2), (2, 3, 4, 0)])
def test_nothing_to_do(n: int, q: int, k: int, d: int) -> None:
    parts, grad = inputs(n, q, k, 5, d)
    parts = learnt(parts)
    context, log_sum = blocked_additive(*parts)
    assert context.shape == (n, q, d)
    assert k > 0 or bool((log_sum == -math.inf).all())
    for part, slope in zip(parts, torch.autograd.grad(context, parts, grad), strict=True):
        torch.testing.assert_close(slope, torch.zeros_like(part))


@pytest.mark.usefixtures("_blocks")
@pytest.mark.parametrize(("q", "k"), [(12, 12), (5, 14), (14, 5)])
@pytest.mark.parametrize(
    ("rules", "mask"),
    [
        ({"causal": True}, Mask.causal()),
        ({"window": (2, 1)}, Mask.window(2, 1)),
        ({"window": (0, 30)}, Mask.window(0, 30)),
        ({"window": (3, 2), "causal": True}, Mask.window(3, 2) & Mask.causal()),
    ],
    ids=["causal", "window", "later", "both"],
)
def test_positions(rules: dict[str, Any], mask: Mask, q: int, k: int) -> None:
    compare(*inputs(2, q, k, 6, 3), mask=mask, **rules)


@pytest.mark.usefixtures("_blocks")
@pytest.mark.parametrize("causal", [False, True])
def test_lengths(causal: bool) -> None:
    lengths = torch.tensor([11, 0, 4, 9, 1])
    mask = Mask.padding(lengths) & Mask.causal() if causal else Mask.padding(lengths)
    compare(*inputs(5, 6, 11, 4, 3), mask=mask, lengths=lengths, causal=causal)


@pytest.mark.usefixtures("_blocks")
@pytest.mark.parametrize("shape", [(3, 8, 9), (1, 8, 9), (3, 1, 9), (1, 1, 9)])
def test_dense_masks_and_their_empty_rows(shape: tuple[int, int, int]) -> None:
    allowed = torch.rand(shape) < 0.5
    allowed[:, 0] = shape[1] == 1  # rows without a key, if there are rows
    lengths = torch.tensor([9, 5, 0])
    mask = Mask.of(allowed.expand(3, -1, -1))
    compare(*inputs(3, 8, 9, 4, 2), mask=mask, allowed=allowed)
    mask = mask & Mask.padding(lengths) & Mask.causal()
    compare(*inputs(3, 8, 9, 4, 2), mask=mask, allowed=allowed, lengths=lengths, causal=True)


def test_an_empty_row_is_zero_and_learns_nothing() -> None:
    parts, grad = inputs(2, 3, 4, 5, 2)
    parts = learnt(parts)
    allowed = torch.ones(2, 3, 4, dtype=torch.bool)
    allowed[1, 2] = False
    context, log_sum = blocked_additive(*parts, allowed=allowed)
    assert context[1, 2].tolist() == [0.0, 0.0]
    assert log_sum[1, 2] == -math.inf
    slopes = torch.autograd.grad(context, parts, grad)
    assert slopes[0][1, 2].tolist() == [0.0] * 5
    assert all(bool(slope.isfinite().all()) for slope in slopes)


@pytest.mark.usefixtures("_blocks")
def test_padding_may_hold_anything() -> None:
    lengths = torch.tensor([3, 6, 0])
    padding = torch.arange(6) >= lengths.unsqueeze(1)
    parts, grad = inputs(3, 4, 6, 5, 2)
    dirty = learnt((parts[0], parts[1].clone(), parts[2].clone(), parts[3]))
    with torch.no_grad():
        for part in dirty[1:3]:
            part[padding] = math.nan
    clean = learnt(parts)
    for ours, theirs in zip(
        with_grads(blocked_additive(*dirty, lengths=lengths)[0], dirty, grad),
        with_grads(blocked_additive(*clean, lengths=lengths)[0], clean, grad),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs)


def test_strided_inputs() -> None:
    parts, grad = inputs(2, 6, 7, 5, 3)
    turned = [part.mT.contiguous().mT for part in parts[:3]]
    compare((*turned, parts[3]), grad.mT.contiguous().mT)
    shared = parts[1][:1].expand(2, -1, -1)
    compare((parts[0], shared, parts[2], parts[3]), grad[:, :1].expand(-1, 6, -1))


@pytest.mark.parametrize("scale", [0.3, 1.0, 5.0, 30.0, 1e4])
def test_float32_is_as_exact_as_the_reference(scale: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocked, "BLOCK", 1 << 15)
    exact, grad = inputs(2, 33, 45, 64, 16, scale=scale)
    exact = learnt(exact)
    truth = with_grads(reference(exact), exact, grad)
    single = learnt(tuple(part.float() for part in exact))  # type: ignore[arg-type]
    eager = with_grads(reference(single), single, grad)
    ours = with_grads(blocked_additive(*single)[0], single, grad)
    for right, theirs, found in zip(truth, eager, ours, strict=True):
        floor = 1e-6 * right.abs().max()
        assert (found - right).abs().max() <= 2 * (theirs - right).abs().max() + floor
        assert (found - right).norm() <= 2 * (theirs - right).norm() + 3e-7 * right.norm()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision(dtype: torch.dtype) -> None:
    exact, grad = inputs(2, 13, 17, 20, 6)
    exact = learnt(exact)
    truth = with_grads(reference(exact), exact, grad)
    half = learnt(tuple(part.to(dtype) for part in exact))  # type: ignore[arg-type]
    context, log_sum = blocked_additive(*half)
    assert (context.dtype, log_sum.dtype) == (dtype, torch.float32)
    eager = with_grads(reference(half), half, grad)
    for right, theirs, found in zip(truth, eager, with_grads(context, half, grad), strict=True):
        assert found.dtype == dtype
        assert (found - right).abs().max() <= 2 * (theirs - right).abs().max() + 1e-3 * right.abs().max()


def test_the_context_has_the_dtype_of_the_values() -> None:
    query, keys, values, v = (part.bfloat16() for part in inputs(1, 2, 3, 4, 5)[0])
    context, log_sum = blocked_additive(query, keys, values.double(), v.float())
    assert (context.dtype, log_sum.dtype) == (torch.float64, torch.float64)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "pair", [(100.0, -99.0), (-99.0, 100.0), (43.0, -43.5), (1e30, 1.0), (-400.0, 399.5), (8.0, 0)]
)
def test_large_arguments(pair: tuple[float, float], dtype: torch.dtype) -> None:
    query, keys = (torch.full((1, 1, 1), number, dtype=dtype, requires_grad=True) for number in pair)
    keys = torch.cat([keys, -query.detach()], 1)  # two keys, so that there are weights
    values, v = torch.tensor([[[1.0], [0.0]]], dtype=dtype), torch.ones(1, dtype=dtype)
    weight, log_sum = blocked_additive(query, keys, values, v)
    expected = torch.sigmoid(torch.tanh(torch.tensor(sum(pair), dtype=dtype))).reshape(1, 1, 1)
    torch.testing.assert_close(weight, expected)
    (slope,) = torch.autograd.grad(weight.sum(), query)
    steep = 1 - math.tanh(sum(pair)) ** 2 - 1  # tanh' at the first key less that at the second, which is 1
    torch.testing.assert_close(slope, expected * (1 - expected) * steep, rtol=1e-5, atol=1e-7)
    assert log_sum.isfinite()


def test_a_moderate_side_lets_the_other_be_huge() -> None:
    """Beyond the bound the larger side is clamped: tanh is ±1 there, whatever the moderate side is."""
    query, keys = torch.linspace(-33.0, 33.0, 12).reshape(1, 12, 1), torch.tensor([-1e30, -60.0, -20.0, 44.0, 1e9])
    keys, v = keys.reshape(1, 5, 1), torch.ones(1)
    parts, grad = (query, keys, torch.eye(5).unsqueeze(0), v), torch.randn(1, 12, 5)
    parts = learnt(parts)
    for ours, theirs in zip(
        with_grads(blocked_additive(*parts)[0], parts, grad), with_grads(reference(parts), parts, grad), strict=True
    ):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-6)


@pytest.mark.usefixtures("_blocks")
@pytest.mark.parametrize("scale", [1.0, 500.0])
def test_gradcheck(scale: float) -> None:
    query, keys, values, v = inputs(2, 7, 9, 6, 2)[0]
    query, keys = query / scale + scale * (scale > 1), keys / scale - scale * (scale > 1)  # both large, or neither
    lengths, allowed = torch.tensor([9, 5]), torch.rand(2, 7, 9) < 0.7
    rules: dict[str, Any] = {"lengths": lengths, "allowed": allowed, "window": (2, 1)}
    parts = learnt((query, keys, values, v))
    assert torch.autograd.gradcheck(lambda *parts: blocked_additive(*parts, **rules)[0], parts, fast_mode=True)


@pytest.mark.usefixtures("_blocks")
def test_dropout_in_both_passes() -> None:
    (query, keys, _, v), _ = inputs(3, 6, 8, 4, 2)
    identity, seed = torch.eye(8, dtype=torch.float64).expand(3, -1, -1), torch.tensor([7])
    weights = blocked_additive(query, keys, identity, v)[0]
    dropped = blocked_additive(query, keys, identity, v, dropout=0.4, seed=seed)[0]
    kept = dropped != 0
    torch.testing.assert_close(dropped, weights * kept / 0.6)
    assert 0.4 < kept.double().mean() < 0.8
    parts = learnt((query, keys, torch.randn(3, 8, 2, dtype=torch.float64), v))
    assert torch.autograd.gradcheck(
        lambda *parts: blocked_additive(*parts, dropout=0.4, seed=seed)[0], parts, fast_mode=True
    )
    context = blocked_additive(*parts, dropout=0.4, seed=seed)[0]
    torch.testing.assert_close(context, dropped @ parts[2])


def test_dropout_follows_the_generator_of_torch() -> None:
    parts, _ = inputs(2, 30, 40, 3, 40, dtype=torch.float32)

    def draw(dropout: float, seed: int) -> Tensor:
        torch.manual_seed(seed)
        return blocked_additive(parts[0], parts[1], torch.eye(40).expand(2, -1, -1), parts[3], dropout=dropout)[0]

    assert torch.equal(draw(0.3, 1), draw(0.3, 1))
    assert not torch.equal(draw(0.3, 1), draw(0.3, 2))
    assert abs(float((draw(0.3, 1) == 0).float().mean()) - 0.3) < 0.04
    assert not draw(1.0, 1).any()
    state = torch.get_rng_state()
    blocked_additive(*parts)
    assert torch.equal(state, torch.get_rng_state())


@pytest.mark.usefixtures("_threads")
@pytest.mark.parametrize("causal", [False, True])
def test_threads_share_the_rows(causal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocked, "SHARE", 1)
    monkeypatch.setattr(blocked, "BLOCK", 1 << 10)
    monkeypatch.setattr(blocked, "ROWS", 1 << 5)
    parts, grad = inputs(3, 20, 25, 4, 3)
    results = []
    for threads, autocast in ((1, False), (3, False), (3, True)):
        torch.set_num_threads(threads)
        learning = learnt(parts)
        with torch.autocast("cpu", enabled=autocast):
            context = blocked_additive(*learning, causal=causal, dropout=0.2, seed=torch.tensor([3]))[0]
            results.append(with_grads(context, learning, grad))
        assert torch.get_num_threads() == threads
    for alone, *together in zip(*results, strict=True):
        for shared in together:
            torch.testing.assert_close(alone, shared, rtol=0, atol=1e-12)
    with torch.inference_mode():
        context = blocked_additive(*parts, causal=causal, dropout=0.2, seed=torch.tensor([3]))[0]
    assert torch.equal(context, results[1][0])


def test_a_mistake_in_a_thread_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("broken")

    threads = torch.get_num_threads()
    monkeypatch.setattr(blocked._Plan, "forbidden", broken)
    with pytest.raises(RuntimeError, match="broken"):
        blocked_additive(*inputs(1, 2, 3, 4, 5)[0])
    assert torch.get_num_threads() == threads


def test_autocast_changes_nothing() -> None:
    parts, _ = inputs(2, 5, 6, 7, 3, dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = blocked_additive(*parts)[0]
    assert torch.equal(inside, blocked_additive(*parts)[0])


@pytest.mark.parametrize("rules", [(None, None, None, None, 0.0, None), "all"])
def test_opcheck(rules: Any) -> None:
    parts = learnt(inputs(2, 3, 4, 5, 6, dtype=torch.float32)[0])
    if rules == "all":
        rules = (torch.tensor([4, 2]), torch.ones(1, 3, 4, dtype=torch.bool), 2, 1, 0.3, torch.tensor([5]))
    torch.library.opcheck(blocked._forward.operator, (*parts, *rules))
    context, _, peak, total, _ = (each.detach() for each in blocked._forward(*parts, *rules))
    backward = torch.ones_like(context), context, peak, total, *(part.detach() for part in parts), *rules
    torch.library.opcheck(blocked._backward.operator, backward)


@pytest.mark.bare
def test_compiles_whole() -> None:
    torch.compiler.reset()
    parts, grad = inputs(2, 5, 6, 7, 3)
    lengths = torch.tensor([6, 3])
    compiled = torch.compile(blocked_additive, fullgraph=True, backend="aot_eager")
    learning, plain = learnt(parts), learnt(parts)
    context = compiled(*learning, lengths=lengths, causal=True, dropout=0.0)[0]
    expected = blocked_additive(*plain, lengths=lengths, causal=True)[0]
    for ours, theirs in zip(with_grads(context, learning, grad), with_grads(expected, plain, grad), strict=True):
        torch.testing.assert_close(ours, theirs)
    assert compiled(*parts, dropout=0.5)[0].shape == (2, 5, 3)


class Largest(TorchDispatchMode):
    """The number of elements of the largest tensor that is made."""

    largest = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        for each in tree_leaves(made):
            if isinstance(each, Tensor):
                self.largest = max(self.largest, each.untyped_storage().nbytes() // each.element_size())
        return made


@pytest.mark.usefixtures("_threads")
@pytest.mark.parametrize(("n", "q", "k"), [(1, 200, 210), (9, 60, 70)])
def test_no_tensor_of_all_pairs(n: int, q: int, k: int) -> None:
    torch.set_num_threads(1)  # a dispatch mode sees its own thread only
    a, block = 64, blocked.BLOCK // 4
    (query, keys, values, v), grad = inputs(n, q, k, a, 8, dtype=torch.float32)
    rules = (None, None, None, 0, 0.1, torch.tensor([1]))
    with Largest() as forward:
        context, _, peak, total, _ = blocked._forward.function(query, keys, values, v, *rules)
    with Largest() as backward:
        blocked._backward.function(grad, context, peak, total, query, keys, values, v, *rules)
    assert block < n * q * k * a / 4
    assert block / 2 < forward.largest <= block
    assert block / 2 < backward.largest <= block


def test_sizes_that_pay() -> None:
    assert not pays(64, 1, 30, 128)  # a step of a recurrent decoder
    assert not pays(1, 1, 1 << 14, 1 << 10)  # a single query: the pairs are the keys
    assert not pays(2, 4, 5, 8)
    assert pays(64, 30, 30, 256)
    assert pays(4, 512, 512, 256)


X, Y = torch.zeros(2, 3, 4), torch.zeros(2, 5, 4)
V = torch.zeros(4)


@pytest.mark.bare
@pytest.mark.parametrize(
    ("parts", "rules", "error", "text"),
    [
        ((X[0], Y, Y, V), {}, ShapeError, r"query has the wrong number of axes: got \[3, 4\]; expected \[n q a\]"),
        ((X, Y[..., :3], Y, V), {}, ShapeError, r"keys does not fit: got \[2, 5, 3\]; expected \[2, 5, 4\]. Try: "),
        ((X, Y[:1], Y, V), {}, ShapeError, r"keys does not fit: got \[1, 5, 4\]; expected \[2, 5, 4\]"),
        ((X, Y, Y[:, :4], V), {}, ShapeError, r"values does not fit: .* Try: give one value for each key"),
        ((X, Y, Y, V[:3]), {}, ShapeError, r"v does not fit: got \[3\]; expected \[4\]"),
        ((X[..., :0], Y[..., :0], Y, V[:0]), {}, ShapeError, "query has no width"),
        ((X.int(), Y, Y, V), {}, ConfigError, "query must be real numbers: got torch.int32; expected a floating dtype"),
        ((X, Y, Y.to("meta"), V), {}, ConfigError, "tensors are on different devices: got cpu and meta"),
        ((X, Y, Y, V), {"lengths": torch.ones(3, dtype=torch.long)}, ShapeError, r"lengths does not fit: got \[3\]"),
        ((X, Y, Y, V), {"lengths": torch.ones(2)}, ShapeError, r"got \[2\] of torch.float32; expected \[2\] of whole"),
        ((X, Y, Y, V), {"allowed": torch.ones(2, 5, 3) > 0}, ShapeError, r"allowed does not fit: got \[2, 5, 3\]"),
        (
            (X, Y, Y, V),
            {"allowed": torch.ones(2, 3, 5)},
            ShapeError,
            "of torch.float32; .* Try: pass a tensor of bools in which True means: may attend",
        ),
        ((X, Y, Y, V), {"window": (1, -1)}, ConfigError, r"window: got \(1, -1\); expected \(before, after\)"),
        ((X, Y, Y, V), {"window": (1,)}, ConfigError, r"window: got \(1,\)"),
        ((X, Y, Y, V), {"dropout": 1.5}, ConfigError, "dropout: got 1.5; expected 0 to 1"),
    ],
)
def test_bad_input(parts: Inputs, rules: dict[str, Any], error: type[RegardError], text: str) -> None:
    with pytest.raises(error, match=text):
        blocked_additive(*parts, **rules)


def test_every_key_is_in_one_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each allowed pair is covered exactly once, and blocks that no position allows are left out."""
    monkeypatch.setattr(blocked, "BLOCK", 1 << 10)
    monkeypatch.setattr(blocked, "ROWS", 1 << 5)
    for n, q, k, after in itertools.product((1, 3), (1, 13), (2, 21), (None, 0)):
        parts, _ = inputs(n, q, k, 8, 2)
        plan = blocked._Plan(*parts, None, None, None, after, 0.0, None)
        seen = torch.zeros(n, q, k)
        for part in plan.tiles():
            for i, j in plan.blocks(part):
                seen[part.sentences, i, j] += 1
        must = torch.ones(q, k) if after is None else Mask.causal().dense(q, k)
        assert seen.max() == 1
        assert bool((seen >= must).all())
        assert after is None or min(q, k) == 1 or q * k < 100 or seen.sum() < 0.8 * n * q * k
