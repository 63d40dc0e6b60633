"""Attention step by step: the same as one call for all queries, whoever projects the query."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention import Mask, trace
from regard.nn import StepAttention, build_attention, query_weight
from regard.score import Additive, Prepared

ROWS, KEYS, STEPS, WIDTH = 3, 5, 4, 6
CASES = [("additive", "softmax"), ("dot", "sparsemax"), ("location_aware", "softmax"), ("additive", "monotonic")]


def memory() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Queries of all steps, values, where attending is allowed, and the weights before the first step."""
    queries, values = torch.randn(ROWS, STEPS, WIDTH).double(), torch.randn(ROWS, KEYS, WIDTH).double()
    allowed = Mask.padding(torch.tensor([5, 2, 1])).dense(1, KEYS)
    return queries, values, allowed, F.one_hot(torch.zeros(ROWS, dtype=torch.long), KEYS).double()


@pytest.mark.parametrize(("score", "align"), CASES)
def test_steps_equal_one_call_with_all_queries(score: str, align: str) -> None:
    attention = build_attention(score, align, query_dim=WIDTH, key_dim=WIDTH, hidden_dim=4).double().eval()
    queries, values, allowed, previous = memory()
    keys = attention.prepare(values).keys
    whole = attention(queries, Prepared(keys), values, mask=allowed, previous=previous)
    attend, weights = StepAttention(attention, keys, values, allowed=allowed, steps=STEPS), previous
    for time in range(STEPS):
        context, weights = attend(queries[:, time], weights, time)
        assert weights is not None
        torch.testing.assert_close(context, whole.context[:, time])
        torch.testing.assert_close(weights, whole.weights[:, time])


@pytest.mark.parametrize(("score", "align"), CASES)
def test_weights_come_if_they_are_needed(score: str, align: str) -> None:
    attention = build_attention(score, align, query_dim=WIDTH, key_dim=WIDTH, hidden_dim=4).double()
    queries, values, allowed, previous = memory()
    attend = StepAttention(attention, attention.prepare(values).keys, values, allowed=allowed, need_weights=False)
    has_history = score == "location_aware" or align == "monotonic"
    assert (attend(queries[:, 0], previous).weights is not None) == has_history


def test_a_query_that_somebody_else_projects() -> None:
    attention = build_attention("additive", "softmax", query_dim=WIDTH, key_dim=WIDTH, hidden_dim=4).double()
    queries, values, allowed, _ = memory()
    keys, weight = attention.prepare(values).keys, query_weight(attention)
    assert isinstance(attention.score, Additive)
    assert weight is attention.score.to_query.weight
    plain = StepAttention(attention, keys, values, allowed=allowed)
    other = StepAttention(attention, keys, values, allowed=allowed, project=lambda state: F.linear(state, weight))
    one, two = plain(queries[:, 0]), other(queries[:, 0])
    torch.testing.assert_close(one, two)
    wanted = list(attention.parameters())
    gradients = [torch.autograd.grad(out.context.square().sum(), wanted, retain_graph=True) for out in (one, two)]
    torch.testing.assert_close(*gradients)


def test_who_else_reads_the_query_gets_the_state_itself() -> None:
    sizes = {"query_dim": WIDTH, "key_dim": WIDTH, "hidden_dim": 4}
    assert query_weight(build_attention("dot", "softmax", **sizes)) is None
    assert query_weight(build_attention("additive", "local_predictive", **sizes)) is None  # its centre reads the query


@pytest.mark.parametrize("projected", [False, True])
def test_a_trace_sees_the_layer_of_the_model(projected: bool) -> None:
    attention = build_attention("additive", "softmax", query_dim=WIDTH, key_dim=WIDTH, hidden_dim=4).double()
    model = torch.nn.ModuleDict({"look": attention})
    queries, values, allowed, _ = memory()
    weight = query_weight(attention)
    attend = StepAttention(
        attention,
        attention.prepare(values).keys,
        values,
        allowed=allowed,
        need_weights=False,
        project=(lambda state: F.linear(state, weight)) if projected else None,
    )
    with trace(model) as seen:
        for time in range(STEPS):
            attend(queries[:, time])
    assert list(seen) == ["look"]
    expected = attention(queries, values, values, mask=allowed).weights
    torch.testing.assert_close(torch.from_numpy(seen["look"].weights), expected.detach())


def test_dropout_is_that_of_the_layer() -> None:
    attention = build_attention("additive", "softmax", query_dim=WIDTH, key_dim=WIDTH, hidden_dim=4, dropout=0.5)
    attention.double()
    queries, values, allowed, _ = memory()
    weight = query_weight(attention)

    def context() -> Tensor:
        keys = attention.prepare(values).keys
        project = lambda state: F.linear(state, weight)  # noqa: E731
        return StepAttention(attention, keys, values, allowed=allowed, project=project)(queries[:, 0]).context

    assert not torch.equal(context(), context())
    attention.eval()
    assert torch.equal(context(), context())
