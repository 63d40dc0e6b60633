"""Addressing by content and place: interpolation, shift and sharpening."""

import itertools
import math

import pytest
import torch
from torch import Tensor

from regard import Attention, attend
from regard.align import Shift, Sparsemax, interpolate, move_focus, sharpen, softmax
from regard.base import ConfigError, ShapeError
from regard.score import Cosine


def distribution(*shape: int) -> Tensor:
    return torch.rand(*shape, dtype=torch.float64).softmax(-1)


def by_hand(content: Tensor, before: Tensor, gate: float, shift: list[float], sharpness: float) -> list[float]:
    """The four equations of the paper, one number after the other."""
    size, reach = len(content), len(shift) // 2
    mixed = [gate * c + (1 - gate) * b for c, b in zip(content.tolist(), before.tolist(), strict=True)]
    moved = [sum(share * mixed[(i - (n - reach)) % size] for n, share in enumerate(shift)) for i in range(size)]
    powers = [number**sharpness for number in moved]
    return [power / sum(powers) for power in powers]


@pytest.mark.parametrize("shift", [[0.2, 0.3, 0.5], [1.0], [0.1, 0.1, 0.3, 0.4, 0.1]], ids=len)
@pytest.mark.parametrize("num_keys", [1, 2, 5])
@pytest.mark.parametrize("every_key", [False, True])
def test_equals_the_equations_of_the_paper(shift: list[float], num_keys: int, every_key: bool) -> None:
    scores, before = torch.randn(num_keys, dtype=torch.float64), distribution(num_keys)
    align = Shift(0.3, shift, 2.5, every_key=every_key).double()
    weights = align(scores.unsqueeze(0), previous=before).weights[0]
    expected = by_hand(scores.softmax(-1), before, 0.3, [float(torch.tensor(share)) for share in shift], 2.5)
    torch.testing.assert_close(weights, torch.tensor(expected, dtype=torch.float64))


def test_every_stage_gives_a_distribution() -> None:
    content, before, shift = distribution(4, 7), distribution(4, 7), distribution(4, 3)
    mixed = interpolate(content, before, torch.rand(4, 1, dtype=torch.float64))
    moved = move_focus(mixed, shift)
    sharp = sharpen(moved, 1 + 5 * torch.rand(4, 1, dtype=torch.float64))
    for weights in (mixed, moved, sharp):
        assert (weights >= 0).all()
        torch.testing.assert_close(weights.sum(-1), torch.ones(4, dtype=torch.float64))


def test_a_one_hot_shift_rotates_exactly() -> None:
    weights, ahead = distribution(3, 5), torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64)
    assert torch.equal(move_focus(weights, ahead), weights.roll(1, -1))
    assert torch.equal(move_focus(weights, ahead.flip(-1)), weights.roll(-1, -1))
    around = weights
    for _ in range(5):
        around = move_focus(around, ahead)
    assert torch.equal(around, weights)
    previous = torch.eye(5, dtype=torch.float64)
    out = Shift(0.0, (0.0, 0.0, 1.0))(torch.randn(5, 1, 5, dtype=torch.float64), previous=previous)
    assert torch.equal(out.weights[:, 0], previous.roll(1, -1))


def test_masked_keys_are_not_on_the_circle() -> None:
    allowed = torch.tensor([True, False, True, True, False])
    weights = distribution(5).masked_fill(~allowed, 0.0)
    moved = move_focus(weights, torch.tensor([0.1, 0.2, 0.7], dtype=torch.float64), allowed)
    expected = move_focus(weights[allowed], torch.tensor([0.1, 0.2, 0.7], dtype=torch.float64))
    torch.testing.assert_close(moved[allowed], expected)
    assert (moved[~allowed] == 0).all()


def test_content_alone_is_softmax_of_the_strengthened_cosine() -> None:
    query, memory = torch.randn(2, 1, 4, dtype=torch.float64), torch.randn(2, 6, 4, dtype=torch.float64)
    strength = torch.rand(2, 1, 1, dtype=torch.float64) * 9
    before = distribution(2, 6)
    align = Shift(1.0, (0.0, 1.0, 0.0), 1.0)
    out = attend(query, memory, memory, score=Cosine(strength), align=align, previous=before)
    likeness = torch.nn.functional.cosine_similarity(query, memory, dim=-1).unsqueeze(1)
    torch.testing.assert_close(out.weights, (strength * likeness).softmax(-1))
    scaled = attend(query * 3, memory * torch.rand(2, 6, 1).double(), memory, score=Cosine(strength), align=align)
    torch.testing.assert_close(scaled.weights, out.weights)
    flat = attend(query, memory, memory, score=Cosine(strength * 0), align=align).weights
    torch.testing.assert_close(flat, torch.full_like(flat, 1 / 6))
    hard = attend(query, memory, memory, score=Cosine(strength + 1e6), align=align).weights
    torch.testing.assert_close(hard, torch.nn.functional.one_hot(likeness.argmax(-1), 6).double())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("sharpness", [1.0, 50.0, 1e4, 1e30])
def test_sharpening_is_finite_for_large_powers_and_exact_zeros(sharpness: float, dtype: torch.dtype) -> None:
    weights = torch.tensor([[0.5, 0.3, 0.2, 0.0], [1.0, 0.0, 0.0, 0.0], [1e-30, 3e-30, 0.0, 0.0], [0.0] * 4])
    weights = weights.to(dtype).requires_grad_()
    power = torch.full((4, 1), sharpness, dtype=dtype, requires_grad=True)
    sharp = sharpen(weights, power)
    sharp.square().sum().backward()
    for tensor in (sharp, weights.grad, power.grad):
        assert tensor.isfinite().all()
    torch.testing.assert_close(sharp.double().sum(-1), torch.tensor([1.0, 1, 1, 0]).double(), atol=0.01, rtol=0)
    assert (sharp[:, 3] == 0).all()
    if sharpness > 1000:
        assert torch.equal(sharp[:3].argmax(-1), weights[:3].argmax(-1))
        assert (sharp[:3].amax(-1) == 1).all()


def test_a_larger_sharpness_lowers_the_entropy() -> None:
    weights = distribution(6)
    entropies = [-(sharp * sharp.log()).sum() for sharp in (sharpen(weights, power) for power in (1.0, 2.0, 4.0, 8.0))]
    assert all(after < before for before, after in itertools.pairwise(entropies))


@pytest.mark.parametrize("every_key", [False, True])
def test_gradients_of_everything(every_key: bool) -> None:
    scores, gate = torch.randn(2, 3, 5, dtype=torch.float64), torch.rand(2, 3, 1, dtype=torch.float64)
    shift, sharpness = distribution(2, 3, 3), 1 + torch.rand(2, 3, 1, dtype=torch.float64)
    mask = None if every_key else torch.rand(2, 3, 5) < 0.7

    def weights(scores: Tensor, before: Tensor, gate: Tensor, shift: Tensor, sharpness: Tensor) -> Tensor:
        return Shift(gate, shift, sharpness, every_key=every_key)(scores, mask, previous=before).weights

    inputs = [x.requires_grad_() for x in (scores, distribution(2, 5), gate, shift, sharpness)]
    assert torch.autograd.gradcheck(weights, inputs)


def test_numbers_of_each_query_equal_steps() -> None:
    scores, gate = torch.randn(2, 4, 5), torch.rand(2, 4, 1)
    shift, sharpness = torch.rand(2, 4, 3).softmax(-1), 1 + torch.rand(2, 4, 1)
    together, previous = Shift(gate, shift, sharpness)(scores).weights, None
    for t in range(4):
        now = slice(t, t + 1)
        alone = Shift(gate[:, now], shift[:, now], sharpness[:, now])(scores[:, now], previous=previous).weights
        torch.testing.assert_close(alone, together[:, now])
        previous = alone[:, 0]


def test_without_history_the_first_query_goes_by_content() -> None:
    scores = torch.randn(2, 1, 5)
    content = Shift(0.25, (0.0, 1.0, 0.0))(scores).weights
    torch.testing.assert_close(content, softmax(scores))
    torch.testing.assert_close(content, Shift(0.25, (0.0, 1.0, 0.0))(scores, previous=torch.zeros(2, 5)).weights)


def test_learned_numbers_start_where_they_are_told() -> None:
    align = Shift(0.3, (0.2, 0.5, 0.3), 2.0, learned=True)
    gate, shift, sharpness = align.settings()
    assert gate.item() == pytest.approx(0.3)
    assert shift.tolist() == pytest.approx([0.2, 0.5, 0.3])
    assert sharpness.item() == pytest.approx(2.0)
    scores, before = torch.randn(2, 3, 5), torch.rand(2, 5).softmax(-1)
    weights = align(scores, previous=before).weights
    torch.testing.assert_close(weights, Shift(0.3, (0.2, 0.5, 0.3), 2.0)(scores, previous=before).weights)
    weights.square().sum().backward()
    assert all(parameter.grad.abs().sum() > 0 for parameter in align.parameters())


def test_another_alignment_inside() -> None:
    layer = Attention(align=Shift(1.0, (0.0, 1.0, 0.0), base=Sparsemax()))
    query, keys = torch.randn(2, 1, 4), torch.randn(2, 6, 4)
    torch.testing.assert_close(layer(query, keys, keys).weights, attend(query, keys, keys, align=Sparsemax()).weights)


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: Shift(1.5), "Shift gate: got 1.5"),
        (lambda: Shift(0.0, learned=True), "Shift gate: got 0.0"),
        (lambda: Shift(math.nan), "Shift gate"),
        (lambda: Shift(0.5, (0.5, 0.5)), "the number of shifts"),
        (lambda: Shift(0.5, (0.5, 0.6, 0.1)), "sum to 1"),
        (lambda: Shift(0.5, (-0.5, 1.0, 0.5)), "sum to 1"),
        (lambda: Shift(0.5, (0.0, 1.0, 0.0), learned=True), "above 0"),
        (lambda: Shift(0.5, (0.1, 0.8, 0.1), 0.5), "Shift sharpness: got 0.5"),
        (lambda: Shift(torch.ones(1, 1), learned=True), "plain numbers"),
        (lambda: Shift(every_key=True)(torch.zeros(1, 3), torch.ones(1, 3, dtype=torch.bool)), "takes no mask"),
    ],
)
def test_what_makes_no_sense_is_refused(make: type, error: str) -> None:
    with pytest.raises(ConfigError, match=error):
        make()


def test_sizes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ShapeError, match="previous weights and scores differ in length"):
        Shift()(torch.zeros(2, 1, 5), previous=torch.zeros(2, 4))
    with pytest.raises(ShapeError, match="do not fit the queries"):
        Shift(torch.zeros(2, 3, 1))(torch.zeros(2, 4, 5))


def test_repr_shows_the_numbers() -> None:
    assert "gate=0.5, sharpness=1.0" in repr(Shift())
    assert "learned=True" in repr(Shift(learned=True))
    assert "gate=tensor" in repr(Shift(torch.ones(1, 1)))
