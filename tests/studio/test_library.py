from pathlib import Path

import pytest

from regard.base import RegardError
from regard.studio.library import Library
from regard.studio.limits import Deadline


def test_shipped_models_are_there_by_name_and_loaded_once() -> None:
    library = Library([], Deadline(), device="cpu")
    line = next(line for line in library.lines() if line["name"] == "tatoeba-en-fr")
    assert line["verb"] == "translate"
    assert line["has_attention"]
    assert not next(line for line in library.lines() if line["name"] == "encoder-decoder-en-fr")["has_attention"]
    assert "small Transformer" in line["card"]
    assert library.first("translate") == "tatoeba-en-fr"
    assert library.get("tatoeba-en-fr") is library.get("tatoeba-en-fr")


@pytest.mark.parametrize("name", ["../tatoeba-en-fr", "/etc", "", None, 3, "tatoeba-en-de"])
def test_other_names_are_refused_and_never_opened(name: object) -> None:
    with pytest.raises(RegardError, match="the studio has no such model"):
        Library([], Deadline()).get(name)


def test_a_folder_that_is_no_run_says_so_in_its_line(tmp_path: Path) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "recipe.json").write_text("{")
    [line, *_] = Library([str(tmp_path / "broken")], Deadline()).lines()
    assert line["name"] == "broken"
    assert line["error"]
