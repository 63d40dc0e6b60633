"""Stories: the bAbI format with its errors, typed stories, and stories as numbers."""

from pathlib import Path

import pytest
import torch

from regard.data.parallel import DataError
from regard.data.pictures import IGNORE
from regard.data.stories import (
    Question,
    Stories,
    StoryBatches,
    encode_stories,
    hold_out,
    read_stories,
    split_words,
    story_vocabulary,
    typed_story,
)

TEXT = """1 Mary moved to the bathroom.
2 John went to the hallway.
3 Where is Mary?\tbathroom\t1
4 Mary left.
5 Is Mary here? \tNo\t4 1
1 The office is north.
2 How do you go?\tn,w\t1
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "stories.txt"
    path.write_text(text)
    return path


def test_a_file_is_read_with_its_supporting_facts(tmp_path: Path) -> None:
    stories = read_stories(written(tmp_path, TEXT), task="1")
    first = ("Mary moved to the bathroom.", "John went to the hallway.")
    assert stories.questions == [
        Question(first, "Where is Mary?", "bathroom", (0,), "1"),
        Question((*first, "Mary left."), "Is Mary here?", "no", (2, 0), "1"),  # line 4 is the third sentence
        Question(("The office is north.",), "How do you go?", "n,w", (0,), "1"),
    ]
    assert stories.tasks == ("1",)


def test_a_question_without_an_answer_may_be_asked(tmp_path: Path) -> None:
    path = written(tmp_path, "1 Mary left.\n2 Where is Mary?\n")
    assert read_stories(path, answers=False).questions == [Question(("Mary left.",), "Where is Mary?")]
    with pytest.raises(DataError, match=r"stories\.txt, line 2 has no answer.*Try: put a tab"):
        read_stories(path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Mary left.\n", r"stories\.txt, line 1 is not a line of a story: got 'Mary left\.'; expected a number"),
        ("1 \t\n", "line 1 is not a line of a story"),
        ("1 Mary left.\n3 John left.\n", r"line 2 has the wrong number: got 3; expected 2, or 1\. Try: number"),
        ("1 Mary left.\n2 Who left?\t\t1\n", "line 2 has no answer"),
        ("1 Mary left.\n2 Who left?\tmary\t7\n", "names a supporting fact that is not there: got '7'; expected .*: 1"),
        ("1 Who left?\tmary\tx\n", "expected numbers of sentences before it: there are none"),
        ("1 Mary left.\n2 Who?\tmary\t1\n3 Who?\tmary\t2\n", "line 3 names a supporting fact"),  # 2 is a question
        ("1 Mary left.\n", r"stories\.txt has no questions"),
        ("", "the file is empty"),
    ],
)
def test_what_is_in_another_format_is_said_with_its_line(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=said):
        read_stories(written(tmp_path, text))


def test_a_typed_story_ends_with_its_question() -> None:
    typed = typed_story("Mary went home! John slept\nWhere is Mary? ")
    assert typed == Question(("Mary went home!", "John slept"), "Where is Mary?")
    assert typed_story("Where is Mary?").story == ()
    with pytest.raises(DataError, match="ends without a question"):
        typed_story("Mary went home.")
    with pytest.raises(DataError, match="more than one question: got 'Who left\\?'"):
        typed_story("Who left? Mary left. Where is Mary?")


def test_the_last_tenth_of_each_task_is_held_out() -> None:
    asked = [Question((), "Who?", f"{task}{number}", (), task) for task in "ab" for number in range(20)]
    train, valid = hold_out(Stories(asked))
    assert [question.answer for question in valid.questions] == ["a18", "a19", "b18", "b19"]
    assert train.size == 36
    assert not set(train.questions) & set(valid.questions)


def test_numbers_mean_the_words_that_they_stand_for(tmp_path: Path) -> None:
    stories = read_stories(written(tmp_path, TEXT), task="1")
    vocabulary = story_vocabulary(stories)
    encoded = encode_stories(stories.questions, vocabulary, ["0", "1"], memories=2)
    batch = encoded.take(torch.tensor([1, 2]))
    assert batch.story.shape == (2, 2, 5)
    for row, question in enumerate(stories.questions[1:]):
        kept = question.story[-2:]  # the last two sentences
        assert batch.lengths[row] == len(kept)
        for slot, sentence in enumerate(kept):
            assert vocabulary.decode(batch.story[row, slot].tolist()) == split_words(sentence)
        assert (batch.story[row, len(kept) :] == 0).all()
        assert vocabulary.decode(batch.question[row].tolist()) == split_words(question.question)
        assert vocabulary.tokens[int(batch.answers[row])] == question.answer
    assert batch.tasks.tolist() == [1, 1]


def test_an_answer_that_is_not_known_is_ignored() -> None:
    vocabulary = story_vocabulary(Stories([Question(("Mary left.",), "Who left?", "mary")]))
    encoded = encode_stories([Question((), "Who left?", "john")], vocabulary, [""], memories=3)
    assert encoded.answers.tolist() == [IGNORE]
    assert encoded.slots.shape == (1, 1)  # a story without sentences has a place, which is empty
    assert encoded.lengths.tolist() == [0]


def test_the_linear_start_is_told_by_the_position() -> None:
    batches = StoryBatches(6, batch_size=4, linear_epochs=2, seed=3)
    made = [next(batches) for _ in range(6)]  # three batches are two epochs
    assert [batch.linear for batch in made] == [True, True, True, False, False, False]
    assert [batch.variant for batch in made] == [batch.linear for batch in made]
    again = StoryBatches(6, batch_size=4, linear_epochs=2, seed=3)
    for _ in range(3):
        next(again)
    resumed = StoryBatches(6, batch_size=4, linear_epochs=2, seed=3)
    resumed.load_state_dict(again.state_dict())
    batch = next(resumed)
    assert batch.rows.equal(made[3].rows)
    assert not batch.linear
    moved = made[0].with_tensors({"rows": torch.tensor([5])})
    assert (moved.linear, moved.count, moved.tensors()["rows"].tolist()) == (True, 1, [5])
