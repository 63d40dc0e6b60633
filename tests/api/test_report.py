import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from regard import api
from regard.base import RegardError
from regard.data import ParallelText

KEYS = "I lost my keys."


def test_a_report_of_runs_on_different_text(trained: api.Model, shipped: api.Model) -> None:
    few = ParallelText([KEYS], ["J'ai perdu mes clés."], {})
    task = type(shipped.task)(shipped.task.config, codecs=shipped.task.codecs, splits={"test": few})
    with open(trained.folder / "metrics.jsonl", "a") as file:
        file.write('{"kind": "tr')  # a training that is writing just now
    page = api.report([trained, replace(shipped, task=task)], samples=2, title="Two", intro="Both.")
    assert page.count("<article") == 3
    assert "decoder.3.cross · head 7" in page
    assert "NVIDIA H200" in page


def test_alignments_of_another_model(trained: api.Model, shipped: api.Model) -> None:
    config = trained.task.config
    wordy = replace(config, search=replace(config.search, min_steps=2))  # the model would say nothing otherwise
    task = type(trained.task)(wordy, codecs=trained.task.codecs, splits=trained.task.splits)
    for other, names in ((None, ["trained"]), (shipped, ["tatoeba-en-fr"])):
        page = api.report([replace(trained, task=task)], samples=2, explained_by=other)
        assert page.count("<article") == 2
        assert page.count('class="output"') == (2 if other is None else 4)  # both translate the same sentences
        maps = [part.split("</details>")[0] for part in page.split('<div class="maps">')[1:]]
        assert [[name for name in ("trained", "tatoeba-en-fr") if name in drawn] for drawn in maps] == [names, names]


def test_progress_is_told_by_run(trained: api.Model) -> None:
    (trained.folder / "result_test.json").unlink(missing_ok=True)
    told: list[tuple[str, int, int]] = []
    api.report([trained, replace(trained, name="twin")], samples=1, progress=lambda *facts: told.append(facts))
    assert told[0] == ("trained: sentences", 0, 3)
    assert ("trained: sentences", 3, 3) in told
    assert told[-2:] == [("twin: examples", 0, 1), ("twin: examples", 1, 1)]
    assert not any(what == "twin: sentences" for what, _, _ in told)  # the figures of the first are there now


def test_a_report_of_a_damaged_folder(gazing: api.Model, tmp_path: Path) -> None:
    """What a run says beside its figures may be missing, or be anything."""
    api.result(gazing, "test")
    model = replace(gazing, folder=shutil.copytree(gazing.folder, tmp_path / "run"))
    (model.folder / "metrics.jsonl").write_bytes(
        b'\xff\n[1]\n{"kind": "end", "step": 4}\n{"kind": "valid", "step": 2}\n'
    )
    (model.folder / "environment.json").write_text('{"threads": [2]}')
    page = api.report([model], samples=0)
    assert "Updates" in page
    assert "Training" not in page.partition("</table>")[0]
    (model.folder / "environment.json").write_text('{"processor": "A", "threads": "1"}')
    assert "A, 1\u00a0thread<" in api.report([model], samples=0)
    (model.folder / "environment.json").write_text("[" * 100_000)
    with pytest.raises(
        RegardError, match=r"environment.json cannot be read: got brackets nested too .* Try: delete it"
    ):
        api.report([model], samples=0)


def test_a_report_of_glimpses(gazing: api.Model) -> None:
    page = api.report([gazing, replace(gazing, name="twin")], samples=1)
    assert page.count("<article") == 1
    assert "Error after each glimpse" in page
    assert page.count("data:image/gif") == 2 * 2  # both runs, light and dark
    assert "error in % of 300 pictures, locations: means" in page
    assert "Error, % during training" in page
    assert re.search(r"[0-9] \([0-9.]+ %(: not sure)?, 3 glimpses\)", page)
    assert page.index("digits, test picture") < page.index("Reference")
    assert '<dd class="output wrong"' in page  # it has learnt next to nothing, and mistakes come first
    assert f'<th scope="row">Seed</th><td>{gazing.recipe.train.seed}</td>' in page
    assert re.search(r'<th scope="row">Evaluated</th><td>20[0-9]{2}-[0-9]{2}-[0-9]{2}</td>', page)
    assert '<th scope="row">model.glimpses</th><td>3</td>' in page


def test_a_report_of_captions(captioning: api.Model) -> None:
    page = api.report([captioning], samples=1)
    assert page.count("<article") == 1
    assert "<h2>Captions</h2>" in page
    assert "BLEU-1 to 4" in page
    assert "bp:no" in page
    assert "bp:closest" in page
    assert re.search(r"files, test: \w+\.png", page)
    number = api.chosen(captioning, "test", 1)[0]
    assert captioning.task.splits["test"].captions[number][0] in page
    assert ("METEOR" in page) == ("not installed" in page or "meteor" in page)


def test_a_report_of_gates_and_of_maps(gated: api.Model, wide: api.Model) -> None:
    page = api.report([gated, wide], samples=1)
    assert "<h2>Inside</h2>" in page
    assert "gates over 12 pictures" in page
    assert page.count('class="places"') == 1
    places = re.search(r'data-places="16,16" data-keys="16,16" data-levels="([0-9a-f]+)"', page)
    assert places is not None
    assert len(places[1]) == 16**4


def test_runs_of_different_tasks_are_not_compared(trained: api.Model, gazing: api.Model) -> None:
    text = (
        r"different tasks: got trained \(translation\), gazing \(classification\)\. Try: make one report for each task"
    )
    with pytest.raises(RegardError, match=text):
        api.report([trained, gazing])


def test_no_runs_no_report() -> None:
    with pytest.raises(RegardError, match="a report needs runs: got none"):
        api.report([])
