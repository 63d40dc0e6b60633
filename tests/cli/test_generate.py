"""`regard generate`: texts from everywhere, chance from a seed, pictures, and one line for wrong input."""

import io
import json
from pathlib import Path

import pytest

from regard import api
from regard.cli.main import main
from regard.models import LSTMLanguageModelConfig, LSTMNConfig, MemN2NLanguageModelConfig
from regard.recipes import Recipe
from regard.tasks import LanguageModelling, LanguageModellingConfig
from regard.train import Train

TEXT = "the dog sees the cats .\nthe cats see the dog .\n" * 20


def trained(folder: Path, paper: str, model: object, monkeypatch: pytest.MonkeyPatch) -> Path:
    with monkeypatch.context() as patch:
        patch.setattr(LanguageModelling, "splits", {"train": TEXT, "valid": TEXT[:48], "test": TEXT[:96]})
        api.train(Recipe(paper, model, LanguageModellingConfig(batch_size=8), Train(steps=2)), folder)
    return folder


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    model = LSTMNConfig(embed_dim=8, hidden_dim=8, align_dim=8)
    return trained(tmp_path_factory.mktemp("runs") / "tiny", "lstmn", model, pytest.MonkeyPatch())


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["generate", *arguments]) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def test_texts_files_and_standard_input(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    starts = ["the dog", "the cats see"]
    expected = [found.text for found in api.load(run).generate(starts)]
    assert said(capsys, str(run), *starts).splitlines() == expected
    (tmp_path / "starts.txt").write_text("\n".join(starts))
    assert said(capsys, str(run), "--file", str(tmp_path / "starts.txt")).splitlines() == expected
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(starts)))
    assert said(capsys, str(run)).splitlines() == expected


def test_chance(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("the", "--temperature", "2", "--tokens", "8")
    assert said(capsys, str(run), *options, "--seed", "1") == said(capsys, str(run), *options, "--seed", "1")
    assert len({said(capsys, str(run), *options, "--seed", str(seed)) for seed in range(5)}) > 1
    greedy = said(capsys, str(run), "the", "--tokens", "8")
    assert said(capsys, str(run), *options, "--top-k", "1") == greedy
    assert said(capsys, str(run), *options, "--top-p", "1e-9") == greedy


def test_pictures_and_predict(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said(capsys, str(run), "the dog", "--tokens", "4", "--draw", str(tmp_path / "one.png"))
    said(capsys, str(run), "the dog", "the", "--tokens", "4", "--draw", str(tmp_path / "two.png"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.png", "two_1.png", "two_2.png"]
    assert main(["predict", str(run), "the dog", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["explanations"][0]["kind"] == "matrix"
    assert told["text"].startswith("the dog")


def test_evaluate_a_text_file(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "my text.txt"
    path.write_text("the dog sees the dog .\n")
    assert main(["evaluate", str(run), "--split", str(path)]) == 0
    out = capsys.readouterr().out
    assert "7 tokens" in out
    assert "perplexity" in out
    assert (run / "result_file_my_text.json").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ("the", "--seed", "1"),
            "--seed needs --temperature: got the likeliest token at each step. Try: --temperature 1.",
        ),
        (("the", "--file", "x"), "text and --file exclude each other. Try: give one of them."),
        (("the", "--draw", "x.bmp"), "--draw: unknown picture format: got '.bmp'; expected one of .png, .pdf, .svg"),
        (("the", "--tokens", "0"), "max_tokens: got 0; expected 1 or more"),
        (
            ("the", "--temperature", "-1"),
            "temperature: got -1.0; expected more than 0. Try: use greedy, which is the limit at 0.",
        ),
    ],
)
def test_wrong_input(run: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], words: str) -> None:
    assert main(["generate", str(run), *arguments]) == 2
    assert capsys.readouterr().err == f"regard: {words}\n"


def test_models_that_cannot(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", "tatoeba-en-fr", "the"]) == 2
    assert "tatoeba-en-fr cannot generate text: got a translation run" in capsys.readouterr().err
    model = LSTMLanguageModelConfig(embed_dim=8, hidden_dim=8)
    plain = trained(tmp_path / "plain", "lstm_language_model", model, pytest.MonkeyPatch())
    assert main(["generate", str(plain), "the", "--draw", str(tmp_path / "x.png")]) == 2
    assert "lstm_language_model has no attention" in capsys.readouterr().err


def test_a_drawing_for_each_hop(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = MemN2NLanguageModelConfig(memories=3, width=8, hops=2)
    run = trained(tmp_path / "memory", "memn2n_language_model", model, monkeypatch)
    written = said(capsys, str(run), "the dog", "--tokens", "5", "--draw", str(tmp_path / "hops.png"))
    assert written.startswith("the dog")
    assert len(list(tmp_path.glob("hops*.png"))) == 2
