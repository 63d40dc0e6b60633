"""Translation: from the files of a corpus to batches, a loss, figures and predictions."""

import gzip
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from copying import Copier
from torch.nn.functional import cross_entropy

from regard.base import ConfigError
from regard.data import PAD, DataError, ParallelText, SubwordCodec, WordCodec
from regard.datasets import DATASETS
from regard.tasks import Search, Translation, TranslationConfig, read_splits

SOURCE = ["The cat sat.", "The dog sat .", "a Cat ran", "the dog ran off", "one two three four five six", "a dog"]
TARGET = ["le chat", "le chien", "un chat", "le chien est parti", "un deux trois", "un chien"]
TRAIN = ParallelText(SOURCE, TARGET, {})
SAME = ParallelText(SOURCE, SOURCE, {})
HELD_OUT = ParallelText(["the cat ran", "a dog sat on one cat"], ["le chat", "un chien"], {})


def task(**settings: Any) -> Translation:
    settings = {"batch_size": 2, "batch_tokens": None, **settings}
    return Translation(TranslationConfig(**settings), splits={"train": TRAIN, "valid": HELD_OUT})


def copies(*texts: str, **settings: Any) -> tuple[Translation, Copier]:
    """A task whose translations are the sources, and a model that gives them."""
    same = ParallelText(list(texts), list(texts), {})
    made = Translation(TranslationConfig(batch_size=2, **settings), splits={"train": same, "valid": same})
    return made, Copier(made.vocabularies[1])


# ── units ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_words() -> None:
    source, target = task().codecs
    assert isinstance(source, WordCodec)
    assert {"The", "the", "Cat", "cat", "."} <= set(source.vocabulary.tokens)
    assert set(target.vocabulary.tokens[4:]) == {word for line in TARGET for word in line.split()}  # type: ignore[attr-defined]
    assert task().vocabularies == (len(source), len(target))


def test_words_in_lower_case_and_fewer_of_them() -> None:
    source = task(lower=True).codecs[0]
    assert "The" not in source.vocabulary  # type: ignore[attr-defined]
    assert source.encode_text("THE Cat") == source.encode_text("the cat")
    assert task(vocabulary=6).vocabularies == (6, 6)
    frequent = task(lower=True, min_count=3).codecs[0].vocabulary.tokens[4:]  # type: ignore[attr-defined]
    assert set(frequent) == {"the", "dog"}


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_subwords(kind: str) -> None:
    joint = task(units=kind, vocabulary=32, joint=True).codecs
    assert joint[0] is joint[1]
    assert isinstance(joint[0], SubwordCodec)
    separate = Translation(TranslationConfig(units=kind, vocabulary=30), splits={"train": SAME})  # type: ignore[arg-type]
    assert separate.codecs[0] is not separate.codecs[1]
    assert separate.vocabularies == (30, 30)
    assert joint[0].decode_text(joint[0].encode_text("le chien sat")) == "le chien sat"


def test_subwords_in_lower_case() -> None:
    made = task(units="bpe", vocabulary=32, lower=True)
    assert 3 not in [
        number for batch in (next(made.batches(seed=0)) for _ in range(3)) for number in batch.source.flatten()
    ]
    codec = made.codecs[0]
    assert 3 in codec.encode_text("The")  # no capital was ever seen
    same, model = copies("the cat", "a dog", units="bpe", vocabulary=16, joint=True, lower=True)
    [[one]] = same.predict(model, ["The CAT"], settings=Search(1))
    assert (one.text, one.source) == ("the cat", "The CAT")


def test_given_units_are_used() -> None:
    codecs = (WordCodec.train(["x"]), WordCodec.train(["y z"]))
    made = Translation(TranslationConfig(), codecs=codecs)
    assert made.codecs is codecs
    assert made.vocabularies == (5, 6)
    assert "splits" not in vars(made)  # no corpus is read for that


# ── batches and loss ────────────────────────────────────────────────────────────────────────────────────────────────


def test_batches() -> None:
    made = task()
    batches = made.batches(seed=4)
    rows = [index for _ in range(3) for index in next(batches).indices]
    assert sorted(rows) == list(range(6))
    assert next(made.batches(seed=4)).indices == rows[:2]
    shares = [next(made.batches(seed=4, rank=rank, world=2)).indices for rank in (0, 1)]
    assert [shares[0][0], shares[1][0]] == rows[:2]
    assert made.batches(seed=0).batch_size == 2
    assert task(batch_size=None, batch_tokens=20).batches(seed=0).max_tokens == 20


def test_long_sentences_are_left_out_of_training_alone() -> None:
    made = task(max_words=4)
    epoch = made.batches(seed=0)
    assert sorted(index for _ in range(epoch.epoch_length()) for index in next(epoch).indices) == [0, 1, 2, 3, 4]
    assert int(max(next(epoch).source_lengths.max() for _ in range(3))) <= 6  # four words, a mark and <eos>
    assert made.evaluate(Copier(made.vocabularies[1]), "valid").figures["loss"] > 0  # six words are judged too
    tight = task(batch_size=None, batch_tokens=5)
    assert tight.batches(seed=0).dropped == 1
    with pytest.raises(DataError, match="too few pairs to make batches of"):
        task(max_words=1).batches(seed=0)


def test_few_shapes() -> None:
    batches = task(fit=4, batch_size=4).batches(seed=0)
    shapes = {tuple(next(batches).source.shape) for _ in range(9)}
    assert shapes <= {(4, 4), (4, 8)}
    with pytest.raises(ConfigError, match=r"task.fit: got 0; expected 1 or more"):
        task(fit=0).batches(seed=0)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss(smoothing: float) -> None:
    made = task(smoothing=smoothing)
    model = Copier(made.vocabularies[1], surety=2.0)
    batch = next(made.batches(seed=0))
    total, figures = made.loss(model, batch)
    logits = model(batch.source, batch.source_lengths, batch.inputs).logits
    expected = cross_entropy(
        logits.flatten(0, 1), batch.targets.flatten(), ignore_index=PAD, label_smoothing=smoothing, reduction="sum"
    )
    torch.testing.assert_close(total, expected)
    assert figures == {}
    assert batch.count == batch.num_tokens


class Shaken(Copier):
    """Logits that differ from pass to pass, as under dropout."""

    def forward(self, *given: Any) -> Any:
        out = super().forward(*given)
        noise = torch.arange(out.logits.numel()).sin().view_as(out.logits)
        return out._replace(logits=out.logits + noise)


def test_two_passes_shall_agree() -> None:
    made, plain = task(consistency=5.0, smoothing=0.1), task(smoothing=0.1)
    batch = next(made.batches(seed=0))
    still = Copier(made.vocabularies[1], surety=2.0)
    total, figures = made.loss(still, batch)
    torch.testing.assert_close(total, plain.loss(still, batch).total)  # equal passes: the loss of one
    assert figures["divergence"] == 0
    model = Shaken(made.vocabularies[1], surety=2.0)
    total, figures = made.loss(model, batch)
    twice = [torch.cat([part, part]) for part in (batch.source, batch.source_lengths, batch.inputs)]
    logits = model(*twice).logits
    entropy = cross_entropy(
        logits.flatten(0, 1),
        torch.cat([batch.targets, batch.targets]).flatten(),
        ignore_index=PAD,
        label_smoothing=0.1,
        reduction="sum",
    )
    p, q = logits.log_softmax(-1).chunk(2)
    apart = ((p.exp() * (p - q)).sum(-1) + (q.exp() * (q - p)).sum(-1))[batch.targets != PAD].sum()
    assert apart > 0.1
    torch.testing.assert_close(figures["divergence"], apart)
    torch.testing.assert_close(total, entropy / 2 + 5 / 4 * apart)
    with pytest.raises(ConfigError, match=r"task\.consistency"):
        task(consistency=-1.0)


# ── figures ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_perfect_model() -> None:
    texts = ["one two three four five", "five four three two", "a b c d e f"]
    made, model = copies(*texts, edges=(4, 5), smoothing=0.1)
    model.train()
    score = made.evaluate(model, "valid")
    assert model.training
    assert set(score.figures) == {"loss", "tokenized_bleu"}
    assert score.figures["tokenized_bleu"] == pytest.approx(100.0)
    assert (score.best, score.higher_is_better, score.details) == ("tokenized_bleu", True, {})
    size = made.vocabularies[1]
    assert score.figures["loss"] == pytest.approx(math.log(1 + (size - 1) * math.exp(-9.0)), rel=1e-4)  # not smoothed

    full = made.evaluate(model.eval(), "valid", full=True)
    assert not model.training
    assert full.figures["bleu"] == full.figures["chrf"] == pytest.approx(100.0)
    assert full.figures["sentences_per_second"] > 0
    assert full.details["outputs"] == texts
    assert (full.details["split"], full.details["count"]) == ("valid", 3)
    buckets = [(row["low"], row["high"], row["count"]) for row in full.details["lengths"]]
    assert sum(count for _, _, count in buckets) == 3
    assert set(full.details["signatures"]) == {"bleu", "chrf", "tokenized_bleu"}
    assert "tok:regard" in full.details["signatures"]["tokenized_bleu"]
    assert "case:lc" not in full.details["signatures"]["bleu"]


def test_case_and_the_search_that_is_asked_for() -> None:
    made, model = copies("The cat sat down", "the cat sat down", lower=True)
    full = made.evaluate(model, "valid", full=True)
    assert full.figures["bleu"] == pytest.approx(100.0)
    assert "case:lc" in full.details["signatures"]["bleu"]
    short = made.evaluate(model, "valid", settings=Search(2, min_steps=8))
    assert short.figures["tokenized_bleu"] < 100


def test_references(monkeypatch: pytest.MonkeyPatch) -> None:
    assert task().references("valid") == [["le chat"], ["un chien"]]  # not those of the default corpus
    several = [["Va !", "Allez !"], ["Oui."]]
    menu = {"tatoeba_plain": replace(DATASETS["tatoeba_plain"], references=lambda split: several)}
    monkeypatch.setattr("regard.tasks.translation.DATASETS", menu)
    monkeypatch.setattr("regard.tasks.translation.read_splits", lambda config: {"train": TRAIN, "test": HELD_OUT})
    plain = Translation(TranslationConfig())
    assert plain.references("test") == several
    assert plain.references("train") == [[line] for line in TARGET]


def test_another_test_set(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def newstest(split: str, source: str, target: str) -> ParallelText:
        asked.append((split, source, target))
        return HELD_OUT

    monkeypatch.setitem(DATASETS, "newstest", replace(DATASETS["newstest"], read=newstest))
    made = task()
    score = made.evaluate(Copier(made.vocabularies[1]), "newstest2013", full=True)
    assert score.details["count"] == 2
    assert set(asked) == {("newstest2013", "en", "fr")}


# ── the text ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"corpus": "multi30"},
            r"task.corpus: got 'multi30'; expected one of tatoeba_plain.*Did you mean 'multi30k'\?",
        ),
        ({"corpus": "newstest"}, "task.corpus: got 'newstest'"),
        ({"search": Search(2, nbest=3)}, "nbest: got 3; expected at most beams"),
        ({"smoothing": 1.0}, "task.smoothing: got 1.0; expected 0 ≤ smoothing < 1"),
        ({"edges": (9, 1, 5)}, r"task.edges: got \(9, 1, 5\); expected rising lengths, such as 10,20,30"),
        ({"edges": (5, 5)}, r"task.edges: got \(5, 5\); expected rising lengths"),
        (
            {"joint": True},
            "task.joint is for sub-words: got units='words'. Try: set task.joint=false or task.units=bpe",
        ),
    ],
)
def test_what_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Translation(TranslationConfig(**settings))


def test_unknown_splits_and_languages() -> None:
    with pytest.raises(
        ConfigError, match=r"unknown split: got 'vald'; expected one of train, valid, .* Did you mean 'valid'"
    ):
        task().evaluate(Copier(9), "vald")
    for corpus in ("tatoeba_plain", "tatoeba"):
        with pytest.raises(ConfigError, match=f"languages of {corpus}: got fr → en; expected en → fr"):
            read_splits(TranslationConfig(corpus, "fr", "en"))
    with pytest.raises(ConfigError, match=r"corpus='files' needs files: got none. Try: pass --source and --target"):
        read_splits(TranslationConfig("files"))
    with pytest.raises(DataError, match=r"nowhere.tsv: cannot be read"):
        read_splits(TranslationConfig("files", source_file="nowhere.tsv"))


def rows(size: int) -> list[tuple[str, str]]:
    """Every source sentence twice, with two translations."""
    return [(f"sentence {number // 2}", f"phrase {number}") for number in range(size)]


def files(folder: Path, form: str, extra: str = "") -> TranslationConfig:
    pairs = rows(100)
    table = "".join(f"{source}\t{target}\n" for source, target in pairs) + extra
    if form == "two":
        (folder / "en").write_text("".join(f"{source}\n" for source, _ in pairs))
        (folder / "fr").write_text("".join(f"{target}\n" for _, target in pairs))
        return TranslationConfig("files", source_file=str(folder / "en"), target_file=str(folder / "fr"))
    path = folder / ("text.tsv.gz" if form == "gz" else "text.tsv")
    path.write_bytes(gzip.compress(table.encode()) if form == "gz" else table.encode())
    return TranslationConfig("files", source_file=str(path))


@pytest.mark.parametrize("form", ["tsv", "gz", "two"])
def test_own_files(tmp_path: Path, form: str) -> None:
    splits = read_splits(files(tmp_path, form))
    assert list(splits) == ["train", "valid", "test"]
    assert sorted(pair for text in splits.values() for pair in zip(text.source, text.target, strict=True)) == sorted(
        rows(100)
    )
    sources = [set(text.source) for text in splits.values()]
    assert not sources[0] & sources[1]
    assert not sources[0] & sources[2]
    assert not sources[1] & sources[2]
    assert all(5 <= splits[name].size <= 6 for name in ("valid", "test"))
    made = Translation(files(tmp_path, form))
    assert next(made.batches(seed=0)).count > 0
    assert made.references("test") == [[line] for line in splits["test"].target]


def test_broken_lines(tmp_path: Path) -> None:
    config = files(tmp_path, "tsv", extra="no translation\n")
    with pytest.raises(DataError, match=r"text.tsv, line 101: too few columns"):
        Translation(config).batches(seed=0)
    splits = read_splits(replace(config, on_bad="drop"))
    assert sum(text.size for text in splits.values()) == 100


# ── predictions ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_predict() -> None:
    made, model = copies("one two three", "four five", search=Search(3, nbest=2))
    found = made.predict(model, ["two one", "", "five"])
    assert [[one.text for one in several][:1] for several in found] == [["two one"], [""], ["five"]]
    assert [len(several) for several in found] == [2, 1, 2]  # as the config says
    assert [len(several) for several in made.predict(model, ["two one"], settings=Search(1))] == [1]
    best = found[0][0]
    assert best.weights is not None
    assert best.weights.shape == (2, 3) == (len(best.tokens), len(best.source_tokens))
