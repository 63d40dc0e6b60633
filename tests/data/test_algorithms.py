"""Sequences made by algorithms: each layout is checked against a plain loop over one sequence."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.data.algorithms import CONTEXT, PROBLEMS, Copy, NGrams, Recall, RepeatCopy, Sequences, Sort, optimal_bits
from regard.data.parallel import DataError

every_problem = pytest.mark.parametrize("name", PROBLEMS)


def draw(problem: Any, batch: int = 50, **settings: Any) -> Sequences:
    return problem.draw(batch, generator=torch.Generator().manual_seed(3), **settings)  # type: ignore[no-any-return]


def told(sequences: Sequences, row: int) -> Tensor:
    """The targets at the steps that count."""
    return sequences.targets[row][sequences.scored[row]]


@every_problem
def test_shapes_are_fixed_and_nothing_is_asked_early(name: str) -> None:
    problem = PROBLEMS[name]()
    first, second = draw(problem), problem.draw(50, generator=torch.Generator().manual_seed(4))
    assert [tensor.shape for tensor in first] == [tensor.shape for tensor in second]
    assert first.inputs.shape[2] == problem.inputs
    assert first.targets.shape[2] == problem.outputs
    assert not torch.equal(first.inputs, second.inputs)
    assert set(first.targets.unique().tolist()) == {0.0, 1.0}
    assert (first.targets[~first.scored] == 0).all()
    assert problem.shortest <= int(first.lengths.min())
    assert int(first.lengths.max()) == problem.longest
    if name != "ngrams":  # there the input goes on while the network answers
        assert (first.inputs[first.scored] == 0).all(), "no input while the answer is asked for"


@every_problem
def test_the_seed_decides(name: str) -> None:
    problem = PROBLEMS[name]()
    for one, other in zip(draw(problem), draw(problem), strict=True):
        assert torch.equal(one, other)
    torch.manual_seed(5)
    one = problem.draw(4)
    torch.manual_seed(5)
    assert torch.equal(one.inputs, problem.draw(4).inputs)


@every_problem
def test_a_length_can_be_asked_for(name: str) -> None:
    sequences = draw(PROBLEMS[name](), length=9)
    assert (sequences.lengths == 9).all()


def test_sizes_of_the_paper() -> None:
    assert (Copy().bits, Copy().shortest, Copy().longest) == (8, 1, 20)
    assert (RepeatCopy().bits, RepeatCopy().longest, RepeatCopy().repeats) == (8, 10, 10)
    assert (Recall().bits, Recall().shortest, Recall().longest) == (6, 2, 6)
    assert (NGrams().longest, CONTEXT + 1) == (200, 6)
    assert (Sort().bits, Sort().longest, Sort().kept) == (8, 20, 16)


def test_copy() -> None:
    sequences = draw(Copy(bits=4, longest=6))
    for row, length in enumerate(sequences.lengths.tolist()):
        inputs = sequences.inputs[row]
        assert torch.equal(told(sequences, row), inputs[:length, :4])
        assert inputs[:, 4].nonzero().tolist() == [[length]]
        assert (inputs[length + 1 :] == 0).all()
        assert (inputs[length, :4] == 0).all()
        assert sequences.scored[row].nonzero().flatten().tolist() == list(range(length + 1, 2 * length + 1))
    assert 0.4 < sequences.inputs[:, 0, :4].mean() < 0.6
    assert set(sequences.lengths.tolist()) == set(range(1, 7))


def test_repeat_copy() -> None:
    problem = RepeatCopy(bits=3, longest=4, repeats=5)
    sequences = draw(problem, 400)
    numbers = []
    for row, length in enumerate(sequences.lengths.tolist()):
        inputs, answer = sequences.inputs[row], told(sequences, row)
        repeats = (len(answer) - 1) // length
        assert torch.equal(answer[:-1, :3], inputs[:length, :3].repeat(repeats, 1))
        assert answer[:, 3].tolist() == [0.0] * (length * repeats) + [1.0]
        assert (answer[-1, :3] == 0).all()
        number = inputs[length, 4].item()
        assert number == pytest.approx((repeats - 3) / math.sqrt(2), abs=1e-6)
        numbers.append(number)
    assert abs(torch.tensor(numbers).mean()) < 0.15
    assert torch.tensor(numbers).var().item() == pytest.approx(1, abs=0.15)


def test_recall() -> None:
    sequences = draw(Recall(bits=5))
    asked = set()
    for row, count in enumerate(sequences.lengths.tolist()):
        inputs = sequences.inputs[row]
        assert inputs[:, 5].nonzero().flatten().tolist() == [4 * item for item in range(count)]
        assert inputs[:, 6].nonzero().flatten().tolist() == [4 * count, 4 * count + 4]
        items = [inputs[4 * item + 1 : 4 * item + 4, :5] for item in range(count)]
        query = inputs[4 * count + 1 : 4 * count + 4, :5]
        place = next(number for number, item in enumerate(items) if torch.equal(item, query))
        assert torch.equal(told(sequences, row), items[place + 1])
        asked.add((count, place))
    assert {place for count, place in asked if count == 6} == set(range(5))


def test_ngrams_follow_their_table() -> None:
    """Beta(½, ½) prefers chances near 0 and 1: after the same five bits the same bit mostly comes again."""
    sequences = draw(NGrams(), 300)
    bits = torch.cat([sequences.inputs[..., 0], sequences.targets[:, -1:, 0]], 1)
    assert bits.shape == (300, 200)
    assert torch.equal(sequences.inputs[:, 5:, 0], sequences.targets[:, 4:-1, 0])
    assert sequences.scored.sum(1).tolist() == [195] * 300
    same = total = 0
    for row in bits.int().tolist():
        last: dict[tuple[int, ...], int] = {}
        for place in range(CONTEXT, len(row)):
            context = tuple(row[place - CONTEXT : place])
            if context in last:
                same, total = same + (last[context] == row[place]), total + 1
            last[context] = row[place]
    assert same / total > 0.72  # 2 E[p² ] − 2 E[p] + 1 is ¾ for Beta(½, ½), where contexts are visited alike


def test_the_best_estimator_equals_counting() -> None:
    sequences = draw(NGrams(), 5)
    bits = torch.cat([sequences.inputs[..., 0], sequences.targets[:, -1:, 0]], 1).int().tolist()
    expected = []
    for row in bits:
        counts: dict[tuple[int, ...], list[int]] = {}
        cost = 0.0
        for place in range(CONTEXT, len(row)):
            seen = counts.setdefault(tuple(row[place - CONTEXT : place]), [0, 0])
            chance = (seen[1] + 0.5) / (sum(seen) + 1)
            cost -= math.log2(chance if row[place] else 1 - chance)
            seen[row[place]] += 1
        expected.append(cost)
    assert optimal_bits(sequences).tolist() == pytest.approx(expected)
    assert optimal_bits(draw(NGrams(), 200)).mean() < 195  # guessing


def test_sort() -> None:
    sequences = draw(Sort(bits=5, shortest=4, longest=7, kept=4))
    for row, length in enumerate(sequences.lengths.tolist()):
        inputs = sequences.inputs[row]
        priorities = inputs[:length, 5].tolist()
        assert all(-1 <= priority <= 1 for priority in priorities)
        order = sorted(range(length), key=lambda place: -priorities[place])[:4]
        assert torch.equal(told(sequences, row), inputs[order, :5])
        assert inputs[:, 6].nonzero().tolist() == [[length]]
    fewer = draw(Sort(bits=5, shortest=2, longest=3, kept=16))
    assert fewer.scored.sum(1).tolist() == fewer.lengths.tolist()


@every_problem
def test_what_is_typed_is_arranged_in_the_same_way(name: str) -> None:
    problem = PROBLEMS[name]()
    typed = problem.read(problem.example)
    assert len(typed.inputs) == 1
    assert typed.scored.any()
    assert typed.inputs.shape[2] == problem.inputs
    if name == "sort":
        assert told(typed, 0).int().tolist() == [[0, 0, 1, 1, 0, 1, 0, 1], [0, 1, 1, 0, 1, 0, 0, 1], [1] * 4 + [0] * 4]
    if name == "recall":
        assert told(typed, 0).int().tolist() == [[1, 0, 1, 0, 1, 0], [1, 1, 1, 0, 0, 0], [0, 1, 0, 1, 0, 1]]


@pytest.mark.parametrize(("name", "text", "error"), [
    ("copy", "", "a sequence of bits: got 0 vectors"), ("copy", "0110", "not a vector of bits: got '0110'"),
    ("copy", "0110100x", "expected 8 times 0 or 1"), ("copy", "01101001 " * 1001, "1001 vectors"),
    ("repeat_copy", "01101001", "how often to repeat"), ("repeat_copy", "01101001 x0", "how often to repeat"),
    ("repeat_copy", "01101001 11111111 x999", "too long"), ("recall", "011010 110011 000111", "cannot be asked"),
    ("recall", "011010 110011 000111 | 101010 111000 010101 ? 111111 111111 111111", "one of the items"),
    ("ngrams", "01101", "too few bits: got 5"), ("ngrams", "012", "not a vector of bits"),
    ("sort", "01101001", "needs a priority"), ("sort", "01101001:3", "from -1 to 1"),
])  # fmt: skip
def test_what_cannot_be_read_is_refused(name: str, text: str, error: str) -> None:
    with pytest.raises(DataError, match=error):
        PROBLEMS[name]().read(text)
