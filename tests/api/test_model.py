import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regard import api
from regard.base import ConfigError, RegardError, ShapeError
from regard.cli import VERBS
from regard.data import DataError
from regard.explanation import Matrix
from regard.tasks import TASKS, Caption, Prediction, Recognised
from regard.tasks.inputs import as_pixels

KEYS = "I lost my keys."


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
    (found,) = shipped.predictions(["Thank you very much."], nbest=3)
    assert len({one.text for one in found}) == 3
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
    assert shipped.translate("Thank you very much.", nbest=3) == found[0]
    (found,) = shipped.predictions([KEYS], nbest=7)  # more than the recipe's beams: as many beams
    assert len(found) == 7
    with pytest.raises(ConfigError, match="nbest: got 3; expected at most beams, which is 2"):
        shipped.predictions([KEYS], nbest=3, beam=2)
    with pytest.raises(ConfigError, match="beams: got 0; expected 1 or more"):
        shipped.translate(KEYS, beam=0)


@pytest.mark.bare
def test_texts_of_a_table(shipped: api.Model) -> None:
    column: Any = np.array(["Yes.", "Thank you."])
    assert [found.text for found in shipped.translate(column)] == [
        found.text for found in shipped.translate(column.tolist())
    ]


@pytest.mark.bare
@pytest.mark.parametrize(
    ("given", "message"),
    [
        (5, "texts: got int; expected a string, or a list of strings"),
        (None, "texts: got NoneType; expected a string, or a list of strings"),
        (["Yes.", 5], "text 2: got int, 5; expected a string"),
        ([b"Yes."], "text 1: got bytes, b'Yes.'; expected a string"),
    ],
)
def test_what_is_no_text(shipped: api.Model, given: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        shipped.translate(given)


def test_settings_of_the_search(shipped: api.Model) -> None:
    drawn = [shipped.translate(KEYS, temperature=1.5, seed=seed, max_ratio=0.1).text for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert len(shipped.translate("Yes.", beam=1, min_steps=8).tokens) >= 7  # and <eos>
    with pytest.raises(ConfigError, match=r"unknown setting 'temprature' of a prediction: .* Did you mean 'temper"):
        shipped.translate(KEYS, temprature=0.5)
    assert shipped.translate(KEYS, beams=3) == shipped.translate(KEYS, beam=3) == shipped.predict(KEYS, beam=3)
    with pytest.raises(ConfigError, match="unknown setting 'places' of a prediction"):
        shipped.translate(KEYS, places="argmax")


def test_strange_text(shipped: api.Model, trained: api.Model) -> None:
    texts = ["Привет ☃ 你好", "\x00\x01", "a" * 99, "I lost my ☃.", "«<unk>»", "\u200b"]
    for model in (shipped, trained):
        several = model.translate(texts, beam=1, max_ratio=0.1)
        assert [found.source for found in several] == texts
        assert [found.text for found in several if found.source in ("\x00\x01", "\u200b")] == ["", ""]
        for found in several:
            shape = (len(found.tokens), len(found.source_tokens))
            assert found.weights is None or found.weights.shape == shape
            assert {layer.weights.shape[-2:] for layer in model.layers(found)} <= {shape}


def test_heads_of_a_transformer(shipped: api.Model) -> None:
    found = shipped.translate(KEYS)
    layers = {layer.layer: layer.weights for layer in shipped.layers(found)}
    assert list(layers) == [f"decoder.{layer}.cross" for layer in range(4)]
    assert {heads.shape for heads in layers.values()} == {(8, len(found.tokens), len(found.source_tokens))}
    layer, head = shipped.module.best_head  # type: ignore[misc]
    np.testing.assert_allclose(layers[layer][head], found.weights, atol=1e-5)  # what decoding saw
    assert found.weights_from == f"{layer}, head {head}: the best aligned"
    assert shipped.layers(shipped.translate("")) == []


def test_heads_where_target_and_source_are_of_one_length(shipped: api.Model) -> None:
    """Then self-attention has the shape of attention to the source."""
    found = shipped.translate(KEYS)
    words = found.tokens[: len(found.source_tokens) - 1] + ["▁de"] * (len(found.source_tokens) - 1 - len(found.tokens))
    layers = shipped.layers(replace(found, tokens=words))
    assert [layer.layer for layer in layers] == [f"decoder.{layer}.cross" for layer in range(4)]


def test_weights_of_a_recurrent_model(trained: api.Model) -> None:
    found = trained.translate("one and TWO seven", min_steps=3)  # a capital, and a word that is unknown
    assert found.source_tokens == ["one", "and", "two", "seven", "<eos>"]
    (layer,) = trained.layers(found)
    np.testing.assert_allclose(layer.weights, found.weights, atol=1e-5)
    (alignment,) = found.explanations
    assert isinstance(alignment, Matrix)
    assert (alignment.rows, alignment.columns) == (tuple(found.tokens), tuple(found.source_tokens))


def test_heads_read_the_case_that_decoding_read(shipped: api.Model) -> None:
    lower = replace(shipped.task.config, lower=True)
    model = replace(shipped, task=type(shipped.task)(lower, codecs=shipped.task.codecs))
    found = model.translate("THANK YOU.")
    assert found.text == shipped.translate("thank you.").text
    layer, head = model.module.best_head  # type: ignore[misc]
    [seen] = [each.weights for each in model.layers(found) if each.layer == layer]
    np.testing.assert_allclose(seen[head], found.weights, atol=1e-5)


# ── pictures ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_one_picture_and_several(gazing: api.Model, digit: Path) -> None:
    found = gazing.classify(digit)
    assert isinstance(found, Recognised)
    assert found.text in "0123456789"
    assert found.where is not None
    assert found.where.shape == (3, 2)
    assert found.probabilities.sum().item() == pytest.approx(1, abs=1e-5)
    pixels = np.full((40, 20), 255, np.uint8)
    pixels[5:35, 8:12] = 0
    several = gazing.classify(
        [str(digit), digit.read_bytes(), pixels, torch.from_numpy(pixels), pixels[..., None].repeat(3, 2)]
    )
    for other in several:  # the same picture in every form
        torch.testing.assert_close(other.probabilities, found.probabilities)
    assert gazing.classify([]) == []


def test_a_dark_digit_on_white_is_seen_as_a_white_one_on_black(gazing: api.Model, digit: Path) -> None:
    shown = gazing.task.prepared(torch.from_numpy(as_pixels(digit)))
    assert (shown.shape, shown.dtype) == ((1, 28, 28), torch.uint8)
    assert shown[0, 14, 14] > 200
    assert shown[0, 0, 0] == 0
    assert gazing.task.prepared(torch.zeros(40, 20, 3, dtype=torch.uint8)).max() == 0


def test_captions_with_weights(captioning: api.Model) -> None:
    pictures = captioning.task.splits["test"]
    image = pictures.read(pictures.names[0])
    found = captioning.caption(image, min_steps=3)
    assert isinstance(found, Caption)
    assert found.text == " ".join(found.tokens)
    assert found.weights is not None
    assert found.weights.shape == (len(found.tokens), 49)
    np.testing.assert_allclose(found.weights.sum(1), 1, atol=1e-5)
    (several,) = captioning.predictions([image], nbest=3)
    assert len({one.text for one in several}) == 3
    assert [one.score for one in several] == sorted((one.score for one in several), reverse=True)
    assert captioning.caption([]) == []
    assert captioning.caption([image, image], beam=1)[0].tokens == captioning.caption(image, beam=1).tokens


def test_a_caption_has_the_name_of_its_file(captioning: api.Model, digit: Path) -> None:
    assert captioning.caption(digit).name == str(digit)
    assert captioning.caption(digit.read_bytes()).name == "picture 1"


@pytest.mark.parametrize(("how", "text"), [
    ({"nbest": 3, "beam": 2}, "nbest: got 3; expected at most beams, which is 2"),
    ({"beam": 0}, "beams: got 0; expected 1 or more"),
    ({"nbest": 0}, "nbest: got 0; expected 1 or more"),
    ({"temperature": 0.5}, "unknown setting 'temperature' of a prediction"),  # captions are not drawn
    ({"lenght_penalty": 0.5}, "unknown setting 'lenght_penalty' of a prediction: .* Did you mean 'length_penalty'"),
])  # fmt: skip
def test_searches_for_captions_that_cannot_be(how: dict[str, float], text: str, captioning: api.Model) -> None:
    with pytest.raises(ConfigError, match=text):
        captioning.caption(np.zeros((8, 8, 3), np.uint8), **how)


def test_a_run_of_another_task_says_what_it_is_for(
    shipped: api.Model, gazing: api.Model, captioning: api.Model, digit: Path
) -> None:
    with pytest.raises(RegardError, match=r"gazing cannot translate text: got a classification run\. .* can translate"):
        gazing.translate("hello")
    with pytest.raises(
        RegardError, match=r"gazing cannot caption pictures: got a classification run\. .*classify pict"
    ):
        gazing.caption(digit)
    with pytest.raises(RegardError, match=r"captioning cannot classify pictures: got a captioning run"):
        captioning.classify(digit)
    with pytest.raises(RegardError, match=r"tatoeba-en-fr cannot caption pictures: got a translation run"):
        shipped.caption(digit)
    with pytest.raises(ConfigError, match="unknown setting 'beam' of a prediction: expected one of draws, certainty"):
        gazing.evaluate("test", beam=3)


def test_every_task_has_a_method_and_a_command() -> None:
    for entry in TASKS.values():
        assert callable(getattr(api.Model, api.verb_of(entry)))
        assert api.verb_of(entry) in VERBS
    assert api.verb_of(replace(TASKS["translation"], verb="tag")) == "predict"


@pytest.mark.parametrize("pixels", [np.zeros((4, 4)), np.zeros((4, 4, 4), np.uint8), np.zeros((0, 4, 3), np.uint8)])
def test_pixels_are_bytes(pixels: np.ndarray, gazing: api.Model) -> None:
    with pytest.raises(ShapeError, match=r"a picture is made of bytes: got \S+ \[.*\]; expected uint8 \[h w\] or"):
        gazing.classify(pixels)


def test_a_file_that_is_no_picture(gazing: api.Model, captioning: api.Model, tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_text("no picture")
    for use in (gazing.classify, captioning.caption):
        with pytest.raises(DataError, match=r"a\.png: this is no picture"):
            use(path)


def test_figures_of_pictures(gazing: api.Model, captioning: api.Model) -> None:
    score = gazing.evaluate()
    assert 0 < score.figures["error"] <= 100
    assert score.details["count"] == 300
    judged = captioning.evaluate(beam=1)
    assert {"bleu_1", "bleu_4_brevity", "cider"} <= set(judged.figures)
    assert judged.details["settings"]["beams"] == 1


def test_concepts_of_the_shipped_translator(shipped: api.Model) -> None:
    concepts = shipped.concepts(KEYS)
    assert concepts.words == tuple(shipped.translate(KEYS).source_tokens)
    assert len(concepts.layers) == 4
    np.testing.assert_allclose(concepts.weights.sum(-1), 1, atol=1e-5)
    heads = np.mean([shipped.concepts(KEYS, head=head).weights for head in range(8)], axis=0)
    np.testing.assert_allclose(heads, concepts.weights, atol=1e-6)
    with pytest.raises(ConfigError, match="residual share of concepts: got 1"):
        shipped.concepts(KEYS, residual=1)
