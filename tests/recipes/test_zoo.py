"""The models that ship: each is whole, small, licensed, and says of itself what is true."""

import json
import tomllib
from pathlib import Path

import pytest

from regard import api
from regard.cli.main import parser
from regard.recipes import RECIPES, change, load_recipe
from regard.recipes.zoo import card_of, shipped, zoo

ROOT = Path(__file__).parents[2]
FACTS = tomllib.loads((ROOT / "tools" / "zoo.toml").read_text(encoding="utf-8"))
TRANSLATORS = ("tatoeba-en-fr", "rnnsearch-en-fr", "encoder-decoder-en-fr")
SMALL = [name for name in shipped() if name not in TRANSLATORS]
PAPERS = {"transformer", "bahdanau", "cho", "show_attend_tell", "ram", "memn2n", "ntm", "self_attentive", "gat",
          "image_transformer", "video_action", "transformer_xl"}  # fmt: skip


def test_the_zoo_has_a_model_of_each_kind() -> None:
    papers = {load_recipe(folder).paper for folder in shipped().values()}
    assert papers >= PAPERS
    assert [model.name for model in zoo()] == sorted(shipped())


def test_all_of_it_is_small() -> None:
    sizes = {model.name: model.num_bytes for model in zoo()}
    assert {name for name, size in sizes.items() if size > 15e6} == set()
    assert {name for name, size in sizes.items() if size > 8e6} <= set(TRANSLATORS)
    everything = sum(
        path.stat().st_size for path in (ROOT / "src").rglob("*") if path.is_file() and path.suffix != ".pyc"
    )
    assert everything < 60e6  # a wheel packs it smaller


@pytest.mark.parametrize("name", list(shipped()))
def test_a_card_says_what_the_settings_say(name: str) -> None:
    folder, facts = shipped()[name], FACTS[name]
    card, recipe = json.loads((folder / "card.json").read_text()), load_recipe(folder)
    own = change(RECIPES[facts["recipe"]](), facts.get("settings", []))
    assert (recipe.paper, recipe.model) == (own.paper, own.model)
    assert (recipe.entry, recipe.train.steps) == (own.entry, own.train.steps)
    for key in ("recipe", "does", "split", "figure", "licence", "example"):
        assert card[key] == facts[key], f"run tools/ship_run.py {name}"
    text = (folder / "card.md").read_text(encoding="utf-8")
    for part in ("licence", "size", "data", "training", "cost", "Limits"):
        assert part in text.replace("Licence", "licence")
    parser().parse_args(example(card["example"]))


def example(line: str) -> list[str]:
    import shlex

    command, *words = shlex.split(line)
    assert command == "regard"
    return words


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * ("sparsemax" in name)) for name in SMALL]
)
def test_a_small_model_has_the_figure_of_its_card(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_DATA", "")  # nothing but the package
    model = api.load(name, device="cpu")
    card = card_of(model.folder)
    assert api.first_test(model) == card["split"]
    figures = model.evaluate(card["split"]).figures
    assert figures[card["figure"]] == pytest.approx(card["value"], rel=0.02, abs=0.51)


@pytest.mark.slow
@pytest.mark.parametrize("name", TRANSLATORS)
def test_a_translator_has_the_figure_of_its_card(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_DATA", "")
    model = api.load(name, device="cpu")
    card = card_of(model.folder)
    assert model.evaluate(card["split"]).figures[card["figure"]] == pytest.approx(card["value"], abs=0.3)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(shipped()))
def test_a_report_needs_nothing_else(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_DATA", "")
    page = api.report([api.load(name, device="cpu")], split=None, samples=2)
    assert name in page


def test_attention_is_worth_something() -> None:
    values = {name: card_of(shipped()[name])["value"] for name in TRANSLATORS}
    assert values["rnnsearch-en-fr"] > values["encoder-decoder-en-fr"] + 5


def test_a_run_of_the_users_is_not_in_the_zoo(tmp_path: Path) -> None:
    assert card_of(tmp_path) == {}
    assert card_of(tmp_path / "tatoeba-en-fr") == {}
