import importlib
import inspect
import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from sizes import TASK, WORDS, few_pictures, few_texts, seeing, small
from table import all_hold, cases

from regard.base import ConfigError, RegardError, from_json, to_json
from regard.data import Codec, TextUnits, Vocabulary, WordCodec, collate
from regard.data.pictures import Facts as PictureFacts
from regard.models import MODELS
from regard.recipes import (
    RECIPES,
    build_model,
    build_task,
    change,
    find_recipe,
    load_recipe,
    load_task,
    save_recipe,
    with_files,
)
from regard.recipes.recipe import FORMAT
from regard.tasks import (
    ActionRecognition,
    Captioning,
    CaptioningConfig,
    LanguageModelling,
    NodeClassification,
    PictureGeneration,
    QuestionAnswering,
    Search,
    Translation,
    TranslationConfig,
)
from regard.tasks.action_clips import ActionFacts
from regard.tasks.graph_nodes import Facts

FILES = {name.partition("/")[0]: name.partition("/")[0] for name in RECIPES} | {"nonlocal": "nonlocal_net"}
OF_TEXT = cases("name", [name for name in RECIPES if TASK[name] == "translation"])
SEEING = ("classification", "captioning", "text_classification")
OF_PICTURES = pytest.mark.parametrize("name", [name for name in RECIPES if TASK[name] in SEEING])


def codec(*words: str) -> WordCodec:
    return WordCodec(Vocabulary(words))


@cases("name", RECIPES)
def test_a_name_is_a_file_and_a_function(name: str) -> None:
    file, _, function = name.partition("/")
    assert RECIPES[name] is getattr(importlib.import_module(f"regard.recipes.{FILES[file]}"), function)
    assert inspect.getdoc(RECIPES[name])


@cases("file", FILES)
def test_every_public_function_is_on_the_menu(file: str) -> None:
    module = importlib.import_module(f"regard.recipes.{FILES[file]}")  # `nonlocal` is a word of the language
    own = {
        f"{file}/{name}"
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if function.__module__ == module.__name__ and not name.startswith("_")
    }
    assert own == {name for name in RECIPES if name.startswith(f"{file}/")}


@OF_TEXT
def test_the_data_decides_the_vocabularies(name: str) -> None:
    recipe = RECIPES[name]()
    assert (recipe.model.source_vocabulary, recipe.model.target_vocabulary) == (0, 0)


@pytest.mark.parametrize("paper", FILES)
def test_settings_survive_a_folder(paper: str, tmp_path: Path) -> None:
    names = [name for name in RECIPES if name.startswith(f"{paper}/")]
    all_hold((name, partial(check_folder, name, tmp_path / name)) for name in names)


def check_folder(name: str, folder: Path) -> None:
    folder.mkdir(parents=True)
    recipe = RECIPES[name]()
    assert isinstance(recipe.model, MODELS[recipe.paper].config)
    assert from_json(type(recipe.model), to_json(recipe.model)) == recipe.model
    if TASK[name] == "translation":
        one = codec("a")
        save_recipe(folder, recipe, Translation(recipe.task, codecs=(one, one)))
    elif TASK[name] == "classification":
        save_recipe(folder, recipe, few_pictures(recipe))
    elif TASK[name] == "language_modelling":
        units = TextUnits.train("a b", kind=recipe.task.units)
        save_recipe(folder, recipe, LanguageModelling(recipe.task, units=units))
        assert load_task(folder, recipe).units == units
    elif TASK[name] == "text_classification":
        save_recipe(folder, recipe, few_texts(recipe))
        assert load_task(folder, recipe).facts == few_texts(recipe).facts
    elif TASK[name] == "question_answering":
        save_recipe(folder, recipe, QuestionAnswering(recipe.task, Vocabulary(["a"])))
        assert load_task(folder, recipe).vocabulary == Vocabulary(["a"])
    elif TASK[name] == "node_classification":
        facts = Facts(("a", "b"), 3)
        save_recipe(folder, recipe, NodeClassification(recipe.task, facts))
        assert load_task(folder, recipe).facts == facts
    elif TASK[name] == "picture_generation":
        pictures = PictureFacts(("a", "b"), 1, 3, 32)
        save_recipe(folder, recipe, PictureGeneration(recipe.task, facts=pictures))
        assert load_task(folder, recipe).facts == pictures
    elif TASK[name] == "action_recognition":
        known = ActionFacts(("a", "b"), 1, ("b",), ("x", "y"))
        save_recipe(folder, recipe, ActionRecognition(recipe.task, known))
        assert load_task(folder, recipe).facts == known
    elif TASK[name] == "captioning":
        words = Vocabulary(["a"])
        save_recipe(folder, recipe, Captioning(recipe.task, vocabulary=words, encoder=object()))
        assert load_task(folder, recipe).vocabulary == words
    else:  # a task that needs no data to be saved
        save_recipe(folder, recipe, build_task(recipe))
        assert load_task(folder, recipe).config == recipe.task
    assert load_recipe(folder) == recipe
    assert json.loads((folder / "recipe.json").read_text())["format"] == FORMAT


@OF_PICTURES
def test_a_small_one_sees_and_has_gradients(name: str) -> None:
    model, task = seeing(RECIPES[name]())
    loss = task.loss(model, next(task.batches(seed=0))).total
    loss.backward()
    assert torch.isfinite(loss)
    grads = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    assert len(grads) > 3
    assert all(torch.isfinite(grad).all() for grad in grads)
    score = task.evaluate(model, task.tests[0])
    assert 0 <= score.figures[score.best] <= 100


@OF_TEXT
def test_a_small_one_translates_and_has_gradients(name: str) -> None:
    model, task = small(RECIPES[name]())
    assert task.vocabularies == (50, 50)
    batch = collate([([4, 5, 6], [7, 8]), ([9], [10, 11, 12])])
    loss = task.loss(model, batch).total
    loss.backward()
    assert torch.isfinite(loss)
    grads = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    assert len(grads) > 4
    assert all(torch.isfinite(grad).all() for grad in grads)
    found = task.predict(model, [" ".join(WORDS[:4]), ""], settings=Search(1, max_ratio=0.1))
    assert [len(several) for several in found] == [1, 1]
    assert len(found[0][0].source_tokens) == 5
    assert (found[0][0].weights is None) == name.startswith("encoder_decoder/")  # without attention


def test_a_recipe_is_found_or_the_name_that_was_meant() -> None:
    assert find_recipe("luong/dot", RECIPES) == replace(RECIPES["luong/dot"](), name="luong/dot")
    with pytest.raises(ConfigError, match=r"no recipe 'luong/dott'\. Did you mean 'luong/dot'"):
        find_recipe("luong/dott", RECIPES)
    with pytest.raises(ConfigError, match=r"no recipe 'xyz'\. Try: run `regard list` to see them all"):
        find_recipe("xyz", RECIPES)


def test_change_takes_settings_of_every_part() -> None:
    recipe = change(
        RECIPES["bahdanau/plain_en_fr"](),
        [
            "train.steps=500",
            "model.align=entmax",
            "task.search.beams=3",
            "train.betas=0.9,0.98",
            "task.vocabulary=none",
        ],
    )
    assert (recipe.train.steps, recipe.model.align, recipe.task.search.beams) == (500, "entmax", 3)
    assert (recipe.train.betas, recipe.task.vocabulary) == ((0.9, 0.98), None)


def test_own_files_are_found_from_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    task = with_files(RECIPES["luong/dot"](), "a.de", "b.en").task
    assert (task.corpus, task.source_file, task.target_file) == (
        "files",
        str(tmp_path / "a.de"),
        str(tmp_path / "b.en"),
    )
    assert with_files(RECIPES["luong/dot"](), "a.tsv", None).task.target_file is None
    assert with_files(RECIPES["luong/dot"](), ["a.*.de"], ["b.en"]).task.source_file == str(tmp_path / "a.*.de")
    several = with_files(RECIPES["luong/dot"](), ["a.de", "b.de"], ["a.en", "b.en"])
    assert several.task.source_file == (str(tmp_path / "a.de"), str(tmp_path / "b.de"))
    assert from_json(type(several.task), to_json(several.task), where="task.") == several.task
    with pytest.raises(ConfigError, match=r"captioning takes one --source and one --target: got 2"):
        with_files(RECIPES["show_attend_tell/shapes"](), ["a.tsv", "b.tsv"], "pictures")


def test_own_captions_and_pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    task = with_files(RECIPES["show_attend_tell/shapes"](), "a.tsv", "pictures").task
    assert isinstance(task, CaptioningConfig)
    assert (task.dataset, task.caption_file, task.folder) == (
        "files",
        str(tmp_path / "a.tsv"),
        str(tmp_path / "pictures"),
    )
    with pytest.raises(ConfigError, match=r"classification cannot be trained on files of your own: got a\.tsv"):
        with_files(RECIPES["ram/mini"](), "a.tsv", None)


def test_model_and_paper_agree() -> None:
    recipe = RECIPES["bahdanau/plain_en_fr"]()
    text = "model and paper differ: got paper=luong and BahdanauConfig; expected LuongConfig. Try: take a recipe of"
    with pytest.raises(ConfigError, match=text):
        replace(recipe, paper="luong")
    with pytest.raises(ConfigError, match="unknown model: got '1'; expected one of cho, "):
        change(recipe, ["paper=1"])
    other = replace(RECIPES["ram/mini"](), task=TranslationConfig())
    with pytest.raises(ConfigError, match="ram cannot learn this task: got settings of translation"):
        build_model(other, build_task(other))
    with pytest.raises(ConfigError, match="these settings are of no task: got Train; expected one of Translation"):
        replace(recipe, task=recipe.train)


@pytest.mark.parametrize(
    ("name", "setting", "text"),
    [
        ("bahdanau/plain_en_fr", "model.hidden_dim=0", "model.hidden_dim: got 0; expected 1 or more"),
        ("bahdanau/plain_en_fr", "model.dropout=2", "model.dropout: got 2.0; expected 0 ≤ dropout < 1"),
        ("bahdanau/plain_en_fr", "model.embed_dim=-3", "model.embed_dim: got -3; expected 1 or more"),
        ("transformer/plain_en_fr", "model.num_heads=7", "heads"),
        ("transformer/plain_en_fr", "model.num_heads=0", "model.num_heads: got 0; expected 1 or more"),
        ("bahdanau/plain_en_fr", "model.align=softmx", "unknown align.*Did you mean 'softmax'"),
    ],
)
def test_sizes_that_make_no_model(name: str, setting: str, text: str) -> None:
    def build() -> None:
        recipe = change(RECIPES[name](), [setting])
        build_model(recipe, Translation(recipe.task, codecs=(codec("a"), codec("b"))))

    with pytest.raises(RegardError, match=text):
        build()


def test_units_come_back_as_they_were(tmp_path: Path) -> None:
    recipe = RECIPES["bahdanau/plain_en_fr"]()
    both = codec("a", "b"), codec("c")
    save_recipe(tmp_path, recipe, Translation(recipe.task, codecs=both))
    assert load_task(tmp_path, recipe).codecs == both


def test_shared_units_are_one(tmp_path: Path) -> None:
    recipe = RECIPES["luong/dot"]()  # joint
    one: Codec = codec("a")
    save_recipe(tmp_path, recipe, Translation(recipe.task, codecs=(one, one)))
    assert not (tmp_path / "target.json").exists()
    source, target = load_task(tmp_path, recipe).codecs
    assert source is target


@pytest.mark.parametrize(
    ("file", "content", "text"),
    [
        ("recipe.json", None, "is no run: got no recipe.json in it; expected a folder that `regard train` has made"),
        ("recipe.json", b"{", "recipe.json cannot be read: got Expecting property name .* Try: restore it"),
        ("recipe.json", b"\xff\xfe", "recipe.json cannot be read: got 'utf-8' codec"),
        ("recipe.json", b"[1]", "recipe.json cannot be read: got list; expected settings by name"),
        ("recipe.json", b'{"format": 2}', "of another version of regard: expected format 1. Try: upgrade regard"),
        ("recipe.json", b'{"paper": ["cho"]}', "recipe.json is no recipe: unknown model"),
        (
            "recipe.json",
            b'{"paper": "cho"}',
            "recipe.json is no recipe: model: got NoneType; expected settings by name",
        ),
        ("recipe.json", b'{"paper": "cho", "model": {"dim": 3}}', "is no recipe: unknown setting 'model.dim'"),
        (
            "source.json",
            None,
            "source.json cannot be read: got no such file or directory; expected the units of the run",
        ),
        (
            "target.json",
            None,
            "target.json cannot be read: got no such file or directory; expected the units of the run",
        ),
        ("source.json", b"", "source.json cannot be read: got this is not what to_json wrote"),
        ("source.json", b"\xff", "source.json cannot be read: got 'utf-8' codec"),
        ("target.json", b'{"kind": "subwords", "model": "x"}', "target.json cannot be read: got "),
        ("target.json", b'{"kind": "words", "lower": true, "tokens": 3}', "target.json cannot be read: got "),
    ],
)
def test_broken_folders(file: str, content: bytes | None, text: str, tmp_path: Path) -> None:
    recipe = RECIPES["bahdanau/plain_en_fr"]()
    save_recipe(tmp_path, recipe, Translation(recipe.task, codecs=(codec("a"), codec("b"))))
    if content is None:
        (tmp_path / file).unlink()
    else:
        (tmp_path / file).write_bytes(content)
    with pytest.raises(RegardError, match=text):
        load_task(tmp_path, load_recipe(tmp_path))


def test_a_model_that_does_not_fit_into_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.recipes.recipe.free_memory", lambda: 2_000_000_000)
    recipe = change(RECIPES["bahdanau/plain_en_fr"](), ["model.hidden_dim=20000"])
    text = r"the model is too large: got more than \d.\d GB of weights; expected at most 2.0 GB, the memory"
    with pytest.raises(ConfigError, match=text):
        build_model(recipe, Translation(recipe.task, codecs=(codec("a"), codec("b"))))


def test_what_torch_says_of_sizes_is_one_line() -> None:
    recipe = change(RECIPES["bahdanau/plain_en_fr"](), ["model.hidden_dim=1048576"])
    with pytest.raises(ConfigError, match=r"^the(re is no| model is too) .* Try: \w+ .*model\.…\.$") as caught:
        build_model(recipe, Translation(recipe.task, codecs=(codec("a"), codec("b"))))
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400
