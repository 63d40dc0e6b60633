import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny import PAIRS, SIZES, TRAIN

from regard import api
from regard.cli.main import main
from regard.recipes import load_recipe
from regard.tasks import TASKS
from regard.tasks.inputs import as_bytes
from regard.train import checkpoints

RECIPE = "bahdanau/plain_en_fr"


def records(folder: Path, kind: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if line["kind"] == kind]


def losses(folder: Path) -> list[float]:
    return [record["loss"] for record in records(folder, "train")]


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return api.load(folder, device="cpu").module.state_dict()


def test_a_run_folder_explains_itself(trained: Path, text: Path) -> None:
    files = {path.name for path in trained.iterdir()}
    assert files >= {"recipe.json", "source.json", "target.json", "environment.json", "metrics.jsonl"}
    assert files >= {"model.safetensors", "checkpoints"}
    recipe = load_recipe(trained)
    assert (recipe.paper, recipe.train.steps, recipe.model.hidden_dim) == ("bahdanau", 4, 8)
    assert (recipe.task.source_file, recipe.task.target_file) == (str(text / "a.en"), str(text / "a.fr"))
    assert [record["step"] for record in records(trained, "train")] == [2, 4]
    splits = api.load(trained).task.splits
    assert {name: split.size for name, split in splits.items()} == {"train": 108, "valid": 6, "test": 6}
    sentences = [sentence for split in splits.values() for sentence in split.source]
    assert sorted(sentences) == sorted(pair[0] for pair in PAIRS)


@pytest.mark.parametrize("reading", ["memory", "shards"])
def test_several_files_are_one_text(reading: str, trained: Path, text: Path, tmp_path: Path) -> None:
    lines = {side: (text / f"a.{side}").read_text().splitlines(keepends=True) for side in ("en", "fr")}
    for side, each in lines.items():
        for number in range(3):
            (tmp_path / f"c.{number}.{side}").write_text("".join(each[40 * number : 40 * number + 40]))
    flags = [["--source", str(tmp_path / "c.*.en"), "--target", str(tmp_path / "c.*.fr")], []]
    for number in range(3):
        flags[1] += ["--source", str(tmp_path / f"c.{number}.en"), "--target", str(tmp_path / f"c.{number}.fr")]
    for place, named in enumerate(flags):
        folder = tmp_path / f"run {place}"
        settings = [*SIZES, f"task.reading={reading}"]
        assert main(["train", RECIPE, *named, "--out", str(folder), "--set", *settings]) == 0
        assert (folder / "corpus.json").exists() == (reading == "shards")
    assert losses(tmp_path / "run 0") == losses(tmp_path / "run 1")
    assert reading == "shards" or losses(tmp_path / "run 0") == losses(trained)


@pytest.mark.parametrize("file", ["a.tsv", "a.tsv.gz"])
def test_one_table_is_as_good_as_two_files(
    file: str, trained: Path, text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "deep" / "run"
    assert main(["train", RECIPE, "--source", str(text / file), "--out", str(folder), "--set", *SIZES]) == 0
    said = capsys.readouterr()
    assert said.out == f"3,005 parameters, in {folder}\nnext: regard evaluate {folder}\n"
    assert "step      4   loss " in said.err
    assert losses(folder) == losses(trained)
    ours, theirs = weights(folder), weights(trained)
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


def test_the_folder_has_a_name_of_its_own(transformer: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")  # the run knows where its text is
    model = api.load(transformer / "runs" / "transformer_plain_en_fr")
    assert model.name == "transformer_plain_en_fr"
    assert model.task.vocabularies == (60, 60)
    assert model.evaluate("test", beam=1, max_ratio=0.1).details["count"] == 6


def test_settings_may_come_in_several_parts(text: Path, tmp_path: Path) -> None:
    settings = ["--set", "model.align=sparsemax", "--set", "train.seed=7", "train.steps=1"]
    source = ["--source", str(text / "a.tsv")]
    assert main(["train", RECIPE, *source, "--out", str(tmp_path / "run"), "--set", *SIZES, *settings]) == 0
    recipe = load_recipe(tmp_path / "run")
    assert (recipe.model.align, recipe.train.seed, recipe.train.steps) == ("sparsemax", 7, 1)


def test_a_warm_up_that_does_not_end(text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = ["--source", str(text / "a.tsv"), "--out", str(tmp_path / "run"), "--set", *SIZES, "train.steps=2"]
    assert main(["train", RECIPE, *files, "train.warmup=2"]) == 0
    assert "train.warmup=2 does not end before train.steps=2: the rate stays below train.lr" in capsys.readouterr().out


def test_runs_from_before_they_had_names_go_on(run: Path) -> None:
    path = run / "recipe.json"
    path.write_text(json.dumps({name: value for name, value in json.loads(path.read_text()).items() if name != "name"}))
    assert main(["train", RECIPE, "--resume", "--out", str(run)]) == 0


def test_resume_goes_on_exactly_and_is_remembered(run: Path, text: Path, tmp_path: Path) -> None:
    assert main(["train", RECIPE, "--resume", "--out", str(run), "--set", "train.steps=8"]) == 0
    whole, files = tmp_path / "whole", ["--source", str(text / "a.en"), "--target", str(text / "a.fr")]
    assert main(["train", RECIPE, *files, "--out", str(whole), "--set", *SIZES, "train.steps=8"]) == 0
    assert load_recipe(run) == load_recipe(whole)
    assert [record["step"] for record in records(run, "train")] == [2, 4, 6, 8]
    assert [record["step"] for record in records(run, "end")] == [8]
    assert losses(run) == losses(whole)


def test_resume_of_a_finished_run_says_so(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", RECIPE, "--resume", "--out", str(run)]) == 0
    said = capsys.readouterr().out.splitlines()[0]
    end = f"in {run}: it has made all of its 4 steps; --set train.steps=8 trains on"
    assert said.endswith(end)


def test_resume_after_a_kill_is_as_if_nothing_had_been(run: Path, trained: Path) -> None:
    shutil.rmtree(run / "checkpoints" / "step_00000004")
    for name in ("model.safetensors", "best.safetensors"):
        (run / name).unlink()
    assert api.load(run).translate("the cat.").text  # the checkpoint serves until then
    assert main(["train", RECIPE, "--resume", "--out", str(run)]) == 0
    assert losses(run) == losses(trained)
    ours, theirs = weights(run), weights(trained)
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


def test_resume_of_a_finished_run_changes_nothing(run: Path, trained: Path) -> None:
    before = weights(run)
    assert main(["train", RECIPE, "--resume", "--out", str(run)]) == 0
    after = weights(run)
    assert all(torch.equal(before[name], after[name]) for name in before)
    for kind in ("train", "valid"):
        assert records(run, kind) == records(trained, kind)
    assert [record["step"] for record in records(run, "end")] == [4]


def test_resume_where_nothing_is_begins(text: Path, tmp_path: Path) -> None:
    out = ["--out", str(tmp_path / "run"), "--resume"]
    assert main(["train", RECIPE, "--source", str(text / "a.tsv"), *out, "--set", *SIZES]) == 0
    assert (tmp_path / "run" / "model.safetensors").exists()


def test_resume_with_text_that_has_moved(run: Path, text: Path, tmp_path: Path) -> None:
    moved = Path(shutil.copy(text / "a.tsv", tmp_path / "moved.tsv"))
    assert main(["train", RECIPE, "--resume", "--out", str(run), "--source", str(moved)]) == 0
    assert load_recipe(run).task.source_file == str(moved)


def test_a_failed_resume_leaves_the_recipe(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (run / "recipe.json").read_bytes()
    assert main(["train", RECIPE, "--resume", "--out", str(run), "--set", "model.embed_dim=9"]) == 2
    assert "these weights are of another model" in capsys.readouterr().err
    assert (run / "recipe.json").read_bytes() == before
    assert api.load(run).translate("the cat.").text


# ── ends that nobody had planned ────────────────────────────────────────────────────────────────────────────────────


def start(text: Path, folder: Path, *more: str) -> subprocess.Popen[str]:
    """A training without an end, in a process of its own."""
    settings = [*SIZES, "train.steps=100000", "train.log_every=1", "train.save_every=5", "train.evaluate_every=1000"]
    files = ["--source", str(text / "a.tsv"), "--out", str(folder), "--device", "cpu"]
    command = [sys.executable, "-m", "regard", "train", RECIPE, *files, *more, "--set", *settings]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def until_saved(process: subprocess.Popen[str]) -> None:
    """Wait until it has made the sixth step, after its first checkpoint."""
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("step      6"):
            return
    raise AssertionError("it has ended")


def test_an_interrupt_says_how_to_go_on(text: Path, tmp_path: Path) -> None:
    folder = tmp_path / "my run"
    with start(text, folder) as process:
        until_saved(process)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    assert process.returncode == 130
    assert out == ""
    said = [line for line in err.splitlines() if line and not line.startswith("step ")]
    step = int(checkpoints(folder / "checkpoints")[-1].name.removeprefix("step_"))
    assert said == [
        "Stopping: the step is finished and saved first; press Ctrl-C again to stop at once.",
        f"Stopped at step {step}. Go on with: regard train {RECIPE} --out '{folder}' --device cpu --resume",
    ]
    command = shlex.split(said[1].partition("Go on with: regard ")[2])
    assert main([*command, "--set", f"train.steps={step + 2}"]) == 0
    assert records(folder, "end")[0]["step"] == step + 2


def test_an_interrupt_before_the_first_checkpoint(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("regard.api.train", interrupt)
    assert main(["train", RECIPE, "--source", str(text / "a.tsv"), "--out", str(tmp_path / "run")]) == 130
    assert capsys.readouterr().err == "\nStopped before the first checkpoint; nothing is saved.\n"


def test_a_folder_that_is_deleted_is_told_and_nothing_else(text: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with start(text, folder) as process:
        until_saved(process)
        folder.rename(tmp_path / "gone")  # at once, as `rm -r` is not; the tests of the trainer delete it
        out, err = process.communicate()
    assert process.returncode == 2
    assert out == ""
    assert err.splitlines()[-1].startswith(
        f"regard: {folder} is gone: it was deleted or moved while the run was training"
    )
    assert "Traceback" not in err
    assert not folder.exists()


def test_a_folder_that_is_deleted_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """While a model of pictures is judged and drawn, after its training."""
    folder = tmp_path / "run"
    monkeypatch.setattr("regard.api.draw_examples", lambda *_: shutil.rmtree(folder) or [])
    settings = [*(f"model.{name}_dim=8" for name in ("part", "glimpse", "hidden")), "task.batch_size=8", *TRAIN]
    assert main(["train", "ram/mini", "--out", str(folder), "--set", *settings]) == 2
    said = capsys.readouterr()
    assert "next:" not in said.out
    assert said.err.splitlines()[-1].startswith(f"regard: {folder} is gone")


def test_a_second_resume_is_refused(text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    with start(text, folder) as process:
        until_saved(process)
        assert main(["train", RECIPE, "--out", str(folder), "--resume"]) == 2
        said = capsys.readouterr().err
        process.kill()
        process.communicate()
    assert said == (
        f"regard: {folder} is being trained already: got process {process.pid} on {socket.gethostname()}; expected one "
        "training at a time. Try: wait for it, or stop it; or choose another folder by --out.\n"
    )
    saved = checkpoints(folder / "checkpoints")  # it was killed, and locks nothing
    step = int(saved[-1].name.removeprefix("step_"))
    assert main(["train", RECIPE, "--out", str(folder), "--resume", "--set", f"train.steps={step + 1}"]) == 0


@pytest.mark.slow  # tests/train/test_distributed.py trains by two processes too
def test_two_processes_train_one_model(text: Path, trained: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "regard"]
    source = ["--source", str(text / "a.tsv"), "--out", str(folder), "--device", "cpu"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, *launch, "train", RECIPE, *source, "--set", *SIZES]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"3,005 parameters, in {folder}\nnext: regard evaluate {folder}\n"  # said once
    assert losses(folder) == pytest.approx(losses(trained), rel=1e-3)
    assert api.load(folder).translate("the cat.").text


# ── pictures, from the first step to the report ─────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("package", ["matplotlib", "PIL"])
def test_what_is_missing_for_pictures_is_said_before_the_training(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    assert main(["train", "ram/mini", "--out", str(tmp_path / "run")]) == 2
    name = "pillow" if package == "PIL" else package
    said = f"regard: regard train ram/mini needs {name}, which is not installed. Try: pip install {name}, or in a clone"
    assert capsys.readouterr().err.startswith(said)
    assert not (tmp_path / "run").exists()


OWN_DATA = {  # what --help says of --source, for each task that takes data of a user
    "translation": "sentences to translate",
    "text_classification": "texts with their labels",
    "language_modelling": "one running text",
    "question_answering": "stories with questions",
    "captioning": "lines of picture<TAB>caption",
    "word_reading": "picture<TAB>text for crops of words",
    "picture_generation": "a folder of pictures",
    "action_recognition": "a folder of clips",
    "node_classification": "a list of edges",
}


def test_help_says_which_data_of_a_user_a_task_takes(capsys: pytest.CaptureFixture[str]) -> None:
    assert set(OWN_DATA) == {name for name, entry in TASKS.items() if entry.takes_files}
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert [words for words in OWN_DATA.values() if words not in text] == []


@pytest.mark.bare
@pytest.mark.parametrize(("steps", "error"), [(160, 30), pytest.param(350, 12, marks=pytest.mark.slow)])
def test_a_model_learns_where_to_look(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], steps: int, error: float
) -> None:
    """ram/mini, cut short or as it stands: trained, evaluated, drawn, used, reported. Chance errs nine times in ten."""
    folder, page = tmp_path / "run", tmp_path / "report.html"
    changes = ["--set", f"train.steps={steps}", f"train.evaluate_every={steps // 2}", "train.save_every=175"]
    assert main(["train", "ram/mini", "--out", str(folder), "--device", "cpu", *changes]) == 0
    said = capsys.readouterr()
    assert " images/s" in said.err
    assert "run on test: 300 pictures" in said.out
    assert json.loads((folder / "result_test.json").read_text())["figures"]["error"] <= error
    drawn = sorted((folder / "pictures").iterdir())
    assert [path.suffix for path in drawn if path.name.startswith("path_")].count(".png") == 4
    assert "error_after_each_glimpse.png" in [path.name for path in drawn]
    assert [path.suffix for path in drawn].count(".gif") == 1
    assert all(f"\n  {path}\n" in said.out for path in drawn)
    assert said.out.endswith(f"next: regard report {folder}, or regard classify {folder} picture.png\n")
    model = api.load(folder, device="cpu")
    pictures = model.task.held_out("test")
    wrong = 0
    for number in range(20):
        found = model.classify(as_bytes(pictures.images[number]))
        wrong += found.text != str(pictures.labels[number, 0].item())
    assert wrong <= 5 + error / 5
    assert main(["report", str(folder), "--out", str(page), "--samples", "1"]) == 0
    assert "data:image/gif" in page.read_text()


@pytest.mark.bare
@pytest.mark.parametrize(("steps", "exact"), [(200, 0.6), pytest.param(300, 0.9, marks=pytest.mark.slow)])
def test_a_model_learns_to_say_what_it_sees(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], steps: int, exact: float
) -> None:
    """show_attend_tell/shapes, cut short or as it stands; by chance not one caption in a hundred is right."""
    folder, page = tmp_path / "run", tmp_path / "report.html"
    changes = ["--set", f"train.steps={steps}"]
    assert main(["train", "show_attend_tell/shapes", "--out", str(folder), "--device", "cpu", *changes]) == 0
    said = capsys.readouterr()
    assert "run on test: 100 pictures" in said.out
    assert "bp:no" in said.out
    assert json.loads((folder / "result_test.json").read_text())["figures"]["exact"] >= exact
    assert len(list((folder / "pictures").glob("places_*.png"))) == 4
    pictures = api.load(folder, device="cpu").task.splits["test"]
    (tmp_path / "scene.png").write_bytes(pictures.read(pictures.names[0]))
    overlay = tmp_path / "words.png"
    assert main(["caption", str(folder), str(tmp_path / "scene.png"), "--overlay", str(overlay)]) == 0
    assert capsys.readouterr().out == f"{pictures.captions[0][0]}\n"
    assert overlay.read_bytes().startswith(b"\x89PNG")
    assert main(["report", str(folder), "--out", str(page), "--samples", "1"]) == 0
    assert pictures.captions[0][0] in page.read_text()
