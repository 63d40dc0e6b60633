"""`regard answer`: typed stories, files, pictures, JSON, and one line for what is wrong."""

import json
from pathlib import Path

import pytest

from regard import api
from regard.cli.main import main

TEXT = "Mary moved to the garden. John went to the office. Where is Mary?"


@pytest.fixture(scope="module")
def answering(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a few steps on embedded stories; to be read, not to be changed."""
    folder = tmp_path_factory.mktemp("runs") / "answering"
    settings = ["train.steps=4", "train.log_every=2", "task.tasks=1", "task.linear_epochs=0"]
    assert main(["train", "memn2n/smoke", "--out", str(folder), "--set", *settings]) == 0
    return folder


def test_training_draws_and_says_what_to_do_next(answering: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert sorted(path.name for path in (answering / "pictures").glob("hops_*.png"))
    assert main(["report", str(answering), "--out", str(answering / "page.html")]) == 0
    page = (answering / "page.html").read_text()
    assert "End-To-End Memory Networks" in page
    assert "what was looked at, hop by hop" in page
    assert main(["list"]) == 0
    assert "\nquestion_answering\n" in capsys.readouterr().out


def test_one_story_and_several(answering: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["answer", str(answering), TEXT]) == 0
    one = capsys.readouterr().out
    model = api.load(answering)
    assert one == f"{model.answer(TEXT).described}\n"
    other = "Mary went to the kitchen. Where is Mary?"
    assert main(["answer", str(answering), TEXT, other]) == 0
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert lines == [[answer.source, answer.described] for answer in model.answer([TEXT, other])]
    assert main(["predict", str(answering), TEXT]) == 0
    assert capsys.readouterr().out == one


def test_a_file_is_answered_question_by_question(
    answering: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "story.txt"
    asked = "2 Where is Mary?\tkitchen\t1\n3 Mary moved to the office.\n4 Where is Mary?\n"
    path.write_text(f"1 Mary went to the kitchen.\n{asked}")
    picture = tmp_path / "hops.png"
    assert main(["answer", str(answering), "--file", str(path), "--draw", str(picture), "--json"]) == 0
    said = capsys.readouterr()
    told = [json.loads(line) for line in said.out.splitlines()]
    assert [len(each["explanations"][0]["slots"]) for each in told] == [1, 2]
    assert told[0]["explanations"][0]["marked"] == [0]
    assert 0 < told[0]["probability"] <= 1
    assert [(tmp_path / f"hops_{number}.png").read_bytes()[:4] for number in (1, 2)] == [b"\x89PNG"] * 2


def test_more_answers(answering: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["answer", str(answering), TEXT, "--nbest", "3"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["Mary moved to the garden."], "the story ends without a question"),
        (["Zorro moved to the garden. Where is Mary?"], "the model does not know a word: got 'zorro'"),
        ([TEXT, "--file", "x.txt"], "stories and --file exclude each other"),
        (["--file", "nosuch.txt"], "nosuch.txt"),
        ([TEXT, "--draw", "a.bmp"], "--draw: unknown picture format"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    arguments: list[str], said: str, answering: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["answer", str(answering), *arguments]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.startswith("regard: ")
    assert error.count("\n") == 1


def test_another_task_is_refused(answering: Path) -> None:
    with pytest.raises(ValueError, match="cannot translate text: got a question_answering run"):
        api.load(answering).translate("hello")
