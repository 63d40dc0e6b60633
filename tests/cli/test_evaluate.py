import json
import shutil
import sys
from pathlib import Path

import pytest
from tiny import PAIRS, Terminal

from regard import api
from regard.cli.main import main
from regard.data import ParallelText


def test_figures_are_printed_and_kept(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", str(run)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("run on test: 6 sentences, ")
    found = json.loads((run / "result_test.json").read_text())
    for label, name in (("BLEU  ", "bleu"), ("BLEU, tokenised, lower-cased", "tokenized_bleu"), ("chrF", "chrf")):
        line = next(line for line in lines if line.startswith(f"  {label}"))
        assert line.split()[-1] == found["signatures"][name]
        assert f" {found['figures'][name]:.2f} " in line
    assert found["signatures"]["bleu"].startswith("nrefs:1|case:lc|")
    assert any(line.split() == ["6–8", "6", f"{found['lengths'][1]['bleu']:.1f}"] for line in lines)
    assert lines[-1] == str(run / "result_test.json")
    assert (found["run"], found["paper"], found["count"], found["parameters"]) == ("run", "bahdanau", 6, 3005)
    assert found["settings"]["beams"] == 2
    assert (found["task"], found["how"]) == ("translation", "beam 2")
    assert "torch" in found["environment"]
    outputs = (run / "output_test.txt").read_text().splitlines()
    model = api.load(run)
    assert outputs == [one.text for one in model.translate(model.task.splits["test"].source)]


def test_another_split_and_beam(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", str(run), "--split", "valid", "--beam", "1"]) == 0
    assert "run on valid: 6 sentences" in capsys.readouterr().out
    assert json.loads((run / "result_valid.json").read_text())["settings"]["beams"] == 1
    assert (run / "output_valid.txt").exists()
    assert not (run / "result_test.json").exists()


def test_the_model_that_ships_is_left_as_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    few = ParallelText(["I lost my keys.", "She is my sister."], ["J'ai perdu mes clés.", "C'est ma sœur."], {})
    monkeypatch.setattr("regard.tasks.translation.read_splits", lambda config: {"train": few, "test": few})
    folder = api.shipped()["tatoeba-en-fr"]
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert main(["evaluate", "tatoeba-en-fr", "--beam", "1", "--split", "test"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("tatoeba-en-fr on test: 2 sentences")
    assert "result_test.json" not in said
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before


def test_a_run_without_its_text_says_which_file_is_missing(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = tmp_path / "gone.tsv"
    gone.write_text("".join("\t".join(pair) + "\n" for pair in PAIRS))
    assert main(["train", "bahdanau/plain_en_fr", "--resume", "--out", str(run), "--source", str(gone)]) == 0
    gone.unlink()
    capsys.readouterr()
    assert main(["evaluate", str(run)]) == 2
    assert capsys.readouterr().err.startswith(f"regard: {gone}: cannot be read: got no such file")
    assert main(["translate", str(run), "the cat."]) == 0  # needs no text


def test_figures_of_glimpses(gazing: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = shutil.copytree(gazing, tmp_path / "run")
    assert main(["evaluate", str(run), "--split", "valid"]) == 0
    lines = capsys.readouterr().out.splitlines()
    found = json.loads((run / "result_valid.json").read_text())
    assert lines[0].startswith(f"run on valid: {found['count']} pictures, ")
    error = next(line for line in lines if line.startswith("  error, %"))
    assert error.split()[2] == f"{found['figures']['error']:.2f}"
    assert error.endswith(found["signatures"]["error"])
    assert any(line.split()[:3] == ["glimpses", "a", "picture"] for line in lines)
    assert not any("words of the source" in line for line in lines)


def test_figures_of_captions(captioning: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = shutil.copytree(captioning, tmp_path / "run")
    assert main(["evaluate", str(run), "--beam", "1"]) == 0
    said = capsys.readouterr().out
    found = json.loads((run / "result_test.json").read_text())
    assert found["settings"]["beams"] == 1
    lines, search = said.splitlines(), "search:greedy,min_steps=2"
    for n in range(1, 5):
        plain = next(line for line in lines if line.startswith(f"  BLEU-{n}  "))
        assert plain.split()[1] == f"{found['figures'][f'bleu_{n}']:.2f}"
        assert plain.endswith(f"|bp:no|{search}")
        penalised = next(line for line in lines if line.startswith(f"  BLEU-{n}, with brevity penalty"))
        assert penalised.endswith(f"|bp:closest|{search}")
    for name in ("CIDEr-D", "words a caption", "captions a second"):
        assert f"  {name}" in said
    if "meteor" in found["missing"]:
        assert any(line.startswith("  METEOR ") and line.endswith(found["missing"]["meteor"]) for line in lines)


def test_without_sacrebleu_nothing_is_decoded(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def decode(*given: object, **more: object) -> None:
        raise AssertionError("decoded")

    monkeypatch.setattr("regard.tasks.translation.translate_texts", decode)
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    assert main(["evaluate", str(run)]) == 2
    assert capsys.readouterr().err == (
        "regard: an evaluation in BLEU and chrF needs sacrebleu, which is not installed. "
        "Try: pip install sacrebleu, or in a clone of regard pip install '.'.\n"
    )


@pytest.mark.parametrize(
    ("fixture", "counted"), [("run", "sentences"), ("gazing", "pictures"), ("captioning", "captions")]
)
def test_on_a_terminal_there_is_a_bar_while_it_decodes(
    fixture: str, counted: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = shutil.copytree(request.getfixturevalue(fixture), tmp_path / "copy")
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    assert main(["evaluate", str(folder), "--split", "valid"]) == 0
    shown = terminal.getvalue()
    count = len((folder / "output_valid.txt").read_text().splitlines())
    assert f"copy on valid, {counted} 100% |" in shown
    assert f"{count}/{count} [" in shown
    assert shown.rstrip(" ").endswith("\r")  # gone, before the answer


def test_without_a_terminal_there_is_no_bar(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", str(run)]) == 0
    assert capsys.readouterr().err == ""


def test_figures_as_json(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", str(run), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    stored = json.loads((run / "result_test.json").read_text())
    assert printed["figures"] == stored["figures"]
    assert "outputs" not in printed
