import io
import subprocess
import sys
from pathlib import Path

import pytest
from tiny import SIZES

from regard import api
from regard.cli.main import main
from regard.cli.predicting import AT_ONCE
from regard.data import tokenize

LINES = ["the red cat sees the bird.", "", "the old dog"]


@pytest.fixture(scope="module")
def wanted(trained: Path) -> list[str]:
    return [one.text for one in api.load(trained).translate(LINES)]


class Keyboard(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_arguments(trained: Path, wanted: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["translate", str(trained), *LINES]) == 0
    said = capsys.readouterr()
    assert said.out.splitlines() == wanted
    assert said.err == ""
    assert wanted[0]
    assert wanted[1] == ""  # a blank line keeps its place


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_a_file(
    ending: str, trained: Path, wanted: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "lines.txt").write_bytes(ending.join(LINES).encode())
    assert main(["translate", str(trained), "--file", str(tmp_path / "lines.txt")]) == 0
    assert capsys.readouterr().out.splitlines() == wanted


def test_standard_input(
    trained: Path, wanted: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    many = AT_ONCE["text"] // len(LINES) + 1  # more than one chunk
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(LINES * many) + "\n"))
    assert main(["translate", str(trained), "--beam", "2"]) == 0
    assert capsys.readouterr().out.splitlines() == wanted * many


def test_standard_input_that_is_no_utf8(
    trained: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"caf\xe9\n"), encoding="utf-8"))
    assert main(["translate", str(trained)]) == 2
    assert capsys.readouterr().err == (
        "regard: standard input cannot be read: got byte 0xe9; expected utf-8. Try: iconv -f latin1 -t utf-8.\n"
    )


@pytest.mark.parametrize("end", ["", EOFError])
def test_the_keyboard(
    end: str | type[Exception],
    trained: Path,
    wanted: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    typed = iter([LINES[0], LINES[2], end, "never asked for"])
    seen: list[str] = []

    def ask(prompt: str) -> str:
        seen.append(prompt + capsys.readouterr().out)  # every answer comes before the next question
        line = next(typed)
        if not isinstance(line, str):
            raise line
        return line

    monkeypatch.setattr("sys.stdin", Keyboard())
    monkeypatch.setattr("builtins.input", ask)
    assert main(["translate", str(trained)]) == 0
    assert seen == ["> ", f"> {wanted[0]}\n", f"> {wanted[2]}\n"]


def test_a_real_pipe_that_closes_early(trained: Path, tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("the red cat sees the bird.\n" * 4000)
    command = [sys.executable, "-m", "regard", "translate", str(trained), "--file", str(tmp_path / "lines.txt")]
    with subprocess.Popen(
        [*command, "--beam", "1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().strip()
        process.stdout.close()  # as `head -1` does
        assert process.stderr.read() == ""
    assert process.returncode == 1


def test_nbest_has_scores_best_first(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["translate", str(trained), LINES[0], "--nbest", "3"]) == 0  # and as many beams
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    scores = [float(score) for score, _ in rows]
    assert len(rows) == 3
    assert scores == sorted(scores, reverse=True)
    assert len({text for _, text in rows}) == 3


def test_settings_of_the_search(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = []
    for seed in ("1", "1", "2"):
        assert main(["translate", str(trained), LINES[0], "--set", "temperature=1.0", f"seed={seed}"]) == 0
        said.append(capsys.readouterr().out)
    assert said[0] == said[1] != said[2]
    assert main(["translate", str(trained), LINES[0], "--set", "min_steps=15", "max_ratio=0.7"]) == 0
    assert len(tokenize(capsys.readouterr().out)) == 15  # 0.7 · 8 places and ten more


def test_unknown_characters(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["translate", str(trained), "Привет ☃ \x00 你好\u200b", "\u200b", "a\tb"]) == 0
    lines = capsys.readouterr().out.split("\n")
    assert len(lines) == 4
    assert lines[1] == ""


@pytest.mark.parametrize(("name", "start"), [("deep/a.png", b"\x89PNG"), ("A.SVG", b"<?xml")])
def test_a_picture_of_the_alignment(
    name: str, start: bytes, trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    assert main(["translate", str(trained), LINES[0], "--heatmap", str(path), "--set", "min_steps=2"]) == 0
    assert path.read_bytes().startswith(start)
    assert capsys.readouterr().err == f"{path}\n"


def test_a_picture_of_every_head(trained: Path, transformer: Path, tmp_path: Path) -> None:
    settings = ["--set", "min_steps=2", "max_ratio=0.1"]
    for run, panels in {trained: 1, transformer / "runs" / "transformer_plain_en_fr": 2 * 2}.items():
        path = tmp_path / f"{panels}.svg"
        assert main(["translate", str(run), "the cat.", "--heatmap", str(path), "--heads", *settings]) == 0
        assert path.read_text().count("<image ") == panels + 1  # the bar


def test_nothing_to_draw(trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["translate", str(trained), "", "--heatmap", str(tmp_path / "a.png")]) == 2
    assert capsys.readouterr().err == (
        "regard: there is nothing to draw: got no words in the first sentence, or in its translation\n"
    )


def test_a_model_without_attention_has_no_picture(
    text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = [setting for setting in SIZES if "align" not in setting]
    run = ["--out", str(tmp_path / "run"), "--source", str(text / "a.tsv")]
    assert main(["train", "encoder_decoder/plain_en_fr", *run, "--set", *sizes, "train.steps=1"]) == 0
    capsys.readouterr()
    picture = ["--heatmap", str(tmp_path / "a.png"), "--set", "min_steps=2"]
    assert main(["translate", str(tmp_path / "run"), LINES[0], *picture]) == 2
    said = capsys.readouterr()
    assert said.err == "regard: cho has no attention. Try: draw a model that has.\n"
    assert said.out.strip()
    assert not (tmp_path / "a.png").exists()


def test_without_matplotlib_nothing_is_translated_for_a_picture(
    trained: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(["translate", str(trained), "the cat.", "--heatmap", "a.png"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("regard: --heatmap needs matplotlib, which is not installed. Try: pip install matplotli")
    assert main(["translate", str(trained), "the cat."]) == 0
