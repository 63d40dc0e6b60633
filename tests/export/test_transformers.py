"""Folders of transformers: loaded by AutoModelForSeq2SeqLM, the same logits and greedy translations."""

import json
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from small_models import ENGLISH, FRENCH, TEXTS, translator
from tiny_transformers import import_transformers

from regard.api import Model, load
from regard.base import RegardError
from regard.data import BOS, EOS, PAD, UNK, SubwordCodec, collate
from regard.datasets.tatoeba_plain import tatoeba_plain
from regard.export import export_model

CASES: list[dict[str, Any]] = [
    {"subwords": "bpe", "joint": True, "encoder_layers": 2},  # as published: Marian
    {"subwords": "bpe", "joint": True, "pre_norm": True, "decoder_layers": 2},  # Pegasus
    {"subwords": "unigram", "tie": "output"},
    {"subwords": "unigram", "tie": "output", "pre_norm": True},  # two vocabularies of different sizes in Pegasus
    {"pre_norm": True},  # words, nothing tied
]


@pytest.fixture
def transformers() -> Any:
    """The library, without its progress bars."""
    library = import_transformers()
    library.logging.disable_progress_bar()
    return library


@pytest.mark.filterwarnings("ignore")
@torch.no_grad()
def test_logits_and_translations_are_ours(transformers: Any, tmp_path: Path) -> None:
    for number, changes in enumerate(CASES):
        model = translator("transformer", **changes)
        folder = export_model(model, "transformers", tmp_path / str(number))
        theirs, report = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder, output_loading_info=True)
        assert not any(report.values()), report
        assert theirs.config.model_type == ("pegasus" if changes.get("pre_norm") else "marian")
        compare_logits(model, theirs.eval())
        compare_greedy(model, theirs)
        compare_saved(theirs, tmp_path / f"{number}_saved", transformers)
        if "subwords" in changes:
            compare_tokenizers(model, folder, transformers)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@torch.no_grad()
def test_the_model_in_the_package(transformers: Any, tmp_path: Path) -> None:
    """On 40 pairs of its test set: logits and numbers of texts."""
    model = load("tatoeba-en-fr", device="cpu")
    folder = export_model(model, "transformers", tmp_path / "out")
    theirs = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    eager = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder, attn_implementation="eager").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    test = tatoeba_plain()["test"]
    sources, targets = (side[:: len(side) // 40][:40] for side in (test.source, test.target))
    for codec, text in [(0, text) for text in sources] + [(1, text) for text in targets]:
        assert tokenizer(text)["input_ids"] == [*model.task.codecs[codec].encode_text(text), EOS]
    compare_logits(model, theirs, sources, targets)
    compare_logits(model, eager, sources, targets, error=1e-5)
    for number in range(3):  # one sentence alone, without padding
        compare_logits(model, theirs, sources[number : number + 1], targets[number : number + 1])


def compare_logits(
    model: Model,
    theirs: Any,
    sources: Sequence[str] = ENGLISH,
    targets: Sequence[str] = FRENCH,
    *,
    error: float | None = None,
) -> None:
    """A padded batch, in float64, where the table of positions in float32 is the only difference, and in float32.

    In float32 a Pegasus model is the same program as ours. Its logits were equal to the last bit wherever they were
    compared; 2e-6 leaves room for two bits. A Marian model adds up in another order, so errors grow with the logits.
    """
    source, target = model.task.codecs
    batch = collate([(source.encode_text(a), target.encode_text(b)) for a, b in zip(sources, targets, strict=True)])
    mask = torch.arange(batch.source.shape[1]) < batch.source_lengths.unsqueeze(1)
    inputs = {"input_ids": batch.source, "attention_mask": mask.long(), "decoder_input_ids": batch.inputs}
    for dtype in (torch.float64, torch.float32):
        ours = model.module.to(dtype)(batch.source, batch.source_lengths, batch.inputs).logits
        logits = theirs.to(dtype)(**inputs).logits
        real = batch.inputs != PAD
        logits, ours, more = logits[..., : len(target)][real], ours[real], logits[..., len(target) :]
        bound = 5e-6 * max(1.0, float(ours.abs().max()))
        if dtype == torch.float32 and (error is not None or theirs.config.model_type == "pegasus"):
            bound = 2e-6 if error is None else error
        assert (logits - ours).abs().max() <= bound, dtype
        assert (more < -1e8).all()  # tokens that do not exist


def compare_saved(theirs: Any, folder: Path, transformers: Any) -> None:
    """What transformers saves again is the same model: Marian leaves its positions out, and makes them anew."""
    theirs.save_pretrained(folder)
    again = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    inputs = {"input_ids": torch.tensor([[5, 6, 7, EOS]]), "decoder_input_ids": torch.tensor([[BOS, 5, 6, 7, 8]])}
    torch.testing.assert_close(again(**inputs).logits, theirs.to(again.dtype)(**inputs).logits)


def compare_greedy(model: Model, theirs: Any) -> None:
    """The same tokens for each text, with our limit of steps."""
    for text in TEXTS[:1]:
        ids = [*model.task.codecs[0].encode_text(text.lower()), EOS]
        steps = 2 * len(ids) + 10
        output = theirs.generate(torch.tensor([ids]), num_beams=1, max_new_tokens=steps, max_length=None)[0].tolist()
        assert output[0] == BOS
        prediction = model.translate(text, beam=1)
        assert model.task.codecs[1].decode_tokens(output[1:]) == prediction.tokens


def compare_tokenizers(model: Model, folder: Path, transformers: Any) -> None:
    """The same numbers for texts, and the same texts of numbers; BPE takes specials that a user types for letters."""
    odd = ["e\u0301te\u0301\u202f! a\u00adb\u200b\tc", "漢字"]
    odd += ["<eos> <pad> <bos>"] * (model.task.config.units == "bpe")
    for codec, place in zip(model.task.codecs, (folder, folder / "target"), strict=True):
        tokenizer = transformers.AutoTokenizer.from_pretrained(place if place.exists() else folder)
        for text in (*ENGLISH, *FRENCH, *TEXTS, *odd):
            ids = codec.encode_text(text.lower())
            assert tokenizer(text)["input_ids"] == [*ids, EOS]
            if UNK not in ids:
                assert tokenizer.decode([BOS, *ids, EOS, PAD], skip_special_tokens=True) == codec.decode_text(ids)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("changes", [CASES[1], CASES[2], CASES[4]])
def test_the_example_runs(
    changes: dict[str, Any],
    transformers: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = export_model(translator("transformer", **changes), "transformers", tmp_path / "out")
    settings = json.loads((folder / "generation_config.json").read_text())
    (folder / "generation_config.json").write_text(json.dumps(settings | {"max_length": 12}))
    monkeypatch.setattr("sys.stdin", iter(["the cat\n", "who?\n"]))
    monkeypatch.syspath_prepend(str(folder))
    example = types.ModuleType("example")
    example.__file__ = str(folder / "translate.py")
    exec(compile((folder / "translate.py").read_text(), example.__file__, "exec"), vars(example))
    assert capsys.readouterr().out.count("\n") == 2
    assert isinstance(translator("transformer", **changes).task.codecs[0], SubwordCodec) == ("subwords" in changes)


def test_learned_positions_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        RegardError, match=r"got model.position=learned; expected a Transformer .* sinusoidal positions"
    ):
        export_model(translator("transformer", position="learned"), "transformers", tmp_path / "out")
