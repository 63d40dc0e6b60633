"""Labels: what every classification has in common, whatever it classifies. Figures, confusion, and answers in words."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.data.pictures import END, IGNORE

SURE = 0.5  # the probability below which an answer is rather wrong than right
MOST_CONFUSED = 100  # classes, up to which an evaluation keeps the whole table of confusions


def wrong_labels(logits: Float[Tensor, "n s c"], labels: Int[Tensor, "n s"]) -> Bool[Tensor, "n s"]:
    """True where there is a label and the likeliest class is another one."""
    return (logits.argmax(-1) != labels) & (labels != IGNORE)


def label_figures(logits: Float[Tensor, "n s c"], labels: Int[Tensor, "n s"]) -> dict[str, float]:
    """Loss in nats a label, errors of whole answers in percent, and those of single labels where there are several."""
    wrong, real = wrong_labels(logits, labels), labels != IGNORE
    loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORE).item()
    error = 100 * wrong.any(1).double().mean().item()
    figures = {"loss": loss, "error": error, "accuracy": 100 - error}
    if labels.shape[1] > 1:
        figures["label_error"] = 100 * (wrong.sum() / real.sum()).item()
    return figures


def confusion(logits: Float[Tensor, "n s c"], labels: Int[Tensor, "n s"]) -> list[list[int]]:
    """How often each class (row) was taken for each class (column), over all labels.

    >>> confusion(torch.tensor([[[2.0, 1.0]], [[3.0, 0.0]]]), torch.tensor([[0], [1]]))
    [[1, 0], [1, 0]]
    """
    real, classes = labels != IGNORE, logits.shape[-1]
    pairs = labels[real] * classes + logits.argmax(-1)[real]
    table: list[list[int]] = torch.bincount(pairs, minlength=classes**2).view(classes, classes).tolist()
    return table


def label_names(row: Int[Tensor, " s"], classes: Sequence[str]) -> list[str]:
    """Labels in words, up to the end of the sequence."""
    names = [classes[int(label)] for label in row]
    return names[: names.index(END)] if END in names else names


def answer_probability(probabilities: Float[Tensor, "s c"], num_labels: int) -> float:
    """How likely a whole answer is: that of each of its labels, and of the end where there is one."""
    counted = num_labels + (num_labels < len(probabilities))
    return float(probabilities[:counted].max(-1).values.prod().item())


def percent(probability: float) -> str:
    """How sure a model is, in words: "98.2 %"; below a half, where another answer is as likely, it says so.

    >>> percent(0.982), percent(0.412)
    ('98.2 %', '41.2 %: not sure')
    """
    return f"{100 * probability:.1f} %" + (": not sure" if probability < SURE else "")


def label_details(logits: Float[Tensor, "n s c"], labels: Int[Tensor, "n s"], classes: Sequence[str]) -> dict[str, Any]:
    """What an evaluation keeps beside its figures: the answers in words and, of few classes, their confusions."""
    outputs = [" ".join(label_names(row, classes)) for row in logits.argmax(-1)]
    details: dict[str, Any] = {"outputs": outputs}
    if len(classes) <= MOST_CONFUSED:
        details["confusion"] = confusion(logits, labels)
        details["classes"] = list(classes)
    return details
