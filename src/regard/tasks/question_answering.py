"""Questions about stories: sentences and a question in, an answer of one word out, and which sentences were looked at.

Batches are rows; the stories live on the device as one table of sentences and one of their places in stories, so a
batch is a few look-ups, and all batches have one shape. A model takes stories [b m w], their lengths [b] and questions
[b j], and gives logits [b v] of answers; what attention it has, a trace finds, one layer a hop.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention import Trace, trace
from regard.base import ConfigError, RegardError, check_settings, did_you_mean, to_json
from regard.base.ranges import Count
from regard.data import SPECIALS, Question, StoryBatches, typed_story
from regard.data.pictures import IGNORE
from regard.data.stories import EncodedStories, StoryRows, split_words
from regard.explanation import Displayed, Hops
from regard.nn import device_of, evaluating
from regard.tasks.display import Column, Display, EvaluationChart, Figure, Point
from regard.tasks.inputs import checked_split
from regard.tasks.labels import percent
from regard.tasks.samples import first_of_each
from regard.tasks.story_questions import QuestionAnsweringConfig, StoryQuestions
from regard.tasks.task import Evaluation, Example, Loss, Progress, StoredTask, TaskEntry

FAILED = 5.0  # percent of wrong answers from which on a task counts as failed (Weston et al. 2015)
_AT_ONCE = 1000  # questions


@dataclass(frozen=True)
class AnswerSettings:
    """How questions are answered: what `--set` may change."""

    nbest: Count = 1  # answers to each question, the likeliest first

    def __post_init__(self) -> None:
        check_settings(self)


@dataclass(frozen=True, eq=False)
class Answer(Displayed):
    """What a model answers to a question about a story."""

    source: str  # the question
    text: str
    probability: float
    question: Question
    explanations: tuple[Hops, ...] = ()  # the weights of each hop over the sentences

    @property
    def described(self) -> str:
        """The answer and how sure the model is."""
        return f"{self.text} ({percent(self.probability)})"


def task_points(details: Mapping[str, Any]) -> list[Point]:
    """The error of each task."""
    return [Point(name, float(error)) for name, error in details["by_task"].items()]


def hop_points(details: Mapping[str, Any]) -> list[Point]:
    """The weight of the supporting facts in each hop."""
    return [Point(str(number), float(share)) for number, share in enumerate(details["support_by_hop"], 1)]


class QuestionAnswering(StoryQuestions, StoredTask):
    """The task: `batches`, `loss` and `evaluate` for the trainer, `predict` for everybody else."""

    display = Display(
        figures=(
            Figure("error", "error, mean over tasks, %", better="lower"),
            Figure("failed", "failed tasks", 0, better="lower"),
            Figure("loss", "loss (nats a question)", 3, better="lower"),
        ),
        counts="error",
        unit="questions",
        things="questions",
        examples="Questions",
        overview=(Column("ours, error in %", ("error",)), Column("failed tasks", ("failed",), 0)),
        table=(Column("error, %", ("error",)),),
        more=(Column("failed tasks", ("failed",)),),
        report=(Column("Error, %", ("error",), 2), Column("Failed tasks", ("failed",), 0)),
        signatures={"error": "Error"},
        note="Error is the mean over tasks of the share of wrong answers; a task with more than 5 % has failed.",
        charts=(
            EvaluationChart("by_task", "Error by task", "task", "error, %", task_points),
            EvaluationChart("support_by_hop", "Weight on supporting facts", "hop", "mean weight", hop_points,
                            decimals=2),
        ),
    )  # fmt: skip
    settings_type = AnswerSettings

    # ── training ────────────────────────────────────────────────────────────────────────────────────────────────────

    def batches(self, *, seed: int, rank: int = 0, world: int = 1) -> StoryBatches:
        """Rows of the training questions without end, for one of `world` ranks."""
        size, config = self.splits["train"].size, self.config
        return StoryBatches(
            size,
            batch_size=config.batch_size,
            linear_epochs=config.linear_epochs,
            seed=seed,
            rank=rank,
            world=world,
        )

    def loss(self, model: Callable[..., Any], batch: StoryRows) -> Loss:
        """Cross entropy of the answers, summed over the questions, and how many of them are wrong."""
        asked = self.on_device("train", batch.rows.device).take(batch.rows)
        options = {"linear": True} if batch.linear else {}
        logits = model(asked.story, asked.lengths, asked.question, **options)
        total = F.cross_entropy(logits.float(), asked.answers, ignore_index=IGNORE, reduction="sum")
        return Loss(total, {"error": 100.0 * (logits.argmax(-1) != asked.answers).sum()})

    # ── evaluation ──────────────────────────────────────────────────────────────────────────────────────────────────

    @torch.no_grad()
    def evaluate(
        self,
        model: nn.Module,
        split: str,
        settings: AnswerSettings | None = None,
        *,
        full: bool = False,
        progress: Progress | None = None,
    ) -> Evaluation:
        """Errors in percent: `error` is the mean over tasks, `error_N` that of task N; `failed` counts tasks."""
        stories, names = self.splits[checked_split(split, self.splits)], self.splits["train"].tasks
        start, encoded = time.perf_counter(), self.on_device(split, device_of(model))
        logits, weights = self._run(model, encoded, full, progress)
        answers = encoded.answers.cpu()
        wrong = (logits.argmax(-1) != answers).double()
        own = {name: encoded.tasks.cpu() == number for number, name in enumerate(names)}
        by_task = {name: 100 * wrong[rows].mean().item() for name, rows in own.items() if rows.any()}
        loss = F.cross_entropy(logits, answers, ignore_index=IGNORE, reduction="sum").item() / encoded.size
        figures = {"error": float(np.mean(list(by_task.values()))), "loss": loss}
        figures["failed"] = float(sum(error > FAILED for error in by_task.values()))
        if len(by_task) > 1:
            figures |= {f"error_{name}": error for name, error in by_task.items()}
        details: dict[str, Any] = {}
        if full:
            measured = f"error in % of {stories.size:,} questions"
            details = {
                "split": split,
                "count": stories.size,
                "seconds": time.perf_counter() - start,
                "settings": to_json(settings or AnswerSettings()),
                "signatures": {"error": measured + (f", mean over {len(by_task)} tasks" if len(by_task) > 1 else "")},
                "outputs": [self.vocabulary.tokens[number] for number in logits.argmax(-1).tolist()],
            }
            if len(by_task) > 1:
                details["by_task"] = by_task
            if weights is not None and (support := self._support(stories.questions, weights)):
                details["support_by_hop"] = support
        return Evaluation(figures, best="error", higher_is_better=False, details=details)

    def _run(
        self, model: nn.Module, encoded: EncodedStories, traced: bool, progress: Progress | None
    ) -> tuple[Tensor, Tensor | None]:
        """Logits [n v] of all questions and, if they are wanted and there are any, weights [n hops m]; on the CPU."""
        parts, weights = [], []
        with evaluating(model):
            for rows in torch.split(torch.arange(encoded.size, device=encoded.slots.device), _AT_ONCE):
                asked = encoded.take(rows)
                with trace(model, layers="*" if traced else "", may_be_empty=True) as seen:
                    parts.append(model(asked.story, asked.lengths, asked.question).float().cpu())
                if len(seen):
                    weights.append(torch.from_numpy(_by_hop(seen)))
                if progress is not None:
                    progress("questions", int(rows[-1]) + 1, encoded.size)
        return torch.cat(parts), torch.cat(weights) if weights else None

    def _support(self, questions: Sequence[Question], weights: Tensor) -> list[float]:
        """The mean weight of the supporting facts in each hop, over all questions that name them."""
        shares = []
        for question, row in zip(questions, weights, strict=True):
            if places := _remembered(question, self.config.memories):
                shares.append(row[:, places].sum(-1))
        mean: list[float] = torch.stack(shares).double().mean(0).tolist() if shares else []
        return mean

    # ── predictions ─────────────────────────────────────────────────────────────────────────────────────────────────

    def is_single(self, inputs: Any) -> bool:
        """A text and a `Question` are one input; a list has several of them."""
        return isinstance(inputs, str | Question)

    def predict(
        self, model: nn.Module, inputs: Sequence[Any], settings: AnswerSettings | None = None
    ) -> list[list[Answer]]:
        """The answers to questions about stories, with the weights of each hop.

        A story is a text whose last sentence is the question, or a `Question`, which has the sentences apart.
        """
        questions = [self._checked(given) for given in inputs]
        return self.answer(model, questions, settings) if questions else []

    @torch.no_grad()
    def answer(
        self, model: nn.Module, questions: Sequence[Question], settings: AnswerSettings | None = None
    ) -> list[list[Answer]]:
        """The same for questions as the splits have them."""
        encoded = self.encoded(questions).to(device_of(model))
        count = min((settings or AnswerSettings()).nbest, len(self.vocabulary))
        logits, weights = self._run(model, encoded, True, None)
        answers: list[list[Answer]] = []
        for row, question in enumerate(questions):
            best = logits[row].softmax(-1).topk(count)
            hops = None if weights is None else weights[row].numpy()
            answers.append(
                [
                    self._answer(question, self.vocabulary.tokens[word], probability, hops)
                    for probability, word in zip(best.values.tolist(), best.indices.tolist(), strict=True)
                ]
            )
        return answers

    def _answer(self, question: Question, text: str, probability: float, hops: Any) -> Answer:
        slots = question.story[-self.config.memories :]
        explanations: tuple[Hops, ...] = ()
        if hops is not None:
            right = f", right: {question.answer}" if question.answer not in ("", text) else ""
            said = f"{text} ({100 * probability:.0f} %{right})"
            marked = _remembered(question, self.config.memories)
            explanations = (Hops(hops[:, : len(slots)], slots, marked, question.question, said),)
        return Answer(question.question, text, probability, question, explanations)

    def _checked(self, given: Any) -> Question:
        """A story of the user, with words that the model knows."""
        question = typed_story(given) if isinstance(given, str) else given
        if not isinstance(question, Question):
            expected = "a text that ends with a question, or a regard.data.Question"
            raise ConfigError("this is not a story", got=type(given).__name__, expected=expected)
        for sentence in (*question.story, question.question):
            for word in split_words(sentence):
                if word not in self.vocabulary:
                    known = sorted(token for token in self.vocabulary.tokens[len(SPECIALS) :] if "," not in token)
                    some = ", ".join(known[:8]) + (", …" if len(known) > 8 else "")
                    cure = did_you_mean(word, known) or "say it in other words"
                    raise RegardError("the model does not know a word", got=repr(word), expected=some, cure=cure)
        return question

    def choose(self, split: str, count: int) -> list[int]:
        """Questions of all tasks, first those whose story is neither short nor long for its task."""
        questions = self.splits[checked_split(split, self.splits)].questions
        sizes: dict[str, list[int]] = {}
        for question in questions:
            sizes.setdefault(question.task, []).append(len(question.story))
        middle = {task: float(np.median(lengths)) for task, lengths in sizes.items()}
        distance = [abs(len(question.story) - middle[question.task]) for question in questions]
        order = sorted(range(len(questions)), key=lambda number: (distance[number], number))
        kinds = [list(sizes).index(questions[number].task) for number in order]
        return [order[place] for place in first_of_each(kinds, count)]

    def examples(self, model: nn.Module, split: str, numbers: Sequence[int]) -> list[Example]:
        """These questions with their stories, and what the model answers."""
        questions = [self.splits[checked_split(split, self.splits)].questions[number] for number in numbers]
        answers = self.answer(model, questions) if questions else []
        return [
            Example(" ".join((*question.story, question.question)), question.answer, best.described, best)
            for question, (best, *_) in zip(questions, answers, strict=True)
        ]


def _remembered(question: Question, memories: int) -> list[int]:
    """The places of the supporting facts among the last `memories` sentences."""
    dropped = max(len(question.story) - memories, 0)
    return sorted({place - dropped for place in question.supporting if place >= dropped})


def _by_hop(seen: Trace) -> Any:
    """The weights of all layers, one after the other: [n hops m]."""
    return np.concatenate([record.weights for record in seen.values()], 1)


TASK = TaskEntry(
    "question_answering",
    QuestionAnswering,
    QuestionAnsweringConfig,
    verb="answer",
    inputs="questions about stories",
    example='"Mary moved to the garden. John went home. Where is Mary?"',
)
