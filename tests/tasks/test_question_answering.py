"""Questions about stories: losses and errors by hand, answers with their hops, own files, and what is refused."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.base import ConfigError, RegardError
from regard.data import DataError, Question, Stories
from regard.data.stories import StoryRows
from regard.models.memn2n import MemN2N, MemN2NConfig
from regard.tasks.labels import percent
from regard.tasks.question_answering import AnswerSettings, QuestionAnswering
from regard.tasks.story_questions import QuestionAnsweringConfig

PEOPLE, ROOMS = ("mary", "john", "sandra"), ("garden", "kitchen", "office")


def questions(count: int, task: str = "1") -> list[Question]:
    """Where somebody went last: the first sentence, or the one before the last."""
    made = []
    for number in range(count):
        person, room = PEOPLE[number % 3], ROOMS[number // 3 % 3]
        went, slept = f"{person.title()} went to the {room}.", "Bill slept."
        story = (went, slept) if number % 2 else (slept, went)
        made.append(Question(story, f"Where is {person.title()}?", room, (story.index(went),), task))
    return made


def made(**settings: Any) -> QuestionAnswering:
    task = QuestionAnswering(QuestionAnsweringConfig(**settings))
    asked = [*questions(18, "1"), *questions(9, "2")]
    task.splits = {name: Stories(asked) for name in ("train", "valid", "test")}
    return task


class Oracle(nn.Module):
    """Says the room in the story; of stories in which John occurs it says another one, if it is told to err."""

    def __init__(self, task: QuestionAnswering, errs: bool = False) -> None:
        super().__init__()
        self.rooms = torch.tensor(task.vocabulary.encode(ROOMS))
        self.john = task.vocabulary.encode(["john"])[0]
        self.size, self.errs, self.scale = len(task.vocabulary), errs, nn.Parameter(torch.ones(()))

    def forward(self, story: Tensor, lengths: Tensor, question: Tensor, *, linear: bool = False) -> Tensor:
        hits = (story.flatten(1)[:, :, None] == self.rooms).any(1)  # [b rooms]
        place = hits.int().argmax(1)
        wrong = (question == self.john).any(1) & self.errs
        right = self.rooms[torch.where(wrong, (place + 1) % 3, place)]
        return F.one_hot(right, self.size) * (1.0 if linear else 5.0) * self.scale


def test_the_loss_is_a_sum_over_questions_and_knows_the_linear_start() -> None:
    task = made()
    model, rows = Oracle(task, errs=True), torch.tensor([0, 1, 2])
    size = len(task.vocabulary)
    for linear, strength in ((False, 5.0), (True, 1.0)):
        loss = task.loss(model, StoryRows(rows, linear))
        right = torch.tensor(strength).exp() / (torch.tensor(strength).exp() + size - 1)
        wrong = (1 - right) / (size - 1)
        assert loss.total.item() == pytest.approx(-(2 * right.log() + wrong.log()).item(), rel=1e-5)
        assert loss.figures["error"].item() == 100  # one of the three is wrong; the trainer divides by the count


def test_errors_by_task_and_failed_tasks() -> None:
    task = made()
    right = task.evaluate(Oracle(task), "test")
    assert (right.figures["error"], right.figures["failed"]) == (0, 0)
    wrong = task.evaluate(Oracle(task, errs=True), "test", full=True)
    assert wrong.figures["error"] == pytest.approx(100 / 3)
    assert wrong.figures["error_1"] == pytest.approx(100 / 3)
    assert wrong.figures["failed"] == 2
    assert wrong.details["by_task"] == {"1": wrong.figures["error_1"], "2": wrong.figures["error_2"]}
    assert (wrong.best, wrong.higher_is_better, wrong.details["count"]) == ("error", False, 27)
    assert wrong.details["outputs"][0] == "garden"
    assert right.better_than(wrong.figures["error"])
    task = made()
    task.splits["test"] = Stories(questions(18))
    one = task.evaluate(Oracle(task, errs=True), "test", full=True)
    assert one.figures["error"] == pytest.approx(100 / 3)
    assert "by_task" not in one.details


def test_the_mean_is_over_tasks_and_not_over_questions() -> None:
    task = made()
    some = [question for question in questions(18) if "John" not in question.question]
    task.splits["test"] = Stories([*some, *questions(9, "2")])
    figures = task.evaluate(Oracle(task, errs=True), "test").figures
    assert (figures["error_1"], figures["failed"]) == (0, 1)
    assert figures["error"] == pytest.approx(figures["error_2"] / 2)


def test_an_answer_that_is_not_in_the_training_file_counts_as_wrong() -> None:
    task = made()
    task.splits["test"] = Stories([questions(1)[0]._replace(answer="moon"), questions(1)[0]])
    assert task.evaluate(Oracle(task), "test").figures["error"] == 50


@pytest.fixture(scope="module")
def trained() -> tuple[QuestionAnswering, MemN2N]:
    """A model that answers, after a few passes over the questions."""
    torch.manual_seed(0)
    task = made()
    model = MemN2N(task.complete(MemN2NConfig(noise=0.0, hops=2)))
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(150):
        loss = task.loss(model, StoryRows(torch.arange(27))).total
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return task, model.eval()


def test_predictions_have_probabilities_and_hops(trained: tuple[QuestionAnswering, MemN2N]) -> None:
    task, model = trained
    text = "Bill slept. Mary went to the garden. Where is Mary?"
    [[answer]] = task.predict(model, [text])
    assert answer.text == "garden"
    assert 0.5 < answer.probability <= 1
    assert answer.described == f"garden ({percent(answer.probability)})"
    (hops,) = answer.explanations
    assert hops.slots == ("Bill slept.", "Mary went to the garden.")
    assert hops.weights.shape == (2, 2)
    assert hops.weights.sum(1) == pytest.approx([1, 1])
    assert hops.weights[:, 1].max() > 0.6  # it looks at what it answers from
    assert (hops.question, hops.marked) == ("Where is Mary?", ())
    [best] = task.predict(model, [text], AnswerSettings(nbest=3))
    assert [each.text for each in best][:1] == ["garden"]
    assert best[0].probability > best[1].probability > best[2].probability


def test_examples_mark_supporting_facts_and_say_what_is_right(trained: tuple[QuestionAnswering, MemN2N]) -> None:
    task, model = trained
    numbers = task.choose("test", 4)
    assert [task.splits["test"].questions[number].task for number in numbers] == ["1", "2", "1", "2"]
    for example in task.examples(model, "test", numbers):
        question = example.prediction.question
        (hops,) = example.prediction.explanations
        assert hops.marked == question.supporting
        assert example.reference == question.answer
        assert example.source.endswith(question.question)
    wrong = questions(1)[0]._replace(answer="office")
    [[answer]] = task.answer(model, [wrong])
    assert answer.explanations[0].answer.endswith("right: office)")


def test_support_is_measured_on_remembered_sentences() -> None:
    task = made(memories=1)
    weights = torch.tensor([[[0.25]], [[1.0]]])
    asked = [Question(("A b.", "C d."), "Who?", "x", (1,)), Question(("A b.", "C d."), "Who?", "x", (0,))]
    assert task._support(asked, weights) == [0.25]  # the second fact was forgotten


def test_a_model_predicts_without_its_data(trained: tuple[QuestionAnswering, MemN2N], tmp_path: Path) -> None:
    task, model = trained
    task.save(tmp_path)
    again = QuestionAnswering.load(tmp_path, replace(task.config, dataset="babi"))
    assert again.vocabulary == task.vocabulary
    text = "Bill slept. John went to the office. Where is John?"
    assert again.predict(model, [text])[0][0].text == task.predict(model, [text])[0][0].text == "office"
    assert "splits" not in vars(again)
    (tmp_path / "words.json").write_text("[")
    with pytest.raises(RegardError, match=r"words\.json cannot be read"):
        QuestionAnswering.load(tmp_path, task.config)


def test_what_cannot_be_asked(trained: tuple[QuestionAnswering, MemN2N]) -> None:
    task, model = trained
    with pytest.raises(RegardError, match=r"does not know a word: got 'marry'; expected bill, .*Did you mean 'mary'\?"):
        task.predict(model, ["Marry went to the garden. Where is Mary?"])
    with pytest.raises(DataError, match="ends without a question"):
        task.predict(model, ["Mary went to the garden."])
    with pytest.raises(ConfigError, match="this is not a story: got int"):
        task.predict(model, [3])
    with pytest.raises(ConfigError, match=r"unknown split: got 'tset'.*Did you mean 'test'"):
        task.evaluate(model, "tset")
    assert task.predict(model, []) == []
    assert task.is_single("a text")
    assert not task.is_single(["a text"])
