"""What the tests of commands share: a little text, and one run of it; lets them import `tiny`."""

import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from tiny import SIZES, write_text

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


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    """A copy of `trained`, to do with as one likes."""
    return shutil.copytree(trained, tmp_path / "run")
