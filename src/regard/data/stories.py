"""Stories with questions: the bAbI format, stories that are typed in, and both as numbers.

A file has a sentence in each line, after its number; a line with tabs is a question about the sentences before it, its
answer, and the numbers of the sentences that support the answer. The number 1 begins a new story:

    1 Mary moved to the bathroom.
    2 John went to the hallway.
    3 Where is Mary?<TAB>bathroom<TAB>1
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import NamedTuple

import torch
from torch import Tensor

from regard.base.errors import shown
from regard.data.batches import Numbers
from regard.data.parallel import DataError, Place, read_lines
from regard.data.pictures import IGNORE, RowBatches
from regard.data.text import Vocabulary

_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
_SENTENCE = re.compile(r"[^.?!\n]+[.?!]*")
_EXAMPLE = "'3 Where is Mary?<TAB>bathroom<TAB>1'"


class Question(NamedTuple):
    """A question about a story: sentences in the order in which they were told, the answer, and what supports it."""

    story: tuple[str, ...]
    question: str
    answer: str = ""  # empty: nobody has said it
    supporting: tuple[int, ...] = ()  # places of sentences in the story, from 0
    task: str = ""  # what kind of question it is, such as "1"


class Stories(NamedTuple):
    """The questions of one split, those of a story one after the other."""

    questions: list[Question]

    @property
    def size(self) -> int:
        """How many questions there are."""
        return len(self.questions)

    @property
    def tasks(self) -> tuple[str, ...]:
        """The kinds of questions, in the order in which they appear."""
        return tuple(dict.fromkeys(question.task for question in self.questions))


def split_words(text: str) -> list[str]:
    """The words of a sentence in lower case, without punctuation.

    >>> split_words("Where is Mary's milk?")
    ['where', 'is', "mary's", 'milk']
    """
    return _WORD.findall(text.lower())


def read_stories(path: Place, *, task: str = "", answers: bool = True) -> Stories:
    """The questions of a file in bAbI format; a line that is not in this format is an error that names it.

    Without `answers` a question may end with its question mark: a model is to answer it.
    """
    return Stories(list(parse_stories(read_lines(path), str(path), task=task, answers=answers)))


def parse_stories(lines: Iterable[str], name: str, *, task: str = "", answers: bool = True) -> Iterator[Question]:
    """The questions of the lines of a file; errors call the file by `name`."""
    sentences: list[str] = []
    places: dict[int, int] = {}  # the number of a line → the place of its sentence in the story
    last, questions = 0, 0
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"{name}, line {number}"
        digits, _, text = line.strip().partition(" ")
        if not digits.isdecimal() or not split_words(text):
            expected = "a number, a space and a sentence, such as '1 Mary moved to the bathroom.'"
            raise DataError(f"{where} is not a line of a story", got=shown(line), expected=expected)
        current = int(digits)
        if current == 1:
            sentences, places = [], {}
        elif current != last + 1:
            cure = "number the lines of each story from 1, sentences and questions together"
            raise DataError(f"{where} has the wrong number", got=current, expected=f"{last + 1}, or 1", cure=cure)
        last = current
        asked, *columns = (column.strip() for column in text.split("\t"))
        if not columns and not (asked.endswith("?")):
            places[current] = len(sentences)
            sentences.append(asked)
            continue
        answer = columns[0].lower() if columns else ""
        if answers and not answer:
            cure = "put a tab and the answer after the question"
            raise DataError(f"{where} has no answer", got=shown(line), expected=_EXAMPLE, cure=cure)
        supporting = _supporting(columns[1] if len(columns) > 1 else "", places, where)
        questions += 1
        yield Question(tuple(sentences), asked, answer, supporting, task)
    if not questions:
        cure = "a question has a tab after it, then its answer"
        raise DataError(f"{name} has no questions", got=f"{last} lines", expected=_EXAMPLE, cure=cure)


def _supporting(text: str, places: dict[int, int], where: str) -> tuple[int, ...]:
    """The places of the sentences whose line numbers a question names."""
    for number in text.split():
        if not number.isdecimal() or int(number) not in places:
            known = f"numbers of sentences before it: {', '.join(map(str, places)) or 'there are none'}"
            raise DataError(f"{where} names a supporting fact that is not there", got=shown(number), expected=known)
    return tuple(places[int(number)] for number in text.split())


def typed_story(text: str) -> Question:
    """A story that somebody has typed: sentences, and a question at the end.

    >>> typed_story("Mary went home. John slept. Where is Mary?")
    Question(story=('Mary went home.', 'John slept.'), question='Where is Mary?', answer='', supporting=(), task='')
    """
    parts = [part.strip() for part in _SENTENCE.findall(text) if split_words(part)]
    example = "'Mary went home. Where is Mary?'"
    if not parts or not parts[-1].endswith("?"):
        cure = "end the text with the question and a question mark"
        raise DataError("the story ends without a question", got=shown(text), expected=example, cure=cure)
    if asked := [part for part in parts[:-1] if part.endswith("?")]:
        cure = "ask one question at a time, after the sentences"
        raise DataError("the story has more than one question", got=shown(asked[0]), expected=example, cure=cure)
    return Question(tuple(parts[:-1]), parts[-1])


def hold_out(stories: Stories, share: float = 0.1) -> tuple[Stories, Stories]:
    """Training questions, and the last `share` of each task, which are for validation.

    >>> train, valid = hold_out(Stories([Question((), "Who?", str(number)) for number in range(20)]))
    >>> train.size, [question.answer for question in valid.questions]
    (18, ['18', '19'])
    """
    train: list[Question] = []
    valid: list[Question] = []
    for task in stories.tasks:
        own = [question for question in stories.questions if question.task == task]
        border = len(own) - int(len(own) * share)
        train += own[:border]
        valid += own[border:]
    return Stories(train), Stories(valid)


def story_vocabulary(stories: Stories) -> Vocabulary:
    """Every word of the stories, their questions and answers; an answer of several words, such as "n,w", is one."""
    sentences = {sentence for question in stories.questions for sentence in (*question.story, question.question)}
    counted = [split_words(sentence) for sentence in sorted(sentences)]
    return Vocabulary.build([*counted, [question.answer for question in stories.questions if question.answer]])


@dataclass(frozen=True, eq=False)
class EncodedStories:
    """Questions as numbers. Each sentence stands once; a story is a row of the numbers of its sentences.

    The sentence 0 is empty: it fills up stories that have fewer sentences than the longest one.
    """

    sentences: Tensor  # [s w] word ids, 0 after the last word
    slots: Tensor  # [n m] numbers of sentences, oldest first
    lengths: Tensor  # [n] how many of them are sentences
    questions: Tensor  # [n j] word ids
    answers: Tensor  # [n] word ids; IGNORE where the answer is unknown, so that it counts as wrong
    tasks: Tensor  # [n] numbers of kinds of questions

    @property
    def size(self) -> int:
        """How many questions there are."""
        return len(self.slots)

    def to(self, device: str | torch.device) -> "EncodedStories":
        """The same on another device."""
        return replace(self, **{field.name: getattr(self, field.name).to(device) for field in fields(self)})

    def take(self, rows: Tensor) -> "StoryTensors":
        """The stories [b m w] of some rows, with their lengths, questions, answers and tasks."""
        story = self.sentences[self.slots[rows]]
        return StoryTensors(story, self.lengths[rows], self.questions[rows], self.answers[rows], self.tasks[rows])


class StoryTensors(NamedTuple):
    """A batch of questions, as a model takes them."""

    story: Tensor  # [b m w] word ids, oldest sentence first
    lengths: Tensor  # [b] sentences of each story
    question: Tensor  # [b j] word ids
    answers: Tensor  # [b]
    tasks: Tensor  # [b]


def encode_stories(
    questions: Sequence[Question], vocabulary: Vocabulary, tasks: Sequence[str], *, memories: int
) -> EncodedStories:
    """Questions as numbers, each with the last `memories` sentences of its story."""
    numbers: dict[str, int] = {}  # sentences by their text
    slots = [
        [numbers.setdefault(sentence, len(numbers) + 1) for sentence in question.story[-memories:]]
        for question in questions
    ]
    sentences = [[], *(vocabulary.encode(split_words(sentence)) for sentence in numbers)]
    asked = [vocabulary.encode(split_words(question.question)) for question in questions]
    answers = [
        vocabulary.encode([question.answer])[0] if question.answer in vocabulary else IGNORE for question in questions
    ]
    kinds = [tasks.index(question.task) if question.task in tasks else 0 for question in questions]
    lengths = torch.tensor([len(row) for row in slots])
    return EncodedStories(
        _padded(sentences), _padded(slots), lengths, _padded(asked), torch.tensor(answers), torch.tensor(kinds)
    )


def _padded(rows: Sequence[Sequence[int]]) -> Tensor:
    """Rows of numbers as a table that is as wide as the longest of them, and at least 1, with zeros at the end."""
    width = max(1, *(len(row) for row in rows)) if rows else 1
    return torch.tensor([[*row, *[0] * (width - len(row))] for row in rows], dtype=torch.long).view(len(rows), width)


@dataclass(frozen=True, eq=False)
class StoryRows:
    """A batch: which questions, and whether attention leaves its softmax out (linear start)."""

    rows: Tensor  # [b]
    linear: bool = False

    @property
    def count(self) -> int:
        """How many questions the batch has."""
        return len(self.rows)

    @property
    def variant(self) -> bool:
        """What a captured step is chosen by, beside the shapes: with and without softmax are two computations."""
        return self.linear

    def tensors(self) -> dict[str, Tensor]:
        """The rows."""
        return {"rows": self.rows}

    def with_tensors(self, tensors: Mapping[str, Tensor]) -> "StoryRows":
        """The same batch, read from another place."""
        return replace(self, rows=tensors["rows"])


class StoryBatches(RowBatches):
    """Rows of questions without end, shuffled anew for each epoch; the first `linear_epochs` are without softmax.

    >>> batches = StoryBatches(4, batch_size=2, linear_epochs=1)
    >>> [next(batches).linear for _ in range(4)]
    [True, True, False, False]
    """

    cure = "resume with the stories and the batch_size that the run began with"

    def __init__(
        self, size: int, *, batch_size: int, linear_epochs: int = 0, seed: int = 0, rank: int = 0, world: int = 1
    ) -> None:
        super().__init__(size, batch_size=batch_size, seed=seed, rank=rank, world=world)
        self.linear_epochs = linear_epochs

    def collate(self, rows: Numbers) -> StoryRows:  # type: ignore[override]
        """These rows, as a tensor."""
        return StoryRows(torch.from_numpy(rows.copy()), self.epoch < self.linear_epochs)
