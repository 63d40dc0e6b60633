import json
import shutil
from pathlib import Path

import pytest

from regard import api
from regard.api.alignment import ALIGNMENT
from regard.base import RegardError
from regard.tasks.source_layers import HeadChoice

CHOICE = HeadChoice("decoder.1.cross", 1, {"decoder.0.cross": [0.1, 0.2], "decoder.1.cross": [0.3, 0.4]}, 9)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The shipped model in a folder of its own, without what was found of its heads."""
    shutil.copytree(api.shipped()["tatoeba-en-fr"], tmp_path / "run")
    (tmp_path / "run" / ALIGNMENT).unlink()
    return tmp_path / "run"


def test_the_shipped_model_has_one() -> None:
    model = api.load("tatoeba-en-fr")
    stored = json.loads((model.folder / ALIGNMENT).read_text())
    assert model.module.best_head == (stored["layer"], stored["head"])
    flat = [value for each in stored["agreements"].values() for value in each]
    assert stored["agreement"] == max(flat) > 1.5 * sum(flat) / len(flat) * 0.9
    assert len(flat) == 4 * 8


def test_it_is_found_once_and_kept(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = api.load(copy)
    assert model.module.best_head is None
    assert "mean of the 8 heads" in model.translate("Thank you.", beam=1).weights_from
    asked: list[str] = []

    def best_head(self: object, module: object, split: str = "valid") -> HeadChoice:
        asked.append(split)
        return CHOICE

    monkeypatch.setattr(type(model.task), "best_head", best_head)
    assert api.find_head(model)
    assert api.find_head(model)
    assert asked == ["valid"]
    assert model.module.best_head == ("decoder.1.cross", 1)
    assert api.load(copy).module.best_head == ("decoder.1.cross", 1)


@pytest.mark.parametrize("change", [{"weights": "0"}, {"layer": "decoder.9.cross"}, {"head": 8}, {"head": "1"}])
def test_that_of_other_weights_is_not_used(change: dict[str, object], copy: Path) -> None:
    stored = json.loads((api.shipped()["tatoeba-en-fr"] / ALIGNMENT).read_text())
    (copy / ALIGNMENT).write_text(json.dumps(stored | change))
    assert api.load(copy).module.best_head is None


def test_a_broken_file_is_an_error(copy: Path) -> None:
    (copy / ALIGNMENT).write_text("{")
    with pytest.raises(RegardError, match=r"alignment\.json"):
        api.load(copy)
