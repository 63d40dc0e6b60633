import json
import re
import sys
from pathlib import Path

import pytest

from regard.cli.main import main


def test_tour_prints_the_answers_and_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "new" / "folder"
    assert main(["tour", "--out", str(folder)]) == 0
    text = capsys.readouterr().out
    assert "Bob Smith → 555-5678" in text
    assert "0.40 · 30.0 + 0.60 · 40.0 = 36.0" in text
    table = re.findall(r"^  (.{14}) +\d+   \d\.\d\d → (\d\.\d\d)$", text, re.MULTILINE)
    after = {name.strip(): float(share) for name, share in table}
    assert set(after) == {"cosine, β = 1", "additive", "location", "general", "dot", "scaled dot"}
    assert min(after, key=lambda name: after[name]) == "cosine, β = 1"
    assert after["scaled dot"] > 0.5
    for name in ("scores.png", "alignments.png"):
        assert str(folder / name) in text
        assert (folder / name).read_bytes().startswith(b"\x89PNG")
    records = json.loads((folder / "scores.json").read_text())["records"]
    assert len(records) == 6
    assert records[0]["rows"][1] == "agreement"


def test_tour_into_a_file_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "taken").write_text("")
    assert main(["tour", "--out", str(tmp_path / "taken")]) == 2
    assert capsys.readouterr().err.startswith("regard: ")


def test_without_matplotlib_it_ends_before_it_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(["tour", "--out", str(tmp_path / "tour")]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("regard: regard tour needs matplotlib, which is not installed. Try: pip install matplot")
