"""Hops over a memory: the equations by hand, one record a hop, and every score and alignment."""

import pytest
import torch

from regard import trace
from regard.align import ALIGNS
from regard.attention import Mask
from regard.nn import MemoryHops
from regard.score import SCORES


def memory(hops: int, batch: int = 2, slots: int = 5, width: int = 4) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    keys, values = torch.randn(2, hops, batch, slots, width, dtype=torch.float64).unbind()
    return list(keys), list(values)


@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize("recurrent", [False, True])
def test_the_equations_of_the_paper(recurrent: bool, linear: bool) -> None:
    layer = MemoryHops(3, 4, recurrent=recurrent, rectified=2).double()
    keys, values = memory(3)
    state = torch.randn(2, 4, dtype=torch.float64)
    lengths = torch.tensor([5, 3])
    after = layer(state, keys, values, mask=Mask.padding(lengths), linear=linear)
    for row in range(2):
        u, size = state[row], int(lengths[row])
        for hop in range(3):
            scores = keys[hop][row, :size] @ u
            weights = scores if linear else scores.softmax(0)
            u = (layer.across.weight @ u if recurrent else u) + weights @ values[hop][row, :size]
            u = torch.cat([u[:2].clamp(min=0), u[2:]])
        torch.testing.assert_close(after[row], u)


def test_without_softmax_weights_scale_with_the_state() -> None:
    """The output is a polynomial: s times the state gives exactly s times the weights of the first hop."""
    layer, (keys, values) = MemoryHops(2, 4).double(), memory(2)
    state, seen = torch.randn(2, 4, dtype=torch.float64), []
    for scale in (1.0, 8.0):
        with trace(layer) as record:
            layer(scale * state, keys, values, linear=True)
        seen.append(record["attentions.0"].weights)
    assert (seen[1] == 8 * seen[0]).all()


def test_a_trace_has_one_record_a_hop() -> None:
    layer, (keys, values) = MemoryHops(3, 4).double(), memory(3)
    with trace(layer) as seen:
        layer(torch.randn(2, 4, dtype=torch.float64), keys, values, mask=Mask.padding([5, 3]))
    assert list(seen) == ["attentions.0", "attentions.1", "attentions.2"]
    for record in seen.values():
        assert record.weights.shape == (2, 1, 5)
        assert (record.weights[1, 0, 3:] == 0).all()


def test_an_empty_memory_leaves_the_state() -> None:
    layer, (keys, values) = MemoryHops(2, 4).double(), memory(2)
    state = torch.randn(2, 4, dtype=torch.float64, requires_grad=True)
    after = layer(state, keys, values, mask=Mask.padding([0, 5]))
    assert torch.equal(after[0], state[0])
    after.sum().backward()
    assert state.grad.isfinite().all()


PAIRS = [(name, "softmax") for name in SCORES if name != "projected"] + [("dot", name) for name in ALIGNS]


@pytest.mark.parametrize(("score", "align"), PAIRS)
def test_every_score_and_alignment(score: str, align: str) -> None:
    layer = MemoryHops(2, 4, score=score, align=align, max_keys=5).double()
    keys, values = memory(2)
    state = torch.randn(2, 4, dtype=torch.float64, requires_grad=True)
    layer(state, keys, values, mask=Mask.padding([5, 3])).square().sum().backward()
    assert state.grad.isfinite().all()
    assert state.grad.abs().sum() > 0
