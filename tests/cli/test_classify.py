import io
import json
from pathlib import Path

import pytest
from tiny import BAD, ODD, odd_pictures

from regard import api
from regard.cli.main import main


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return odd_pictures(tmp_path_factory.mktemp("odd") / "pictures")


def test_one_picture_and_several(gazing: Path, odd: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [str(odd / name) for name in ODD]
    assert main(["classify", str(gazing), paths[0]]) == 0
    one = capsys.readouterr().out
    assert main(["classify", str(gazing), *paths]) == 0
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [name for name, _ in lines] == paths
    model = api.load(gazing)
    assert [said for _, said in lines] == [answer.described for answer in model.classify(paths)]
    assert one == f"{lines[0][1]}\n"
    assert one.endswith(", 3 glimpses)\n")


@pytest.mark.parametrize("name", BAD)
def test_bad_pictures(name: str, gazing: Path, odd: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = odd / name
    assert main(["classify", str(gazing), str(path)]) == 2
    said = capsys.readouterr()
    assert said.err.startswith("regard: " + BAD[name].format(path=path))
    assert said.err.count("\n") == 1
    assert said.out == ""


@pytest.mark.parametrize(("name", "start"), [("deep/a.png", b"\x89PNG"), ("A.SVG", b"<?xml"), ("a.gif", b"GIF8")])
def test_the_path_is_drawn(
    name: str, start: bytes, gazing: Path, odd: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    assert main(["classify", str(gazing), str(odd / "grey.png"), "--path", str(path)]) == 0
    assert path.read_bytes().startswith(start)
    assert capsys.readouterr().err == f"{path}\n"


def test_paths_of_several_are_numbered(gazing: Path, odd: Path, tmp_path: Path) -> None:
    pictures = [str(odd / "grey.png"), str(odd / "dot.png")]
    assert main(["classify", str(gazing), *pictures, "--path", str(tmp_path / "a.png")]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a_1.png", "a_2.png"]


def test_a_model_that_sees_all_at_once_has_no_path(
    gazing: Path, odd: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = ["--out", str(tmp_path / "run"), "--set", "task.dataset=digits", "task.canvas.clutter=0"]
    small = [
        "task.canvas.size=none",
        "model.hidden_dim=4",
        "task.batch_size=8",
        "train.steps=1",
        "train.evaluate_every=1",
        "train.warmup=0",
    ]
    assert main(["train", "ram/fully_connected", *run, *small]) == 0
    said = capsys.readouterr()
    assert "Pictures:" not in said.out  # nothing to draw
    assert main(["classify", str(tmp_path / "run"), str(odd / "grey.png"), "--path", str(tmp_path / "a.png")]) == 2
    said = capsys.readouterr()
    assert said.err == (
        "regard: run takes no glimpses: got paper=fully_connected. Try: draw a model that does: ram, dram, dt_ram.\n"
    )
    assert not (tmp_path / "a.png").exists()


def test_wrong_formats_and_wrong_runs(
    gazing: Path, captioning: Path, odd: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = str(odd / "grey.png")
    assert main(["classify", str(gazing), picture, "--path", "a.bmp"]) == 2
    text = "regard: --path: unknown picture format: got '.bmp'; expected one of .png, .pdf, .svg, .gif\n"
    assert capsys.readouterr().err == text
    assert main(["classify", str(captioning), picture]) == 2
    text = (
        "captioning cannot classify pictures: got a captioning run. "
        "Try: caption pictures with it, or load a model that can classify.\n"
    )
    assert capsys.readouterr().err == f"regard: {text}"
    assert main(["translate", str(gazing), "hello"]) == 2
    text = (
        "gazing cannot translate text: got a classification run. "
        "Try: classify pictures with it, or load a model that can translate.\n"
    )
    assert capsys.readouterr().err == f"regard: {text}"
    assert main(["evaluate", str(gazing), "--beam", "2"]) == 2
    assert capsys.readouterr().err.startswith("regard: unknown setting 'beam' of a prediction: expected one of draws")


# ── texts ───────────────────────────────────────────────────────────────────────────────────────────────────────────

SIZES = [
    "model.embed_dim=4", "model.hidden_dim=4", "model.attention_dim=4", "model.mlp_dim=4", "model.gate_dim=4",
    "train.steps=2", "train.warmup=0", "task.batch_size=8",
]  # fmt: skip


@pytest.fixture(scope="module")
def reading(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on texts of its own, two steps long."""
    folder = tmp_path_factory.mktemp("reading")
    (folder / "a.tsv").write_text("".join(f"{'good' if n % 2 else 'bad'}\tthe film number {n}\n" for n in range(60)))
    out = folder / "reading"
    run = ["train", "self_attentive/smoke", "--source", str(folder / "a.tsv"), "--out", str(out)]
    assert main([*run, "--device", "cpu", "--set", *SIZES]) == 0
    return out


@pytest.fixture(scope="module")
def comparing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on pairs of its own, as JSON lines."""
    folder = tmp_path_factory.mktemp("comparing")
    lines = [{"label": n % 3, "premise": f"film {n}", "hypothesis": f"it is film {n}"} for n in range(60)]
    (folder / "a.jsonl").write_text("\n".join(map(json.dumps, lines)))
    out = folder / "comparing"
    run = ["train", "self_attentive/smoke", "--source", str(folder / "a.jsonl"), "--out", str(out)]
    assert main([*run, "--device", "cpu", "--set", *SIZES]) == 0
    return out


def test_a_text_and_several(reading: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = ["The film isn't good.", "a film"]
    assert main(["classify", str(reading), texts[0]]) == 0
    one = capsys.readouterr().out
    assert main(["classify", str(reading), *texts]) == 0
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [text for text, _ in lines] == texts
    assert one == f"{lines[0][1]}\n"
    assert lines[0][1].split(" ")[0] in ("good", "bad")
    (tmp_path / "texts.txt").write_text("\n".join([*texts, "", "more"]))
    assert main(["classify", str(reading), "--file", str(tmp_path / "texts.txt")]) == 0
    from_file = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert from_file[:2] == lines
    assert len(from_file) == 3


def test_texts_of_standard_input(
    reading: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("a film\n\nthe film\n"))
    assert main(["classify", str(reading)]) == 0
    assert [line.split("\t")[0] for line in capsys.readouterr().out.splitlines()] == ["a film", "the film"]


def test_hops_are_drawn(reading: Path, comparing: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["classify", str(reading), "a film", "--draw", str(tmp_path / "a.png")]) == 0
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert main(["classify", str(comparing), "a film ||| a story", "--path", str(tmp_path / "b.svg")]) == 0
    assert sorted(path.name for path in tmp_path.glob("b*")) == ["b_1.svg", "b_2.svg"]
    assert main(["predict", str(comparing), "a film ||| a story", "--json"]) == 0
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert [explanation["kind"] for explanation in told["explanations"]] == ["shading", "shading"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["only one"], "input 1: got 1 texts; expected two texts. Try: write a tab or ' ||| ' between them"),
        (["a ||| "], "text 1 has no words"),
        (["--file", "none.txt"], "none.txt: cannot be read: got no such file or directory"),
        (["a ||| b", "--file", "none.txt"], "texts come from one place: got --file and texts"),
        (["a ||| b", "--draw", "a.gif"], "only glimpses can be animated: got .gif; expected one of .png, .pdf, .svg"),
    ],
)
def test_texts_that_are_refused(
    given: list[str], message: str, comparing: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["classify", str(comparing), *given]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"regard: {message}")
    assert said.count("\n") == 1


def test_flags_of_the_other_kind(gazing: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["classify", str(gazing), "--file", "a.txt"]) == 2
    assert "--file is for texts: got a model of pictures" in capsys.readouterr().err
    assert main(["classify", str(gazing)]) == 2
    assert "no picture is given" in capsys.readouterr().err
