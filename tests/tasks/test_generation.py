"""Continuations: the likeliest token at each step, or one by chance from a seed, and the attention behind it."""

import pytest
import torch

from regard.base import ConfigError, RegardError
from regard.data import BOS, EOS, TextUnits
from regard.models import (
    LSTMLanguageModel,
    LSTMLanguageModelConfig,
    LSTMNConfig,
    LSTMNLanguageModel,
    TransformerXL,
    TransformerXLConfig,
)
from regard.tasks import Generation
from regard.tasks.generation import continue_text

UNITS = TextUnits.train("a b c d e f g .\n", kind="spaced")


@pytest.fixture
def model() -> LSTMNLanguageModel:
    torch.manual_seed(3)
    return LSTMNLanguageModel(LSTMNConfig(len(UNITS), embed_dim=8, hidden_dim=8, align_dim=8, tape=5)).double().train()


@pytest.mark.parametrize("by_sentence", [True, False])
@pytest.mark.parametrize("text", ["", "a", "a b c"])
def test_greedy_takes_the_likeliest_token(model: LSTMNLanguageModel, text: str, by_sentence: bool) -> None:
    generated = continue_text(model, text, UNITS, Generation(max_tokens=7), by_sentence=by_sentence)
    start = [BOS if by_sentence else EOS, *UNITS.vocabulary.encode(text.split())]
    ids, total = list(start), 0.0
    model.eval()
    for _ in range(7):
        log_probs = model(torch.tensor([ids]), None).logits[0, -1].log_softmax(-1)
        allowed = log_probs.clone()
        allowed[[0, 1, 3]] = -torch.inf
        ids.append(int(allowed.argmax()))
        total += log_probs[ids[-1]].item()
        if by_sentence and ids[-1] == EOS:
            break
    ended = by_sentence and ids[-1] == EOS
    assert generated.ids == tuple(ids[: len(ids) - ended])
    assert generated.finished == ended
    assert generated.log_prob == pytest.approx(total, abs=1e-4)
    assert generated.text.startswith(text)
    assert generated.source == text


def test_chance_comes_from_the_seed(model: LSTMNLanguageModel) -> None:
    def drawn(**settings: float) -> str:
        how = Generation(max_tokens=12, temperature=3.0, **settings)  # type: ignore[arg-type]
        return continue_text(model, "a", UNITS, how, by_sentence=False).text

    assert drawn(seed=1) == drawn(seed=1)
    assert len({drawn(seed=seed) for seed in range(6)}) > 3
    greedy = continue_text(model, "a", UNITS, Generation(max_tokens=12), by_sentence=False).text
    assert drawn(seed=1, top_k=1) == drawn(seed=2, top_p=1e-6) == greedy
    assert model.training


def test_the_attention_is_that_of_one_pass(model: LSTMNLanguageModel) -> None:
    generated = continue_text(model, "a b c", UNITS, Generation(max_tokens=4), by_sentence=False)
    (matrix,) = generated.explanations
    assert matrix.rows == matrix.columns == tuple(UNITS.labels(generated.ids))
    assert matrix.layer == "layers.0.attention"
    weights = torch.tensor(matrix.weights)
    assert (weights.triu() == 0).all()  # a token attends to earlier ones alone
    torch.testing.assert_close(weights.sum(1)[1:], torch.ones_like(weights[1:, 0]))
    shorter = continue_text(model, "a b c", UNITS, Generation(max_tokens=4, shown=3), by_sentence=False)
    torch.testing.assert_close(torch.tensor(shorter.explanations[0].weights), weights[-3:, -3:])


def test_a_model_without_attention_explains_nothing() -> None:
    torch.manual_seed(0)
    plain = LSTMLanguageModel(LSTMLanguageModelConfig(len(UNITS), embed_dim=8, hidden_dim=8))
    assert continue_text(plain, "a", UNITS, Generation(max_tokens=3), by_sentence=True).explanations == ()


def test_characters_and_words_are_joined(model: LSTMNLanguageModel) -> None:
    letters = TextUnits.train("abcdefg \n", kind="characters")
    assert len(letters) == len(UNITS)
    found = continue_text(model, "ab", letters, Generation(max_tokens=3), by_sentence=False)
    assert found.text == "ab" + found.continuation
    words = TextUnits(UNITS.vocabulary, "words")
    found = continue_text(model, "a", words, Generation(max_tokens=3), by_sentence=False)
    assert found.text == words.decode(found.ids[1:])


def test_several_lines_for_a_model_of_sentences(model: LSTMNLanguageModel) -> None:
    with pytest.raises(RegardError, match=r"reads one sentence at a time: got 2 lines\. Try: give one line"):
        continue_text(model, "a\nb", UNITS, Generation(), by_sentence=True)
    assert continue_text(model, "a\nb", UNITS, Generation(max_tokens=2), by_sentence=False).text.startswith("a\nb")


def remembering(memory: int, **settings: int) -> TransformerXL:
    torch.manual_seed(0)
    sizes = {"dim": 8, "num_heads": 2, "hidden_dim": 8, "layers": 2, "memory": memory, **settings}
    return TransformerXL(TransformerXLConfig(len(UNITS), **sizes)).double()  # type: ignore[arg-type]


@pytest.mark.parametrize("cutoffs", [(), (6, 9)])
def test_heads_and_how_far_they_look_back(cutoffs: tuple[int, ...]) -> None:
    model = remembering(30, cutoffs=cutoffs)  # type: ignore[arg-type]
    generated = continue_text(model, "a b c d", UNITS, Generation(max_tokens=9, shown=5), by_sentence=False)
    *layers, distances = generated.explanations
    assert [layer.layer for layer in layers] == ["layers.0.inner", "layers.1.inner"]
    assert all(layer.weights.shape == (2, 5, 5) for layer in layers)
    assert distances.title == "how far back each head looks, and its mean distance"
    assert distances.weights.shape == (4, 6)  # of all 14 tokens, though five are shown
    assert distances.columns == ("0", "1", "2", "3–4", "5–8", "9–13")
    torch.testing.assert_close(torch.tensor(distances.weights).sum(1), torch.ones(4, dtype=torch.float64))


def test_a_longer_memory_for_a_continuation() -> None:
    short, how = remembering(1), Generation(max_tokens=6, memory=30)
    longer = remembering(30)
    longer.load_state_dict(short.state_dict())
    expected = continue_text(longer, "a b c", UNITS, Generation(max_tokens=6), by_sentence=False)
    assert continue_text(short, "a b c", UNITS, how, by_sentence=False) == expected
    alone = continue_text(short, "a b c", UNITS, Generation(max_tokens=6), by_sentence=False)
    assert alone.log_prob != pytest.approx(expected.log_prob, rel=1e-6)


def test_a_memory_that_cannot_be_chosen(model: LSTMNLanguageModel) -> None:
    with pytest.raises(ConfigError, match="a size that can be chosen: got memory=5 for LSTMNLanguageModel"):
        continue_text(model, "a", UNITS, Generation(memory=5), by_sentence=False)
