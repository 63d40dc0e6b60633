"""An operation that does not pass torch's dispatcher unless somebody looks on: both ways give the same."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx
from torch.overrides import TorchFunctionMode
from torch.profiler import ProfilerActivity, profile
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from regard.kernels.opaque import opaque

CALLS = [0]


@opaque("regard_test::cubed")
def cubed(x: Tensor, y: Tensor | None, factor: float, offset: float = 0.0) -> tuple[Tensor, Tensor]:
    CALLS[0] += 1
    cube = factor * x**3 + offset
    return cube if y is None else cube * y, x.sum()


@opaque("regard_test::cubed_backward")
def cubed_backward(grad: Tensor, x: Tensor, y: Tensor | None, factor: float) -> Tensor:
    slope = 3 * factor * x**2 * grad
    return slope if y is None else slope * y


@cubed.register_fake
def _(x, y, factor, offset=0.0):
    return torch.empty_like(x), x.new_empty(())


@cubed_backward.register_fake
def _(grad, x, y, factor):
    return torch.empty_like(x)


def _remember(ctx, inputs, output):
    x, y, ctx.factor, ctx.offset = inputs
    ctx.save_for_backward(x, y)
    ctx.mark_non_differentiable(output[1])
    ctx.set_materialize_grads(False)


def _differentiate(ctx, grad, _):
    x, y = ctx.saved_tensors
    if not torch.is_grad_enabled():
        return cubed_backward(grad, x, y, ctx.factor), None, None, None
    slope = 3 * ctx.factor * x**2 * grad
    return slope if y is None else slope * y, None, None, None


cubed.register_autograd(_differentiate, setup_context=_remember)


class Calls(TorchDispatchMode):
    """Writes down every operator that it sees."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


class Functions(TorchFunctionMode):
    """Writes down every function of torch that it sees."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


class Named(Tensor):
    """A tensor of another class."""


@pytest.fixture
def x() -> Tensor:
    return torch.tensor([0.5, -1.0, 2.0], requires_grad=True)


@pytest.fixture(params=["direct", "operator"])
def call(request: pytest.FixtureRequest) -> Any:
    return cubed if request.param == "direct" else torch.ops.regard_test.cubed


def test_both_ways_give_the_same_to_the_second_derivative(call: Any, x: Tensor) -> None:
    y = torch.tensor([1.0, 2.0, 3.0])
    cube, total = call(x, y, 2.0, 1.0)
    assert torch.equal(cube, (2 * x**3 + 1) * y)
    assert not total.requires_grad
    (plain,) = torch.autograd.grad(cube.sum(), x, retain_graph=True)
    assert torch.equal(plain, 6 * x**2 * y)
    (first,) = torch.autograd.grad(cube.sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    assert torch.equal(second, 12 * x * y)


def test_the_operation_is_whole(x: Tensor) -> None:
    torch.library.opcheck(torch.ops.regard_test.cubed, (x, None, 2.0, 0.5))
    torch.library.opcheck(torch.ops.regard_test.cubed, (x, torch.ones(3), 2.0))


def test_a_call_that_nobody_watches_passes_no_dispatcher(x: Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cubed, "operator", None)
    cubed(x, None, 1.0, 0.0)[0].sum().backward()
    assert x.grad is not None
    with torch.inference_mode():
        cubed(torch.ones(2), None, 1.0, 0.0)
    with torch.autocast("cpu", torch.bfloat16):
        assert cubed(x, None, 1.0, 0.0)[0].dtype == torch.float32


def test_names_and_defaults(x: Tensor) -> None:
    expected = cubed(x, None, 2.0, 0.0)[0]
    assert torch.equal(cubed(x, None, 2.0)[0], expected)
    assert torch.equal(cubed(x, None, factor=2.0)[0], expected)
    with pytest.raises(RuntimeError, match="missing value for argument"):
        cubed(x)


def test_no_graph_where_no_gradient_is_needed(call: Any, x: Tensor) -> None:
    assert call(x.detach(), None, 1.0, 0.0)[0].grad_fn is None
    with torch.no_grad():
        assert call(x, None, 1.0, 0.0)[0].grad_fn is None
    with torch.inference_mode():
        assert call(x, None, 1.0, 0.0)[0].is_inference()


def test_no_derivative_without_a_formula(x: Tensor) -> None:
    slope = cubed_backward(torch.ones(3), x, None, 1.0)
    with pytest.raises(RuntimeError, match="no autograd formula was registered"):
        slope.sum().backward()


def test_a_saved_tensor_that_changed_is_noticed(call: Any, x: Tensor) -> None:
    inner = x * 1.0
    cube, _ = call(inner, None, 1.0, 0.0)
    inner.add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        cube.sum().backward()


def test_hooks_of_saved_tensors_and_checkpoints(call: Any, x: Tensor) -> None:
    packed: list[Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda saved: packed.append(saved) or saved, lambda saved: saved):
        cube, _ = call(x, None, 1.0, 0.0)
    assert len(packed) == 1
    (gradient,) = torch.autograd.grad(cube.sum(), x)
    before = CALLS[0]
    again = checkpoint(lambda x: call(x, None, 1.0, 0.0)[0], x, use_reentrant=False)
    assert torch.equal(torch.autograd.grad(again.sum(), x)[0], gradient)
    assert CALLS[0] == before + 2


def test_modes_see_the_operation(x: Tensor) -> None:
    with Calls() as calls:
        cube, _ = cubed(x, None, 1.0, 0.0)
        cube.sum().backward()
    assert {"regard_test.cubed.default", "regard_test.cubed_backward.default"} <= set(calls.names)
    with Functions() as functions:
        cubed(x, None, 1.0, 0.0)
    assert functions.names == ["regard_test.cubed.default"]
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        cubed(x, None, 1.0, 0.0)
    assert "regard_test::cubed" in {event.name for event in profiler.events()}


def test_other_tensors(x: Tensor) -> None:
    assert type(cubed(x.detach().as_subclass(Named), None, 1.0, 0.0)[0]) is Named
    before = CALLS[0]
    assert cubed(x.to("meta"), None, 1.0, 0.0)[0].shape == (3,)
    with FakeTensorMode() as mode:
        assert cubed(mode.from_tensor(x), None, 1.0, 0.0)[0].shape == (3,)
    assert CALLS[0] == before
    negated = torch.complex(torch.zeros(3), x.detach()).conj().imag
    assert negated.is_neg()
    monitored: list[bool] = []

    @opaque("regard_test::seen")
    def seen(x: Tensor) -> Tensor:
        monitored.append(x.is_neg())
        return x.clone()

    assert torch.equal(seen(negated), -x.detach())
    assert monitored == [False]  # a kernel that reads memory would have missed the sign


def test_tracing(x: Tensor) -> None:
    graph = make_fx(lambda x: cubed(x, None, 1.0, 0.0)[0])(x.detach())
    assert [node.target for node in graph.graph.nodes if "regard_test" in str(node.target)] == [
        torch.ops.regard_test.cubed.default
    ]
    traced = torch.jit.trace(lambda x: cubed(x, None, 1.0, 0.0)[0], x.detach(), check_trace=False)
    assert "regard_test::cubed" in str(traced.graph)


def test_transforms_of_torch_func(x: Tensor) -> None:
    with pytest.raises(RuntimeError, match=r"In order to use an autograd\.Function with functorch transforms"):
        torch.func.grad(lambda x: cubed(x, None, 1.0, 0.0)[0].sum())(x.detach())
    batched = torch.func.vmap(lambda x: cubed(x, None, 1.0, 0.0)[0])(torch.stack([x.detach(), x.detach()]))
    assert torch.equal(batched[0], x.detach() ** 3)


def test_many_gradients_at_once(call: Any, x: Tensor) -> None:
    cube, _ = call(x, None, 1.0, 0.0)
    (rows,) = torch.autograd.grad(cube, x, torch.eye(3), is_grads_batched=True)
    assert torch.equal(rows, torch.diag(3 * x**2))


def test_forward_mode_is_refused(x: Tensor) -> None:
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x.detach(), torch.ones(3))
        with pytest.raises(NotImplementedError, match="jvp"):
            cubed(dual, None, 1.0, 0.0)
        assert torch.equal(cubed(x.detach(), None, 1.0, 0.0)[0], x.detach() ** 3)


@pytest.mark.bare
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compiled(x: Tensor, backend: str) -> None:
    torch.compiler.reset()
    compiled = torch.compile(lambda x: cubed(x, None, 2.0, 0.0)[0].sum(), backend=backend, fullgraph=True)
    (gradient,) = torch.autograd.grad(compiled(x), x)
    assert torch.equal(gradient, 6 * x.detach() ** 2)


@pytest.mark.bare
def test_compiled_with_a_break_and_exported(x: Tensor) -> None:
    torch.compiler.reset()

    def broken(x: Tensor) -> Tensor:
        torch._dynamo.graph_break()
        return cubed(x, None, 2.0, 0.0)[0].sum()

    (gradient,) = torch.autograd.grad(torch.compile(broken, backend="eager")(x), x)
    assert torch.equal(gradient, 6 * x.detach() ** 2)

    class Layer(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return cubed(x, None, 2.0, 0.0)[0]

    for strict in (False, True):
        program = torch.export.export(Layer(), (x.detach(),), strict=strict)
        assert "regard_test.cubed" in str(program.graph)
