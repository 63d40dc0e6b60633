import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import regard
from regard import api
from regard.base import ConfigError, RegardError
from regard.data import ParallelText
from regard.recipes import RECIPES, Recipe, change, with_files
from regard.tasks import Prediction
from regard.train import World

KEYS = "I lost my keys."
SETTINGS = [
    *(f"model.{name}_dim=8" for name in ("embed", "hidden", "align", "maxout")),
    "task.batch_size=8", "task.search.beams=2", "train.steps=2", "train.log_every=1", "train.evaluate_every=2",
]  # fmt: skip


@pytest.fixture(scope="module")
def shipped() -> api.Model:
    return api.load("tatoeba-en-fr", device="cpu")


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Recipe:
    path = tmp_path_factory.mktemp("text") / "a.tsv"
    numbers = ["one", "two", "three", "four", "five"]
    pairs = [f"{a} and {b} {c}\t{c} {b} et {a}\n" for a in numbers for b in numbers for c in numbers[:3]]
    path.write_text("".join(pairs))
    return change(with_files(RECIPES["bahdanau/plain_en_fr"](), str(path), None), SETTINGS)


@pytest.fixture(scope="module")
def trained(recipe: Recipe, tmp_path_factory: pytest.TempPathFactory) -> api.Model:
    return api.train(recipe, tmp_path_factory.mktemp("runs") / "trained")


def test_the_facade_has_it(shipped: api.Model) -> None:
    assert regard.load is api.load
    assert set(api.shipped()) == {"tatoeba-en-fr"}
    assert (shipped.name, shipped.recipe.paper, shipped.num_parameters) == ("tatoeba-en-fr", "transformer", 7320576)
    assert not shipped.module.training


def test_one_text_and_several(shipped: api.Model) -> None:
    found = shipped.translate(KEYS, beam=5)
    assert isinstance(found, Prediction)
    assert (found.source, found.text) == (KEYS, "J'ai perdu mes clés.")
    assert "".join(found.tokens).replace("▁", " ").strip() == found.text
    assert found.source_tokens[-1] == "<eos>"
    assert found.weights is not None
    assert found.weights.shape == (len(found.tokens), len(found.source_tokens))
    np.testing.assert_allclose(found.weights.sum(1), 1, atol=1e-5)
    both = shipped.translate(["Thank you.", "", KEYS])
    assert [one.text for one in both[1:]] == ["", found.text]
    assert both[0].text not in ("", found.text)
    assert both[2].log_prob == pytest.approx(found.log_prob, abs=1e-4)  # whatever stands beside it
    assert shipped.translate([]) == []


def test_several_translations_of_one_text(shipped: api.Model) -> None:
    (found,) = shipped.nbest(["Thank you very much."], nbest=3)
    assert len({one.text for one in found}) == 3
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
    assert shipped.translate("Thank you very much.", nbest=3) == found[0]
    (found,) = shipped.nbest([KEYS], nbest=7)  # more than the recipe's beams: as many beams
    assert len(found) == 7
    with pytest.raises(ConfigError, match="nbest: got 3; expected at most beams, which is 2"):
        shipped.nbest([KEYS], nbest=3, beam=2)
    with pytest.raises(ConfigError, match="beams: got 0; expected 1 or more"):
        shipped.translate(KEYS, beam=0)


def test_settings_of_the_search(shipped: api.Model) -> None:
    drawn = [shipped.translate(KEYS, temperature=1.5, seed=seed, max_ratio=0.1).text for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert len(shipped.translate("Yes.", beam=1, min_steps=8).tokens) >= 7  # and <eos>
    with pytest.raises(ConfigError, match=r"unknown setting 'temprature' of the search\. Cure: did you mean 'temper"):
        shipped.translate(KEYS, temprature=0.5)
    with pytest.raises(ConfigError, match=r"unknown setting 'beams' of the search\. Cure: did you mean 'beam'"):
        shipped.translate(KEYS, beams=3)


def test_strange_text(shipped: api.Model, trained: api.Model) -> None:
    texts = ["Привет ☃ 你好", "\x00\x01", "a" * 99, "I lost my ☃.", "«<unk>»", "\u200b"]
    for model in (shipped, trained):
        several = model.translate(texts, beam=1, max_ratio=0.1)
        assert [found.source for found in several] == texts
        assert [found.text for found in several if found.source in ("\x00\x01", "\u200b")] == ["", ""]
        for found in several:
            shape = (len(found.tokens), len(found.source_tokens))
            assert found.weights is None or found.weights.shape == shape
            assert {heads.shape[-2:] for heads in model.heads(found).values()} <= {shape}


def test_heads_of_a_transformer(shipped: api.Model) -> None:
    found = shipped.translate(KEYS)
    heads = shipped.heads(found)
    assert list(heads) == [f"decoder.{layer}.cross" for layer in range(4)]
    assert {layer.shape for layer in heads.values()} == {(8, len(found.tokens), len(found.source_tokens))}
    np.testing.assert_allclose(heads["decoder.3.cross"].mean(0), found.weights, atol=1e-5)  # what decoding saw
    assert shipped.heads(shipped.translate("")) == {}


def test_heads_where_target_and_source_are_of_one_length(shipped: api.Model) -> None:
    """Then self-attention has the shape of attention to the source."""
    found = shipped.translate(KEYS)
    words = found.tokens[: len(found.source_tokens) - 1] + ["▁de"] * (len(found.source_tokens) - 1 - len(found.tokens))
    heads = shipped.heads(replace(found, tokens=words))
    assert list(heads) == [f"decoder.{layer}.cross" for layer in range(4)]


def test_weights_of_a_recurrent_model(trained: api.Model) -> None:
    found = trained.translate("one and TWO seven", min_steps=3)  # a capital, and a word that is unknown
    assert found.source_tokens == ["one", "and", "two", "seven", "<eos>"]
    (weights,) = trained.heads(found).values()
    np.testing.assert_allclose(weights, found.weights, atol=1e-5)


def test_heads_read_the_case_that_decoding_read(shipped: api.Model) -> None:
    lower = replace(shipped.task.config, lower=True)
    model = replace(shipped, task=type(shipped.task)(lower, codecs=shipped.task.codecs))
    found = model.translate("THANK YOU.")
    assert found.text == shipped.translate("thank you.").text
    np.testing.assert_allclose(model.heads(found)["decoder.3.cross"].mean(0), found.weights, atol=1e-5)


def test_what_is_loaded_is_what_was_trained(trained: api.Model) -> None:
    again = api.load(trained.folder, device="cpu")
    assert again.recipe == trained.recipe
    ours, theirs = again.module.state_dict(), trained.module.state_dict()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    assert again.translate("one and two three") == trained.translate("one and two three")


def test_a_run_has_a_name_wherever_one_stands(trained: api.Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(trained.folder)
    assert api.load(".").name == "trained"


def test_the_cure_names_runs_that_there_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "runs" / "bahdanau").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RegardError, match=r"there is no run runs/bahdanua: .* Cure: did you mean 'runs/bahdanau'"):
        api.load("runs/bahdanua")


def test_results_are_kept_until_the_weights_change(trained: api.Model, tmp_path: Path) -> None:
    model = api.load(shutil.copytree(trained.folder, tmp_path / "run"), device="cpu")
    first = api.result(model, "test")
    path = tmp_path / "run" / "result_test.json"
    assert json.loads(path.read_text()) == json.loads(json.dumps(first))
    path.write_text(json.dumps({**first, "date": "kept"}))
    assert api.result(model, "test")["date"] == "kept"
    os.utime(tmp_path / "run" / "model.safetensors", ns=(path.stat().st_mtime_ns + 1,) * 2)
    assert api.result(model, "test")["date"] != "kept"


def test_results_of_what_ships_are_not_written(shipped: api.Model) -> None:
    few = ParallelText([KEYS], ["J'ai perdu mes clés."], {})
    model = replace(
        shipped, task=type(shipped.task)(shipped.task.config, codecs=shipped.task.codecs, splits={"test": few})
    )
    found = api.result(model, "test")
    assert found["figures"]["tokenized_bleu"] == pytest.approx(100)
    assert not (shipped.folder / "result_test.json").exists()
    assert not api.is_writable(Path(os.path.relpath(shipped.folder)))
    assert api.first_test(model) == "test"


def test_a_report_of_runs_on_different_text(trained: api.Model, shipped: api.Model) -> None:
    few = ParallelText([KEYS], ["J'ai perdu mes clés."], {})
    task = type(shipped.task)(shipped.task.config, codecs=shipped.task.codecs, splits={"test": few})
    with open(trained.folder / "metrics.jsonl", "a") as file:
        file.write('{"kind": "tr')  # a training that is writing just now
    page = api.report([trained, replace(shipped, task=task)], samples=2, title="Two", intro="Both.")
    assert page.count("<article") == 3
    assert "decoder.3.cross · head 7" in page
    assert "NVIDIA H200" in page


@pytest.mark.parametrize(("samples", "numbers"), [(0, []), (1, [3]), (2, [3, 2]), (3, [3, 0, 2]), (9, [3, 0, 1, 2])])
def test_samples_are_of_all_lengths_from_the_shortest_to_the_longest(
    samples: int, numbers: list[int], trained: api.Model
) -> None:
    lines = ["a b", "a b c", "a b c d", "a"]
    task = type(trained.task)(trained.task.config, splits={"test": ParallelText(lines, lines, {})})
    assert api._spread(task, "test", samples) == numbers


def test_training_writes_over_nothing(trained: api.Model, recipe: Recipe) -> None:
    before = {path: path.read_bytes() for path in trained.folder.rglob("*") if path.is_file()}
    with pytest.raises(ConfigError, match="holds a run already: got step_00000002"):
        api.train(recipe, trained.folder)
    assert {path: path.read_bytes() for path in trained.folder.rglob("*") if path.is_file()} == before


def test_a_folder_that_cannot_be_written(recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: False)
    text = f"run cannot be written: got {tmp_path}, which is read-only. Cure: choose another folder by --out"
    with pytest.raises(RegardError, match=text):
        api.train(recipe, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_fault_in_the_data_leaves_no_folder(recipe: Recipe, tmp_path: Path) -> None:
    with pytest.raises(RegardError, match="no such file"):
        api.train(with_files(recipe, str(tmp_path / "no.tsv"), None), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_fits_a_cpu(name: str) -> None:
    recipe = RECIPES[name]()
    fitted = api.fit_device(recipe, World())
    assert (fitted.train.capture, fitted.train.precision, fitted.task.fit) == (False, "float32", None)
    assert replace(fitted, train=recipe.train, task=recipe.task) == recipe
    assert replace(fitted.train, capture=recipe.train.capture, precision=recipe.train.precision) == recipe.train


@pytest.mark.parametrize(("size", "capture", "precision"), [(1, True, "pure_bfloat16"), (2, False, "bfloat16")])
def test_graphs_are_captured_on_one_gpu(size: int, capture: bool, precision: str) -> None:
    recipe = RECIPES["transformer/multi30k_de_en"]()
    fitted = api.fit_device(recipe, World(0, size, torch.device("cuda")))
    assert (fitted.train.capture, fitted.train.precision) == (capture, precision)
    assert fitted.task.fit == (8 if capture else None)
    plain = api.fit_device(RECIPES["bahdanau/plain_en_fr"](), World(0, size, torch.device("cuda")))
    assert plain.train.precision == "float32"
