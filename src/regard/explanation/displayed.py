"""Predictions in a notebook: what went in, what came out, and what was attended to, as one element of HTML."""

from dataclasses import replace
from typing import Any

from regard.explanation.svg import text
from regard.explanation.widget import widget

MOST = 4  # explanations of one prediction that are shown


class Displayed:
    """A prediction that displays itself: a notebook calls `_repr_html_`.

    It has `source` and `text`, often `described` (the text and how sure the model is), and `explanations`.
    """

    def _repr_html_(self) -> str:
        """What a notebook shows; nothing is fetched from anywhere."""
        prediction: Any = self
        explanations = list(prediction.explanations)
        answer = str(getattr(prediction, "described", prediction.text)).strip()
        words = f"<b>{text(answer)}</b>" if answer else "<i>no words</i>"
        more = len(explanations) - MOST
        note = f"<small>{more} more in <code>.explanations</code></small>" if more > 0 else ""
        source = str(getattr(prediction, "source", "")).strip()
        head = f'<p class="answer" dir="auto"><small>{text(source)}</small>{words}{note}</p>\n'
        said = {source, answer, str(prediction.text).strip()}
        untitled = [replace(each, title="") if each.title in said else each for each in explanations[:MOST]]
        return widget(*untitled, head=head)
