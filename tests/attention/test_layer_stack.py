"""The stack of running modules: names, calls, threads, and nothing that stays."""

import threading
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.attention.layer_stack import (
    LayerStack,
    attention_like,
    is_compiled,
    is_plain,
    listed,
    modules_of,
    only_computes,
    related,
)


class Inner(nn.Module):
    def __init__(self, stack: list[LayerStack], fails: bool = False) -> None:
        super().__init__()
        self.linear, self.stack, self.fails, self.names = nn.Linear(2, 2), stack, fails, []

    def forward(self, x: Tensor) -> Tensor:
        self.linear(x)
        if self.stack:
            self.names = [self.stack[0].next_call("function") for _ in range(2)]
        if self.fails:
            raise RuntimeError("stop")
        return x


def hooks_of(model: nn.Module) -> int:
    return sum(len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules())


def test_names_of_calls_and_what_ran() -> None:
    stacks: list[LayerStack] = []
    model = nn.Sequential(Inner(stacks), nn.ModuleDict({"deep": Inner(stacks)})["deep"], nn.Linear(2, 2))
    finished = []
    with LayerStack(modules_of(model), lambda running, output: finished.append((running.name, running.seen))) as stack:
        stacks.append(stack)
        assert stack.next_call("function") == "function"
        model[:2](torch.zeros(1, 2))
        assert stack.running == []
    assert [model[0].names, model[1].names] == [["0", "0:1"], ["1", "1:1"]]
    assert finished == [("0", True), ("1", True)]  # plain layers are left alone
    assert stack.ran == {"0", "1"}
    assert hooks_of(model) == 0


def test_nothing_stays_after_an_error() -> None:
    stacks: list[LayerStack] = []
    model = nn.Sequential(nn.Sequential(Inner(stacks, fails=True)))
    before = model[0].register_forward_hook(lambda *_: None)

    def run() -> None:
        with LayerStack(modules_of(model)) as stack:
            stacks[:] = [stack]
            with pytest.raises(RuntimeError, match="stop"):
                model(torch.zeros(1, 2))
            assert stack.running == []  # a caller that goes on has a right stack
            model[0][0].fails = False
            model(torch.zeros(1, 2))
            assert model[0][0].names == ["0.0", "0.0:1"]
            model[0][0].fails = True
            model(torch.zeros(1, 2))

    with pytest.raises(RuntimeError, match="stop"):
        run()
    assert hooks_of(model) == 1
    before.remove()


def test_other_threads_are_not_seen() -> None:
    model = nn.Sequential(nn.Linear(2, 2))
    with LayerStack(modules_of(model)) as stack:
        thread = threading.Thread(target=lambda: model(torch.zeros(1, 2)))
        thread.start()
        thread.join()
        assert stack.ran == set()
        model(torch.zeros(1, 2))
    assert stack.ran == {"sequential"}


def test_what_looks_like_attention() -> None:
    model = nn.ModuleDict(
        {
            "attn": nn.Linear(2, 2),  # a plain layer, whatever it is called
            "attention": nn.ModuleList([nn.MultiheadAttention(4, 2)]),
            "encoder": nn.TransformerEncoderLayer(4, 2),
            "cross_attn": Inner([]),
        }
    )
    assert list(attention_like(modules_of(model))) == ["attention.0", "encoder.self_attn", "cross_attn"]


def test_plain_layers() -> None:
    kinds = [nn.Linear(2, 2), nn.LayerNorm(2), nn.MultiheadAttention(2, 1), nn.TransformerEncoderLayer(2, 1), Inner([])]
    assert [is_plain(module) for module in kinds] == [True, True, False, False, False]


class Norm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(2)), 1e-6

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.linear, self.inner = Norm(), nn.Linear(2, 2), Inner([])

    def forward(self, x: Tensor) -> Tensor:
        return x + self.linear(self.inner(self.norm(x)))


class Given(Norm):
    def forward(self, x: Tensor, function: Any) -> Tensor:
        return function(x)


class Attends(Norm):
    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.scaled_dot_product_attention(x, x, x)


class ByHand(Norm):
    def to(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return nn.functional.scaled_dot_product_attention(x, x, x)

    def forward(self, x: Tensor) -> Tensor:
        return self.to(x)


def test_modules_that_cannot_attend_have_no_hooks() -> None:
    """In a model of 16 layers: two hooks for its root and for each layer that may attend, and none elsewhere."""
    assert [only_computes(module) for module in (Norm(), Block(), Given(), Attends(), ByHand())] == [True, True] + [
        False
    ] * 3
    changed, hooked, stored = Norm(), Norm(), Norm()
    changed.forward = lambda x: x  # type: ignore[method-assign]
    hooked.register_forward_hook(lambda *_: None)
    stored.eps = len  # type: ignore[assignment]
    assert not any(only_computes(module) for module in (changed, hooked, stored))
    model = nn.Sequential(*[Block() for _ in range(16)])
    with LayerStack(modules_of(model)) as stack:
        assert hooks_of(model) == 2 * (1 + 16)
        model(torch.zeros(1, 2))
    assert stack.ran == {"sequential", *(f"{number}.inner" for number in range(16))}
    assert hooks_of(model) == 0


def test_names_that_belong_together() -> None:
    assert related("a.b", "a.b.c")
    assert related("a.b.c:1", "a.b")
    assert related("a", "a")
    assert not related("a.b", "a.bc")
    assert listed("abcdefghij", most=3) == "a, b, c and 7 more"
    assert listed(["x"]) == "x"


@pytest.mark.bare
def test_compiled_modules_are_known() -> None:
    model = nn.Sequential(nn.Linear(2, 2))
    assert not is_compiled(model)
    assert is_compiled(torch.compile(model, backend="eager"))
    model[0].compile(backend="eager")
    assert [is_compiled(module) for module in model.modules()] == [False, True]
