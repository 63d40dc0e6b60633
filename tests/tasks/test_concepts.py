"""Concepts of any task: the weights that a trace sees, as a square of all words; what has none is refused."""

from typing import Any

import numpy as np
import pytest
import torch

from regard import trace
from regard.base import ConfigError, RegardError
from regard.data import TextUnits, Vocabulary, WordCodec
from regard.models import (
    Bahdanau,
    BahdanauConfig,
    LSTMNConfig,
    LSTMNLanguageModel,
    MemN2NLanguageModel,
    MemN2NLanguageModelConfig,
    SelfAttentive,
    SelfAttentiveConfig,
    Transformer,
    TransformerConfig,
)
from regard.tasks import LanguageModelling, LanguageModellingConfig, Translation, TranslationConfig, concepts_of

UNITS = TextUnits.train("the cat sat on a mat .\n", kind="spaced")
CODEC = WordCodec(Vocabulary(["the", "cat", "sat", "on", "a", "mat", "."]))


def text_task(context: Any = "sentence") -> LanguageModelling:
    return LanguageModelling(LanguageModellingConfig(context=context), units=UNITS)


def translation() -> Translation:
    return Translation(TranslationConfig(), codecs=(CODEC, CODEC))


def transformer() -> Transformer:
    torch.manual_seed(0)
    sizes = {"dim": 8, "hidden_dim": 8, "num_heads": 2, "encoder_layers": 3, "decoder_layers": 1}
    config = TransformerConfig(len(CODEC), len(CODEC), tie="none", **sizes)  # type: ignore[arg-type]
    return Transformer(config).train()


def lstmn(**settings: Any) -> LSTMNLanguageModel:
    torch.manual_seed(0)
    return LSTMNLanguageModel(LSTMNConfig(len(UNITS), embed_dim=8, hidden_dim=8, align_dim=8, **settings))


def test_the_encoder_of_a_transformer() -> None:
    model, task = transformer(), translation()
    concepts = concepts_of(task, model, "the cat sat.")
    assert model.training  # as before
    assert concepts.words == ("the", "cat", "sat", ".", "<eos>")
    assert concepts.layers == tuple(f"encoder.{number}.inner" for number in range(3))
    assert (concepts.heads, concepts.title) == ("mean of 2 heads", "the cat sat.")
    ids = torch.tensor([[*CODEC.encode_text("the cat sat."), 2]])
    with torch.no_grad(), trace(model.eval()) as seen:
        model.encode(ids, torch.tensor([5]))
    expected = np.stack([record.weights[0] for record in seen.values()])  # [layers heads words words]
    np.testing.assert_allclose(concepts.weights, expected.mean(1), atol=1e-6)
    first = concepts_of(task, model, "the cat sat.", head=1, residual=0)
    np.testing.assert_allclose(first.weights, expected[:, 1], atol=1e-6)
    assert (first.heads, first.residual) == ("head 1 of 2", 0)


@pytest.mark.parametrize(("context", "start"), [("sentence", "<bos>"), ("stream", "<eos>")])
def test_an_lstmn_is_a_lower_triangle(context: str, start: str) -> None:
    concepts = concepts_of(text_task(context), lstmn(layers=2, tape=3), "the cat sat on a mat")
    assert concepts.words == (start, "the", "cat", "sat", "on", "a", "mat")
    assert concepts.heads == ""
    assert concepts.weights.shape == (2, 7, 7)
    rows, columns = np.indices((7, 7))
    assert ((concepts.weights > 0) == ((columns < rows) & (columns >= rows - 3))).all()
    np.testing.assert_allclose(concepts.weights[:, 1:].sum(-1), 1, atol=1e-5)


def test_a_text_without_words() -> None:
    assert concepts_of(translation(), transformer(), "").words == ("<eos>",)
    assert concepts_of(text_task(), lstmn(), "").weights.tolist() == [[[0.0]]]


@pytest.mark.parametrize(
    ("task", "model"),
    [
        (translation(), Bahdanau(BahdanauConfig(len(CODEC), len(CODEC), embed_dim=4, hidden_dim=4, align_dim=4))),
        (text_task(), MemN2NLanguageModel(MemN2NLanguageModelConfig(len(UNITS), memories=4, width=4))),
        (None, SelfAttentive(SelfAttentiveConfig(9, 2))),  # its hops are not words
    ],
)
def test_models_without_pairs_of_words_are_refused(task: Any, model: torch.nn.Module) -> None:
    with pytest.raises(RegardError, match="in my run no words attend to each other: got") as refused:
        concepts_of(task, model, "the cat", name="my run")
    assert "Try: load a model with self-attention" in str(refused.value)


@pytest.mark.parametrize("head", [2, -1])
def test_heads_that_are_not_there(head: int) -> None:
    with pytest.raises(ConfigError, match=rf"the head of encoder\.0\.inner: got {head}; expected a number from 0 to 1"):
        concepts_of(translation(), transformer(), "the cat", head=head)
    with pytest.raises(ConfigError, match=r"the head of layers\.0\.attention: got 1; expected None"):
        concepts_of(text_task(), lstmn(), "the cat", head=1)


def test_several_lines_for_a_model_of_sentences() -> None:
    with pytest.raises(RegardError, match="this model reads one sentence at a time: got 2 lines"):
        concepts_of(text_task(), lstmn(), "the cat\nsat")
    assert concepts_of(text_task("stream"), lstmn(), "the cat\nsat").words == ("<eos>", "the", "cat", "<eos>", "sat")
