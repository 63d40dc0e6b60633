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
    assert all("not sure of this one" in line for line in said.err.splitlines())
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
    assert capsys.readouterr().err.splitlines()[-1] == str(path)


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
    assert said.err.splitlines()[-1] == "regard: cho has no attention. Try: draw a model that has."
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


def test_the_best_aligned_head_is_drawn_and_named(tmp_path: Path) -> None:
    model = api.load("tatoeba-en-fr")
    found = model.translate("I lost my keys.")
    [alignment] = found.explanations
    assert alignment.layer == "decoder.1.cross, head 3: the best aligned"
    assert alignment.axes == ("translation", "source")
    best = dict(zip(found.tokens, alignment.weights.argmax(1).tolist(), strict=True))
    assert found.source_tokens[best["▁clés"]] == "▁keys"
    assert found.source_tokens[best["▁perdu"]] == "▁lost"


@pytest.mark.parametrize(("flags", "said"), [
    ([], "decoder.1.cross, head 3: the best aligned"),
    (["--layer", "2"], "mean of the 8 heads of decoder.2.cross"),
    (["--layer", "0", "--head", "5"], "decoder.0.cross, head 5"),
    (["--self"], "mean of the 8 heads of encoder.3.inner"),
    (["--self", "target", "--layer", "1", "--head", "0"], "decoder.1.inner, head 0"),
])  # fmt: skip
def test_one_layer_and_one_head_as_a_page(flags: list[str], said: str, tmp_path: Path) -> None:
    path = tmp_path / "a.html"
    assert main(["translate", "tatoeba-en-fr", "I lost my keys.", "--beam", "1", "--html", str(path), *flags]) == 0
    text = path.read_text()
    assert f"tatoeba-en-fr: {said}" in text
    assert text.count("<option") == 8 * 4  # every layer and head, to choose from
    assert "http" not in text.replace("http-equiv", "").replace("http://www.w3.org", "")


@pytest.mark.parametrize(("flags", "message"), [
    (["--layer", "1"], "--layer needs a picture. Try: add --heatmap alignment.png or --html alignment.html"),
    (["--self", "--html", "a.png"], "--html: unknown format: got '.png'; expected .html"),
    (["--heads", "--heatmap", "a.png", "--head", "1"], "--heads draws all layers and heads"),
    (["--layer", "9", "--html", "a.html"], "there is no such layer: got 9; expected one of 0 (decoder.0.cross), 1"),
    (["--head", "9", "--html", "a.html"], "there is no such head in decoder.3.cross: got 9; expected 0 to 7"),
])  # fmt: skip
def test_what_cannot_be_drawn(
    flags: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["translate", "tatoeba-en-fr", "Thank you.", "--beam", "1", *flags]) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_model_without_self_attention_says_so(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["--heatmap", str(tmp_path / "a.png"), "--self", "--set", "min_steps=2"]
    assert main(["translate", str(trained), LINES[0], *asked]) == 2
    assert "the words of the source do not attend to each other: got Bahdanau" in capsys.readouterr().err


def test_low_confidence_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    everyday, capitals = "I lost my keys.", "WHERE ARE YOU GOING?"
    assert main(["translate", "tatoeba-en-fr", everyday, capitals]) == 0
    said = capsys.readouterr()
    assert len(said.out.splitlines()) == 2
    [line] = said.err.splitlines()
    assert line.startswith("not sure of this one: its tokens had a probability of 3")
    (tmp_path / "lines.txt").write_text(f"{everyday}\n{capitals}\n")
    assert main(["translate", "tatoeba-en-fr", "--file", str(tmp_path / "lines.txt")]) == 0
    assert capsys.readouterr().err == "not sure of 1 of 2: their tokens had an average probability below 60 %\n"
