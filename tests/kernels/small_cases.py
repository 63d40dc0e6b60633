"""Kernels for small models against the same in plain operations, in float64: on a GPU, or with TRITON_INTERPRET=1."""

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from cases import DEVICE, INTERPRETED
from torch import Tensor, nn

from regard.attention import Attention, Mask, attend, dispatch, trace
from regard.base import ConfigError, ImplementationUnavailable, ShapeError
from regard.kernels import limits, linear, noise, serving
from regard.kernels.columns import column_sums
from regard.kernels.derivatives import plain_dot as scaled_plain_dot
from regard.kernels.embedding import fused_embedding
from regard.kernels.hidden import fused_hidden, plain_hidden
from regard.kernels.joined import room_alike
from regard.kernels.linear import fused_linear
from regard.kernels.residual import fused_residual, plain_residual, survivors
from regard.kernels.short import fused_short, visible
from regard.kernels.token_loss import fused_token_losses
from regard.models import Transformer, TransformerConfig
from regard.nn import EncoderLayer, FeedForward, token_loss
from regard.train.mixed_precision import Masters
from regard.train.quick_adam import QuickAdam

pytestmark = [
    pytest.mark.filterwarnings("ignore:.* encountered in :RuntimeWarning"),  # numpy, of what is masked after
    pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS:UserWarning"),  # torch, in its thread for gradients
]
Way = Callable[..., Sequence[Tensor]]
FACTOR = {torch.float32: 2.0, torch.bfloat16: 5.0 if INTERPRETED else 2.0}  # the interpreter cuts bfloat16 off
ROUNDING = {torch.float32: 3e-7, torch.bfloat16: 2.0**-7}
DTYPES = [torch.float32, torch.bfloat16]


def plain_dot(*inputs: Tensor, scale: float = 1.0, **rules: Any) -> Tensor:
    return scaled_plain_dot(*inputs, scale=scale, **rules)


@pytest.fixture(autouse=True)
def none_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plain ways are plain here, whatever was chosen."""
    monkeypatch.setattr(limits, "CHOSEN_ON_A_GPU", frozenset())


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Switches kernels on, in any type, for any number of heads and tensors of any size."""
    monkeypatch.setattr(dispatch, "FEWEST_SHORT", 1)
    monkeypatch.setattr(dispatch, "HALF", (torch.bfloat16, torch.float16, torch.float32))

    def switch(*names: str) -> None:
        monkeypatch.setattr(limits, "CHOSEN_ON_A_GPU", frozenset(names))

    with serving.recording():
        yield switch


def draw(*shape: int, dtype: Any = torch.float32) -> Tensor:
    return torch.randn(*shape, device=DEVICE).to(dtype)


def upto(most: int, least: int = 1) -> int:
    return int(torch.randint(least, most + 1, ()))


def with_gradients(way: Way, inputs: Sequence[Tensor], dtype: torch.dtype) -> list[Tensor]:
    """What comes out, and the gradients of all inputs for random gradients of that."""
    leaves = [x.detach().to(dtype).requires_grad_() for x in inputs]
    outputs = list(way(*leaves))
    chance = torch.Generator().manual_seed(1)
    outer = [torch.randn(out.shape, generator=chance).bfloat16().to(DEVICE, out.dtype) for out in outputs]
    found = torch.autograd.grad(outputs, leaves, outer, allow_unused=True)
    zeros = [torch.zeros_like(leaf) if grad is None else grad for leaf, grad in zip(leaves, found, strict=True)]
    return [out.detach() for out in (*outputs, *zeros)]


def compare(fused: Way, plain: Way, inputs: Sequence[Tensor], dtype: torch.dtype, *, products: int = 1) -> None:
    """Ours is at most twice as far from float64 as plain operations are, each time alike, and never NaN.

    An error below rounding passes; `products` of float32, one after the other, keep 22 bits each.
    """
    ours, theirs = with_gradients(fused, inputs, dtype), with_gradients(plain, inputs, dtype)
    exact = with_gradients(plain, inputs, torch.float64)
    again = with_gradients(fused, inputs, dtype)
    for number, (one, other, truth, twice) in enumerate(zip(ours, theirs, exact, again, strict=True)):
        assert one.shape == truth.shape
        assert torch.equal(one, twice), number
        size = max(truth.norm().item(), 1e-3 * math.sqrt(max(truth.numel(), 1)))
        error, allowed = ((x.double() - truth).norm().item() / size for x in (one, other))
        assert error <= max(FACTOR[dtype] * allowed, products * ROUNDING[dtype]), (
            f"{number}: {error:.1e}, plain {allowed:.1e}"
        )


# ── cross entropy ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("seed", range(6))
def test_token_loss(seed: int, dtype: torch.dtype) -> None:
    torch.manual_seed(seed)
    rows, words, smoothing = upto(9), upto(60, 2), [0.0, 0.1, 0.7][seed % 3]
    words = 8195 if seed == 5 else words  # more than a block
    logits = (3 * draw(rows, words)).bfloat16()
    targets = torch.randint(0, words, (rows,), device=DEVICE)
    if not smoothing:
        logits[torch.rand(rows, words, device=DEVICE) < 0.1] = -math.inf
        logits[torch.arange(rows), targets] = 1.0
    compare(
        lambda x: [fused_token_losses(x, targets, smoothing=smoothing, ignore=0).sum()],
        lambda x: [token_loss(x, targets, smoothing=smoothing, ignore=0)],
        [logits],
        dtype,
    )


def test_token_loss_of_what_is_ignored_of_rows_apart_and_of_no_words(chosen: Callable[..., None]) -> None:
    wide = draw(4, 30)
    wide[1] = math.nan
    logits = wide[:, 3:20].requires_grad_()  # rows lie apart
    targets = torch.tensor([3, -100, 0, 16], device=DEVICE)
    losses = fused_token_losses(logits, targets, smoothing=0.1, ignore=-100)
    [gradient] = torch.autograd.grad(losses.sum(), logits)
    expected = F.cross_entropy(logits, targets, label_smoothing=0.1, reduction="none")
    torch.testing.assert_close(losses[[0, 2, 3]], expected[[0, 2, 3]])
    assert losses[1] == 0
    assert (gradient[1] == 0).all()
    assert gradient[[0, 2, 3]].isfinite().all()
    assert fused_token_losses(logits.detach(), targets + 14, smoothing=0.0, ignore=-86)[3].isnan()  # beyond the words
    chosen("token_loss")
    assert token_loss(logits[:0], targets[:0]) == 0
    torch.testing.assert_close(token_loss(logits, targets, smoothing=0.1, ignore=-100), expected[[0, 2, 3]].sum())


# ── attention ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("seed", [pytest.param(seed, marks=[pytest.mark.slow] * (seed > 7)) for seed in range(16)])
def test_short(seed: int, dtype: torch.dtype) -> None:
    torch.manual_seed(seed)
    batch, heads, width, depth = upto(3), upto(2), upto(40), upto(40)
    num_queries, num_keys = upto(40), [upto(20), upto(64), 128][seed % 3]
    inputs = [
        draw(batch, heads, *size).bfloat16() for size in ((num_queries, width), (num_keys, width), (num_keys, depth))
    ]
    lengths = torch.randint(0, num_keys + 1, (batch,), device=DEVICE) if seed % 2 else None
    causal, allowed = seed % 4 < 2, None
    if seed % 5 == 0:
        shape = [size if upto(2) == 1 else 1 for size in (batch, heads, num_queries, num_keys)]
        allowed = torch.rand(shape, device=DEVICE) > 0.4
    seen = visible(*inputs[:2], lengths, allowed, causal)
    compare(
        lambda q, k, v: [fused_short(q, k, v, scale=0.4, lengths=lengths, causal=causal, allowed=allowed)],
        lambda q, k, v: [plain_dot(q, k, v, scale=0.4, seen=seen)],
        inputs,
        dtype,
        products=2,
    )


def test_short_reads_views_and_no_key_that_is_hidden() -> None:
    torch.manual_seed(0)
    both = draw(2, 6, 3, 2, 8).requires_grad_()  # heads and sides lie apart
    query, keys, values = (x.transpose(1, 2) for x in both.unbind(2))
    lengths = torch.tensor([4, 0], device=DEVICE)
    expected = plain_dot(query, keys, values, seen=visible(query, keys, lengths, None, True))
    context = fused_short(query, keys, values, lengths=lengths, causal=True)
    torch.testing.assert_close(context, expected)
    assert (context[1] == 0).all()
    outer = torch.randn_like(expected)
    wanted, found = (torch.autograd.grad(out, both, outer)[0] for out in (expected, context))
    torch.testing.assert_close(found, wanted)
    assert (found[1] == 0).all()
    hidden = keys.detach().clone(), values.detach().clone()
    for x in hidden:
        x[0, :, 4:], x[1] = math.nan, math.nan
    torch.testing.assert_close(fused_short(query.detach(), *hidden, lengths=lengths, causal=True), expected.detach())


def test_short_drops_weights_alike_in_both_passes() -> None:
    torch.manual_seed(0)
    query, keys = draw(2, 2, 12, 4), draw(2, 2, 9, 4)
    values = torch.eye(9, device=DEVICE).expand(2, 2, 9, 9).clone().requires_grad_()
    seed = torch.tensor([5], device=DEVICE)
    used = fused_short(query, keys, values, dropout=0.4, seed=seed)  # the weights that were used
    weights = plain_dot(query, keys, values)
    keep = used > 0
    assert 0.4 < keep.float().mean() < 0.8
    torch.testing.assert_close(used, weights * keep / 0.6)
    inputs = [query.requires_grad_(), keys.requires_grad_(), values]

    def plain(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return ((q @ k.mT).softmax(-1) * keep / 0.6) @ v

    outer = torch.randn_like(used)
    found = torch.autograd.grad(fused_short(*inputs, dropout=0.4, seed=seed), inputs, outer)
    for one, other in zip(found, torch.autograd.grad(plain(*inputs), inputs, outer), strict=True):
        torch.testing.assert_close(one, other)
    assert not torch.equal(fused_short(*inputs, dropout=0.4), fused_short(*inputs, dropout=0.4))


def test_short_has_a_second_derivative() -> None:
    torch.manual_seed(0)
    inputs = [draw(1, 2, n, 4).requires_grad_() for n in (3, 5, 5)]
    lengths = torch.tensor([4], device=DEVICE)

    def second(way: Callable[..., Tensor]) -> Tensor:
        [first] = torch.autograd.grad(way(*inputs).square().sum(), inputs[0], create_graph=True)
        return torch.autograd.grad(first.square().sum(), inputs[1])[0]

    seen = visible(*inputs[:2], lengths, None, False)
    wanted = second(lambda q, k, v: plain_dot(q, k, v, seen=seen))
    found = second(lambda q, k, v: fused_short(q, k, v, lengths=lengths))
    torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-4)
    many = torch.randn(3, 1, 2, 3, 4, device=DEVICE)
    found, wanted = (
        torch.autograd.grad(way(*inputs), inputs[2], many, is_grads_batched=True)[0]
        for way in (lambda *x: fused_short(*x, lengths=lengths), lambda *x: plain_dot(*x, seen=seen))
    )
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


def test_short_says_what_it_cannot_do() -> None:
    query, keys = draw(1, 1, 3, 4), draw(1, 1, 5, 4)
    with pytest.raises(ShapeError, match="do not fit"):
        fused_short(query, keys, draw(1, 1, 4, 4))
    with pytest.raises(ShapeError, match="one for each item"):
        fused_short(query, keys, keys, lengths=torch.ones(2, dtype=torch.long, device=DEVICE))
    with pytest.raises(ShapeError, match="allowed"):
        fused_short(query, keys, keys, allowed=torch.ones(1, 1, 2, 5, dtype=torch.bool, device=DEVICE))
    with pytest.raises(ConfigError, match="dropout"):
        fused_short(query, keys, keys, dropout=1.0)
    with pytest.raises(ImplementationUnavailable, match="129 keys, more than 128"):
        fused_short(query, *[draw(1, 1, 129, 4)] * 2)
    with pytest.raises(ImplementationUnavailable, match="bias"):
        attend(query, keys, keys, bias=draw(3, 5), impl="short")


@pytest.mark.parametrize(
    "mask",
    [
        None,
        Mask.causal(),
        Mask.padding([3, 0]),
        Mask.padding([3, 5]) & Mask.causal(),
        Mask.window(1, 2),
        Mask.of(torch.arange(20).view(1, 4, 5) % 3 > 0),
        Mask.padding(torch.tensor([[3, 2], [5, 0]])),
    ],
    ids=["none", "causal", "padding", "both", "window", "dense", "by head"],
)
def test_short_by_name_is_the_reference(mask: Mask | None) -> None:
    torch.manual_seed(0)
    query, keys = draw(2, 2, 4, 6), draw(2, 2, 5, 6)
    found = attend(query, keys, keys, mask=mask, impl="short")
    wanted = attend(query, keys, keys, mask=mask, impl="reference")
    torch.testing.assert_close(found.context, wanted.context, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(found.weights, wanted.weights, rtol=1e-5, atol=1e-6)
    flat = attend(query[0, 0], keys[0, 0], keys[0, 0], impl="short").context
    torch.testing.assert_close(flat, attend(query[0, 0], keys[0, 0], keys[0, 0], impl="reference").context)


# ── residual, hidden, linear, embedding ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("seed", range(8))
def test_residual(seed: int, dtype: torch.dtype) -> None:
    torch.manual_seed(seed)
    shape = (upto(3), upto(9), [upto(40), 256][seed % 2])
    width, has = shape[-1], [upto(2) == 1 for _ in range(3)]
    has_y, has_bias, has_norm = has[0] or not has[2], has[1], has[2]
    sizes = {"x": shape, "y": shape * has_y, "bias": (width,) * has_bias * has_y}
    sizes |= {"weight": (width,) * has_norm, "shift": (width,) * has_norm}
    sizes = {name: size for name, size in sizes.items() if size}
    inputs = [draw(*size).bfloat16() for size in sizes.values()]
    dropout = 0.3 * (seed % 3 > 0)
    lost, kept = noise.threshold(dropout), None
    before = torch.get_rng_state(), (torch.cuda.get_rng_state() if DEVICE == "cuda" else None)
    if lost and has_y:
        kept = survivors(torch.Size(shape), *noise.next_site(torch.device(DEVICE)), lost)

    def fused(*tensors: Tensor) -> Sequence[Tensor]:
        torch.set_rng_state(before[0])
        if before[1] is not None:
            torch.cuda.set_rng_state(before[1])
        named = dict(zip(sizes, tensors, strict=True))
        return [
            out
            for out in fused_residual(named.pop("x"), named.pop("y", None), dropout=dropout, **named)
            if out is not None
        ]

    def plain(*tensors: Tensor) -> Sequence[Tensor]:
        kind = None if kept is None else kept.to(tensors[0].dtype)
        return [out for out in plain_residual(**dict(zip(sizes, tensors, strict=True)), noise=kind) if out is not None]

    compare(fused, plain, inputs, dtype)


def test_residual_of_two_types_of_views_and_of_nothing() -> None:
    torch.manual_seed(0)
    x, y = draw(6, 5).t().requires_grad_(), draw(5, 6, dtype=torch.bfloat16).requires_grad_()
    weight, shift = draw(6).requires_grad_(), draw(6)
    total, normed = fused_residual(x, y, weight=weight, shift=shift)
    assert total.dtype == torch.float32
    expected = F.layer_norm(x + y, (6,), weight, shift)
    torch.testing.assert_close(normed, expected)
    outer = torch.randn_like(expected)
    for one, other in zip(
        torch.autograd.grad(normed, (x, y, weight), outer),
        torch.autograd.grad(expected, (x, y, weight), outer),
        strict=True,
    ):
        assert one.dtype == other.dtype
        torch.testing.assert_close(
            one,
            other,
            rtol=1e-2 if one.dtype == torch.bfloat16 else 1e-5,
            atol=2e-2 if one.dtype == torch.bfloat16 else 1e-5,
        )
    nothing = fused_residual(x[:0].requires_grad_(), y[:0], weight=weight, shift=shift, dropout=0.1)
    assert nothing[1].shape == (0, 6)
    nothing[1].sum().backward()
    assert (weight.grad == 0).all()


def test_residual_has_a_second_derivative_with_its_noise() -> None:
    torch.manual_seed(0)
    x, y, weight, shift = draw(3, 9), draw(3, 9), draw(9), draw(9)
    state = torch.get_rng_state(), (torch.cuda.get_rng_state() if DEVICE == "cuda" else None)
    kept = survivors(torch.Size((3, 9)), *noise.next_site(torch.device(DEVICE)), noise.threshold(0.4))
    inputs = [x.requires_grad_(), y.requires_grad_(), weight.requires_grad_()]

    def second(total: Tensor, normed: Tensor) -> Sequence[Tensor]:
        [first] = torch.autograd.grad(normed.pow(3).sum() + total.pow(3).sum(), inputs[1], create_graph=True)
        return torch.autograd.grad(first.square().sum(), inputs)

    torch.set_rng_state(state[0])
    if state[1] is not None:
        torch.cuda.set_rng_state(state[1])
    found = second(*fused_residual(x, y, weight=weight, shift=shift, dropout=0.4))
    wanted = second(*plain_residual(x, y, None, weight, shift, noise=kept))
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("seed", range(4))
def test_hidden(seed: int, dtype: torch.dtype) -> None:
    torch.manual_seed(seed)
    shape = (upto(5), upto(30), [upto(30), 300][seed % 2])
    inputs = [draw(*shape).bfloat16(), *([draw(shape[-1]).bfloat16()] * (seed < 3))]
    compare(lambda *x: [fused_hidden(*x)], lambda *x: [plain_hidden(*x)], inputs, dtype)


def test_hidden_drops_and_scales() -> None:
    torch.manual_seed(0)
    x, bias = draw(40, 50).requires_grad_(), draw(50).requires_grad_()
    out = fused_hidden(x, bias, dropout=0.25)
    keep = out != 0
    expected = torch.relu(x + bias) * keep / 0.75
    torch.testing.assert_close(out, expected)
    assert 0.65 < keep[(x + bias) > 0].float().mean() < 0.85
    outer = torch.randn_like(out)
    for one, other in zip(
        torch.autograd.grad(out, (x, bias), outer, retain_graph=True),
        torch.autograd.grad(expected, (x, bias), outer),
        strict=True,
    ):
        torch.testing.assert_close(one, other)
    [first] = torch.autograd.grad(out.square().sum(), x, create_graph=True)
    [second] = torch.autograd.grad(first.sum(), x)
    torch.testing.assert_close(second, 2 * keep / 0.75**2)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("seed", range(5))
def test_linear(seed: int, dtype: torch.dtype) -> None:
    torch.manual_seed(seed)
    shape, count = (upto(3), upto(50), upto(20)), upto(3)
    sizes = [upto(20)] * count if seed % 2 else [upto(20) for _ in range(count)]
    weights = draw(sum(sizes), shape[-1]).bfloat16().split(sizes)  # side by side
    biases = [draw(size).bfloat16() for size in sizes] if seed != 3 else []
    compare(
        lambda x, *p: fused_linear(x, p[:count], p[count:] or [None] * count),
        lambda x, *p: [F.linear(x, *pair) for pair in zip(p[:count], p[count:] or [None] * count, strict=True)],
        [draw(*shape).bfloat16(), *weights, *biases],
        dtype,
    )


def test_linear_reads_gradients_side_by_side_and_apart() -> None:
    torch.manual_seed(0)
    x, weight = draw(2, 7, 12).requires_grad_(), draw(36, 12).requires_grad_()

    def heads(parts: Sequence[Tensor]) -> list[Tensor]:
        return [part.view(2, 7, 3, 4).transpose(1, 2) for part in parts]

    parts = fused_linear(x, weight.split(12), [None] * 3)
    assert [part.data_ptr() - parts[0].data_ptr() for part in parts] == [0, 48, 96]
    rooms = room_alike(*heads([part.detach() for part in parts]))
    assert [room.data_ptr() - rooms[0].data_ptr() for room in rooms] == [0, 48, 96]
    found = fused_short(*heads(parts), causal=True)
    query, keys, values = heads(F.linear(x, weight).split(12, -1))
    wanted = plain_dot(query, keys, values, causal=True)
    outer = torch.randn_like(wanted)
    for one, other in zip(
        torch.autograd.grad(found, (x, weight), outer), torch.autograd.grad(wanted, (x, weight), outer), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    first, _, last = fused_linear(x, weight.split(12), [None] * 3)  # nobody asks for the second
    for one, other in zip(
        torch.autograd.grad(first.sum() - last.square().sum(), (x, weight)),
        torch.autograd.grad(F.linear(x, weight[:12]).sum() - F.linear(x, weight[24:]).square().sum(), (x, weight)),
        strict=True,
    ):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_linear_takes_sums_that_the_kernel_behind_it_made(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    x, weight, bias = (draw(*shape).requires_grad_() for shape in ((3, 5, 8), (6, 8), (6,)))
    around, scale, shift = draw(3, 5, 6), draw(6), draw(6)
    counted: list[int] = []

    def column(number: Tensor) -> Tensor:
        counted.append(len(number))
        return number.sum(0)

    monkeypatch.setattr(linear, "column_sums", column)
    outer = draw(3, 5, 6)

    def gradients(more: Callable[[Tensor], Tensor], *, dropout: float) -> None:
        torch.manual_seed(1)
        (y,) = fused_linear(x, [weight], [bias])
        total, normed = fused_residual(around, y, weight=scale, shift=shift, dropout=dropout)
        torch.manual_seed(1)
        kept = survivors(total.shape, *noise.next_site(total.device), noise.threshold(dropout)) if dropout else None
        found = torch.autograd.grad(more(y).sum() + (normed * outer + total).sum(), (x, weight, bias))
        y = F.linear(x, weight, bias)
        total, normed = plain_residual(around, y, None, scale, shift, noise=kept)
        wanted = torch.autograd.grad(more(y).sum() + (normed * outer + total).sum(), (x, weight, bias))
        for one, other in zip(found, wanted, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)

    for dropout in (0.0, 0.4):
        gradients(lambda y: y * 0, dropout=dropout)  # gradients that meet are added up anew
        assert counted == [15]
        counted.clear()
        gradients(lambda y: y.new_zeros(()), dropout=dropout)
        assert counted == []


@pytest.mark.parametrize("shape", [(1, 1), (700, 5), (33, 100), (0, 4)], ids=str)
def test_column_sums(shape: tuple[int, int]) -> None:
    torch.manual_seed(0)
    x = draw(shape[0], 2 * shape[1])[:, : shape[1]]
    torch.testing.assert_close(column_sums(x).double(), x.double().sum(0), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("seed", range(4))
def test_embedding(seed: int, dtype: torch.dtype) -> None:
    torch.manual_seed(seed)
    words, width, shape = upto(40), upto(40), (upto(9), upto(30))
    tokens = torch.randint(0, words, shape, device=DEVICE)
    places = draw(shape[1], width).bfloat16() if seed % 2 else None
    padding = 0 if seed < 3 else None

    def plain(weight: Tensor) -> Sequence[Tensor]:
        found = F.embedding(tokens, weight, padding_idx=padding) * 3
        return [found if places is None else found + places.to(weight.dtype)]

    def fused(weight: Tensor) -> Sequence[Tensor]:
        where = None if places is None else places.to(weight.dtype)
        return [fused_embedding(weight, tokens, scale=3.0, places=where, padding=padding)]

    compare(fused, plain, [draw(words, width).bfloat16()], dtype)


def test_embedding_drops_and_names_no_words() -> None:
    torch.manual_seed(0)
    weight, tokens = (draw(9, 16).abs() + 1).requires_grad_(), torch.randint(0, 9, (5, 12), device=DEVICE)
    out = fused_embedding(weight, tokens, dropout=0.5)
    keep = out != 0
    assert 0.4 < keep.float().mean() < 0.6
    expected = weight[tokens] * keep * 2
    outer = torch.randn_like(out)
    found, wanted = (torch.autograd.grad(x, weight, outer, retain_graph=True)[0] for x in (out, expected))
    torch.testing.assert_close(found, wanted)
    assert fused_embedding(weight, tokens * 0 + 9).isnan().all()
    cubes = (lambda x: (x**3).sum() / 3, lambda x: (x**3).sum() / 3)
    seconds = []
    for cube, made in zip(cubes, (out, expected), strict=True):
        [first] = torch.autograd.grad(cube(made), weight, create_graph=True)
        seconds.append(torch.autograd.grad(first.square().sum(), weight)[0])
    torch.testing.assert_close(*seconds, rtol=1e-4, atol=1e-3)


# ── noise ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_one_seed_serves_a_pass_and_layers_differ() -> None:
    ones = torch.ones(64, 64, device=DEVICE)

    def two() -> tuple[Tensor, Tensor]:
        with noise.one_seed():
            return fused_hidden(ones, dropout=0.5), fused_hidden(ones, dropout=0.5)

    torch.manual_seed(3)
    first, second = two()
    assert 0.4 < (first == second).float().mean() < 0.6
    other = two()
    assert 0.4 < (first == other[0]).float().mean() < 0.6
    torch.manual_seed(3)
    assert torch.equal(two()[0], first)
    kept = (first != 0).float()
    assert (kept.mean(0) - 0.5).abs().max() < 0.3  # five standard deviations
    assert (kept.mean(1) - 0.5).abs().max() < 0.3


@pytest.mark.skipif(INTERPRETED, reason="needs a CUDA device")
def test_a_captured_graph_draws_new_noise_and_follows_the_generator() -> None:
    ones = torch.ones(64, 64, device=DEVICE)
    fused_hidden(ones, dropout=0.5)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph), noise.one_seed():
        drawn = [torch.rand(64, device=DEVICE), fused_hidden(ones, dropout=0.5), fused_hidden(ones, dropout=0.5)]

    def replays() -> list[list[Tensor]]:
        found = []
        for _ in range(3):
            graph.replay()
            found.append([x.clone() for x in drawn])
        return found

    torch.manual_seed(7)  # as a trainer does before each step
    state, seen = torch.cuda.get_rng_state(), replays()
    for number, (_, first, second) in enumerate(seen):
        assert 0.4 < (first == second).float().mean() < 0.6
        for _, other, _ in seen[:number]:
            assert 0.4 < (first == other).float().mean() < 0.6
    torch.manual_seed(7)
    for one, again in zip(seen, replays(), strict=True):
        assert all(torch.equal(x, y) for x, y in zip(one, again, strict=True))
    torch.cuda.set_rng_state(state)  # whatever torch's own noise makes of it, ours does the same
    for one, again in zip(seen, replays(), strict=True):
        own, *ours = (torch.equal(x, y) for x, y in zip(one, again, strict=True))
        assert ours == [own, own]


# ── layers and models ───────────────────────────────────────────────────────────────────────────────────────────────


def model_of(dropout: float = 0.0, **more: Any) -> Transformer:
    torch.manual_seed(0)
    sizes: dict[str, Any] = {"dim": 16, "hidden_dim": 24, "num_heads": 2, "encoder_layers": 2, "decoder_layers": 2}
    return Transformer(TransformerConfig(40, 40, dropout=dropout, **sizes, **more)).to(DEVICE).train()


def loss_and_gradients(model: nn.Module) -> list[Tensor]:
    chance = torch.Generator().manual_seed(0)
    source, inputs, targets = (torch.randint(1, 40, (3, n), generator=chance).to(DEVICE) for n in (7, 6, 6))
    targets[1, 3:] = 0
    lengths = torch.tensor([7, 4, 1], device=DEVICE)
    model.zero_grad()
    loss = token_loss(model(source, lengths, inputs).logits, targets, smoothing=0.1)
    loss.backward()
    return [loss.detach(), *(parameter.grad.clone() for parameter in model.parameters())]


@pytest.mark.slow
@pytest.mark.parametrize("pre_norm", [True, False])
def test_a_transformer_is_the_same(chosen: Callable[..., None], pre_norm: bool) -> None:
    model = model_of(pre_norm=pre_norm)
    theirs, exact = loss_and_gradients(model), loss_and_gradients(copy.deepcopy(model).double())
    chosen(*limits.SMALL)
    ours, in_double = loss_and_gradients(model), loss_and_gradients(copy.deepcopy(model).double())
    for one, other, truth, same in zip(ours, theirs, exact, in_double, strict=True):
        assert torch.equal(same, truth)  # float64 is left to plain operations
        error, allowed = ((x.double() - truth).norm() / (truth.norm() + 1e-2) for x in (one, other))
        assert error <= 3 * allowed + 1e-6


def test_copies_of_weights_are_projected_together(chosen: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of()
    exact = loss_and_gradients(copy.deepcopy(model).bfloat16().double())
    masters = Masters(model, half=True)
    masters.start()
    theirs, counts = loss_and_gradients(model), []
    whole = linear.join

    def watched(tensors: Sequence[Tensor], axis: int) -> Tensor:
        made = whole(tensors, axis)
        counts.append((len(tensors), made.data_ptr() == tensors[0].data_ptr()))
        return made

    monkeypatch.setattr(linear, "join", watched)
    chosen(*limits.SMALL)
    ours = loss_and_gradients(model)
    assert {3, 2} <= {count for count, _ in counts}  # queries, keys and values; keys and values of the source
    assert all(is_view for _, is_view in counts)  # weights, biases and gradients: nothing is copied
    for one, other, truth in zip(ours, theirs, exact, strict=True):
        error, allowed = ((x.double() - truth).norm() / (truth.norm() + 1e-1) for x in (one, other))
        assert error <= FACTOR[torch.bfloat16] * allowed + 2.0**-7


def test_autocast_gives_what_it_gave(chosen: Callable[..., None]) -> None:
    model = model_of()

    def mixed() -> list[Tensor]:
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            return loss_and_gradients(model)

    theirs, exact = mixed(), loss_and_gradients(copy.deepcopy(model).double())
    chosen(*limits.SMALL)
    for one, other, truth in zip(mixed(), theirs, exact, strict=True):
        assert one.dtype == other.dtype
        error, allowed = ((x.double() - truth).norm() / (truth.norm() + 1e-1) for x in (one, other))
        assert error <= FACTOR[torch.bfloat16] * allowed + 2.0**-7


@pytest.mark.slow
def test_dropout_of_a_transformer_follows_the_seed(chosen: Callable[..., None]) -> None:
    model = model_of(0.3)
    chosen(*limits.SMALL)
    torch.manual_seed(1)
    first, second = loss_and_gradients(model), loss_and_gradients(model)
    torch.manual_seed(1)
    again = loss_and_gradients(model)
    assert first[0] != second[0]
    assert all(torch.equal(one, other) for one, other in zip(first, again, strict=True))


def test_hooks_see_what_they_saw(chosen: Callable[..., None]) -> None:
    layer = EncoderLayer(8, num_heads=2, hidden_dim=12, attention=Attention()).to(DEVICE)
    x = draw(2, 5, 8)
    watched = [
        layer.inner.to_query,
        layer.feed.widen,
        layer.feed.dropout,
        layer.around_feed.norm,
        layer.around_inner.dropout,
    ]

    def seen() -> list[Tensor]:
        outputs: list[Tensor] = []
        handles = [part.register_forward_hook(lambda _m, _i, out: outputs.append(out)) for part in watched]
        layer(x)
        for handle in handles:
            handle.remove()
        return outputs

    before = seen()
    chosen(*limits.SMALL)
    after = seen()
    assert len(after) == len(before) == len(watched)
    for one, other in zip(after, before, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_a_trace_and_transforms_see_what_they_saw(chosen: Callable[..., None]) -> None:
    layer = EncoderLayer(8, num_heads=2, hidden_dim=12, attention=Attention()).to(DEVICE).eval()
    x = draw(2, 5, 8)
    with torch.no_grad(), trace(layer) as before:
        layer(x)
    wanted = torch.func.jvp(layer, (x,), (x,))[1]
    chosen(*limits.SMALL)
    with torch.no_grad(), trace(layer) as after:
        layer(x)
    torch.testing.assert_close(torch.as_tensor(after["inner"].calls[0]), torch.as_tensor(before["inner"].calls[0]))
    torch.testing.assert_close(torch.func.jvp(layer, (x,), (x,))[1], wanted)


def test_total_dropout_leaves_nothing(chosen: Callable[..., None]) -> None:
    chosen(*limits.SMALL)
    assert torch.equal(FeedForward(8, 12, dropout=1.0).to(DEVICE)(draw(2, 8)), torch.zeros(2, 8, device=DEVICE))


def test_serves_asks_for_all_it_needs(chosen: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    x = draw(2, 3)
    assert not serving.serves("hidden", x)
    chosen("hidden")
    assert serving.serves("hidden", x, None)
    assert not serving.serves("residual", x)
    others = (x.double(), x[:0], x.int(), x.to("meta"))
    assert not any(serving.serves("hidden", other) or serving.serves("hidden", x, other) for other in others)
    assert not torch.func.vmap(lambda y: y + serving.serves("hidden", y))(torch.zeros(2)).any()
    with torch.device(DEVICE):  # watches torch's functions, as an intervention does
        assert not serving.serves("hidden", x)
    with monkeypatch.context() as patch:
        patch.setattr(limits, "HAS_TRITON", False)
        assert not serving.serves("hidden", x)
    with pytest.raises(ConfigError, match="one of adam, embedding"):
        serving.serves("nothing", x)


# ── Adam ────────────────────────────────────────────────────────────────────────────────────────────────────────────

SETTINGS: Iterator[tuple[type[torch.optim.Optimizer], float, float | None]] = [  # type: ignore[assignment]
    (torch.optim.Adam, 0.0, 1.0),
    (torch.optim.AdamW, 0.1, None),
    (torch.optim.Adam, 0.1, 1e3),
]


@pytest.mark.parametrize(("kind", "decay", "clip"), SETTINGS)
def test_adam(kind: Any, decay: float, clip: float | None, chosen: Callable[..., None]) -> None:
    chosen("adam")
    torch.manual_seed(0)
    shapes = [(3, 5), (7,), (50, 100)]
    full = [nn.Parameter(draw(*shape)) for shape in shapes]
    used, plain = ([nn.Parameter(x.detach().to(kind)) for x in full] for kind in (torch.bfloat16, torch.float64))

    def build(parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
        rates = [torch.tensor(rate, device=DEVICE) for rate in (0.01, 0.02)]
        groups = [
            {"params": parameters[:1], "lr": rates[0], "weight_decay": decay},
            {"params": parameters[1:], "lr": rates[1], "weight_decay": 0.0},
        ]
        return kind(groups, betas=(0.9, 0.98), eps=1e-9, foreach=False, capturable=DEVICE == "cuda")

    ours, theirs = build(full), build(plain)
    quick = QuickAdam(ours, used, full)
    for step in range(5):
        gradients = [draw(*shape, dtype=torch.bfloat16) for shape in shapes]
        if step == 2:
            gradients[1].zero_()
        for parameter, half, gradient in zip(plain, used, gradients, strict=True):
            parameter.grad, half.grad = gradient.double(), None if step == 2 and len(gradient) == 7 else gradient
        done = quick.step(clip)
        assert done == (step > 0)  # torch's own makes the moments
        if not done:
            for one, half in zip(full, used, strict=True):
                one.grad, half.grad = half.grad.float(), None
            if clip is not None:
                nn.utils.clip_grad_norm_(full, clip)
            ours.step()
            ours.zero_grad()
        if clip is not None:
            nn.utils.clip_grad_norm_(plain, clip)
        theirs.step()
        assert all(half.grad is None for half in used)
    for one, half, other in zip(full, used, plain, strict=True):
        torch.testing.assert_close(one.detach().double(), other.detach(), rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(half.detach().float(), one.detach(), rtol=2.0**-7, atol=0)
        for name in ("exp_avg", "exp_avg_sq", "step"):
            mine, wanted = ours.state[one][name].double(), theirs.state[other][name].double()
            torch.testing.assert_close(mine, wanted, rtol=1e-5, atol=1e-7)


def test_adam_leaves_what_it_does_not_know(chosen: Callable[..., None]) -> None:
    full = [nn.Parameter(draw(3))]
    used = [nn.Parameter(full[0].detach().bfloat16())]
    optimiser = torch.optim.Adam(full, lr=torch.tensor(0.1, device=DEVICE), capturable=DEVICE == "cuda", foreach=False)
    full[0].grad = draw(3)
    optimiser.step()
    assert not QuickAdam(optimiser, used, full).prepare()  # it is not chosen
    chosen("adam")
    quick = QuickAdam(optimiser, used, full)
    assert quick.prepare()
    table = quick.table
    assert quick.prepare()
    assert quick.table is table
    optimiser.load_state_dict(copy.deepcopy(optimiser.state_dict()))
    assert quick.prepare()
    assert quick.table is not table  # the moments lie elsewhere
    optimiser.param_groups[0]["amsgrad"] = True
    assert not quick.prepare()
    optimiser.param_groups[0]["amsgrad"], optimiser.param_groups[0]["lr"] = False, 0.1
    assert not quick.prepare()
    assert not QuickAdam(torch.optim.SGD(full, lr=0.1), used, full).prepare()
