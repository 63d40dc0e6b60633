"""How each task is shown: what its figures are called and which one counts, what its data is, what it counts in."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from regard.tasks import CaptioningConfig, ClassificationConfig, TranslationConfig


class Figure(NamedTuple):
    """One figure of an evaluation, as people read it."""

    label: str
    decimals: int = 2
    signature: str | None = None  # the name under which it says how it was measured; None: its own, if there is any


class Shown(NamedTuple):
    """What command line, report and documents say of a task."""

    unit: str  # what a batch counts
    things: str  # what a test set has
    samples: str  # what the report calls its examples
    counts: str  # the figure that counts
    figures: dict[str, Figure]
    use: str  # what a model of it is for: a command, and a method


SHOWN: dict[str, Shown] = {
    "translation": Shown(
        "tokens", "sentences", "Translations", "tokenized_bleu",
        {
            "bleu": Figure("BLEU"),
            "tokenized_bleu": Figure("BLEU, tokenised, lower-cased"),
            "chrf": Figure("chrF"),
            "loss": Figure("loss (nats a token)", 3),
            "sentences_per_second": Figure("sentences a second", 1),
        },
        "translate",
    ),
    "classification": Shown(
        "images", "pictures", "Pictures", "error",
        {
            "error": Figure("error, %"),
            "label_error": Figure("error of single labels, %"),
            "steps": Figure("glimpses a picture"),
            "loss": Figure("loss (nats a label)", 3),
        },
        "classify",
    ),
    "captioning": Shown(
        "tokens", "pictures", "Captions", "bleu_4",
        {
            **{f"bleu_{n}": Figure(f"BLEU-{n}", signature="bleu") for n in range(1, 5)},
            **{f"bleu_{n}_brevity": Figure(f"BLEU-{n}, with brevity penalty", signature="bleu_brevity")
               for n in range(1, 5)},
            "meteor": Figure("METEOR"),
            "meteor_exact_stem": Figure("METEOR, exact and stem"),
            "cider": Figure("CIDEr-D"),
            "words": Figure("words a caption"),
            "exact": Figure("captions that are a reference", 3),
            "loss": Figure("loss (nats a token)", 3),
            "captions_per_second": Figure("captions a second", 1),
        },
        "caption",
    ),
}  # fmt: skip


def kind_of(figures: Mapping[str, Any]) -> str:
    """Which task these figures are of: a name of SHOWN.

    >>> kind_of({"loss": 0.1, "error": 1.3})
    'classification'
    """
    return next(name for name, shown in SHOWN.items() if shown.counts in figures)


def data_name(task: Any) -> str:
    """The data of a task's settings in a few words.

    >>> data_name(TranslationConfig("multi30k", "de", "en"))
    'multi30k de→en'
    """
    if isinstance(task, TranslationConfig):
        return f"{task.corpus} {task.source}→{task.target}"
    if isinstance(task, CaptioningConfig):
        return task.dataset
    assert isinstance(task, ClassificationConfig)
    canvas = task.canvas
    if canvas.size is None:
        return task.dataset
    parts = [f"{task.dataset} {canvas.size}×{canvas.size}"]
    if canvas.digits > 1:
        parts.append(f"{canvas.target} of {canvas.digits}")
    if canvas.clutter:
        parts.append(f"{canvas.clutter} pieces of clutter")
    return ", ".join(parts)


def data_folder(task: Any) -> str:
    """The name of the data set, which is that of its folder below REGARD_DATA."""
    name: str = task.corpus if isinstance(task, TranslationConfig) else task.dataset
    return name
