import pytest

from regard.align import ALIGNS
from regard.cli.main import main
from regard.score import SCORES


def test_every_score_and_alignment_is_listed_with_its_path(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info"]) == 0
    lines = capsys.readouterr().out.splitlines()
    paths = {line.split()[0]: line.partition("softmax")[2].strip() for line in lines if "× softmax" in line}
    assert set(paths) == set(SCORES)
    assert {name for name, path in paths.items() if path == "sdpa"} == {"dot", "scaled_dot", "general", "cosine"}
    assert paths["projected"] == "the path of the score inside"
    assert paths["additive"].startswith("reference: score=Additive is not a dot product")
    assert all(name in lines[-1] for name in ALIGNS if name != "softmax")
    assert any(line.startswith("torch ") for line in lines)
