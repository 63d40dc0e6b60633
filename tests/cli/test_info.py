import pytest
from examples_of import SCORE_EXAMPLES

from regard.align import ALIGNS
from regard.cli.main import main
from regard.score import SCORES


def test_every_score_and_alignment_is_listed_with_its_path(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info"]) == 0
    lines = capsys.readouterr().out.splitlines()
    start = next(number for number, line in enumerate(lines) if "on cpu, impl='auto' takes" in line) + 2
    paths = dict(line.split(maxsplit=1) for line in lines[start : start + len(SCORES)])
    assert set(paths) == set(SCORES)
    assert paths.pop("projected") == "the path of the score inside"
    fused = {example.kind: example.fused for example in SCORE_EXAMPLES.values()}
    assert {name for name, path in paths.items() if path == "sdpa"} == {n for n in paths if fused[SCORES[n]] == "dot"}
    assert paths["additive"].startswith("blocked (not triton: ")
    assert paths["location"].startswith("reference (not sdpa: score=Location is not a dot product")
    assert "not blocked: score=Location is not additive" in paths["location"]
    [others] = [line for line in lines if line.startswith("Any score ×")]
    assert all(name in others for name in ALIGNS if name != "softmax")
    assert any(line.startswith("torch ") for line in lines)
