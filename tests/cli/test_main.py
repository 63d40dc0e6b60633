import subprocess
import sys

import pytest

from regard import __version__
from regard.base import ConfigError
from regard.cli.main import main


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert end.value.code == 0
    assert capsys.readouterr().out == f"regard {__version__}\n"


@pytest.mark.parametrize("arguments", [[], ["tran"], ["info", "--loud"]])
def test_a_wrong_command_says_what_there_is(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
    assert "usage: regard" in capsys.readouterr().err


def test_a_mistake_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def broken() -> None:
        raise ConfigError("unknown setting", got="optm", cure="write optim")

    monkeypatch.setattr("regard.cli.info.info", broken)
    assert main(["info"]) == 2
    assert capsys.readouterr().err == "regard: unknown setting: got optm. Cure: write optim.\n"


def test_the_module_is_the_command() -> None:
    run = subprocess.run([sys.executable, "-m", "regard", "--help"], capture_output=True, text=True, check=True)
    assert "demo" in run.stdout
    assert "info" in run.stdout
