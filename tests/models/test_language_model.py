"""What every model of running text keeps to: the contract of the task, for each of them."""

from collections.abc import Callable

import pytest
import torch
from torch import nn

from regard.base import ConfigError
from regard.data import PAD, UNK
from regard.models import (
    LSTMLanguageModel,
    LSTMLanguageModelConfig,
    LSTMNConfig,
    LSTMNLanguageModel,
    MemN2NLanguageModel,
    MemN2NLanguageModelConfig,
    TransformerXL,
    TransformerXLConfig,
)
from regard.tasks.carried_state import leaves

SIZES = {"embed_dim": 6, "hidden_dim": 6}
XL = {"dim": 6, "num_heads": 1, "hidden_dim": 5, "layers": 2, "dropout": 0.0}
MODELS: dict[str, Callable[..., nn.Module]] = {
    "lstmn": lambda **o: LSTMNLanguageModel(LSTMNConfig(13, align_dim=5, tape=4, **SIZES, **o)),
    "lstmn of two layers": lambda **o: LSTMNLanguageModel(LSTMNConfig(13, align_dim=5, layers=2, **SIZES, **o)),
    "lstm": lambda **o: LSTMLanguageModel(LSTMLanguageModelConfig(13, **SIZES, **o)),
    "lstm of two layers": lambda **o: LSTMLanguageModel(LSTMLanguageModelConfig(13, layers=2, **SIZES, **o)),
    "memn2n": lambda **o: MemN2NLanguageModel(MemN2NLanguageModelConfig(13, memories=4, width=6, hops=2, **o)),
    "memn2n, additive": lambda **o: MemN2NLanguageModel(
        MemN2NLanguageModelConfig(13, memories=20, width=6, hops=2, score="additive", **o)
    ),
    "transformer_xl": lambda **o: TransformerXL(TransformerXLConfig(13, memory=9, **XL, **o)),
    "transformer_xl, same length": lambda **o: TransformerXL(
        TransformerXLConfig(13, memory=4, same_length=True, **XL, **o)
    ),
}
# the output of these may have the weights of the embedding
WITH_TIED = [name for name in MODELS if not name.startswith("memn2n")]


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest) -> nn.Module:
    torch.manual_seed(0)
    return MODELS[request.param]().double()


def tokens(*shape: int) -> torch.Tensor:
    return torch.randint(4, 13, shape, generator=torch.Generator().manual_seed(5))


def test_one_call_or_many(model: nn.Module) -> None:
    text = tokens(3, 9)
    expected, last = model(text, None)
    state, parts = model.initial_state(3), []  # type: ignore[operator]
    shapes = [leaf.shape for leaf in leaves(state)]
    for column in text.split(2, 1):
        logits, state = model(column, state)
        parts.append(logits)
        assert [leaf.shape for leaf in leaves(state)] == shapes  # they never change
    torch.testing.assert_close(torch.cat(parts, 1), expected, rtol=0, atol=1e-12)
    for one, other in zip(leaves(state), leaves(last), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)
        assert len(one) == 3


def test_padding_neighbours_and_later_tokens_change_nothing(model: nn.Module) -> None:
    text = tokens(3, 7)
    expected, _ = model(text, None)
    other = text.clone()
    other[:, 4:] = 0
    torch.testing.assert_close(model(other, None).logits[:, :4], expected[:, :4], rtol=0, atol=1e-12)
    torch.testing.assert_close(model(text[1:2], None).logits[0], expected[1], rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", WITH_TIED)
def test_tied_weights_are_one_parameter(name: str) -> None:
    torch.manual_seed(0)
    tied, free = (MODELS[name](tied=tied) for tied in (True, False))
    sizes = [sum(parameter.numel() for parameter in each.parameters()) for each in (tied, free)]
    assert sizes[1] - sizes[0] == 13 * 6  # both have a bias
    logits = tied(tokens(2, 3), None).logits
    assert logits.shape == (2, 3, 13)
    logits.sum().backward()


def test_widths_that_cannot_be_tied() -> None:
    with pytest.raises(ConfigError, match=r"model\.tied needs equal embed_dim and hidden_dim: got 5 and 6"):
        LSTMNLanguageModel(LSTMNConfig(13, embed_dim=5, hidden_dim=6, tied=True))


def test_dropout_is_for_training(model: nn.Module) -> None:
    torch.manual_seed(0)
    dropped = LSTMNLanguageModel(LSTMNConfig(13, align_dim=5, dropout=0.5, **SIZES))
    text = tokens(2, 5)
    assert not torch.equal(dropped(text, None).logits, dropped(text, None).logits)
    dropped.eval()
    assert torch.equal(dropped(text, None).logits, dropped(text, None).logits)


def test_a_word_is_taken_out_at_all_its_places_in_a_text() -> None:
    torch.manual_seed(0)
    model = LSTMNLanguageModel(LSTMNConfig(101, align_dim=5, word_dropout=0.4, **SIZES))
    text = torch.randint(1, 101, (2, 25)).repeat(1, 2)
    words = model._embed(text)
    gone = (words == 0).all(-1)
    assert torch.equal(gone[:, :25], gone[:, 25:])
    assert 0.2 < gone.float().mean() < 0.6
    torch.testing.assert_close(words[~gone], model.words(text)[~gone] / 0.6)
    assert torch.equal(model.eval()._embed(text), model.words(text))


def test_words_of_a_deep_transformer_become_unknown() -> None:
    """Zeros would stay zeros in every layer, and each LayerNorm would make their gradient 300 times as large."""
    torch.manual_seed(0)
    sizes = TransformerXLConfig(101, dim=8, num_heads=2, hidden_dim=8, layers=16, memory=4, word_dropout=0.6)
    model, text = TransformerXL(sizes), torch.randint(0, 101, (2, 25))
    words, kept = model._embed(text), model.words(text)
    gone = ~(words == kept).all(-1)
    assert 0.3 < gone.float().mean() < 0.9
    assert not gone[text == PAD].any()
    assert torch.equal(words[gone], model.words.weight[UNK].expand(int(gone.sum()), -1))
    model(text, None).logits.square().sum().backward()
    assert all(torch.isfinite(parameter.grad).all() for parameter in model.parameters() if parameter.grad is not None)
    assert torch.equal(model.eval()._embed(text), kept)


def test_dropout_below_the_layers_may_be_another() -> None:
    torch.manual_seed(0)
    model = LSTMNLanguageModel(LSTMNConfig(13, align_dim=5, dropout=0.5, embed_dropout=0.0, locked=True, **SIZES))
    model.dropout.eval()  # only that above is left, and it is off
    text = tokens(2, 5)
    assert torch.equal(model(text, None).logits, model(text, None).logits)
    assert model.dropout.locked
    assert model.embed_dropout.locked


@pytest.mark.parametrize("twin", [False, True])
def test_weights_of_the_recurrence_are_dropped_alike_at_all_steps(twin: bool) -> None:
    torch.manual_seed(0)
    text = tokens(2, 5)
    model: nn.Module = LSTMLanguageModel(LSTMLanguageModelConfig(13, weight_dropout=0.5, **SIZES))
    if not twin:
        model = LSTMNLanguageModel(LSTMNConfig(13, align_dim=5, weight_dropout=0.5, **SIZES))
    first, second = (model(text, None).logits for _ in range(2))
    assert torch.equal(first[:, 0], second[:, 0])  # nothing is recalled at the first word
    assert not torch.allclose(first[:, 1:], second[:, 1:])
    first.sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    model.eval()
    assert torch.equal(model(text, None).logits, model(text, None).logits)
