"""The twin: torch's LSTM between an embedding and an output."""

import torch

from regard.models import LSTMLanguageModel, LSTMLanguageModelConfig


def test_as_torch_has_it() -> None:
    torch.manual_seed(0)
    model = LSTMLanguageModel(LSTMLanguageModelConfig(11, embed_dim=5, hidden_dim=4, layers=2)).double()
    tokens = torch.randint(4, 11, (3, 7))
    expected, (hidden, cell) = model.layers(model.words(tokens))
    logits, state = model(tokens, None)
    assert model.output is not None
    torch.testing.assert_close(logits, model.output(expected), rtol=0, atol=1e-12)
    torch.testing.assert_close(state.hidden, hidden.transpose(0, 1), rtol=0, atol=1e-12)
    torch.testing.assert_close(state.cell, cell.transpose(0, 1), rtol=0, atol=1e-12)


def test_parameters_of_the_papers_size() -> None:
    with torch.device("meta"):
        model = LSTMLanguageModel(LSTMLanguageModelConfig(10_000))
    assert sum(each.numel() for each in model.parameters()) == 4 * 300 * 602 + 3_000_000 + 301 * 10_000
