"""Rows of sentences: what is found stays with its sentence, whatever order the rows have."""

import pytest
import torch

from regard.base import ConfigError, RegardError
from regard.decode.fixed_board import Barred, Rows, type_of


def rows() -> Rows:
    made = Rows(4, 3, torch.device("cpu"))
    made.add("found", torch.float64, first=-1.0, found=True)
    made.start(torch.tensor([3, 1, 2]))
    return made


def test_places_without_a_sentence_are_done() -> None:
    made = rows()
    assert made.now["done"].tolist() == [False, False, False, True]
    assert made.now["last"].tolist() == [3, 1, 2, 0]


def test_gathered_rows_take_their_results_along_and_others_leave_theirs() -> None:
    made = rows()
    made.now["found"].copy_(torch.tensor([10.0, 11.0, 12.0, 13.0]))
    made.now["done"][0] = True
    order = made.gather(4, 2)
    assert order.tolist() == [1, 2]
    assert made.now["sentence"][:2].tolist() == [1, 2]
    made.now["found"][:2] += 100
    made.flush(2)
    assert made.found["found"].tolist() == [10, 111, 112, 13]
    made.start(torch.tensor([1]))
    assert made.found["found"].tolist() == [-1] * 4


def test_entries_stand_at_their_step_and_sentence() -> None:
    made, path = rows(), rows().trellis(torch.long)
    made.time += 2
    made.now["sentence"].copy_(torch.tensor([2, 0, 1, 3]))
    made.written(path, torch.tensor([7, 8]))
    assert path.tolist() == [[0] * 4, [0] * 4, [8, 0, 7, 0], [0] * 4]


def test_logits_that_are_not_numbers_are_told_at_the_end() -> None:
    made, logits = rows(), torch.zeros(4, 5)
    logits[3] = torch.nan  # of nobody
    logits[0] = -torch.inf  # no way on, which is allowed
    log_probs = made.log_probs(logits, 4)
    assert (log_probs[0] == -torch.inf).all()
    torch.testing.assert_close(log_probs[1], torch.full((5,), 0.2).log())
    made.check()
    logits[1, 2] = torch.inf
    made.log_probs(logits, 4)
    with pytest.raises(RegardError, match="not numbers"):
        made.check()


def test_barred_tokens() -> None:
    barred = Barred(frozenset({0}), 2, 3, torch.device("cpu"))
    for time, expected in ((2, [True, False, True, False]), (3, [True, False, False, False])):
        assert (barred(torch.zeros(1, 4), torch.tensor(time)) == -torch.inf).tolist() == [expected]
    with pytest.raises(ConfigError, match="got 4; expected tokens of the vocabulary: 0 to 3"):
        Barred(frozenset({4}), 2, 0, torch.device("cpu"))(torch.zeros(1, 4), torch.tensor(1))


def test_type_of_a_state() -> None:
    whole, half, wide = torch.zeros(1, dtype=torch.long), torch.zeros(1, dtype=torch.bfloat16), torch.zeros(1).double()
    assert [type_of(state) for state in ((whole,), (half, whole), (half, wide))] == [
        torch.float64, torch.float32, torch.float64,
    ]  # fmt: skip
