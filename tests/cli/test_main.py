import io
import json
import shlex
import shutil
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
from tiny import PAIRS, SIZES

from regard import __version__
from regard.align import ALIGNS
from regard.api import shipped
from regard.base import ConfigError, RegardError
from regard.cli import VERBS
from regard.cli.main import main
from regard.models import MODELS
from regard.tasks import Search
from regard.train import Train

GO_ON = "Try: go on with it by --resume, or choose another folder by --out."
ELSEWHERE = "Try: choose another folder by --out."
RESTORE = "Try: restore it, or train anew."
BRING = "Try: put the file (147,123 bytes, sha256 639cabed16968950ba756e1306c3d5a25415cd4ec86dfaa13adf4aebf8f1fa54) at"
TRAIN_ONE = "Try: train one, or load one of `regard list --models`."
TRAIN = "train bahdanau/plain_en_fr --source a.en --target a.fr --out new --set {sizes}"
SETTINGS, SEARCH = (", ".join(field.name for field in fields(kind)) for kind in (Train, Search))
CHARS = 24  # of a.en, and four specials
MISTAKES = {  # a command, and what it says; {here} is the folder where it runs
    # names and files
    "train bahdanua/plain_en_fr": "there is no recipe 'bahdanua/plain_en_fr'. Did you mean 'bahdanau/plain_en_fr'?",
    "train everything": "there is no recipe 'everything'. Try: run `regard list` to see them all.",
    "train bahdanau/plain_en_fr --source no.en --target a.fr --out new": "{here}/no.en: cannot be read: "
    "got no such file or directory; expected a file. Try: check the path, or download the data.",
    "train bahdanau/plain_en_fr --source a.en --target short.fr --out new": "{here}/a.en and {here}/short.fr: "
    "unequal line counts: got 120 and 100 lines; expected line i of one to be the translation of line i of the other. "
    "Try: download both again, or look for a missing line or a blank one at the end.",
    "train bahdanau/plain_en_fr --source latin.tsv --out new": "{here}/latin.tsv, line 2: invalid UTF-8: "
    "got byte 0xe9 at position 3; expected UTF-8. Try: convert the file: iconv -f latin1 -t utf-8.",
    "train bahdanau/plain_en_fr --source folder --target a.fr --out new": "{here}/folder: cannot be read: "
    "got is a directory; expected a file. Try: check the path, or download the data.",
    "train bahdanau/plain_en_fr --source a.en --out new": "{here}/a.en, line 1: too few columns: got 1 column; "
    "expected 2 or more, parted by tabs. Try: drop it: on_bad='drop'.",
    "train bahdanau/plain_en_fr --source empty --out new": "{here}/empty: the file is empty: got 0 lines; "
    "expected 1 or more. Try: download it again.",
    "train bahdanau/plain_en_fr --target a.fr --out new": "--target needs --source. "
    "Try: give both files, or one TSV as --source.",
    # settings
    f"{TRAIN} train.stepz=3": f"unknown setting 'train.stepz'; known: {SETTINGS}. Did you mean 'steps'?",
    f"{TRAIN} trian.steps=3": "unknown setting 'trian'; known: "
    "paper, model, task, train, note, published, start, name. Did you mean 'train'?",
    f"{TRAIN} start=nowhere": f"there is no run nowhere: got no such folder. {TRAIN_ONE}",
    f"{TRAIN} train.steps=many": "train.steps: got 'many'; expected a whole number",
    f"{TRAIN} train.steps": "a setting: got 'train.steps'; expected name=value, such as train.steps=500",
    f"{TRAIN} train.steps=0": "train.steps: got 0; expected 1 or more",
    f"{TRAIN} train.capture=perhaps": "train.capture: got 'perhaps'; expected true or false",
    f"{TRAIN} model.align=entmx": f"unknown align: got 'entmx'; expected one of {', '.join(ALIGNS)}. "
    "Did you mean 'entmax'?",
    f"{TRAIN} model.dropout=2": "model.dropout: got 2.0; expected 0 ≤ dropout < 1",
    f"{TRAIN} paper=1": f"unknown model: got '1'; expected one of {', '.join(MODELS)}",
    f"{TRAIN} train.seed=99999999999999999999": "train.seed: got 99999999999999999999; "
    "expected at most 9,223,372,036,854,775,807",
    f"{TRAIN} train.betas=2,2": "train.betas: got 2.0; expected 0 ≤ betas < 1",
    f"{TRAIN} train.eps=-1": "train.eps: got -1.0; expected 0 or more",
    f"{TRAIN} train.eps=nan": "train.eps: got nan; expected a finite number, 0 or more",
    f"{TRAIN} train.seconds=inf": "train.seconds: got inf; expected a finite number, more than 0",
    f"{TRAIN} train.floor=-5": "train.floor: got -5.0; expected 0 to 1",
    f"{TRAIN} train.weight_decay=-1": "train.weight_decay: got -1.0; expected 0 or more",
    f"{TRAIN} train.halvings=-3": "train.halvings: got -3; expected 0 or more",
    f"{TRAIN} train.momentum=nan": "train.momentum: got nan; expected 0 ≤ momentum < 1",
    f"{TRAIN} train.hold=nan": "train.hold: got nan; expected 0 to 1",
    f"{TRAIN} train.factor=-1": "train.factor: got -1.0; expected 0 < factor ≤ 1",
    f"{TRAIN} model.dropout=nan": "model.dropout: got nan; expected 0 ≤ dropout < 1",
    f"{TRAIN} model.embed_dim=9223372036854775808": "model.embed_dim: got 9223372036854775808; "
    "expected at most 1,048,576",
    "train luong/dot --out new --set model.window=99999999999999999999": "model.window: got 99999999999999999999; "
    "expected at most 2,147,483,647",
    f"{TRAIN} task.edges=9,1,5": "task.edges: got (9, 1, 5); expected rising lengths, such as 10,20,30",
    f"{TRAIN} task.search.max_ratio=nan": "task.search.max_ratio: got nan; expected 0 to 100",
    f"{TRAIN} task.units=bpe task.vocabulary=5": "SubwordCodec size: Vocabulary size is smaller than required_chars. "
    "5 vs {chars}: got 5. Try: set task.vocabulary={chars}, or task.units=words task.joint=false.",
    f"{TRAIN} note=caf\udce9": r"note: got 'caf\udce9'; expected text that UTF-8 can write",
    "train bahdanau/plain_en_fr --source /dev/zero --out new": "/dev/zero: cannot be read: got a device; "
    "expected a file. Try: name a file, or a pipe such as <(zcat text.gz).",
    f"{TRAIN} paper=luong": "model and paper differ: got paper=luong and BahdanauConfig; expected LuongConfig. "
    "Try: take a recipe of that paper: `regard list`.",
    f"{TRAIN} --device tpu": "unknown device: got 'tpu'; expected auto, cpu, cuda or cuda:0",
    # run folders
    f"{TRAIN} --out run": f"run holds a run already: got step_00000004. {GO_ON}",
    f"{TRAIN} --out pruned": f"pruned holds a run already: got model.safetensors. {GO_ON}",
    f"{TRAIN} --out pruned --resume": "pruned cannot go on: got model.safetensors, but no checkpoints. "
    "Try: choose another folder by --out.",
    "train luong/dot --out run --resume": f"run is a run of bahdanau/plain_en_fr: got luong/dot. {ELSEWHERE}",
    "train bahdanau/multi30k_de_en --out run --resume": "run is a run of bahdanau/plain_en_fr: "
    f"got bahdanau/multi30k_de_en. {ELSEWHERE}",
    "train bahdanau/plain_en_fr --out run --resume --set model.hidden_dim=9": "these weights are of another model: "
    "encoder.forwards.weight_ih_l0: got [24, 8]; expected [27, 8]. Try: load them with their own recipe.",
    f"{TRAIN} --out a.en": f"a.en cannot be written: got a.en, which is a file. {ELSEWHERE}",
    f"{TRAIN} --out a.en/new": f"a.en/new cannot be written: got {{here}}/a.en, which is a file. {ELSEWHERE}",
    "translate nothing hello": f"there is no run nothing: got no such folder. {TRAIN_ONE}",
    "translate tatoeba_en_fr hello": "there is no run tatoeba_en_fr: got no such folder. Did you mean 'tatoeba-en-fr'?",
    "translate folder hello": "folder is no run: got no recipe.json in it; "
    "expected a folder that `regard train` has made",
    "translate cut hello": "cut/model.safetensors is not what was saved: "
    "got Error while deserializing header: header too small; expected a whole file. "
    "Try: delete it: step_00000004 is loaded then.",
    "translate cut_and_pruned hello": "cut_and_pruned/model.safetensors is not what was saved: "
    "got Error while deserializing header: header too small; expected a whole file. Try: train it anew.",
    "translate unbegun hello": "unbegun has no weights yet. Try: wait for its first checkpoint.",
    "translate unread hello": "unread/recipe.json cannot be read: got Expecting value: line 1 column 1 (char 0). "
    + RESTORE,
    "translate unitless hello": "unitless/source.json cannot be read: got no such file or directory; "
    f"expected the units of the run. {RESTORE}",
    "translate one_sided hello": "one_sided/target.json cannot be read: got no such file or directory; "
    f"expected the units of the run. {RESTORE}",
    # evaluation
    "evaluate run --split tst": "unknown split: got 'tst'; expected one of train, valid, test, newstest2014. "
    "Did you mean 'test'?",
    "evaluate run --split newstest2014": "wmt_newstest/newstest2014.en-fr.en.gz cannot be downloaded automatically. "
    f"{BRING} wmt_newstest/newstest2014.en-fr.en.gz below a folder, and let REGARD_DATA name that folder.",
    "evaluate run --beam 0": "beams: got 0; expected 1 or more",
    "evaluate run --set max_ratio=inf": "max_ratio: got inf; expected 0 to 100",
    # translation
    "translate run hello --set length_penalty=1e300": "length_penalty: got 1e+300; expected 0 to 10. "
    "Try: use 0.6 to 1.",
    "translate run hello --set temperature=1 seed=99999999999999999999": "seed: got 99999999999999999999; "
    "expected at most 9,223,372,036,854,775,807",
    "translate run hello --set max_ratio=inf": "max_ratio: got inf; expected 0 to 100",
    "translate run hello --beam 99999999999999999999": "beams: got 99999999999999999999; expected at most 10,000",
    "translate run hello --file a.en": "text and --file exclude each other. Try: give one of them.",
    "translate run --file no.en": "no.en: cannot be read: got no such file or directory; expected a file. "
    "Try: check the path, or download the data.",
    "translate run hello --beam 0": "beams: got 0; expected 1 or more",
    "translate run hello --nbest 0": "nbest: got 0; expected 1 or more",
    "translate run hello --nbest 3 --beam 2": "nbest: got 3; expected at most beams, which is 2. Try: add --beam 3.",
    "translate run hello --nbest 2 --set temperature=1": "nbest: got 2; expected 1 with a temperature. "
    "Try: sample with several seeds.",
    "translate run hello --set beams=3": "beams is a flag of its own. Try: write --beam 3.",
    "translate run hello --set nbest=3": "nbest is a flag of its own. Try: write --nbest 3.",
    "translate run hello --set temprature=1": f"unknown setting 'temprature'; known: {SEARCH}. "
    "Did you mean 'temperature'?",
    "translate run hello caf\udce9": r"text 2 is no Unicode: got '\udce9' at position 3. Try: give it in UTF-8.",
    "translate run hello --heads": "--heads needs --heatmap. Try: add --heatmap heads.png.",
    "translate run hello --heatmap a.bmp": "--heatmap: unknown picture format: got '.bmp'; "
    "expected one of .png, .pdf, .svg",
    "translate run hello --heatmap png": "--heatmap: unknown picture format: got ''; expected one of .png, .pdf, .svg",
    "trian bahdanau/plain_en_fr": f"there is no such command: got 'trian'; expected one of {', '.join(VERBS)}. "
    "Did you mean 'train'?",
    "list translatoin": "no recipe matches: got translatoin. Did you mean 'translation'?",
    "show everything": "there is no recipe 'everything'. Try: run `regard list` to see them all.",
    # reports and pictures
    "report run --split tst": "unknown split: got 'tst'; expected one of train, valid, test, newstest2014. "
    "Did you mean 'test'?",
    "report run --samples -1": "samples: got -1; expected 0 or more",
    "report run --out folder": "folder is a folder. Try: name a file: folder/report.html.",
    "report run nothing": f"there is no run nothing: got no such folder. {TRAIN_ONE}",
    "report spoilt": "spoilt/result_test.json cannot be read: got Expecting value: line 1 column 1 (char 0). "
    "Try: delete it: the run is then evaluated again.",
    "evaluate run --target a.fr": "--target needs --source. Try: give both, as in the training.",
    "evaluate tatoeba-en-fr --source a.en": "{shipped} was not trained on files: got a.en. "
    "Try: leave --source and --target out.",
    "evaluate foreign": "this run was trained on files whose paths are not followed: got '/etc/passwd' in its "
    "recipe.json; expected paths that were given on this machine. "
    "Try: name them again by --source, and by --target where there are two.",
    "report foreign": "this run was trained on files whose paths are not followed: got '/etc/passwd' in its "
    "recipe.json; expected paths that were given on this machine. "
    "Try: name them again by --source, and by --target where there are two.",
    "train bahdanau/plain_en_fr --out foreign --resume": "this run was trained on files whose paths are not followed: "
    "got '/etc/passwd' in its recipe.json; expected paths that were given on this machine. "
    "Try: name them again by --source, and by --target where there are two.",
    "translate nested hello": f"nested/recipe.json cannot be read: got brackets nested too deeply. {RESTORE}",
    "train bahdanau/plain_en_fr --out unsealed --resume": "unsealed/checkpoints/step_00000004/state.json is not "
    "what was saved: got no checksum of its own; expected a whole file. "
    "Try: delete unsealed/checkpoints/step_00000004 and go on from step_00000002.",
    "demo --seconds 0 --out new": "--seconds: got 0.0; expected more than 0. Try: leave it out for the default, 1200.",
}


@pytest.fixture(scope="module")
def here(text: Path, trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with text and runs, sound ones and broken ones."""
    folder = shutil.copytree(text, tmp_path_factory.mktemp("mistakes") / "here")
    (folder / "short.fr").write_text("".join(pair[1] + "\n" for pair in PAIRS[:100]))
    (folder / "latin.tsv").write_bytes(b"tea\tth\xc3\xa9\ncaf\xe9\tcaf\xe9\n")
    (folder / "empty").touch()
    (folder / "folder").mkdir()
    broken = (
        "run",
        "pruned",
        "cut",
        "cut_and_pruned",
        "unbegun",
        "unread",
        "unitless",
        "one_sided",
        "spoilt",
        "foreign",
        "nested",
        "unsealed",
    )
    for name in broken:
        shutil.copytree(trained, folder / name)
    for name in ("pruned", "cut_and_pruned", "unbegun"):
        shutil.rmtree(folder / name / "checkpoints")
    (folder / "cut" / "model.safetensors").write_bytes(b"cut")
    (folder / "cut_and_pruned" / "model.safetensors").write_bytes(b"cut")
    (folder / "unbegun" / "model.safetensors").unlink()
    (folder / "unread" / "recipe.json").write_text("")
    (folder / "unitless" / "source.json").unlink()
    (folder / "one_sided" / "target.json").unlink()
    (folder / "spoilt" / "result_test.json").write_text("")
    recipe = json.loads((folder / "foreign" / "recipe.json").read_text())
    recipe["task"]["source_file"] = "/etc/passwd"
    (folder / "foreign" / "recipe.json").write_text(json.dumps(recipe))
    (folder / "nested" / "recipe.json").write_text("[" * 100_000)
    state = folder / "unsealed" / "checkpoints" / "step_00000004" / "state.json"
    state.write_text(
        json.dumps({key: value for key, value in json.loads(state.read_text()).items() if key != "sha256"})
    )
    return folder


@pytest.mark.parametrize("command", MISTAKES)
def test_a_mistake_is_one_line_and_changes_nothing(
    command: str, here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(here)
    monkeypatch.delenv("REGARD_DATA", raising=False)
    before = {path: path.stat().st_mtime_ns for path in here.rglob("*")}
    sizes = " ".join(SIZES)
    assert main(shlex.split(command.format(sizes=sizes))) == 2
    names = {"here": here, "shipped": shipped()["tatoeba-en-fr"], "chars": CHARS}
    assert capsys.readouterr().err == f"regard: {MISTAKES[command].format(**names)}\n"
    assert {path: path.stat().st_mtime_ns for path in here.rglob("*")} == before


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert end.value.code == 0
    assert capsys.readouterr().out == f"regard {__version__}\n"


@pytest.mark.parametrize("arguments", [[], ["info", "--loud"], ["demo", "--seconds", "long"], ["train"]])
def test_a_wrong_command_says_what_there_is(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
    assert "usage: regard" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "status", "text"),
    [
        (
            ConfigError("unknown setting", got="optm", cure="write optim"),
            2,
            "unknown setting: got optm. Try: write optim.",
        ),
        (ConfigError("first\nsecond"), 2, "first second"),
        (PermissionError(13, "Permission denied", "a/.b.json.0123456789ab.part"), 2, "a/b.json: permission denied"),
        (IsADirectoryError(21, "Is a directory", ".b.part", None, "b"), 2, "b: is a directory"),
        (OSError("no space"), 2, "no space"),
        (TimeoutError(), 2, "TimeoutError"),
        (KeyboardInterrupt(), 130, "stopped"),
        (
            RegardError("this is no JSON", got="brackets nested too deeply"),
            2,
            "this is no JSON: got brackets nested too deeply",
        ),
    ],
)
def test_errors_become_one_line(
    error: BaseException, status: int, text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(asked: object) -> None:
        raise error

    monkeypatch.setattr("regard.cli.info.run", broken)
    assert main(["info"]) == status
    assert capsys.readouterr().err.lstrip("\n") == f"regard: {text}\n"


def test_a_mistake_of_ours_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(asked: object) -> None:
        raise IndexError("ours")

    monkeypatch.setattr("regard.cli.info.run", broken)
    with pytest.raises(IndexError, match="ours"):
        main(["info"])


def test_a_terminal_that_lacks_our_signs_shows_others(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(shown, encoding="ascii"))
    assert main(["list"]) == 0
    assert b"tatoeba_plain en?fr" in shown.getvalue()


def test_the_module_is_the_command() -> None:
    run = subprocess.run([sys.executable, "-m", "regard", "--help"], capture_output=True, text=True, check=True)
    for command in VERBS:
        assert f"\n    {command}" in run.stdout


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory\nframe #0: c10"),
        RuntimeError("CUDA out of memory. Tried to allocate 9 GiB.\nmore"),
    ],
)
def test_full_memory_is_one_line(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_: object) -> None:
        raise error

    monkeypatch.setattr("regard.cli.main._run", fail)
    assert main(["info"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("regard: the memory is full: got ")
    assert said.endswith("Try: lower task.batch_size, task.batch_tokens or the sizes model.….\n")
    assert said.count("\n") == 1


def test_other_errors_of_torch_are_shown_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr("regard.cli.main._run", fail)
    with pytest.raises(RuntimeError, match="a bug"):
        main(["info"])
