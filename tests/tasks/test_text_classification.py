"""Text classification: loss, evaluation, predictions and pictures, for texts and for pairs."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.base import ConfigError, RegardError
from regard.data import LabelledTexts, SubwordCodec
from regard.data.pictures import IGNORE
from regard.explanation import Matrix, Shading
from regard.models import LSTMNReader, LSTMNReaderConfig, SelfAttentive, SelfAttentiveConfig
from regard.tasks import TASKS, TextClassification, TextClassificationConfig, TextSettings
from regard.tasks.labels import percent

SMALL = SelfAttentiveConfig(embed_dim=6, hidden_dim=5, attention_dim=4, hops=3, mlp_dim=8, gate_dim=4)


def pairs() -> dict[str, LabelledTexts]:
    first = [f"the cat number {n} doesn't sleep" for n in range(12)]
    whole = LabelledTexts((first, [f"cat {n}" for n in range(12)]), [n % 3 for n in range(12)], ("a", "b", "c"))
    return dict.fromkeys(("train", "valid", "test"), whole)


def build(*, paired: bool = False, **changes: object) -> tuple[SelfAttentive, TextClassification]:
    config = TextClassificationConfig(batch_size=8, **changes)  # type: ignore[arg-type]
    task = TextClassification(config, splits=pairs() if paired else None)
    torch.manual_seed(0)
    return SelfAttentive(task.complete(SMALL)), task


@pytest.mark.parametrize("paired", [False, True])
def test_the_loss_is_cross_entropy_and_penalty(paired: bool) -> None:
    model, task = build(paired=paired)
    model.eval()
    batch = next(task.batches(seed=0))
    out, loss = model(batch.texts, batch.lengths), task.loss(model, batch)
    entropy = F.cross_entropy(out.logits.squeeze(1), batch.labels.squeeze(1), reduction="sum")
    assert out.penalty is not None
    assert torch.allclose(loss.total, entropy + out.penalty.sum())
    assert torch.allclose(loss.figures["penalty"], out.penalty.sum())
    fitted = batch.fitted(rows=11, multiple=32)
    assert torch.allclose(task.loss(model, fitted).total, loss.total, rtol=1e-5), "rows of padding cost nothing"
    assert fitted.count == batch.count == len(batch.indices) < 11


def test_label_smoothing_and_models_without_a_penalty() -> None:
    model, task = build(smoothing=0.2)
    model = SelfAttentive(replace(model.config, pooling="max")).eval()
    batch = next(task.batches(seed=0)).fitted(rows=11, multiple=8)
    logits, labels = model(batch.texts, batch.lengths).logits.squeeze(1)[:8], batch.labels.squeeze(1)[:8]
    spread = F.one_hot(labels, 2) * 0.8 + 0.1
    loss = task.loss(model, batch)
    assert torch.allclose(loss.total, -(spread * logits.log_softmax(-1)).sum(), rtol=1e-5)
    assert loss.figures == {}


class Said(NamedTuple):
    logits: Tensor


@dataclass(frozen=True)
class ReaderConfig:
    vocabulary: int = 0
    classes: int = 0


class Reader(nn.Module):
    """Knows by heart which word is good: a model that is right where its rule is."""

    def __init__(self, word: int) -> None:
        super().__init__()
        self.word = nn.Parameter(torch.tensor(float(word)))

    def forward(self, texts: Tensor, lengths: Tensor) -> Said:
        good = (texts == self.word).any(-1).float()
        return Said(torch.stack([1 - good, good], -1))


def test_figures_of_a_model_that_is_known() -> None:
    texts = LabelledTexts((["good day", "bad day", "good bad", "bad good day"],), [1, 0, 0, 1], ("no", "yes"))
    task = TextClassification(TextClassificationConfig(), splits={"train": texts, "valid": texts, "test": texts})
    model = Reader(task.codec.encode_text("good")[0])
    evaluation = task.evaluate(model, "test", full=True)
    assert evaluation.figures["accuracy"] == 75.0
    assert evaluation.figures["error"] == 25.0
    assert evaluation.details["confusion"] == [[1, 1], [0, 2]]
    assert evaluation.details["outputs"] == ["yes", "no", "yes", "yes"]
    assert evaluation.details["signatures"] == {"accuracy": "accuracy in % of 4 texts"}
    assert evaluation.better_than(70.0)
    assert not evaluation.better_than(75.0)
    expected = F.cross_entropy(
        torch.tensor([[0.0, 1.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]), torch.tensor([1, 0, 0, 1])
    )
    assert evaluation.figures["loss"] == pytest.approx(expected.item(), rel=1e-6)
    assert task.evaluate(model, "test", TextSettings(at_once=1)).figures == pytest.approx(evaluation.figures)
    with pytest.raises(ConfigError, match="unknown split"):
        task.evaluate(model, "tset")


def test_predictions_of_texts() -> None:
    model, task = build()
    texts = ["The soup wasn't good.", "lovely", "the view was never bad , it is near the station ."]
    answers = [best[0] for best in task.predict(model, texts)]
    assert [answer.source for answer in answers] == texts
    assert answers[0].tokens == (("the", "soup", "was", "n't", "good", "."),)
    for text, answer in zip(texts, answers, strict=True):
        [alone] = task.predict(model, [text])[0]
        assert torch.allclose(alone.probabilities, answer.probabilities, atol=1e-6)
        assert answer.probabilities.sum().item() == pytest.approx(1.0)
        assert answer.text == answer.classes[int(answer.probabilities.argmax())]
        assert answer.described == f"{answer.text} ({percent(answer.probabilities.max().item())})"
        [shading] = answer.explanations
        assert isinstance(shading, Shading)
        assert shading.weights.shape == (3, len(answer.tokens[0]))
        assert shading.weights.sum(1).tolist() == pytest.approx([1.0] * 3, abs=1e-5)
    assert task.predict(model, []) == []
    assert model.training


def test_predictions_of_pairs() -> None:
    model, task = build(paired=True)
    assert task.is_single(("a cat", "a dog"))
    assert not task.is_single([("a cat", "a dog")])
    ways = [
        ("the cat", "a cat sleeps"),
        ["the cat", "a cat sleeps"],
        "the cat\ta cat sleeps",
        "the cat ||| a cat sleeps",
    ]
    answers = [best[0] for best in task.predict(model, ways)]
    for answer in answers:
        assert torch.allclose(answer.probabilities, answers[0].probabilities, atol=1e-6)
        assert answer.source == "the cat ||| a cat sleeps"
        assert [len(shading.words) for shading in answer.explanations] == [2, 3]  # type: ignore[attr-defined]
        assert [shading.title for shading in answer.explanations] == ["first: the cat", "second: a cat sleeps"]


@pytest.mark.parametrize(
    ("paired", "given", "message"),
    [
        (False, ["fine", 7], "input 2: got int; expected a text"),
        (False, [("a", "b")], "input 1: got 2 texts; expected a text"),
        (False, ["fine", " \n"], r"text 2 has no words: got ''\. Try: write one"),
        (True, ["only one"], "input 1: got 1 texts; expected two texts. Try: write a tab or ' .* ' between them"),
        (True, ["a\tb\tc"], "input 1: got 3 texts; expected two texts"),
        (True, [("a", " ")], "text 1 has no words"),
        (False, ["a\udc80"], "text 1 is no Unicode"),
    ],
)
def test_inputs_that_are_refused(paired: bool, given: list[object], message: str) -> None:
    model, task = build(paired=paired)
    with pytest.raises(RegardError, match=message):
        task.predict(model, given)


def test_twins_have_nothing_to_show() -> None:
    model, task = build()
    plain = SelfAttentive(replace(model.config, pooling="mean"))
    [[answer]] = task.predict(plain, ["good soup"])
    assert answer.explanations == ()
    assert task.layers(plain, answer) == []


class Attending(nn.Module):
    """Words attend to each other, as in a model with a memory of its words."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        from regard.attention import Attention

        self.words, self.attention = nn.Embedding(vocabulary, 4), Attention()

    def forward(self, texts: Tensor, lengths: Tensor) -> Said:
        flat = self.words(texts.flatten(0, 1))
        return Said(self.attention(flat, flat, flat).context.mean(1)[:, None, :2])


def test_layers_of_a_model_whose_words_attend_to_each_other() -> None:
    _, task = build()
    model = Attending(len(task.codec))
    [[answer]] = task.predict(model, ["good soup today"])
    [matrix] = task.layers(model, answer)
    assert isinstance(matrix, Matrix)
    assert matrix.rows == matrix.columns == ("good", "soup", "today")
    assert matrix.weights.shape == (3, 3)


def test_layers_of_a_model_whose_texts_attend_to_each_other() -> None:
    """Rows and columns are words of the texts that the model names, without padding, and no word sees itself."""
    _, task = build(paired=True)
    model = LSTMNReader(task.complete(LSTMNReaderConfig(embed_dim=4, hidden_dim=4, align_dim=4, mlp_dim=4)))
    [[answer]] = task.predict(model, [("the cat sleeps today", "a cat")])
    own, other, across = task.layers(model, answer)
    first, second = ("the", "cat", "sleeps", "today"), ("a", "cat")
    for matrix, rows, columns in ((own, first, first), (other, second, second), (across, second, first)):
        assert isinstance(matrix, Matrix)
        assert (matrix.rows, matrix.columns) == (rows, columns)
        assert matrix.weights.shape == (len(rows), len(columns))
    assert (own.layer, across.layer) == ("first.0.attention", "second.0.inter_attention")  # type: ignore[attr-defined]
    assert own.weights.sum(1).tolist() == pytest.approx([0.0, 1.0, 1.0, 1.0])  # type: ignore[attr-defined]
    assert (own.weights.diagonal() == 0).all()  # type: ignore[attr-defined]
    assert across.weights.sum(1).tolist() == pytest.approx([1.0, 1.0])  # type: ignore[attr-defined]


def test_examples_have_texts_of_all_classes() -> None:
    model, task = build(paired=True)
    numbers = task.choose("test", 3)
    assert numbers == [0, 1, 2]
    shown = task.examples(model, "test", numbers)
    assert [example.reference for example in shown] == ["a", "b", "c"]
    assert shown[1].source == "the cat number 1 doesn't sleep ||| cat 1"
    assert shown[1].output == shown[1].prediction.described


def test_training_goes_over_all_texts_with_an_exact_position() -> None:
    _, task = build(paired=True)
    batches = task.batches(seed=1)
    first = [next(batches) for _ in range(2)]
    assert sorted(number for batch in first for number in batch.indices) == list(range(12))
    assert all(IGNORE not in batch.labels for batch in first)
    state = json.loads(json.dumps(batches.state_dict()))
    follows = next(batches)
    again = task.batches(seed=1)
    again.load_state_dict(state)
    assert next(again).indices == follows.indices


@pytest.mark.parametrize("units", ["words", "bpe"])
def test_long_texts_are_shortened_and_their_labels_too(units: str) -> None:
    sizes = {"vocabulary": 60} if units == "bpe" else {}
    model, task = build(units=units, max_units=5, kept="ends", **sizes)
    text = "it did not rain , the story was awful ."
    [[answer]] = task.predict(model, [text])
    every = task.codec.tokens(text)
    assert answer.tokens == ((*every[:2], *every[-3:]),)
    assert isinstance(task.codec, SubwordCodec) == (units == "bpe")
    [shading] = answer.explanations
    assert shading.weights.shape == (3, 5)  # type: ignore[attr-defined]


def test_it_is_on_the_menu(tmp_path: Path) -> None:
    entry = TASKS["text_classification"]
    assert (entry.verb, entry.inputs, entry.takes_files) == ("classify", "text", True)
    config = entry.task.from_files(TextClassificationConfig("sst", phrases=True), "a.tsv", "b.tsv")
    assert (config.dataset, config.train_file, config.test_file, config.phrases) == ("files", "a.tsv", "b.tsv", False)
