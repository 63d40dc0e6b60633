"""Derivatives of fused operations: where a transform is active, second ones, and what is refused."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.autograd.function import once_differentiable
from torch.testing import assert_close

from regard.align import Softmax
from regard.attention import Mask, attend
from regard.base import ImplementationUnavailable, RegardError
from regard.kernels import blocked, blocked_additive
from regard.kernels.derivatives import (
    as_fused_kernels_read,
    has_no_memory,
    is_readable,
    plain_additive,
    plain_dot,
    refuse_transforms,
    transformed,
    visible_keys,
    with_second_derivative,
    without_autocast,
)
from regard.score import Additive, Cosine, Distance, Dot, General, ScaledDot

SCORES: dict[str, Callable[[], Any]] = {
    "additive": lambda: Additive(4, 4, 5),
    "scaled dot": ScaledDot,
    "general": lambda: General(4, 4),
    "cosine": lambda: Cosine(3.0),
    "inverse distance": lambda: Distance(log=True),
    "gaussian distance": lambda: Distance("gaussian"),
}
TRANSFORMS: dict[str, Callable[..., Any]] = {
    "jvp": lambda f, x: torch.func.jvp(f, (x,), (torch.ones_like(x),))[1],
    "grad": lambda f, x: torch.func.grad(lambda x: f(x).square().sum())(x),
    "vmap": lambda f, x: torch.func.vmap(f)(torch.stack([x, 2 * x])),
    "vmap of grad": lambda f, x: torch.func.vmap(torch.func.grad(lambda x: f(x).square().sum()))(torch.stack([x, -x])),
    "hessian": lambda f, x: torch.func.hessian(lambda x: f(x).square().sum())(x),
    "forward mode": lambda f, x: dual(f, x),
}


@pytest.fixture(autouse=True)
def _blocks_always_pay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocked, "PAYING_SIZE", 1)


def dual(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    with forward_ad.dual_level():
        change = forward_ad.unpack_dual(function(forward_ad.make_dual(x, torch.ones_like(x)))).tangent
        assert change is not None, "the derivative is lost"
        return change


def inputs() -> list[Tensor]:
    return [torch.randn(2, n, 4, dtype=torch.float64) for n in (4, 6, 6)]


def function(score: str, impl: str) -> tuple[Callable[[Tensor], Tensor], Tensor]:
    torch.manual_seed(1)
    made = SCORES[score]()
    made = made.double()
    query, keys, values = inputs()
    mask = Mask.padding([6, 3])

    def of(query: Tensor) -> Tensor:
        return attend(query, keys, values, score=made, mask=mask, need_weights=False, impl=impl).context

    return of, query


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("score", SCORES)
def test_auto_is_right_under_every_transform(score: str, transform: str) -> None:
    act = TRANSFORMS[transform]
    expected, query = function(score, "reference")
    found, _ = function(score, "auto")
    result = act(found, query)
    assert result.abs().max() > 1e-3, "a zero would hide a lost derivative"
    assert_close(result, act(expected, query))


@pytest.mark.parametrize("score", ["additive", "scaled dot"])
def test_jvp_is_what_differences_say(score: str) -> None:
    of, query = function(score, "auto")
    step = 1e-6
    numeric = (of(query + step) - of(query - step)) / (2 * step)
    assert_close(TRANSFORMS["jvp"](of, query), numeric, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("transform", ["jvp", "grad", "vmap", "forward mode"])
@pytest.mark.parametrize(("score", "impl"), [("additive", "blocked"), ("scaled dot", "sdpa")])
def test_an_explicit_wish_is_refused_with_the_reason(score: str, impl: str, transform: str) -> None:
    of, query = function(score, impl)
    with pytest.raises(ImplementationUnavailable, match=r"a transform of torch.func or forward-mode .* is active"):
        TRANSFORMS[transform](of, query)


@pytest.mark.parametrize("impl", ["auto", "fused"])
@pytest.mark.parametrize("mask", [None, Mask.causal(), Mask.window(1, 2) & Mask.padding([4, 0])], ids=str)
@pytest.mark.parametrize("score", ["additive", "scaled dot", "general", "gaussian distance", "inverse distance"])
def test_second_derivatives(score: str, mask: Mask | None, impl: str) -> None:
    if impl == "fused":
        impl = "blocked" if score == "additive" else "sdpa" if "distance" not in score else "auto"
    made = SCORES[score]().double()
    given = [x.requires_grad_() for x in inputs()]
    bias = None if score == "additive" else torch.randn(4, 6, dtype=torch.float64, requires_grad=True)
    leaves = [*given, *([] if bias is None else [bias]), *made.parameters()]
    noise = [torch.randn(x.shape, dtype=torch.float64) for x in leaves]

    def second(impl: str) -> list[Tensor]:
        out = attend(*given, score=made, mask=mask, bias=bias, align=Softmax(0.7), need_weights=False, impl=impl)
        first = torch.autograd.grad(out.context.square().sum(), leaves, create_graph=True)
        total = sum((x * y).sum() for x, y in zip(first, noise, strict=True))
        return [*first, *torch.autograd.grad(total, leaves)]

    expected = second("reference")
    assert all(x.abs().max() > 1e-4 for x in expected[:2])
    assert_close(second(impl), expected)


def test_one_tensor_at_every_place() -> None:
    """Each place has its own gradient, and they are added once."""
    x = torch.randn(2, 4, 3, dtype=torch.float64, requires_grad=True)

    def second(impl: str) -> Tensor:
        out = attend(x, x, x, score=Dot(), need_weights=False, impl=impl)
        [first] = torch.autograd.grad(out.context.square().sum(), x, create_graph=True)
        [result] = torch.autograd.grad(first.square().sum(), x)
        return result

    assert_close(second("sdpa"), second("reference"))


@pytest.mark.parametrize(("score", "impl"), [("additive", "blocked"), ("scaled dot", "sdpa")])
def test_a_second_derivative_with_dropout_is_refused_in_words(score: str, impl: str) -> None:
    query, keys, values = inputs()
    query.requires_grad_()
    out = attend(query, keys, values, score=SCORES[score]().double(), dropout=0.5, need_weights=False, impl=impl)
    with pytest.raises(RegardError, match="second derivative through fused attention with dropout is not there"):
        torch.autograd.grad(out.context.sum(), query, create_graph=True)
    torch.autograd.grad(out.context.sum(), query, retain_graph=True)  # the first is there as before


def test_gradients_in_batches() -> None:
    for score, impl in (("additive", "blocked"), ("scaled dot", "sdpa")):
        of, query = function(score, impl)
        query.requires_grad_()
        context = of(query)
        several = torch.stack([torch.ones_like(context), context.detach()])
        [found] = torch.autograd.grad(context, query, several, is_grads_batched=True, retain_graph=True)
        for grad, one in zip(several, found, strict=True):
            assert_close(one, torch.autograd.grad(context, query, grad, retain_graph=True)[0])


def test_kernels_refuse_by_themselves() -> None:
    query, keys, values = inputs()
    with pytest.raises(ImplementationUnavailable, match=r"blocked_additive cannot run here: a transform.*'reference'"):
        torch.func.vmap(lambda q: blocked_additive(q, keys, values, torch.ones(4))[0])(query.unsqueeze(0))
    refuse_transforms("nothing")
    assert not transformed()
    with forward_ad.dual_level():
        assert transformed()


def test_plain_attention_is_the_reference() -> None:
    query, keys, values = (x.float() for x in inputs())
    seen = visible_keys(query, keys, torch.tensor([6, 0]), torch.rand(1, 1, 6) > 0.2, 2, 1)
    assert seen is not None
    mask = Mask.of(seen)
    expected = attend(query, keys, values, score=Dot(), mask=mask, impl="reference").context
    assert_close(plain_dot(query, keys, values, scale=1.0, seen=seen), expected)
    v = torch.randn(4)
    expected, _ = blocked_additive(query, keys, values, v, allowed=seen)
    assert_close(plain_additive(query, keys, values, v, seen=seen), expected)
    assert visible_keys(query, keys, None, None, None, None) is None


def test_products_outside_of_autocast() -> None:
    x = torch.randn(3, 3)
    with torch.autocast("cpu", torch.bfloat16):
        assert (x @ x).dtype == torch.bfloat16
        with without_autocast(x.device):
            assert (x @ x).dtype == torch.float32
    with without_autocast(torch.device("meta")):
        pass


class OnceOnly(torch.autograd.Function):
    """x² as torch's fused kernels are: a derivative without one of its own, which takes no missing gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        ctx.set_materialize_grads(False)
        return x.square()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        assert grad is not None, "a kernel would read what is not there"
        return 2 * ctx.saved_tensors[0] * grad


def test_an_operation_with_one_derivative_gets_all_of_them() -> None:
    x = torch.randn(5, dtype=torch.float64, requires_grad=True)
    made = with_second_derivative(OnceOnly.apply, torch.square, (x,))
    [first] = torch.autograd.grad(made.sum(), x, retain_graph=True)
    assert_close(first, 2 * x)
    [first] = torch.autograd.grad(made.pow(2).sum(), x, create_graph=True)
    assert_close(first, 4 * x**3)
    assert_close(torch.autograd.grad(first.sum(), x, retain_graph=True)[0], 12 * x**2)
    several = torch.eye(5, dtype=torch.float64)
    assert_close(torch.autograd.grad(made, x, several, is_grads_batched=True)[0], torch.diag(2 * x.detach()))
    assert torch.autograd.gradgradcheck(lambda x: with_second_derivative(OnceOnly.apply, torch.square, (x,)), x)
    with torch.no_grad():
        assert not with_second_derivative(OnceOnly.apply, torch.square, (x,)).requires_grad


BLOCK = torch.zeros(2, 3, 6, 16)
VIEWS = {
    "whole": (BLOCK, True),
    "half, with a width that fills no 16 bytes": (torch.zeros(2, 3, 6, 5).half(), True),
    "heads of a projection": (torch.zeros(2, 6, 3, 16).transpose(1, 2), True),
    "heads of an odd width": (torch.zeros(2, 6, 3, 5).transpose(1, 2), False),
    "the later rows": (BLOCK[:, :, 2:], True),
    "rows that begin between": (BLOCK[..., 1:9], False),
    "rows of another length": (torch.zeros(2, 3, 6, 17)[..., :16], False),
    "columns in place of rows": (torch.zeros(2, 3, 16, 6).mT, False),
    "one for all sentences": (BLOCK[:1].expand(2, 3, 6, 16), False),
    "one sentence, whose stride is never used": (torch.zeros(3, 6, 16).expand(1, 3, 6, 16), True),
    "whole, but not at a multiple of 16 bytes": (torch.zeros(97)[1:].view(1, 1, 6, 16), False),
    "one number for all keys": (torch.zeros(2, 1, 1, 1).expand(2, 1, 1, 8), False),
}


@pytest.mark.parametrize("name", VIEWS)
def test_what_fused_kernels_can_read(name: str) -> None:
    view, expected = VIEWS[name]
    assert is_readable(view) == expected
    assert is_readable(view.clone(memory_format=torch.contiguous_format))
    assert as_fused_kernels_read(view) is view  # a CPU reads anything


@pytest.mark.gpu
@pytest.mark.parametrize("name", VIEWS)
def test_a_gpu_is_given_what_it_can_read(name: str) -> None:
    view, expected = VIEWS[name]
    storage = torch.empty(4096, device="cuda", dtype=view.dtype).as_strided(
        view.shape, view.stride(), view.storage_offset()
    )
    assert is_readable(as_fused_kernels_read(storage))
    assert (as_fused_kernels_read(storage) is storage) == expected


def test_many_gradients_at_once_have_no_memory() -> None:
    """`is_grads_batched` has a vmap of its own, which `torch.func` does not know of."""
    seen: list[tuple[bool, bool]] = []
    x = torch.zeros(3, requires_grad=True)
    doubled = 2 * x
    doubled.register_hook(lambda grad: seen.append((has_no_memory(grad), transformed())))
    torch.autograd.grad(3 * doubled, x, torch.ones(2, 3), is_grads_batched=True)
    assert seen == [(True, False)]
    assert not has_no_memory(doubled)
    assert not has_no_memory(torch.nn.Parameter(torch.zeros(2)))
    assert torch.func.vmap(lambda row: row + has_no_memory(row))(torch.zeros(1)).item() == 1


@pytest.mark.gpu
@pytest.mark.parametrize("score", ["scaled dot", "inverse distance"])
def test_many_gradients_at_once_on_a_gpu(score: str) -> None:
    layer = SCORES[score]()
    query, keys, values = (x.cuda().requires_grad_() for x in inputs())
    outer = torch.randn(2, *query.shape, dtype=query.dtype, device="cuda")

    def gradient(impl: str) -> Tensor:
        context = attend(query, keys, values, score=layer, impl=impl).context
        return torch.autograd.grad(context, query, outer, is_grads_batched=True)[0]

    assert_close(gradient("auto"), gradient("reference"))
