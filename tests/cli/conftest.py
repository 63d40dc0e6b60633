"""What the tests of commands share: a little text, and one run of it; lets them import `tiny`."""

import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from tiny import SIZES, TRAIN, write_captions, write_text

from regard.cli.main import main


@pytest.fixture(scope="session")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a.en, a.fr, a.tsv and a.tsv.gz, 120 pairs."""
    return write_text(tmp_path_factory.mktemp("text"))


@pytest.fixture(scope="session")
def trained(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of four steps; to be read, not to be changed."""
    folder = tmp_path_factory.mktemp("runs") / "trained"
    files = ["--source", str(text / "a.en"), "--target", str(text / "a.fr")]
    assert main(["train", "bahdanau/plain_en_fr", *files, "--out", str(folder), "--set", *SIZES]) == 0
    return folder


@pytest.fixture(scope="session")
def transformer(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder where a Transformer of two layers and two heads was trained on a.tsv, in joint sub-words."""
    folder = tmp_path_factory.mktemp("transformer")
    shutil.copy(text / "a.tsv", folder)
    settings = [setting for setting in SIZES if not setting.startswith("model")]
    sizes = ["model.dim=8", "model.hidden_dim=8", "model.num_heads=2", "model.tie=all", "train.steps=2"]
    units = ["task.units=bpe", "task.vocabulary=60", "task.joint=true"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main(["train", "transformer/plain_en_fr", "--source", "a.tsv", "--set", *settings, *sizes, *units]) == 0
    return folder


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    """A copy of `trained`, to do with as one likes."""
    return shutil.copytree(trained, tmp_path / "run")


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with 30 painted shapes, and captions.tsv beside it."""
    return write_captions(tmp_path_factory.mktemp("shapes") / "pictures")


@pytest.fixture(scope="session")
def captioning(pictures: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of four steps on them; to be read, not to be changed."""
    folder = tmp_path_factory.mktemp("runs") / "captioning"
    files = ["--source", str(pictures.parent / "captions.tsv"), "--target", str(pictures), "--out", str(folder)]
    sizes = [f"model.{name}_dim=8" for name in ("embed", "hidden", "align", "project")]
    sizes += [
        "task.batch_size=8",
        "task.max_words=10",
        "task.search.beams=2",
        "task.search.min_steps=2",
        "train.warmup=0",
        *TRAIN,
    ]
    assert main(["train", "show_attend_tell/shapes", *files, "--set", *sizes]) == 0
    return folder


@pytest.fixture(scope="session")
def gazing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of four steps of a model with three glimpses; to be read, not to be changed."""
    folder = tmp_path_factory.mktemp("runs") / "gazing"
    sizes = [*(f"model.{name}_dim=8" for name in ("part", "glimpse", "hidden")), "model.glimpses=3"]
    assert main(["train", "ram/mini", "--out", str(folder), "--set", *sizes, "task.batch_size=8", *TRAIN]) == 0
    return folder
