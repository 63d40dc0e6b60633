"""Questions about stories: sentences and a question in, an answer of one word out, and which sentences were looked at.

Batches are rows; the stories live on the device as one table of sentences and one of their places in stories, so a
batch is a few look-ups, and all batches have one shape. A model takes stories [b m w], their lengths [b] and questions
[b j], and gives logits [b v] of answers; what attention it has, a trace finds, one layer a hop.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention import Trace, trace
from regard.base import (
    ConfigError,
    RegardError,
    check_settings,
    did_you_mean,
    fill,
    followed,
    to_json,
    write_atomically,
)
from regard.base.ranges import BatchSize, Count, Natural, UserPath
from regard.data import (
    DataError,
    Question,
    Stories,
    StoryBatches,
    Vocabulary,
    encode_stories,
    read_stories,
    typed_story,
)
from regard.data.pictures import IGNORE
from regard.data.stories import EncodedStories, StoryRows, hold_out, split_words, story_vocabulary
from regard.datasets import DATASETS, choose
from regard.explanation import Hops
from regard.tasks.display import Column, Display, EvaluationChart, Figure, Point
from regard.tasks.inputs import checked_split
from regard.tasks.samples import first_of_each
from regard.tasks.task import Evaluation, Example, Loss, Progress, StoredTask, TaskEntry

WORDS = "words.json"  # in a run folder: the vocabulary
FAILED = 5.0  # percent of wrong answers from which on a task counts as failed (Weston et al. 2015)
OWN = "own"  # the name of the data set that is a user's file
_AT_ONCE = 1000  # questions


@dataclass(frozen=True)
class QuestionAnsweringConfig:
    """Which stories, in which batches."""

    dataset: str = "babi"  # of DATASETS
    size: Literal["1k", "10k"] = "1k"  # training questions of each task
    tasks: tuple[str, ...] = ()  # numbers of tasks, such as 1,2,6; none: all tasks together
    memories: Count = 50  # sentences of a story, counted from its end, that a model remembers
    linear_epochs: Natural = 0  # epochs at the start in which attention leaves its softmax out (linear start)
    batch_size: BatchSize = 32  # questions in a batch
    stories_file: UserPath | None = None  # your own stories in bAbI format, in place of the data set
    test_file: UserPath | None = None  # those to test on; none: the last tenth of stories_file

    def __post_init__(self) -> None:
        check_settings(self, "task")

    def describe_data(self) -> str:
        """The data in a few words, for tables."""
        tasks = f" task{'s' * (len(self.tasks) > 1)} {','.join(self.tasks)}" if self.tasks else ""
        return f"{self.data_set()}{' 10k' * (self.size == '10k')}{tasks}"

    def data_set(self) -> str:
        """The name of the data set."""
        return OWN if self.stories_file is not None else self.dataset


@dataclass(frozen=True)
class AnswerSettings:
    """How questions are answered: what `--set` may change."""

    nbest: Count = 1  # answers to each question, the likeliest first

    def __post_init__(self) -> None:
        check_settings(self)


@dataclass(frozen=True, eq=False)
class Answer:
    """What a model answers to a question about a story."""

    source: str  # the question
    text: str
    probability: float
    question: Question
    explanations: tuple[Hops, ...] = ()  # the weights of each hop over the sentences

    @property
    def described(self) -> str:
        """The answer and how sure the model is."""
        return f"{self.text} ({100 * self.probability:.1f} %)"


def task_points(details: Mapping[str, Any]) -> list[Point]:
    """The error of each task."""
    return [Point(name, float(error)) for name, error in details["by_task"].items()]


def hop_points(details: Mapping[str, Any]) -> list[Point]:
    """The weight of the supporting facts in each hop."""
    return [Point(str(number), float(share)) for number, share in enumerate(details["support_by_hop"], 1)]


class QuestionAnswering(StoredTask):
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

    def __init__(self, config: QuestionAnsweringConfig, vocabulary: Vocabulary | None = None) -> None:
        self.config = config
        self._vocabulary = vocabulary
        self._places: dict[tuple[str, torch.device], EncodedStories] = {}

    # ── the data ────────────────────────────────────────────────────────────────────────────────────────────────────

    @cached_property
    def splits(self) -> dict[str, Stories]:
        """Train, valid and test questions by name, read when they are first asked for."""
        config = self.config
        if config.stories_file is None:
            dataset = choose(DATASETS, "stories", config.dataset, setting="task.dataset")
            splits: dict[str, Stories] = dataset.read(size=config.size, tasks=config.tasks)
            return splits
        cure = "name it again by --source"
        stories = read_stories(followed(config.stories_file, cure=cure), task=OWN)
        if config.test_file is not None:
            test = read_stories(followed(config.test_file, cure="name it again by --target"), task=OWN)
        else:
            stories, test = hold_out(stories)
        train, valid = hold_out(stories)
        for name, split in (("train", train), ("valid", valid), ("test", test)):
            if not split.size:
                expected = "at least 20 questions, so that there are some to train on, to choose by and to test on"
                raise DataError(f"there are no questions for the split {name}", got=stories.size, expected=expected)
        return {"train": train, "valid": valid, "test": test}

    @property
    def vocabulary(self) -> Vocabulary:
        """The words and answers of the training file."""
        if self._vocabulary is None:
            known = [*self.splits["train"].questions, *self.splits["valid"].questions]
            self._vocabulary = story_vocabulary(Stories(known))
        return self._vocabulary

    @classmethod
    def from_files(cls, config: QuestionAnsweringConfig, source: str, target: str | None) -> QuestionAnsweringConfig:
        """`regard train memn2n/smoke --source stories.txt --target test_stories.txt`."""
        return replace(config, stories_file=source, test_file=target, tasks=())

    def complete(self, model_config: Any) -> Any:
        """A model must know how many words and how many sentences there are."""
        return fill(model_config, {"vocabulary": len(self.vocabulary), "memories": self.config.memories})

    def save(self, folder: Path) -> None:
        """Writes the vocabulary, so that a run answers questions without its data."""
        write_atomically(folder / WORDS, self.vocabulary.to_json())

    @classmethod
    def load(cls, folder: Path, config: QuestionAnsweringConfig) -> "QuestionAnswering":
        """The task of a run folder; its stories are read only when asked for."""
        path = folder / WORDS
        try:
            return cls(config, Vocabulary.from_json(path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return cls(config)
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise RegardError(f"{path} cannot be read", got=str(error), cure="restore it, or train anew") from error

    def _on(self, split: str, device: torch.device) -> EncodedStories:
        """The questions of a split as numbers, on a device, where they stay."""
        if (split, device) not in self._places:
            stories = self.splits[checked_split(split, self.splits)]
            encoded = self._encoded(stories.questions, self.splits["train"].tasks)
            self._places[split, device] = encoded.to(device)
        return self._places[split, device]

    def _encoded(self, questions: Sequence[Question], tasks: Sequence[str] = ()) -> EncodedStories:
        return encode_stories(questions, self.vocabulary, tasks, memories=self.config.memories)

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
        asked = self._on("train", batch.rows.device).take(batch.rows)
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
        start, encoded = time.perf_counter(), self._on(split, _device(model))
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
        with _judging(model):
            for rows in torch.split(torch.arange(encoded.size, device=encoded.slots.device), _AT_ONCE):
                asked = encoded.take(rows)
                with trace(model, layers="*" if traced else "") as seen:
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
        self, model: nn.Module, inputs: Sequence[str | Question], settings: AnswerSettings | None = None
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
        encoded = self._encoded(questions).to(_device(model))
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
                    known = sorted(token for token in self.vocabulary.tokens[4:] if "," not in token)
                    some = ", ".join(known[:8]) + (", …" if len(known) > 8 else "")
                    cure = did_you_mean(word, known) or "say it in other words"
                    raise RegardError("the model does not know a word", got=repr(word), expected=some, cure=cure)
        return question

    def choose(self, split: str, count: int) -> list[int]:
        """Questions of all tasks."""
        stories, names = self.splits[checked_split(split, self.splits)], self.splits["train"].tasks
        return first_of_each([names.index(question.task) for question in stories.questions], count)

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


def _device(model: nn.Module) -> torch.device:
    return next(model.parameters()).device


@contextmanager
def _judging(model: nn.Module) -> Iterator[None]:
    """The model in evaluation mode, and afterwards as it was."""
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)


TASK = TaskEntry(
    "question_answering",
    QuestionAnswering,
    QuestionAnsweringConfig,
    verb="answer",
    inputs="questions about stories",
    example='"Mary moved to the garden. John went home. Where is Mary?"',
)
