"""Classification of texts, or of pairs of texts: labels out, with the words that the model looked at.

A model of this task takes `texts` [b s k] and `lengths` [b s] (s is 1, or 2 for pairs) and gives `logits` [b 1 c]. What
else it gives and has is its own affair, but the task knows four names:

- `penalty` [b] of what it gives is added to the loss;
- `words`, an `nn.Embedding`, is where word vectors go that others have trained;
- `hop_layers` is a pattern for a trace: layers that are called once for all texts [(b s) …] and whose rows are hops;
- `layer_sides` maps such patterns to two numbers of texts: the words of the one attend to the words of the other.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention import trace
from regard.base import ConfigError, RegardError, check_settings, to_json
from regard.base.ranges import BatchSize
from regard.data import TextBatch, TextBatches, evaluation_text_batches
from regard.data.pictures import IGNORE
from regard.data.text_batches import Ids
from regard.explanation import Displayed, Explanation, Matrix, Shading
from regard.nn import device_of, evaluating
from regard.tasks.display import Column, Display, Figure
from regard.tasks.inputs import checked_split, checked_texts
from regard.tasks.labels import label_details, label_figures, percent
from regard.tasks.prepared_texts import PreparedTexts, TextClassificationConfig
from regard.tasks.samples import first_of_each
from regard.tasks.task import Evaluation, Example, Loss, Progress, StoredTask, TaskEntry

BETWEEN = ("\t", " ||| ")  # what stands between the two texts of a pair that is typed


@dataclass(frozen=True)
class TextSettings:
    """How a prediction is made: what `--set` may change."""

    at_once: BatchSize = 64  # texts that are read together

    def __post_init__(self) -> None:
        check_settings(self)


@dataclass(frozen=True, eq=False)
class ClassifiedText(Displayed):
    """What a model says about a text, or about a pair of texts."""

    source: str  # the text; of a pair both, with ||| between them
    text: str  # the label
    classes: tuple[str, ...]
    probabilities: Tensor  # [c]
    tokens: tuple[tuple[str, ...], ...]  # of each text
    explanations: tuple[Explanation, ...] = ()  # one for each text

    @property
    def described(self) -> str:
        """The label, and how sure the model is."""
        return f"{self.text} ({percent(float(self.probabilities.max()))})"


class TextClassification(PreparedTexts, StoredTask):
    """The task: `batches`, `loss` and `evaluate` for the trainer, `predict` for everybody else."""

    display = Display(
        figures=(
            Figure("accuracy", "accuracy, %", better="higher"),
            Figure("error", "error, %", better="lower"),
            Figure("loss", "loss (nats a text)", 3, better="lower"),
        ),
        counts="accuracy",
        unit="texts",
        things="texts",
        examples="Texts",
        overview=(Column("ours, accuracy in %", ("accuracy",), 2),),
        table=(Column("accuracy, %", ("accuracy",), 2),),
        more=(Column("loss", ("loss",), 3),),
        report=(Column("Accuracy, %", ("accuracy",), 2), Column("Loss, nats a text", ("loss",), 3)),
        signatures={"accuracy": "Accuracy"},
        note="Accuracy is the share of texts, or of pairs, with the right label.",
    )
    settings_type = TextSettings

    # ── training ────────────────────────────────────────────────────────────────────────────────────────────────────

    def batches(self, *, seed: int, rank: int = 0, world: int = 1) -> TextBatches:
        """Training batches without end, for one of `world` ranks."""
        config, train = self.config, self.splits["train"]
        options: dict[str, Any] = {"seed": seed, "rank": rank, "world": world, "fit": config.fit}
        return TextBatches(self.encoded(train.texts), train.labels, batch_size=config.batch_size, **options)

    def loss(self, model: Callable[..., Any], batch: TextBatch) -> Loss:
        """Cross entropy, summed over the texts, and what the model adds to it."""
        out, labels = model(batch.texts, batch.lengths), batch.labels.squeeze(1)
        logits = out.logits.squeeze(1)
        wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
        options: dict[str, Any] = {"label_smoothing": self.config.smoothing, "ignore_index": IGNORE}
        total = self.config.labels * F.cross_entropy(wide, labels, reduction="sum", **options)
        penalty = getattr(out, "penalty", None)
        if penalty is None:
            return Loss(total)
        added = penalty.masked_fill(labels == IGNORE, 0.0).sum()
        return Loss(total + added, {"penalty": added})

    # ── evaluation ──────────────────────────────────────────────────────────────────────────────────────────────────

    @torch.no_grad()
    def evaluate(
        self,
        model: nn.Module,
        split: str,
        settings: TextSettings | None = None,
        *,
        full: bool = False,
        progress: Progress | None = None,
    ) -> Evaluation:
        """Accuracy and error in percent, and the loss; with `full` also the confusion of classes."""
        settings = settings or TextSettings(at_once=256)
        texts = self.splits[checked_split(split, self.splits)]
        start = time.perf_counter()
        logits = self._logits(model, self.held_out(split), settings, progress)
        labels = torch.tensor(texts.labels).unsqueeze(1)
        details: dict[str, Any] = {}
        if full:
            things = "pairs" if texts.sides > 1 else "texts"
            details = {
                "split": split,
                "count": texts.size,
                "seconds": time.perf_counter() - start,
                "settings": to_json(settings),
                "signatures": {"accuracy": f"accuracy in % of {texts.size:,} {things}"},
                **label_details(logits, labels, self.classes),
            }
        return Evaluation(label_figures(logits, labels), best="accuracy", details=details)

    # ── predictions ─────────────────────────────────────────────────────────────────────────────────────────────────

    def is_single(self, inputs: Any) -> bool:
        """Whether this is one text, or one pair as a tuple; a list holds several."""
        if isinstance(inputs, tuple) and self.facts.sides > 1:
            return len(inputs) == self.facts.sides and all(isinstance(text, str) for text in inputs)
        return isinstance(inputs, str)

    @torch.no_grad()
    def predict(
        self, model: nn.Module, inputs: Iterable[Any], settings: TextSettings | None = None
    ) -> list[list[ClassifiedText]]:
        """The label of each text, with probabilities and the words that each hop looked at.

        A text is a string; a pair is two strings, or one with a tab or ` ||| ` between them.
        """
        examples = [self._sides(number, example) for number, example in enumerate(inputs, 1)]
        if not examples:
            return []
        encoded = list(self.encoded([list(side) for side in zip(*examples, strict=True)]))
        for number, ids in enumerate(encoded, 1):
            if not all(ids):
                got = repr(examples[number - 1][0][:40])
                raise RegardError(f"text {number} has no words", got=got, cure="write one, or leave it out")
        hops: dict[int, list[np.ndarray]] = {}
        logits = self._logits(model, encoded, settings or TextSettings(), None, hops)
        answers = []
        for number, (example, row) in enumerate(zip(examples, logits.softmax(-1).squeeze(1), strict=True)):
            label = self.classes[int(row.argmax())]
            tokens = tuple(self.tokens(text) for text in example)
            seen = tuple(
                Shading(weights[:, : len(words)], words, answer=label, title=_title(example, side))
                for side, (weights, words) in enumerate(zip(hops.get(number, ()), tokens, strict=False))
            )
            answers.append([ClassifiedText(" ||| ".join(example), label, self.classes, row, tokens, seen)])
        return answers

    @torch.no_grad()
    def layers(self, model: nn.Module, prediction: ClassifiedText) -> list[Explanation]:
        """What the words of each text attend to, layer by layer: to each other, or to the words of the other text."""
        batch = evaluation_text_batches(self.encoded([[text] for text in prediction.source.split(" ||| ")]))[0]
        with evaluating(model), trace(model, may_be_empty=True) as seen:
            model(batch.texts.to(device_of(model)), batch.lengths.to(device_of(model)))
        explanations: list[Explanation] = []
        for name, record in seen.items():
            weights = np.asarray(record.weights)
            between = _sides_of(model, name)
            if between is not None:
                rows, columns = (prediction.tokens[side] for side in between)
                explanations.append(Matrix(_fitted(weights[0], rows, columns), rows, columns, name, prediction.text))
                continue
            for side, words in enumerate(prediction.tokens):
                if len(weights) > side and weights.shape[-2:] == (batch.texts.shape[2],) * 2:
                    square = weights[side][..., : len(words), : len(words)]
                    explanations.append(Matrix(square, words, words, layer=name, title=prediction.text))
        return explanations

    def choose(self, split: str, count: int) -> list[int]:
        """Choose texts of all classes, in turns."""
        return first_of_each(self.splits[checked_split(split, self.splits)].labels, count)

    def examples(self, model: nn.Module, split: str, numbers: Sequence[int]) -> list[Example]:
        """These texts, their labels, and what the model says."""
        texts = self.splits[checked_split(split, self.splits)]
        predictions = self.predict(model, [texts.example(number) for number in numbers])
        return [
            Example(best[0].source, texts.name(number), best[0].described, best[0])
            for number, best in zip(numbers, predictions, strict=True)
        ]

    # ── the parts ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _sides(self, number: int, example: Any) -> tuple[str, ...]:
        """The texts of one input, as many as the model reads."""
        wanted = self.facts.sides
        texts: Any = example
        if isinstance(example, str):
            between = next((mark for mark in BETWEEN if wanted > 1 and mark in example), None)
            texts = [example] if between is None else example.split(between)
        if not isinstance(texts, list | tuple) or len(texts) != wanted:
            got = f"{len(texts)} texts" if isinstance(texts, list | tuple) else type(texts).__name__
            expected = "a text" if wanted == 1 else "two texts"
            cure = None if wanted == 1 else "write a tab or ' ||| ' between them, or give a tuple (first, second)"
            raise ConfigError(f"input {number}", got=got, expected=expected, cure=cure)
        return tuple(text.strip() for text in checked_texts(texts))

    def _logits(
        self,
        model: nn.Module,
        examples: list[Ids],
        settings: TextSettings,
        progress: Progress | None,
        hops: dict[int, list[np.ndarray]] | None = None,
    ) -> Tensor:
        """Logits [n 1 c] on the CPU; `hops` takes the weights [r k] of each text of each example, if given."""
        device, done = device_of(model), 0
        logits = torch.zeros(len(examples), 1, len(self.classes))
        layer = getattr(model, "hop_layers", "") if hops is not None else ""
        with evaluating(model):
            for batch in evaluation_text_batches(examples, batch_size=settings.at_once):
                with trace(model, layers=layer or "-", may_be_empty=True) as seen:
                    out = model(batch.texts.to(device), batch.lengths.to(device))
                logits[batch.indices] = out.logits.float().cpu()
                if hops is not None and layer:
                    weights = np.asarray(next(iter(seen.values())).weights)  # [(b s) r k]
                    weights = weights.reshape(*batch.texts.shape[:2], *weights.shape[1:])
                    hops |= {number: list(weights[row]) for row, number in enumerate(batch.indices)}
                done += len(batch)
                if progress is not None:
                    progress("texts", done, len(examples))
        return logits


def _title(example: Sequence[str], side: int) -> str:
    """What a picture of one side is called; of a single text its beginning."""
    name = "" if len(example) == 1 else ("first: ", "second: ")[side]
    text = " ".join(example[side].split())
    return name + (text if len(text) <= 80 else text[:79] + "…")


def _sides_of(model: nn.Module, name: str) -> tuple[int, int] | None:
    """Which texts the rows and the columns of a layer are words of, for a model that says it."""
    known: dict[str, tuple[int, int]] = getattr(model, "layer_sides", {})
    return next((sides for pattern, sides in known.items() if fnmatchcase(name, pattern)), None)


def _fitted(weights: np.ndarray, rows: Sequence[str], columns: Sequence[str]) -> np.ndarray:
    """The weights of real words; a column that no word could attend to yet, such as that of the last word, is zero."""
    real = weights[: len(rows), : len(columns)]
    return np.pad(real, ((0, len(rows) - real.shape[0]), (0, len(columns) - real.shape[1])))


TASK = TaskEntry(
    "text_classification",
    TextClassification,
    TextClassificationConfig,
    verb="classify",
    inputs="text",
    example='"a text"',
    inherits=True,
)
