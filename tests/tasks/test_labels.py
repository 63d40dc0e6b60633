import math

import pytest
import torch

from regard.data.pictures import END, IGNORE
from regard.tasks.labels import answer_probability, confusion, label_details, label_figures, label_names, wrong_labels

LABELS = torch.tensor([[0, 1], [2, IGNORE], [1, 1]])


def logits(*answers: list[int]) -> torch.Tensor:
    """Scores that are sure of these answers, among three classes."""
    return torch.nn.functional.one_hot(torch.tensor(answers), 3).float() * 100


def test_figures_of_whole_answers_and_of_single_labels() -> None:
    right = logits([0, 1], [2, 0], [1, 1])  # where there is no label, any answer is right
    figures = label_figures(right, LABELS)
    assert (figures["error"], figures["accuracy"], figures["label_error"]) == (0, 100, 0)
    assert figures["loss"] == pytest.approx(0, abs=1e-6)
    half = label_figures(logits([0, 0], [2, 0], [0, 0]), LABELS)
    assert half["error"] == pytest.approx(200 / 3)
    assert half["label_error"] == pytest.approx(100 * 3 / 5)
    assert "label_error" not in label_figures(logits([0])[:, None][0], LABELS[:1, :1])
    assert label_figures(torch.zeros(3, 2, 3), LABELS)["loss"] == pytest.approx(math.log(3))


def test_confusions_leave_out_what_has_no_label() -> None:
    table = confusion(logits([0, 0], [2, 0], [1, 1]), LABELS)
    assert table == [[1, 0, 0], [1, 2, 0], [0, 0, 1]]
    assert sum(map(sum, table)) == (LABELS != IGNORE).sum()
    assert wrong_labels(logits([0, 0], [2, 0], [1, 1]), LABELS).tolist() == [[False, True], [False, False], [False] * 2]


def test_answers_in_words() -> None:
    classes = ("0", "1", END)
    assert label_names(torch.tensor([1, 0, 2, 1]), classes) == ["1", "0"]
    assert label_names(torch.tensor([1, 0]), classes) == ["1", "0"]
    details = label_details(logits([1, 2], [0, 0]), torch.tensor([[1, 2], [0, 1]]), classes)
    assert details["outputs"] == ["1", "0 0"]
    assert details["classes"] == list(classes)
    many = tuple(map(str, range(101)))
    assert set(label_details(torch.zeros(1, 1, 101), torch.zeros(1, 1, dtype=torch.long), many)) == {"outputs"}


def test_how_sure_an_answer_is() -> None:
    sure = torch.tensor([[0.5, 0.5, 0.0], [0.0, 0.2, 0.8], [1.0, 0.0, 0.0]])
    assert answer_probability(sure, 2) == pytest.approx(0.4)  # and the end
    assert answer_probability(sure[1:2], 1) == pytest.approx(0.8)
