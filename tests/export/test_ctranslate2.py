"""Exports to CTranslate2: the same scores of given words, and the same greedy translations."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import ctranslate2
import pytest
import torch
from small_models import ENGLISH, FRENCH, TEXTS, translator

import regard
from regard.api import Model
from regard.base import RegardError
from regard.data import collate
from regard.datasets.tatoeba_plain import tatoeba_plain
from regard.export import export_model

NEVER = [["<pad>"], ["<bos>"]]
CASES: list[dict[str, Any]] = [
    {"subwords": "bpe", "joint": True, "pre_norm": True, "encoder_layers": 2},
    {"subwords": "unigram", "tie": "output"},
    {"decoder_layers": 2, "position": "learned", "max_positions": 64},  # words, without ties
]


@pytest.mark.parametrize("changes", CASES)
def test_it_scores_and_translates_as_ours(changes: dict[str, Any], tmp_path: Path) -> None:
    model = translator("transformer", **changes)
    theirs = ctranslate2.Translator(str(export_model(model, "ctranslate2", tmp_path / "out")), compute_type="float32")
    compare_scores(model, theirs)
    texts = [text for text in TEXTS if text]
    source = [model.task.codecs[0].tokens(text.lower()) for text in texts]
    for length, tokens, ours in zip(map(len, source), source, model.translate(texts, beam=1), strict=True):
        limit = 2 * (length + 1) + 10
        result = theirs.translate_batch([tokens], beam_size=1, suppress_sequences=NEVER, max_decoding_length=limit)
        assert result[0].hypotheses[0][:limit] == ours.tokens[:limit]


@torch.no_grad()
def compare_scores(model: Model, theirs: Any) -> None:
    """Log-probabilities of every word of given translations, in a padded batch."""
    source, target = model.task.codecs
    pairs = [
        (source.encode_text(a.lower()), target.encode_text(b.lower())) for a, b in zip(ENGLISH, FRENCH, strict=True)
    ]
    batch = collate(pairs)
    logits = model.module(batch.source, batch.source_lengths, batch.inputs).logits
    ours = logits.log_softmax(-1).gather(-1, batch.targets.unsqueeze(-1)).squeeze(-1)
    tokens = [
        [codec.tokens(text.lower()) for text in texts]
        for codec, texts in zip((source, target), (ENGLISH, FRENCH), strict=True)
    ]
    for row, scored in enumerate(theirs.score_batch(*tokens)):
        log_probs = torch.tensor(scored.log_probs)  # with that of <eos>
        torch.testing.assert_close(log_probs, ours[row, : len(log_probs)], atol=2e-5, rtol=1e-5)
        assert len(log_probs) == len(pairs[row][1]) + 1


@pytest.mark.parametrize("changes", [CASES[0], CASES[2]])
def test_the_example_runs_by_itself(changes: dict[str, Any], tmp_path: Path) -> None:
    folder = export_model(translator("transformer", **changes), "ctranslate2", tmp_path / "out")
    run = subprocess.run(
        [sys.executable, str(folder / "translate.py"), "int8"], input="the cat\nwho?\n", capture_output=True, text=True
    )
    assert (run.returncode, run.stderr, run.stdout.count("\n")) == (0, "", 2)


def test_other_models_are_refused_with_what_can_be_exported(tmp_path: Path) -> None:
    for model, got in (
        (
            translator("bahdanau"),
            "got bahdanau; expected a Transformer with scaled dot product, softmax and sinusoidal",
        ),
        (translator("transformer", position="rotary"), "got model.position=rotary"),
        (translator("transformer", align="entmax"), "got model.align=entmax"),
        (translator("transformer", score="general"), "got model.score=general"),
    ):
        with pytest.raises(RegardError, match=got) as caught:
            export_model(model, "ctranslate2", tmp_path / "out")
        assert "Try: use --to onnx" in str(caught.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_the_shipped_translator_in_float32_and_int8(tmp_path: Path) -> None:
    model = regard.load("tatoeba-en-fr", device="cpu")
    folder = export_model(model, "ctranslate2", tmp_path / "out")
    texts = tatoeba_plain()["test"].source[::12][:60]
    source = [model.task.codecs[0].tokens(text) for text in texts]
    for beams in (1, 5):
        ours = [prediction.tokens for prediction in model.translate(texts, beam=beams, length_penalty=0.0)]
        options = {"beam_size": beams, "length_penalty": 0.0, "suppress_sequences": NEVER}
        for kind, least in (("float32", 60), ("int8", 54)):
            results = ctranslate2.Translator(str(folder), compute_type=kind).translate_batch(source, **options)
            equal = sum(result.hypotheses[0] == tokens for result, tokens in zip(results, ours, strict=True))
            assert equal >= least, f"{kind}, {beams} beams: {equal} of 60"
